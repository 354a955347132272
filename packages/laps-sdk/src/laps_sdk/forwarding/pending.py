"""Incoming streams at their beginning, and what waits for its alias to become known.

An alias is told on the control stream (SUBSCRIBE_OK, PUBLISH), and objects may come before it
(moq-transport-16, 10.4.2)::

    Opening  --header-->  alias known?  --yes-->  Feed, or Standby if the subgroup comes already,
                              |                   or Early if its beginning does not
                              |  no
                              v
                           Waiting   bounded in streams, bytes and time; replayed at add_ingress

A stream that overtook the beginning of its subgroup waits as well::

    stream 1   | header | object 0 | object 1 | cut --------- slow way ------------> begins
    stream 2   | header, CONTINUED | object 2 | ... --> Early --------> stands by ---'

A stream that goes on with a subgroup (see ``track``) may come before the one with the
beginning. Begun with, what comes behind it would be too late. So it waits, if the beginning is for
us as well: whoever has just joined gets nothing of it. Who has had a stream of an older subgroup
from its first object on was there when this one began.

How long it waits follows from what comes: as long as there is still something of groups that are
not newer, the way that it takes is only slow.

Tracks that the relay takes itself go another way::

    stream --> Opening --> internal track? --> InternalStream --whole object--> Taker
    datagram --------------------------------------------------whole object--'

No cache, no receivers, no counters of tracks. What a session can make us remember is one object of
limited size on each of a few streams.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from laps_sdk.forwarding.coding import CANCELLED, MALFORMED_TRACK, Mark
from laps_sdk.forwarding.scan import RunParser
from laps_sdk.forwarding.track import (
    Feed,
    Group,
    Handler,
    InternalTrack,
    Session,
    Source,
    Standby,
    State,
    Track,
    is_under_way,
)
from laps_wire.errors import IncompleteError
from laps_wire.moqt.data.types import SubgroupHeader, TruncatedStreamError

__all__ = [
    "MOST_STREAMS",
    "Arrival",
    "Early",
    "InternalStream",
    "Opening",
    "Pending",
    "Waiting",
    "begin",
    "begin_taking",
]


class Opening:
    """A subgroup stream whose header is not whole, or whose subgroup is not known yet."""

    __slots__ = ("_continued", "_header", "_parser", "_pending", "_rest", "_session", "_stream_id")

    def __init__(
        self, session: Session, stream_id: int, pending: Pending, *, continued: bool = False
    ) -> None:
        self._session = session
        self._pending = pending
        self._stream_id = stream_id
        self._continued = continued
        self._parser = RunParser(session.draft)
        self._header: SubgroupHeader | None = None
        self._rest = b""

    @property
    def track(self) -> Track | None:
        """What the alias stands for."""
        header = self._header
        source = None if header is None else self._session.sources.get(header.track_alias)
        return None if source is None else source.track

    def data(self, now: float, data: bytes, fin: bool) -> None:
        """More of it."""
        if self._header is None:
            started = self._parser.start(data)
            if started is None:
                if fin:
                    self._parser.finish()
                return
            self._header, self._rest = started
        else:
            self._rest += data
        subgroup_id = self._header.subgroup_id
        if subgroup_id is None:
            # The first object's id, which is the first integer of the first object.
            try:
                decode = self._session.draft.integers.decode
                subgroup_id, _ = decode(self._rest, 0, len(self._rest))
            except IncompleteError:
                if fin and self._rest:
                    raise TruncatedStreamError("FIN in the middle of a header") from None
                return
        session, header = self._session, self._header
        arrival = Arrival(
            session, self._stream_id, self._parser, header, subgroup_id, self._continued
        )
        source = session.sources.get(header.track_alias)
        if source is not None:
            begin(now, arrival, source, self._rest, fin)
            return
        intake = session.intakes.get(header.track_alias)
        if intake is not None:
            begin_taking(now, arrival, intake, self._rest, fin)
            return
        waiting = Waiting(arrival, self._pending)
        session.streams[self._stream_id] = waiting
        self._pending.add(now, waiting)
        waiting.data(now, self._rest, fin)

    def reset(self, now: float, code: int) -> None:
        """Nothing was forwarded yet."""


def begin_taking(
    now: float, arrival: Arrival, intake: InternalTrack, rest: bytes, fin: bool
) -> None:
    """Take a stream of a track that is the relay's own."""
    session, stream_id = arrival.session, arrival.stream_id
    handler = session.streams[stream_id] = InternalStream(
        session, stream_id, arrival.parser, intake
    )
    handler.data(now, rest, fin)


