"""Incoming streams at their beginning, and what waits for its alias to become known.

An alias is told on the control stream (SUBSCRIBE_OK, PUBLISH), and objects may come before it
(moq-transport-16, 10.4.2)::

    Opening  --header-->  alias known?  --yes-->  Feed, or Standby if the subgroup comes already,
                              |                   or Early if its beginning does not       (early)
                              |  no
                              v
                           Waiting   bounded in streams, bytes and time; replayed at add_ingress
"""

from __future__ import annotations

from laps_sdk.forwarding.coding import CANCELLED
from laps_sdk.forwarding.early import Arrival, begin
from laps_sdk.forwarding.intake import Intake, Taking
from laps_sdk.forwarding.scan import RunParser
from laps_sdk.forwarding.state import Session, Source, State
from laps_sdk.forwarding.track import Track
from laps_wire.errors import IncompleteError
from laps_wire.moqt.data.types import SubgroupHeader, TruncatedStreamError

__all__ = ["Opening", "Pending", "Waiting", "begin_taking"]


class Opening:
    """A subgroup stream whose header is not whole, or whose subgroup is not known yet."""

    __slots__ = ("_continued", "_header", "_parser", "_rest", "_session", "_stream_id")

    def __init__(self, session: Session, stream_id: int, *, continued: bool = False) -> None:
        self._session = session
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
        waiting = Waiting(arrival)
        session.streams[self._stream_id] = waiting
        session.pending.add(now, waiting)
        waiting.data(now, self._rest, fin)

    def reset(self, now: float, code: int) -> None:
        """Nothing was forwarded yet."""


def begin_taking(now: float, arrival: Arrival, intake: Intake, rest: bytes, fin: bool) -> None:
    """Take a stream of a track that is the relay's own."""
    session, stream_id = arrival.session, arrival.stream_id
    handler = session.streams[stream_id] = Taking(session, stream_id, arrival.parser, intake)
    handler.data(now, rest, fin)


class Waiting:
    """A stream whose alias is not known."""

    __slots__ = ("arrival", "chunks", "fin", "size")

    def __init__(self, arrival: Arrival) -> None:
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
        if self.arrival.session.pending.room_for(self, len(data)):
            self.chunks.append(data)
            self.size += len(data)
            self.fin = fin

    def reset(self, now: float, code: int) -> None:  # noqa: ARG002 - Handler
        """Nobody saw anything of it."""
        self.arrival.session.pending.remove(self)

    def late(self, now: float) -> None:  # noqa: ARG002 - called as all timers
        """It has waited long enough."""
        self.arrival.session.pending.late(self)

    def replay(self, now: float, source: Source) -> None:
        """Its track is known now."""
        self.arrival.session.pending.remove(self)
        begin(now, self.arrival, source, b"".join(self.chunks), self.fin)

    def hand_over(self, now: float, intake: Intake) -> None:
        """Its track is the relay's own."""
        self.arrival.session.pending.remove(self)
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
