"""Signed plans: the Via that copies of a track, or of a class, take towards a region.

::

    planner:  Plan -> signed_bytes -> signature -> SignedPlan -> dumps -> file
    relay:    file -> loads -> SignedPlan -> signed_bytes -> verified by the caller

A planner that knows the whole network makes plans; each relay decides whether it follows one. This
module neither signs nor verifies: it defines the bytes that are signed.

The signature covers :func:`signed_bytes`: a context line, and the canonical JSON of the plan.
Canonical JSON has ascending keys, no spaces, ASCII with escapes, and integers only. So one plan has
one text, and a reader need not keep the text. Reading is strict: unknown fields are refused,
because they would be signed.

``docs/spec/plan.md`` specifies the format.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import pairwise
from typing import Any, Final, TypeAlias

from laps_wire.errors import EncodeError, TextFormError
from laps_wire.nodeid import NodeId

__all__ = [
    "FORMAT",
    "MAX_BYTES",
    "MAX_ENTRIES",
    "MAX_TEXT",
    "MAX_TRACKS",
    "ClassRule",
    "HardConstraints",
    "Plan",
    "PlanEntry",
    "PlanFormatError",
    "SignedPlan",
    "canonical",
    "check",
    "dumps",
    "key_id",
    "loads",
    "signed_bytes",
]

# The model

FORMAT: Final = 1
"""The version of the format."""
MAX_BYTES: Final = 64 << 20
"""The largest text that is read."""
MAX_ENTRIES: Final = 200_000
MAX_TRACKS: Final = 1_000_000
"""Tracks in all entries together."""
MAX_TEXT: Final = 512
"""The longest name or reason, in characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassRule:
    """The constraints of one class of service."""

    slack_permille: int = 1300
    """The round trip over a Via is at most this fraction of the direct one, in thousandths, plus
    ``extra_us``."""
    extra_us: int = 30_000
    """The constant part of the allowed round trip over a Via, in microseconds."""
    limit_us: int | None = None
    """The longest round trip that is allowed for the class; None: no limit."""
    limit_loss_ppm: int | None = None
    """The highest packet loss of a path, in packets per million, unless the direct path loses more
    too; None: no limit."""
    deny_countries: tuple[str, ...] = ()
    """Countries that data must not pass, by relay or by declared IP path."""
    allow_countries: tuple[str, ...] | None = None
    """The only countries that data may pass; None: any."""
    via_regions: tuple[str, ...] | None = None
    """The regions of allowed Vias; None: any."""
    disjoint: bool = False
    """Whether every entry names a second path that shares no relay with the first."""


_DEFAULT: Final = ClassRule()


@dataclass(frozen=True, slots=True, kw_only=True)
class HardConstraints:
    """The constraints that every entry of the plan meets, in the planner's view of the network."""

    max_fanout: int = 2
    """The most copies of a track from its origin towards one region."""
    change_budget: int | None = None
    """The most entries that may differ from the previous plan; None: all."""
    headroom_permille: int = 800
    """The usable share of the capacity of a relay or link, in thousandths."""
    classes: Mapping[str, ClassRule] = field(default_factory=dict)
    """The constraints by class; "" is for tracks without a class."""

    def rule(self, scope: str) -> ClassRule:
        """Return the constraints of a class; the default ones if the class has none."""
        return self.classes.get(scope, _DEFAULT)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanEntry:
    """One Via for copies from one relay towards one region."""

    origin: NodeId
    """The relay that follows the entry: that of the publisher."""
    region: str
    scope: str
    """The class of service; "" for none."""
    tracks: tuple[int, ...] | None
    """Keys of the tracks, ascending; None: every track of the class."""
    via: NodeId
    fallback: NodeId | None = None
    """The relay to use if the Via cannot be used."""
    wan_saved_permille: int = 0
    """Expected saving of WAN cost, in thousandths of hub-and-spoke; negative: additional cost."""
    delay_us: int = 0
    """Expected change of the viewers' mean round trip; negative: shorter."""
    reason: str = ""
    """The reason of the entry in one sentence, for display."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A plan: the content that is signed. All numbers are integers, which have one text form."""

    id: str
    """The name of a series of plans, in which versions count."""
    version: int
    made_us: int
    """The time of creation, in microseconds since 1970."""
    expires_us: int
    """The time from which relays no longer follow the plan."""
    based_on: str
    """The SHA-256 of the planner's input (network and demand), hexadecimal."""
    constraints: HardConstraints = field(default_factory=HardConstraints)
    entries: tuple[PlanEntry, ...] = ()

    def of(self, node: NodeId) -> tuple[PlanEntry, ...]:
        """Return the entries of one relay."""
        return tuple(entry for entry in self.entries if entry.origin == node)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedPlan:
    """A plan with its signature, which is not verified."""

    plan: Plan
    key_id: str
    """The name of the signing key: see :func:`laps_wire.plan.key_id`."""
    signature: bytes
    """Ed25519, 64 bytes, over :func:`laps_wire.plan.signed_bytes`."""


