"""Incoming streams at their beginning, and what waits for its alias to become known.

An alias is told on the control stream (SUBSCRIBE_OK, PUBLISH), and objects may come before it
(moq-transport-16, 10.4.2)::

    Opening  --header-->  alias known?  --yes-->  Writer of the Subgroup
                              |
                              |  no
                              v
                           Waiting   bounded in streams, bytes and time; replayed at add_ingress

A stream that goes on with a subgroup (see ``track``) may come before the one with the beginning.
Its objects go into the log. Receivers without a stream wait for the beginning if that is for us as
well: whoever has just joined gets nothing of it. Who has had a stream of an older subgroup from its
first object on was there when this one began. How long they wait follows from what comes: as long
as there is still something of groups that are not newer, the path that it takes is only slow.

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
    Group,
    InternalTrack,
    Session,
    Source,
    State,
    Subgroup,
    Track,
    Writer,
)
from laps_wire.errors import IncompleteError
from laps_wire.moqt.data.types import (
    MalformedTrackError,
    SubgroupHeader,
    TruncatedStreamError,
)

__all__ = [
    "MOST_STREAMS",
    "Arrival",
    "Detached",
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
    """Let a stream whose track is known bring its subgroup."""
    session, stream_id, parser, header, subgroup_id, continued = arrival
    source.streams += 1
    if source.track in session.malformed:
        session.stop(stream_id, MALFORMED_TRACK)
        return
    group = source.track.group(header.group_id)
    if not continued:
        source.began_with(header.group_id, subgroup_id)
    overtook = continued and _overtook(source, group, subgroup_id)
    sub = group.subgroups.get(subgroup_id)
    if sub is None:
        priority = source.priority if header.priority is None else header.priority
        sub = Subgroup(session.state, group, subgroup_id, header, priority)
    elif header.priority is not None and sub.header.priority not in (None, header.priority):
        # One subgroup, one priority (moq-transport-16, 2.4.2).
        raise MalformedTrackError(
            f"subgroup {subgroup_id} of group {header.group_id} came with priority"
            f" {sub.header.priority} and with {header.priority}"
        )
    if overtook:
        sub.hold(now)
    writer = Writer(session, stream_id, parser, header, sub, continued=continued)
    session.streams[stream_id] = writer
    if rest or fin:
        writer.data(now, rest, fin)


def _overtook(source: Source, group: Group, subgroup_id: int) -> bool:
    """Whether the beginning of a subgroup is still to come, for us too."""
    since, sub = source.since, group.subgroups.get(subgroup_id)
    if sub is not None:
        return sub.is_empty
    return (
        since is not None
        and since < (group.group_id, subgroup_id)
        and subgroup_id not in group.broken
    )


class Detached:
    """A stream of the network whose track was forgotten here, and may be wanted again.

    The network goes on sending it for as long as its own subscription lasts. If the alias stands
    for a track again, the stream brings that track from its next object on.
    """

    __slots__ = ("_header", "_parser", "_session", "_stream_id", "_subgroup_id")

    track = None
    """It belongs to none."""

    def __init__(self, writer: Writer) -> None:
        self._session = writer.session
        self._stream_id = writer.stream_id
        self._parser = writer.parser
        self._header = writer.header
        self._subgroup_id = writer.sub.subgroup_id

    def data(self, now: float, data: bytes, fin: bool) -> None:
        """More of it: nobody gets it, or it is the track's again."""
        session, stream_id = self._session, self._stream_id
        source = session.sources.get(self._header.track_alias)
        if source is None:
            self._parser.scan(data, [])
            return
        arrival = Arrival(
            session, stream_id, self._parser, self._header, self._subgroup_id, continued=True
        )
        begin(now, arrival, source, data, fin)

    def reset(self, now: float, code: int) -> None:
        """Nobody misses it."""


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