class Waiting:
    """A stream whose alias is not known."""

    __slots__ = ("_pending", "arrival", "chunks", "fin", "size")

    def __init__(self, arrival: Arrival, pending: Pending) -> None:
        self._pending = pending
        self.arrival = arrival
        self.chunks: list[bytes] = []
        self.size = 0
        self.fin = False

    @property
    def track(self) -> Track | None:
        """What the alias stands for, if it was told meanwhile."""
        arrival = self.arrival
        source = arrival.session.sources.get(arrival.header.track_alias)
        return None if source is None else source.track

    def data(self, now: float, data: bytes, fin: bool) -> None:  # noqa: ARG002 - Handler
        """More of it: kept, if there is room."""
        if self._pending.room_for(self, len(data)):
            self.chunks.append(data)
            self.size += len(data)
            self.fin = fin

    def reset(self, now: float, code: int) -> None:  # noqa: ARG002 - Handler
        """Nobody saw anything of it."""
        self._pending.remove(self)

    def late(self, now: float) -> None:  # noqa: ARG002 - called as all timers
        """It has waited long enough."""
        self._pending.late(self)

    def replay(self, now: float, source: Source) -> None:
        """Its track is known now."""
        self._pending.remove(self)
        begin(now, self.arrival, source, b"".join(self.chunks), self.fin)

    def hand_over(self, now: float, intake: InternalTrack) -> None:
        """Its track is the relay's own."""
        self._pending.remove(self)
        begin_taking(now, self.arrival, intake, b"".join(self.chunks), self.fin)


class Pending:
    """All that waits in one session: streams and datagrams, by alias."""

    __slots__ = ("_bytes", "_datagrams", "_state", "_streams")

    def __init__(self, state: State) -> None:
        self._state = state
        self._bytes = 0
        self._streams: dict[Waiting, None] = {}
        self._datagrams: dict[int, list[bytes]] = {}

    @property
    def size(self) -> int:
        """What waits."""
        return self._bytes

    # Streams

    def add(self, now: float, waiting: Waiting) -> None:
        """One more stream waits."""
        limits = self._state.limits
        self._streams[waiting] = None
        if len(self._streams) > limits.pending_streams:
            self._overflow(waiting)
        else:
            self._state.timers.set(waiting.late, now + limits.pending_time)

    def room_for(self, waiting: Waiting, size: int) -> bool:
        """Whether more of a stream may wait; if not, the stream is given up."""
        if waiting not in self._streams:
            return False
        if self._bytes + size > self._state.limits.pending_bytes:
            self._overflow(waiting)
            return False
        self._bytes += size
        return True

    def remove(self, waiting: Waiting) -> None:
        """A stream does not wait any more."""
        if waiting in self._streams:
            del self._streams[waiting]
            self._state.timers.cancel(waiting.late)
            self._bytes -= waiting.size

    def _overflow(self, waiting: Waiting) -> None:
        self._state.overflow_streams += 1
        self._give_up(waiting)

    def late(self, waiting: Waiting) -> None:
        """Nobody named the alias of a stream in time."""
        self._state.unknown_streams += 1
        self._give_up(waiting)

    def _give_up(self, waiting: Waiting) -> None:
        self.remove(waiting)
        if waiting.fin:
            waiting.arrival.session.streams.pop(waiting.arrival.stream_id, None)
        else:
            waiting.arrival.session.stop(waiting.arrival.stream_id, CANCELLED)

    # Datagrams

    def add_datagram(self, now: float, alias: int, data: bytes) -> None:
        """A datagram waits."""
        limits = self._state.limits
        if self._bytes + len(data) > limits.pending_bytes:
            self._state.overflow_datagrams += 1
            return
        self._bytes += len(data)
        waiting = self._datagrams.get(alias)
        if waiting is None:
            waiting = self._datagrams[alias] = []
            kept = waiting
            self._state.timers.set(
                lambda _: self._late_datagrams(alias, kept), now + limits.pending_time
            )
        waiting.append(data)

    def _late_datagrams(self, alias: int, waiting: list[bytes]) -> None:
        if self._datagrams.get(alias) is waiting:
            self._state.unknown_datagrams += len(waiting)
            self._take_datagrams(alias)

    def _take_datagrams(self, alias: int) -> list[bytes]:
        waiting = self._datagrams.pop(alias, [])
        self._bytes -= sum(map(len, waiting))
        return waiting

    # The alias becomes known

    def claim(self, alias: int) -> tuple[list[Waiting], list[bytes]]:
        """What waited for an alias, in the order in which it came."""
        streams = [
            waiting for waiting in self._streams if waiting.arrival.header.track_alias == alias
        ]
        return streams, self._take_datagrams(alias)

    def clear(self) -> None:
        """The session is gone."""
        for waiting in self._streams:
            self._state.timers.cancel(waiting.late)
        self._streams.clear()
        self._datagrams.clear()
        self._bytes = 0