# Plans as JSON


class PlanFormatError(TextFormError):
    """The text is not a valid plan.

    Its message begins with the path of the field: ``plan.entries[3].via: "x" is not a node ID``.
    """

    def __init__(self, reason: str, *, where: str = "") -> None:
        super().__init__(f"{where}: {reason}" if where else reason)
        self.reason = reason
        """The fault without the path."""
        self.where = where
        """The path of the field; empty for the whole text."""


_CONTEXT: Final = b"laps-plan-1\n"
_COUNTRY: Final = re.compile(r"[A-Z]{2}")
_HEX16: Final = re.compile(r"[0-9a-f]{16}")
_HEX64: Final = re.compile(r"[0-9a-f]{64}")
_HEX128: Final = re.compile(r"[0-9a-f]{128}")
_LONG: Final = 2**63 - 1

Read: TypeAlias = Callable[[object, str], Any]


def key_id(public_key: bytes) -> str:
    """Return the short name of a key: 16 hexadecimal digits of the SHA-256 of its 32 bytes."""
    return sha256(public_key).hexdigest()[:16]


# Writing


def canonical(plan: Plan) -> bytes:
    """Return the canonical text of a plan; raise :class:`EncodeError` if it is not valid."""
    check(plan)
    return _text(_plan_to_plain(plan)).encode("ascii")


def signed_bytes(plan: Plan) -> bytes:
    """Return the bytes to sign: a context line, and the canonical text."""
    return _CONTEXT + canonical(plan)


def dumps(signed: SignedPlan) -> str:
    """Return the file content of a signed plan: one line of canonical JSON."""
    if len(signed.signature) != 64:
        raise EncodeError(f"signature: {len(signed.signature)} bytes; Ed25519 has 64")
    if not _HEX16.fullmatch(signed.key_id):
        raise EncodeError(f"signature.key: {signed.key_id!a} is not 16 hexadecimal digits")
    check(signed.plan)
    return _text(
        {
            "format": FORMAT,
            "plan": _plan_to_plain(signed.plan),
            "signature": {"ed25519": signed.signature.hex(), "key": signed.key_id},
        }
    )


