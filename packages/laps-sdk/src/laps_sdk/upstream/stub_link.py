"""One end of a session between a Stub and its parent: announces, subscribes and responses.

::

    Stub  -- announces ------------------------------>  parent     source: node ID 0
          -- subscribes, responses ------------------>
          <- subscribes that match its announces -----             source: the parent
          <- responses -------------------------------

An announce or a subscribe holds until it is withdrawn or the session ends (laps-2, 4.5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, KeysView
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from laps_sdk.peering.links import ForeignPeerWire, ResponseReplay, send_split
from laps_sdk.upstream.bodies import bounded, bounded_reason, read_subscribe
from laps_wire.errors import ProtocolViolation, StateError
from laps_wire.hashing import KeyedHasher
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import LimitExceededError
from laps_wire.peering.laps2 import (
    NO_PARAMETERS,
    AnnounceAdvertise,
    AnnounceInfo,
    AnnounceKind,
    AnnounceWithdraw,
    AnnounceWithdrawal,
    Bases,
    ParameterId,
    Stamp,
    SubscribeAdvertise,
    SubscribeCode,
    SubscribeData,
    SubscribeInfo,
    SubscribeResponse,
    SubscribeWithdraw,
    SubscribeWithdrawal,
    SyncBegin,
    SyncEnd,
)
from laps_wire.peering.laps2.codepoints import MAX_BATCH
from laps_wire.peering.session import (
    AnnouncesAdvertised,
    AnnouncesWithdrawn,
    ControlStreamMoved,
    Event,
    SubscribeAnswered,
    SubscribesAdvertised,
    SubscribesWithdrawn,
    SyncBegan,
    SyncEnded,
    SyncRequested,
)

__all__ = ["STUB", "LinkOwner", "StubLimits", "StubLink"]

STUB = NodeId(0)
"""The node ID of every Stub."""

RECENT: Final = 15.0
"""Up to this age in seconds answers are resent when the control stream moves: the hold time."""

K = TypeVar("K")


class StubLimits(NamedTuple):
    """How many entries the peer may advertise; the handshake gave it these limits."""

    max_announces: int = 1_048_576
    max_subscribes: int = 16_777_216


class LinkOwner(Protocol):
    """Handles the messages of the peer: ``StubParent`` or ``UplinkParent``."""

    def subscribed(
        self, now: float, link: StubLink, key: int, name: FullTrackName, data: SubscribeData
    ) -> None:
        """Handle a subscribe of the peer or a change of it; :meth:`StubLink.respond` answers."""

    def unsubscribed(self, now: float, link: StubLink, key: int) -> None:
        """Handle the end of a subscribe of the peer."""

    def responded(self, now: float, link: StubLink, response: SubscribeResponse) -> None:
        """Handle the answer to a subscribe of ours, for the same name."""

    def announced(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """Handle an announce of the peer."""

    def retracted(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """Handle the end of an announce of the peer."""


class StubLink:
    """Sends our announces, subscribes and responses, and keeps those of the peer."""

    __slots__ = (
        "_announces",
        "_epoch",
        "_hasher",
        "_heard",
        "_limits",
        "_names",
        "_owner",
        "_recent",
        "_sequence",
        "_source",
        "_stale",
        "_subscribes",
        "_to_stub",
        "_wire",
        "takers",
    )

    def __init__(
        self,
        owner: LinkOwner,
        wire: ForeignPeerWire,
        hasher: KeyedHasher,
        *,
        source: NodeId,
        epoch: int,
        limits: StubLimits = StubLimits(),  # noqa: B008 - a tuple
    ) -> None:
        self._owner = owner
        self._limits = limits
        self._wire = wire
        self._hasher = hasher
        self._source = source
        self._to_stub = source != STUB
        self._epoch = epoch
        self._sequence = 0
        self._announces: dict[tuple[AnnounceKind, int], AnnounceInfo] = {}
        """Our announces."""
        self._subscribes: dict[int, SubscribeInfo] = {}
        """Our subscribes."""
        self._names: dict[int, FullTrackName] = {}
        self._heard: dict[tuple[AnnounceKind, int], FullTrackName] = {}
        """The peer's announces."""
        self.takers: dict[int, SubscribeInfo] = {}
        """The peer's subscribes."""
        self._stale: dict[Bases, dict[Any, None]] = {}
        """Entries that the peer has not repeated yet in a synchronisation."""
        self._recent = ResponseReplay(RECENT)

    def _stamp(self) -> Stamp:
        self._sequence += 1
        return Stamp(self._epoch, self._sequence)

    def _send(
        self, now: float, make: Callable[[tuple[Any, ...]], Any], entries: Iterable[Any]
    ) -> None:
        # The session may be over; its end is reported separately.
        with suppress(StateError):
            send_split(lambda message: self._wire.send(now, message), make, [*entries], MAX_BATCH)

    # Sending

    def subscribe(self, now: float, key: int, name: FullTrackName, data: SubscribeData) -> None:
        """Subscribe to a track."""
        fields = name.namespace.fields
        info = SubscribeInfo(
            self._source,
            self._stamp(),
            self._hasher.elements(fields),
            self._hasher.name(name.name),
            key,
            (),
            data,
        )
        self._subscribes[key] = info
        self._names[key] = name
        self._send(now, SubscribeAdvertise, [info])

    def unsubscribe(self, now: float, key: int) -> None:
        """Withdraw the subscription to a track."""
        if self._subscribes.pop(key, None) is not None:
            del self._names[key]
            withdrawal = SubscribeWithdrawal(self._source, self._stamp(), key)
            self._send(now, SubscribeWithdraw, [withdrawal])

    @property
    def subscribed_keys(self) -> KeysView[int]:
        """The keys of the tracks that we subscribed to."""
        return self._subscribes.keys()

    def announce(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """Announce a name that we publish."""
        fields = name.namespace.fields
        key = self._hasher.full_name(fields, name.name)
        info = AnnounceInfo(
            self._source,
            self._stamp(),
            kind,
            self._hasher.elements(fields),
            self._hasher.name(name.name) if kind is AnnounceKind.TRACK else None,
            key,
            name if fields else None,
        )
        self._announces[kind, key] = info
        self._send(now, AnnounceAdvertise, [info])

    def retract(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """Withdraw the announce of a name."""
        key = self._hasher.full_name(name.namespace.fields, name.name)
        if self._announces.pop((kind, key), None) is not None:
            withdrawal = AnnounceWithdrawal(self._source, self._stamp(), kind, key)
            self._send(now, AnnounceWithdraw, [withdrawal])

    def respond(
        self,
        now: float,
        key: int,
        code: SubscribeCode,
        reason: str,
        data: SubscribeData,
    ) -> None:
        """Answer a subscribe of the peer; do nothing if the peer has withdrawn it."""
        info = self.takers.get(key)
        if info is None:
            return
        parameters = NO_PARAMETERS
        subscribe = read_subscribe(info.data)
        if code is SubscribeCode.ACCEPTED and subscribe is not None:
            name = subscribe.track
            digest = self._hasher.end_check(name.namespace.fields, name.name)
            parameters = parameters.with_bytes(ParameterId.FULL_NAME_DIGEST, digest)
        response = SubscribeResponse(
            info.source,
            key,
            info.stamp,
            self._source,
            code,
            bounded_reason(reason),
            0,
            bounded(data),
            parameters,
        )
        with suppress(StateError):
            self._wire.send(now, response)
            self._recent.sent(now, 0, response)

    # Receiving

    def event(self, now: float, event: Event) -> None:
        """Handle an event of the session; raise ``RemoteError`` if the peer broke a rule."""
        match event:
            case SubscribesAdvertised():
                for info in event.subscribes:
                    self._subscribed(now, info)
            case SubscribesWithdrawn():
                for withdrawal in event.subscribes:
                    self._unsubscribed(now, withdrawal.full_name_hash)
            case SubscribeAnswered():
                self._answered(now, event.response)
            case AnnouncesAdvertised():
                for info in event.announces:
                    self._announced(now, info)
            case AnnouncesWithdrawn():
                for withdrawal in event.announces:
                    self._retracted(now, (withdrawal.kind, withdrawal.full_name_hash))
            case ControlStreamMoved():
                # Responses are in no base (laps-2, 4.6).
                with suppress(StateError):
                    for response in self._recent.again(now, 0):
                        self._wire.send(now, response)
            case SyncRequested():
                self._synchronise(now, event.bases)
            case SyncBegan():
                self._sync_began(event.bases)
            case SyncEnded():
                self._sync_ended(now, event.bases)
            case _:
                pass

    def _check_source(self, source: NodeId) -> None:
        if (source == STUB) is not self._to_stub:
            who = "a Stub" if self._to_stub else "a parent"
            raise ProtocolViolation(f"{who} gave the source {source}")

    def _subscribed(self, now: float, info: SubscribeInfo) -> None:
        self._check_source(info.source)
        key = info.full_name_hash
        self._stale.get(Bases.SUBSCRIBES, {}).pop(key, None)
        if key not in self.takers:
            _check("subscribes", len(self.takers), self._limits.max_subscribes)
        known, self.takers[key] = self.takers.get(key), info
        subscribe = read_subscribe(info.data)
        if subscribe is None or self._key_of(subscribe.track) != key:
            code, reason = SubscribeCode.HASH_COLLISION, "the name does not fit its hash"
            self.respond(now, key, code, reason, SubscribeData())
            self._unsubscribed(now, key)
            return
        if known is None or known.stamp != info.stamp:
            self._owner.subscribed(now, self, key, subscribe.track, info.data)

    def _unsubscribed(self, now: float, key: int) -> None:
        self._stale.get(Bases.SUBSCRIBES, {}).pop(key, None)
        if self.takers.pop(key, None) is not None:
            self._owner.unsubscribed(now, self, key)

    def _answered(self, now: float, response: SubscribeResponse) -> None:
        key = response.full_name_hash
        info, name = self._subscribes.get(key), self._names.get(key)
        if info is None or name is None or info.stamp != response.stamp:
            return
        if response.code == SubscribeCode.ACCEPTED:
            digest = response.parameters.get(ParameterId.FULL_NAME_DIGEST)
            if digest != self._hasher.end_check(name.namespace.fields, name.name):
                raise ProtocolViolation("an answer about another name")
        self._owner.responded(now, self, response)

    def _announced(self, now: float, info: AnnounceInfo) -> None:
        self._check_source(info.source)
        name, identity = info.plaintext, (info.kind, info.full_name_hash)
        if name is None or self._key_of(name) != info.full_name_hash:
            return  # no name, or a name that does not match its hash
        self._stale.get(Bases.ANNOUNCES, {}).pop(identity, None)
        if identity not in self._heard:
            _check("announces", len(self._heard), self._limits.max_announces)
            self._heard[identity] = name
            self._owner.announced(now, info.kind, name)

    def _retracted(self, now: float, identity: tuple[AnnounceKind, int]) -> None:
        self._stale.get(Bases.ANNOUNCES, {}).pop(identity, None)
        name = self._heard.pop(identity, None)
        if name is not None:
            self._owner.retracted(now, identity[0], name)

    def _key_of(self, name: FullTrackName) -> int:
        return self._hasher.full_name(name.namespace.fields, name.name)

    # Synchronisation

    def _synchronise(self, now: float, bases: Bases) -> None:
        """Send all entries of ``bases`` again (laps-2, 5.4)."""
        with suppress(StateError):
            self._wire.send(now, SyncBegin(bases))
            if bases & Bases.ANNOUNCES:
                self._send(now, AnnounceAdvertise, self._announces.values())
            if bases & Bases.SUBSCRIBES:
                self._send(now, SubscribeAdvertise, self._subscribes.values())
            self._wire.send(now, SyncEnd(bases))

    def _sync_began(self, bases: Bases) -> None:
        if bases & Bases.ANNOUNCES:
            self._stale[Bases.ANNOUNCES] = dict.fromkeys(self._heard)
        if bases & Bases.SUBSCRIBES:
            self._stale[Bases.SUBSCRIBES] = dict.fromkeys(self.takers)

    def _sync_ended(self, now: float, bases: Bases) -> None:
        if bases & Bases.ANNOUNCES:
            for identity in list(self._stale.pop(Bases.ANNOUNCES, {})):
                self._retracted(now, identity)
        if bases & Bases.SUBSCRIBES:
            for key in list(self._stale.pop(Bases.SUBSCRIBES, {})):
                self._unsubscribed(now, key)


def _check(what: str, number: int, most: int) -> None:
    if number >= most:
        raise LimitExceededError(f"more than {most} {what}")