_COST: Final = 256
"""What a stream that waits is counted as beyond its bytes, so that empty ones fill the room too."""


class Arrival(NamedTuple):
    """A stream whose header was read."""

    session: Session
    stream_id: int
    parser: RunParser
    header: SubgroupHeader
    subgroup_id: int
    continued: bool = False
    """Whether its beginning is on another stream."""


def begin(now: float, arrival: Arrival, source: Source, rest: bytes, fin: bool) -> None:
    """Forward a stream whose track is known."""
    session, stream_id, _, header, subgroup_id, continued = arrival
    source.streams += 1
    if source.track in session.malformed:
        session.stop(stream_id, MALFORMED_TRACK)
        return
    group = source.track.group(header.group_id)
    if not continued:
        source.began_with(header.group_id, subgroup_id)
    elif _overtook(source, group, subgroup_id):
        early = session.streams[stream_id] = Early(now, arrival, group)
        early.data(now, rest, fin)
        return
    _forward(now, arrival, source, group, rest, fin)


def _overtook(source: Source, group: Group, subgroup_id: int) -> bool:
    """Whether the beginning of a subgroup is still to come, for us too."""
    since = source.since
    return (
        since is not None
        and since < (group.group_id, subgroup_id)
        and subgroup_id not in group.feeds
        and subgroup_id not in group.broken
    )


def _forward(
    now: float, arrival: Arrival, source: Source, group: Group, rest: bytes, fin: bool
) -> None:
    """Be the stream that brings a subgroup, or one behind it."""
    session, stream_id, parser, header, subgroup_id, _ = arrival
    first = group.feeds.get(subgroup_id)
    handler: Handler
    if first is None:
        handler = Feed(session, stream_id, parser, header, subgroup_id, group, source.priority)
    else:
        handler = Standby(session, stream_id, parser, header, first, source.priority)
    session.streams[stream_id] = handler
    # Before its own bytes: its end may be among them, and one of these is next.
    for early in group.early.pop(subgroup_id, ()):
        if isinstance(early, Early):
            early.begin(now)
    if rest or fin:
        handler.data(now, rest, fin)


