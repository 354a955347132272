"""Signed plans of a planner: which one a relay follows, and for how long.

::

    file, admin --> offer --> signature, time, version, Vias, policy --> Plan --> NetworkRelay
                              and the plan's own constraints
                      |                                                     ^
                      '--> refused, with the reason           tick ---------' expired; a Via is gone

A plan is a preference (ADR 0012). This module checks whether a plan can be followed. Policy still
decides about every path, with a plan or without.

A relay stores which plans it has followed, so that an old one cannot come back after a restart.
There is one file for each node in the state directory::

    {"world": {"version": 7, "plan": "SHA-256 of its text while it is followed, or empty"}}
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from laps_relay.admin.views import PlanState
from laps_relay.network.settings import NO_PLAN, Plan
from laps_relay.server.identity import StartError, read_state, write_state
from laps_wire.nodeid import NodeId
from laps_wire.plan import (
    ClassRule,
    PlanEntry,
    PlanFormatError,
    SignedPlan,
    canonical,
    key_id,
    loads,
    signed_bytes,
)
from laps_wire.plan import Plan as PlanDocument
from laps_wire.telemetry import PolicyApplied, safe_text

__all__ = ["CHECK_INTERVAL", "Followed", "PlanKeeper", "PlanKeys", "PlanMemory", "read_plan_keys"]

CHECK_INTERVAL: Final = 5.0
"""Seconds between two checks whether the Vias of the plan in force are reachable."""
_AHEAD_US: Final = 300_000_000
"""Microseconds by which the clock of the planner may be ahead of ours."""
_SERIES: Final = 64
"""Series of plans whose versions are remembered."""

PlanKeys = Mapping[str, Ed25519PublicKey]
"""Public keys by key id."""


def read_plan_keys(files: Iterable[Path]) -> PlanKeys:
    """Return the public keys of PEM files. Raises :class:`StartError` if one has none."""
    keys: dict[str, Ed25519PublicKey] = {}
    for file in files:
        try:
            key = load_pem_public_key(file.read_bytes())
        except OSError as error:
            raise StartError(f"plan.keys: {file}: {error.strerror}") from None
        except ValueError:
            raise StartError(f"plan.keys: {file} holds no public key in PEM form") from None
        if not isinstance(key, Ed25519PublicKey):
            raise StartError(f"plan.keys: {file} holds no Ed25519 key")
        keys[key_id(key.public_bytes(Encoding.Raw, PublicFormat.Raw))] = key
    return keys


class Followed(NamedTuple):
    """The newest plan of a series that was followed."""

    version: int
    digest: str
    """SHA-256 of the plan while it is in force; empty once it was dropped or has expired."""


_NEVER: Final = Followed(0, "")


@dataclass(frozen=True, slots=True)
class PlanMemory:
    """A file of followed plans by series, which is read once and replaced as a whole."""

    path: Path

    @classmethod
    def of(cls, state_dir: Path, node: NodeId) -> PlanMemory:
        """Return the file of a node."""
        return cls(state_dir / f"plans-{int(node):016x}.json")

    def load(self) -> dict[str, Followed]:
        """Return the stored plans. Raises ``StartError`` if the file is damaged."""
        return read_state(
            self.path,
            lambda name, row: (name, Followed(int(row["version"]), str(row["plan"]))),
            "is not a record of plans: remove it, and a plan that is older than the one that was"
            " followed may be taken until it expires",
        )

    def save(self, followed: Mapping[str, Followed]) -> str | None:
        """Replace the file, all or nothing; return why that was not possible, or None."""
        plain = {
            name: {"version": row.version, "plan": row.digest} for name, row in followed.items()
        }
        return write_state(self.path, json.dumps(plain))


class PlanTarget(Protocol):
    """What follows plans: ``NetworkRelay``, or nothing at a Stub."""

    @property
    def node_id(self) -> NodeId:
        """The node whose entries are followed."""

    def against_via(self, via: NodeId, region: str, scope: str) -> str | None:
        """Return why a Via cannot be used now, or None."""

    def place_of(self, node: NodeId) -> tuple[str, str]:
        """Return region and country of a node; empty where they are not known."""

    def set_plan(self, now: float, plan: Plan) -> None:
        """Follow another plan."""


def _digest(plan: PlanDocument) -> str:
    return sha256(canonical(plan)).hexdigest()


class _RefusedError(Exception):
    """Carries the reason why a plan is refused."""


@dataclass(frozen=True, slots=True)
class _Loaded:
    """The plan in force."""

    document: PlanDocument
    entries: tuple[PlanEntry, ...]
    """The entries for this relay."""
    source: str


class PlanKeeper:
    """Checks plans, and drops them when they expire.

    ``now`` is the core's clock, ``wall_us`` microseconds since 1970. Without ``memory`` no plan is
    remembered over a restart.
    """

    def __init__(
        self,
        relay: PlanTarget,
        tell: Callable[[PolicyApplied], None],
        keys: PlanKeys,
        memory: PlanMemory | None = None,
    ) -> None:
        self._relay = relay
        self._tell = tell
        self._keys = keys
        self._loaded: _Loaded | None = None
        self._table: Plan = NO_PLAN
        self._memory = memory
        self._followed: dict[str, Followed] = {} if memory is None else memory.load()
        """The newest plan of each series that was ever followed."""
        self._forgetful = ""
        """Why followed plans cannot be stored for the next start."""
        self._waiting: tuple[bytes, str] | None = None
        """A plan of a file whose Vias are not known yet, and the file."""
        self._refusal = ""

    # Orders

    def trust(self, keys: PlanKeys) -> None:
        """Accept plans of other keys from now on; the plan in force stays."""
        self._keys = keys

    def offer(self, now: float, wall_us: int, text: str | bytes, source: str) -> str | None:
        """Follow this plan; return why that is refused, or None."""
        self._waiting = None
        try:
            signed = self._read(text)
            self._check(signed.plan, wall_us)
            self._check_vias(signed.plan)
        except _RefusedError as error:
            return self._refuse(text, str(error))
        self._follow(now, signed.plan, source)
        return None

    def load(self, now: float, wall_us: int, file: Path | None) -> str | None:
        """Follow the plan of a file; if its Vias are not known yet, keep it until they are."""
        if file is None:
            self._waiting = None
            if self._loaded is not None and self._loaded.source != "admin":
                self.drop(now, "no file is configured any more")
            return None
        try:
            text = file.read_bytes()
        except OSError as error:
            return self._refuse(b"", f"{file}: {error.strerror}")
        return self._load(now, wall_us, text, str(file))

    def _load(self, now: float, wall_us: int, text: bytes, source: str) -> str | None:
        self._waiting = None
        try:
            signed = self._read(text)
            self._check(signed.plan, wall_us)
        except _RefusedError as error:
            return self._refuse(text, str(error))
        try:
            self._check_vias(signed.plan)
        except _RefusedError as error:
            # A relay that has just started knows no other node.
            self._waiting = text, source
            self._refusal = f"waits: {error}"
            return None
        self._follow(now, signed.plan, source)
        return None

    def drop(self, now: float, reason: str, outcome: str = "reverted") -> bool:
        """Follow no plan; return whether there was one."""
        loaded, self._loaded = self._loaded, None
        self._waiting = None
        if loaded is None:
            return False
        self._set(now, NO_PLAN)
        self._remember(loaded.document, digest="")
        self._applied(loaded.document.id, loaded.document.version, outcome, reason)
        return True

    def tick(self, now: float, wall_us: int) -> float | None:
        """Drop an expired plan, replace lost Vias; return the seconds to the next check."""
        if self._waiting is not None:
            self._load(now, wall_us, *self._waiting)
        loaded = self._loaded
        if loaded is None:
            return CHECK_INTERVAL if self._waiting is not None else None
        left = loaded.document.expires_us - wall_us
        if left <= 0:
            self.drop(now, "its time is over", "expired")
            return None
        self._set(now, self._made(loaded))
        return min(left / 1e6, CHECK_INTERVAL)

    def state(self) -> PlanState:
        """Return the plan for the admin."""
        loaded = self._loaded
        refusal = self._refusal or self._forgetful
        if loaded is None:
            return PlanState(refusal=refusal)
        document = loaded.document
        return PlanState(
            id=document.id,
            version=document.version,
            made_us=document.made_us,
            expires_us=document.expires_us,
            entries=len(loaded.entries),
            source=loaded.source,
            refusal=refusal,
        )

    # Checks

    def _read(self, text: str | bytes) -> SignedPlan:
        try:
            signed = loads(text)
        except PlanFormatError as error:
            raise _RefusedError(str(error)) from None
        if not self._keys:
            raise _RefusedError("no key is trusted: set plan.keys")
        key = self._keys.get(signed.key_id)
        if key is None:
            raise _RefusedError(f"its key {signed.key_id} is not one of plan.keys")
        try:
            key.verify(signed.signature, signed_bytes(signed.plan))
        except InvalidSignature:
            raise _RefusedError("its signature is wrong") from None
        return signed

    def _check(self, plan: PlanDocument, wall_us: int) -> None:
        if plan.expires_us <= wall_us:
            raise _RefusedError("it has expired")
        if plan.made_us > wall_us + _AHEAD_US:
            raise _RefusedError("it was made in the future: one of the clocks is wrong")
        newest, digest = self._followed.get(plan.id, _NEVER)
        if plan.version < newest:
            raise _RefusedError(f"version {newest} was followed already")
        if plan.version == newest and digest != _digest(plan):
            raise _RefusedError(f"another plan with version {newest} was followed already")
        for entry in plan.of(self._relay.node_id):
            if entry.fallback is None and plan.constraints.rule(entry.scope).disjoint:
                raise _RefusedError(
                    f"{entry.via} towards {safe_text(entry.region)}: no second way, and the plan"
                    " says that the class has one"
                )

    def _check_vias(self, plan: PlanDocument) -> None:
        for entry in plan.of(self._relay.node_id):
            rule = plan.constraints.rule(entry.scope)
            for via in (entry.via, entry.fallback):
                if via is not None and (fault := self._against(entry, via, rule)) is not None:
                    raise _RefusedError(f"{via} towards {safe_text(entry.region)}: {fault}")

    def _against(self, entry: PlanEntry, via: NodeId, rule: ClassRule) -> str | None:
        """Return why policy, or the plan's own constraints, forbid a Via; or None."""
        fault = self._relay.against_via(via, entry.region, entry.scope)
        if fault is not None:
            return fault
        region, country = self._relay.place_of(via)
        denied = country in rule.deny_countries or (
            rule.allow_countries is not None and country not in rule.allow_countries
        )
        if country and denied:
            return f"it stands in {safe_text(country)}, which the plan itself does not allow"
        if region and rule.via_regions is not None and region not in rule.via_regions:
            return f"it stands in {safe_text(region)}, which the plan itself does not allow"
        return None

    # Following

    def _follow(self, now: float, plan: PlanDocument, source: str) -> None:
        known = self._loaded is not None and self._loaded.document == plan
        if self._loaded is not None and self._loaded.document.id != plan.id:
            self._remember(self._loaded.document, digest="")  # it does not come back
        self._loaded = _Loaded(plan, plan.of(self._relay.node_id), source)
        self._refusal = ""
        self._set(now, self._made(self._loaded))
        if not known:
            self._remember(plan, digest=_digest(plan))
            self._applied(plan.id, plan.version, "accepted", None)

    def _remember(self, plan: PlanDocument, *, digest: str) -> None:
        self._followed.pop(plan.id, None)
        self._followed[plan.id] = Followed(plan.version, digest)
        while len(self._followed) > _SERIES:
            del self._followed[next(iter(self._followed))]
        if self._memory is not None:
            fault = self._memory.save(self._followed)
            self._forgetful = f"versions are forgotten at a restart: {fault}" if fault else ""

    def _made(self, loaded: _Loaded) -> Plan:
        """Return the table of Vias that can be used now: the Via, or the fallback, or neither."""
        tracks: dict[tuple[int, str], NodeId] = {}
        classes: dict[tuple[str, str], NodeId] = {}
        for entry in loaded.entries:
            rule = loaded.document.constraints.rule(entry.scope)
            ways = (via for via in (entry.via, entry.fallback) if via is not None)
            via = next((via for via in ways if self._against(entry, via, rule) is None), None)
            if via is None:
                continue
            if entry.tracks is None:
                classes[entry.scope, entry.region] = via
            else:
                tracks |= {(key, entry.region): via for key in entry.tracks}
        return Plan(tracks=tracks, classes=classes)

    def _set(self, now: float, plan: Plan) -> None:
        # Every change makes steering look at all tracks again.
        if plan != self._table:
            self._table = plan
            self._relay.set_plan(now, plan)

    def _refuse(self, text: str | bytes, reason: str) -> str:
        self._refusal = reason
        name, version = "", 0
        try:
            plan = loads(text).plan
            name, version = plan.id, plan.version
        except PlanFormatError:
            pass
        self._applied(name, version, "refused", reason)
        return reason

    def _applied(self, name: str, version: int, outcome: str, reason: str | None) -> None:
        self._tell(
            PolicyApplied(
                plan_id=safe_text(name),
                plan_version=version,
                outcome=outcome,
                reason=None if reason is None else safe_text(reason),
            )
        )