def check(plan: Plan) -> None:
    """Raise :class:`EncodeError` with path and reason if a plan is not valid."""
    try:
        _plan(_plan_to_plain(plan), "plan")
    except PlanFormatError as error:
        raise EncodeError(str(error)) from None


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _plan_to_plain(plan: Plan) -> dict[str, Any]:
    constraints = plan.constraints
    return {
        "id": plan.id,
        "version": plan.version,
        "made_us": plan.made_us,
        "expires_us": plan.expires_us,
        "based_on": plan.based_on,
        "constraints": {
            "max_fanout": constraints.max_fanout,
            "change_budget": constraints.change_budget,
            "headroom_permille": constraints.headroom_permille,
            "classes": {
                name: {
                    "slack_permille": rule.slack_permille,
                    "extra_us": rule.extra_us,
                    "limit_us": rule.limit_us,
                    "limit_loss_ppm": rule.limit_loss_ppm,
                    "deny_countries": _list(rule.deny_countries),
                    "allow_countries": _list(rule.allow_countries),
                    "via_regions": _list(rule.via_regions),
                    "disjoint": rule.disjoint,
                }
                for name, rule in constraints.classes.items()
            },
        },
        "entries": [
            {
                "origin": str(entry.origin),
                "region": entry.region,
                "class": entry.scope,
                "tracks": None
                if entry.tracks is None
                else [f"{track:016x}" for track in entry.tracks],
                "via": str(entry.via),
                "fallback": None if entry.fallback is None else str(entry.fallback),
                "wan_saved_permille": entry.wan_saved_permille,
                "delay_us": entry.delay_us,
                "reason": entry.reason,
            }
            for entry in plan.entries
        ],
    }


def _list(items: tuple[str, ...] | None) -> list[str] | None:
    return None if items is None else list(items)


# Reading