class Early:
    """A stream that came before the beginning of its subgroup."""

    __slots__ = ("_arrival", "_chunks", "_fin", "_group", "_since", "_size")

    def __init__(self, now: float, arrival: Arrival, group: Group) -> None:
        self._arrival = arrival
        self._group = group
        self._since = now
        self._chunks: list[bytes] = []
        self._size = _COST
        self._fin = False
        arrival.session.early_bytes += _COST
        group.early.setdefault(arrival.subgroup_id, []).append(self)
        state = arrival.session.state
        state.timers.set(self.late, now + state.limits.continued_time)

    @property
    def track(self) -> Track:
        """What it belongs to."""
        return self._group.track

    def data(self, now: float, data: bytes, fin: bool) -> None:
        """More of it: kept, if there is room; else it is the beginning."""
        session, size = self._arrival.session, len(data)
        self._chunks.append(data)
        self._size += size
        self._fin = fin
        session.early_bytes += size
        if session.early_bytes > session.state.limits.early_bytes:
            self._give_up(now)

    def reset(self, now: float, code: int) -> None:  # noqa: ARG002 - Handler
        """Nobody saw anything of it."""
        subgroup_id = self._arrival.subgroup_id
        others = [each for each in self._group.early.pop(subgroup_id, ()) if each is not self]
        if others:
            self._group.early[subgroup_id] = others
        self._leave()

    def late(self, now: float) -> None:
        """The beginning has not come: wait on only while it may just be slow."""
        state = self._arrival.session.state
        if is_under_way(now, self._group, self._since, state.limits):
            state.timers.set(self.late, now + state.limits.continued_time)
        else:
            self._give_up(now)

    def begin(self, now: float) -> None:
        """Do what it would have done if it had come now."""
        arrival = self._arrival
        session, stream_id = arrival.session, arrival.stream_id
        self._leave()
        source = session.sources.get(arrival.header.track_alias)
        if source is not None:
            _forward(now, arrival, source, self._group, b"".join(self._chunks), self._fin)
        elif not self._fin:
            session.stop(stream_id, CANCELLED)
        if self._fin:
            session.streams.pop(stream_id, None)

    def _give_up(self, now: float) -> None:
        """The beginning does not come: the earliest of those that wait is the first one."""
        subgroup_id = self._arrival.subgroup_id
        found = self._group.early.pop(subgroup_id)
        waiting = [each for each in found if isinstance(each, Early)]
        first, *others = sorted(waiting, key=Early._first_id)
        if others:
            self._group.early[subgroup_id] = [*others]
        first.begin(now)

    def _first_id(self) -> int:
        """The object with which it begins; the highest number if that is not here."""
        data = b"".join(self._chunks)
        try:
            return self._arrival.session.draft.integers.decode(data, 0, len(data))[0]
        except IncompleteError:
            return 1 << 62

    def _leave(self) -> None:
        session = self._arrival.session
        session.state.timers.cancel(self.late)
        session.early_bytes -= self._size


MOST_STREAMS: Final = 8
"""Streams of an intake that may be under way at a time."""


class InternalStream:
    """One stream of an intake."""

    __slots__ = ("_intake", "_open", "_parser", "_payload", "_session", "_stream_id")

    track = None
    """It belongs to no track that is forwarded."""

    def __init__(
        self, session: Session, stream_id: int, parser: RunParser, intake: InternalTrack
    ) -> None:
        self._session = session
        self._stream_id = stream_id
        self._parser = parser
        self._intake = intake
        self._payload = bytearray()
        self._open = True
        intake.streams += 1

    def data(self, now: float, data: bytes, fin: bool) -> None:
        """More of it."""
        if self._intake.streams > MOST_STREAMS:
            self._give_up("streams", f"more than {MOST_STREAMS} streams at a time")
            return
        marks: list[Mark] = []
        body, end = self._parser.scan(data, marks)
        at = 0
        for head, start, payload in marks:
            self._more(now, body[at:start], whole=True)
            if head.payload_length > self._intake.object_bytes:
                self._give_up("size", f"objects over {self._intake.object_bytes} bytes")
                return
            at = payload
        self._more(now, body[at:end], whole=not self._parser.left)
        if fin:
            self._parser.finish()
            self._close()

    def _more(self, now: float, piece: bytes, *, whole: bool) -> None:
        """A piece of an object's payload; ``whole`` if the object ends with it."""
        self._payload += piece
        if whole and self._payload:
            self._intake.taker.take(now, self._session.number, bytes(self._payload))
            self._payload.clear()

    def _give_up(self, kind: str, reason: str) -> None:
        self._intake.taker.refuse(self._session.number, kind, reason)
        self._session.stop(self._stream_id, CANCELLED)
        self._close()

    def _close(self) -> None:
        if self._open:
            self._open = False
            self._intake.streams -= 1
        self._payload.clear()

    def reset(self, now: float, code: int) -> None:  # noqa: ARG002 - Handler
        """What is not whole is not taken."""
        self._close()