def loads(text: str | bytes) -> SignedPlan:
    """Return the plan in a text; raise :class:`PlanFormatError` with path and reason.

    The signature is read, but not verified.
    """
    if len(text) > MAX_BYTES:
        raise PlanFormatError(f"longer than {MAX_BYTES} bytes")
    try:
        plain = json.loads(
            text, object_pairs_hook=_once, parse_float=_no_float, parse_constant=_no_float
        )
    except PlanFormatError:
        raise
    except (ValueError, RecursionError) as error:
        raise PlanFormatError(f"not JSON: {error}") from None
    fields = _fields(plain, "", ("format", "plan", "signature"))
    found = _int(fields["format"], "format", 0, _LONG)
    if found != FORMAT:
        raise PlanFormatError(
            f"{found} is not a format that this version knows ({FORMAT})", where="format"
        )
    signature = _fields(fields["signature"], "signature", ("key", "ed25519"))
    return SignedPlan(
        plan=_plan(fields["plan"], "plan"),
        key_id=_match(_HEX16, "16 hexadecimal digits")(signature["key"], "signature.key"),
        signature=bytes.fromhex(
            _match(_HEX128, "128 hexadecimal digits")(signature["ed25519"], "signature.ed25519")
        ),
    )


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object; raise if a key is repeated, because readers of JSON differ there."""
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise PlanFormatError(f"the key {_show(twice)} stands twice in one object")
    return found


def _no_float(text: str) -> float:
    raise PlanFormatError(f"{_show(text)}: plans hold integers only")


def _plan(plain: object, where: str) -> Plan:
    names = ("id", "version", "made_us", "expires_us", "based_on", "constraints", "entries")
    fields = _fields(plain, where, names)
    made = _int(fields["made_us"], f"{where}.made_us", 0, _LONG)
    expires = _int(fields["expires_us"], f"{where}.expires_us", 0, _LONG)
    if expires <= made:
        raise PlanFormatError("not after made_us", where=f"{where}.expires_us")
    entries = tuple(
        _entry(item, at) for item, at in _items(fields["entries"], f"{where}.entries", MAX_ENTRIES)
    )
    _check_entries(entries, f"{where}.entries")
    return Plan(
        id=_text_of(1)(fields["id"], f"{where}.id"),
        version=_int(fields["version"], f"{where}.version", 1, _LONG),
        made_us=made,
        expires_us=expires,
        based_on=_match(_HEX64, "64 hexadecimal digits")(fields["based_on"], f"{where}.based_on"),
        constraints=_constraints(fields["constraints"], f"{where}.constraints"),
        entries=entries,
    )


def _check_entries(entries: tuple[PlanEntry, ...], where: str) -> None:
    """Raise if two entries choose a Via for the same track or class."""
    seen: set[tuple[NodeId, str, object]] = set()
    tracks = 0
    for index, entry in enumerate(entries):
        keys = (entry.scope,) if entry.tracks is None else entry.tracks
        tracks += len(keys)
        if tracks > MAX_TRACKS:
            raise PlanFormatError(f"more than {MAX_TRACKS} tracks", where=where)
        for key in keys:
            if (entry.origin, entry.region, key) in seen:
                what = f"the class {key!a}" if isinstance(key, str) else f"the track {key:016x}"
                raise PlanFormatError(
                    f"{what} of {entry.origin} has a Via towards {entry.region!a} already",
                    where=f"{where}[{index}]",
                )
            seen.add((entry.origin, entry.region, key))


def _constraints(plain: object, where: str) -> HardConstraints:
    names = ("max_fanout", "change_budget", "headroom_permille", "classes")
    fields = _fields(plain, where, names)
    classes = fields["classes"]
    if not isinstance(classes, Mapping):
        raise PlanFormatError(f"{_show(classes)} is not an object", where=f"{where}.classes")
    budget = fields["change_budget"]
    return HardConstraints(
        max_fanout=_int(fields["max_fanout"], f"{where}.max_fanout", 1, 65_535),
        change_budget=None if budget is None else _int(budget, f"{where}.change_budget", 0, _LONG),
        headroom_permille=_int(fields["headroom_permille"], f"{where}.headroom_permille", 1, 1000),
        classes={
            _text_of(0)(name, f"{where}.classes"): _rule(rule, f"{where}.classes.{_show(name)}")
            for name, rule in classes.items()
        },
    )


def _rule(plain: object, where: str) -> ClassRule:
    names = (
        *("slack_permille", "extra_us", "limit_us", "limit_loss_ppm"),
        *("deny_countries", "allow_countries", "via_regions", "disjoint"),
    )
    fields = _fields(plain, where, names)
    limit, lossy = fields["limit_us"], fields["limit_loss_ppm"]
    if not isinstance(fields["disjoint"], bool):
        raise PlanFormatError(
            f"{_show(fields['disjoint'])} is not true or false", where=f"{where}.disjoint"
        )
    country = _match(_COUNTRY, "a country such as DE")
    denied = _words(fields["deny_countries"], f"{where}.deny_countries", country)
    if denied is None:
        raise PlanFormatError("null is not a list", where=f"{where}.deny_countries")
    return ClassRule(
        slack_permille=_int(fields["slack_permille"], f"{where}.slack_permille", 1, 1_000_000),
        extra_us=_int(fields["extra_us"], f"{where}.extra_us", 0, _LONG),
        limit_us=None if limit is None else _int(limit, f"{where}.limit_us", 1, _LONG),
        limit_loss_ppm=None
        if lossy is None
        else _int(lossy, f"{where}.limit_loss_ppm", 0, 1_000_000),
        deny_countries=denied,
        allow_countries=_words(fields["allow_countries"], f"{where}.allow_countries", country),
        via_regions=_words(fields["via_regions"], f"{where}.via_regions", _text_of(1)),
        disjoint=fields["disjoint"],
    )


def _entry(plain: object, where: str) -> PlanEntry:
    names = (
        *("origin", "region", "class", "tracks", "via", "fallback"),
        *("wan_saved_permille", "delay_us", "reason"),
    )
    fields = _fields(plain, where, names)
    origin = _node(fields["origin"], f"{where}.origin")
    via = _node(fields["via"], f"{where}.via")
    back = fields["fallback"]
    fallback = None if back is None else _node(back, f"{where}.fallback")
    if via == origin:
        raise PlanFormatError("the origin itself", where=f"{where}.via")
    if fallback in (via, origin):
        raise PlanFormatError("the Via or the origin itself", where=f"{where}.fallback")
    return PlanEntry(
        origin=origin,
        region=_text_of(1)(fields["region"], f"{where}.region"),
        scope=_text_of(0)(fields["class"], f"{where}.class"),
        tracks=_tracks(fields["tracks"], f"{where}.tracks"),
        via=via,
        fallback=fallback,
        wan_saved_permille=_int(
            fields["wan_saved_permille"], f"{where}.wan_saved_permille", -_LONG, 1000
        ),
        delay_us=_int(fields["delay_us"], f"{where}.delay_us", -_LONG, _LONG),
        reason=_text_of(0)(fields["reason"], f"{where}.reason"),
    )


def _tracks(plain: object, where: str) -> tuple[int, ...] | None:
    if plain is None:
        return None
    digits = _match(_HEX16, "16 hexadecimal digits")
    found = tuple(int(digits(item, at), 16) for item, at in _items(plain, where, MAX_TRACKS))
    if not found:
        raise PlanFormatError("empty: write null for every track of the class", where=where)
    if any(a >= b for a, b in pairwise(found)):
        raise PlanFormatError("not in ascending order, each once", where=where)
    return found


# Values


def _fields(plain: object, where: str, names: tuple[str, ...]) -> Mapping[str, Any]:
    """Return the fields of an object, which must be exactly ``names``."""
    if not isinstance(plain, Mapping):
        raise PlanFormatError(f"{_show(plain)} is not an object", where=where)
    for name in names:
        if name not in plain:
            raise PlanFormatError("missing", where=f"{where}.{name}" if where else name)
    strange = sorted(str(name) for name in plain.keys() - set(names))
    if strange:
        raise PlanFormatError(
            f"{_show(strange[0])} is not a field that format {FORMAT} has", where=where
        )
    return plain


def _items(plain: object, where: str, most: int) -> list[tuple[object, str]]:
    if not isinstance(plain, list):
        raise PlanFormatError(f"{_show(plain)} is not a list", where=where)
    if len(plain) > most:
        raise PlanFormatError(f"{len(plain)} items, and {most} is the most", where=where)
    return [(item, f"{where}[{index}]") for index, item in enumerate(plain)]


def _words(plain: object, where: str, read: Read) -> tuple[str, ...] | None:
    if plain is None:
        return None
    return tuple(read(item, at) for item, at in _items(plain, where, 1000))


def _int(plain: object, where: str, least: int, most: int) -> int:
    if not isinstance(plain, int) or isinstance(plain, bool):
        raise PlanFormatError(f"{_show(plain)} is not an integer", where=where)
    if not least <= plain <= most:
        raise PlanFormatError(f"{_show(plain)} is outside {least} to {most}", where=where)
    return plain


def _text_of(least: int) -> Read:
    def read(plain: object, where: str) -> str:
        if not isinstance(plain, str):
            raise PlanFormatError(f"{_show(plain)} is not a text", where=where)
        if not least <= len(plain) <= MAX_TEXT:
            raise PlanFormatError(f"not of {least} to {MAX_TEXT} characters", where=where)
        # Names and reasons are displayed: no control characters, no lone surrogates.
        if not plain.isprintable():
            raise PlanFormatError(f"{_show(plain)} holds what cannot be printed", where=where)
        return plain

    return read


def _match(pattern: re.Pattern[str], what: str) -> Read:
    def read(plain: object, where: str) -> str:
        if not isinstance(plain, str) or not pattern.fullmatch(plain):
            raise PlanFormatError(f"{_show(plain)} is not {what}", where=where)
        return plain

    return read


def _node(plain: object, where: str) -> NodeId:
    if not isinstance(plain, str):
        raise PlanFormatError(f"{_show(plain)} is not a node ID", where=where)
    try:
        node = NodeId.parse(plain)
    except TextFormError as error:
        raise PlanFormatError(str(error), where=where) from None
    if str(node) != plain:
        raise PlanFormatError(f"{_show(plain)} is written {node}", where=where)
    return node


def _show(value: object) -> str:
    """Return a value for an error message: short, one line, printable."""
    try:
        text = ascii(value)
    except (ValueError, RecursionError):  # a number or a nesting that Python does not print
        text = "a huge value"
    return text if len(text) <= 60 else f"{text[:57]}..."
