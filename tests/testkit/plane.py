"""Receivers for tests of the forwarding plane: what was sent to them, read back with the codecs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from laps_sdk.forwarding.interfaces import (
    CacheLimits,
    EgressEntry,
    OutStream,
    PlaneLimits,
    Subscription,
)
from laps_sdk.forwarding.plane import Plane
from laps_wire.moqt.codepoints import GroupOrder
from laps_wire.moqt.data import (
    FetchParser,
    MoqObject,
    ObjectCollector,
    ObjectDatagram,
    ObjectStatus,
    RangeEnd,
    StreamKind,
    SubgroupHeader,
    SubgroupParser,
    SubgroupWriter,
    decode_datagram,
    decode_fetch_header,
    encode_datagram,
)
from laps_wire.moqt.structures import Location
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace

__all__ = [
    "D16",
    "D18",
    "NAME",
    "FakeEgress",
    "FakeStream",
    "Net",
    "TimedEgress",
    "Told",
    "bodies",
    "cut",
    "subgroup",
]

D16, D18 = Draft.D16, Draft.D18
NAME = FullTrackName(Namespace((b"tests",)), b"plane")


class FakeStream:
    """An outgoing stream that keeps what is written."""

    def __init__(self, egress: FakeEgress, priority: int, droppable: bool, drop_code: int) -> None:
        self.egress = egress
        self.priority = priority
        self.droppable = droppable
        self.drop_code = drop_code
        self.writes: list[bytes] = []
        self.fin = False
        self.reset_code: int | None = None
        self.continued = False
        self.source: Callable[[float], None] | None = None
        self.sent = 0
        """Bytes that left; the rest is queued."""
        self.dropped = False

    @property
    def data(self) -> bytes:
        return b"".join(self.writes)

    @property
    def closed(self) -> bool:
        return self.fin or self.dropped or self.reset_code is not None

    @property
    def queued(self) -> int:
        gone = self.egress.fast or self.dropped or self.reset_code is not None
        return 0 if gone else len(self.data) - self.sent

    def write(self, data: bytes, fin: bool = False) -> None:
        assert type(data) is bytes
        if not self.closed:
            if data:
                self.writes.append(data)
            self.fin = fin

    def offer(self, data: bytes, fin: bool = False) -> bool:
        if not self.closed and self.queued >= self.egress.room:
            return False
        self.write(data, fin)
        return True

    def pull_from(self, source: Callable[[float], None]) -> None:
        self.source = source

    def send(self, now: float, size: int | None = None) -> None:
        """Let bytes leave, all that wait or some; then whoever is behind may write."""
        waiting = len(self.data) - self.sent
        self.sent += waiting if size is None else min(size, waiting)
        source, self.source = self.source, None
        if source is not None and not self.closed:
            source(now)

    def goes_on(self) -> None:
        assert not self.writes
        self.continued = True

    def reset(self, code: int) -> None:
        if not self.closed or (self.fin and self.queued):
            self.reset_code = code

    def set_priority(self, priority: int) -> None:
        self.priority = priority

    def set_deadline(self, deadline: float | None) -> None:
        raise AssertionError(deadline)


class FakeEgress:
    """A connection that keeps what is sent; ``fast`` if nothing ever waits in it."""

    def __init__(self, draft: Draft, *, fast: bool = True) -> None:
        self.draft = draft
        self.fast = fast
        self.room = 1 << 62
        """Bytes of a stream that wait until an offer is refused."""
        self.max_datagram_size = 1200
        self.takes_datagrams = True
        self.streams: list[FakeStream] = []
        self.datagrams: list[bytes] = []
        self.deadlines: list[float | None] = []
        self.stopped: list[tuple[int, int]] = []

    def open_unidirectional(
        self,
        *,
        priority: int = 0,
        droppable: bool = False,
        drop_code: int = 0,
        deadline: float | None = None,
    ) -> OutStream:
        assert deadline is None
        stream = FakeStream(self, priority, droppable, drop_code)
        self.streams.append(stream)
        return stream

    def send_datagram(self, data: bytes, deadline: float | None = None) -> bool:
        if not self.takes_datagrams:
            return False
        self.datagrams.append(data)
        self.deadlines.append(deadline)
        return True

    def stop_sending(self, stream_id: int, code: int) -> None:
        self.stopped.append((stream_id, code))

    # Reading back

    def resets(self) -> list[int | None]:
        """The code that each stream was reset with."""
        return [stream.reset_code for stream in self.streams]

    def subgroups(self) -> list[Told]:
        """Every stream so far."""
        return [told(stream, self.draft) for stream in self.streams]

    def objects(self) -> dict[tuple[int, int], bytes]:
        """Every whole object on any stream, by location; each came once."""
        found: dict[tuple[int, int], bytes] = {}
        for each in self.subgroups():
            for item in each.objects:
                key = (item.header.group_id, item.header.object_id)
                assert key not in found, f"{key} was sent twice"
                found[key] = item.payload
        return found

    def object_datagrams(self) -> list[ObjectDatagram]:
        """Every datagram so far."""
        decoded = [decode_datagram(data, self.draft) for data in self.datagrams]
        return [each for each in decoded if isinstance(each, ObjectDatagram)]

    def fetched(
        self, index: int = 0, order: GroupOrder = GroupOrder.ASCENDING
    ) -> tuple[int, list[MoqObject | RangeEnd]]:
        """A fetch stream: its request, its items."""
        stream = self.streams[index]
        header, used = decode_fetch_header(stream.data, self.draft)
        collector = ObjectCollector(FetchParser(self.draft, order))
        items = collector.feed(stream.data[used:])
        if stream.fin:
            collector.finish()
        return header.request_id, [item for item in items if isinstance(item, MoqObject | RangeEnd)]


class TimedEgress(FakeEgress):
    """One that takes deadlines, and keeps what was asked of each stream."""

    def __init__(self) -> None:
        super().__init__(D18)
        self.asked: list[tuple[int, int, float | None]] = []

    def open_unidirectional(
        self,
        *,
        priority: int = 0,
        droppable: bool = False,
        drop_code: int = 0,
        deadline: float | None = None,
    ) -> OutStream:
        self.asked.append((priority, drop_code, deadline))
        return super().open_unidirectional(
            priority=priority, droppable=droppable, drop_code=drop_code
        )


@dataclass(frozen=True)
class Told:
    """A subgroup stream as its receiver reads it."""

    stream: FakeStream
    header: SubgroupHeader
    objects: list[MoqObject]
    unfinished: int
    """Bytes behind the last whole object."""

    @property
    def ids(self) -> list[int]:
        return [item.header.object_id for item in self.objects]

    @property
    def payloads(self) -> list[bytes]:
        return [item.payload for item in self.objects]


def told(stream: FakeStream, draft: Draft) -> Told:
    """Read a stream back."""
    parser = SubgroupParser(draft)
    collector = ObjectCollector(parser)
    items = collector.feed(stream.data)
    if stream.fin and stream.reset_code is None:
        collector.finish()
    header = items[0]
    assert isinstance(header, SubgroupHeader)
    objects = [item for item in items if isinstance(item, MoqObject)]
    rest = len(parser._held) + (len(collector._first) + len(collector._more))
    return Told(stream, header, objects, rest)


# What a publisher sends


def bodies(count: int, size: int = 10, seed: int = 0) -> list[bytes]:
    """Payloads that can be told apart."""
    return [(f"{seed}-{index}-".encode() * size)[:size] for index in range(count)]


def subgroup(
    draft: Draft,
    payloads: Sequence[bytes] | dict[int, bytes],
    *,
    alias: int = 7,
    group: int = 0,
    subgroup_id: int | None = 0,
    priority: int | None = None,
    extensions: Sequence[bytes] | None = None,
    end_of_group: bool = False,
    first_object: bool = False,
    status: tuple[int, ObjectStatus] | None = None,
) -> bytes:
    """A whole subgroup stream."""
    header = SubgroupHeader(
        alias,
        group,
        subgroup_id,
        priority,
        extensions is not None,
        end_of_group,
        first_object and draft >= D18,
    )
    writer = SubgroupWriter(header, draft)
    data = writer.start
    items = payloads.items() if isinstance(payloads, dict) else enumerate(payloads)
    for index, (object_id, payload) in enumerate(items):
        block = extensions[index] if extensions else b""
        data += writer.object(object_id, payload, extensions=block)
    if status is not None:
        data += writer.object(status[0], status=status[1])
    return data


def cut(data: bytes, places: Iterable[int]) -> list[bytes]:
    """Data in pieces."""
    edges = [0, *sorted({place for place in places if 0 < place < len(data)}), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


@dataclass
class Net:
    """A plane with sessions; session numbers are given out from 1 on."""

    cache: CacheLimits = field(default_factory=CacheLimits)
    limits: PlaneLimits = field(default_factory=PlaneLimits)
    now: float = 100.0

    def __post_init__(self) -> None:
        self.plane = Plane(self.cache, limits=self.limits)
        self.egress: dict[int, FakeEgress] = {}
        self._streams = 2

    def session(
        self, draft: Draft, *, fast: bool = True, peering: bool = False, upstream: bool = False
    ) -> int:
        number = len(self.egress) + 1
        egress = self.egress[number] = FakeEgress(draft, fast=fast)
        self.plane.add_session(number, draft, egress, peering=peering, upstream=upstream)
        return number

    def publisher(self, draft: Draft = D16, track: int = 1, alias: int = 7, **options: bool) -> int:
        """A session that publishes; the track is added if it is new."""
        number = self.session(draft, **options)
        if track not in self.plane._state.tracks:
            self.plane.add_track(track, NAME)
        self.plane.add_ingress(self.now, number, alias, track, 128)
        return number

    def receiver(
        self, draft: Draft = D16, *, fast: bool = True, peering: bool = False, **options: Any
    ) -> int:
        """A session with one subscription, request 0, to track 1 with the alias 3."""
        number = self.session(draft, fast=fast, peering=peering)
        self.subscribe(number, **options)
        return number

    def subscribe(self, session: int, request_id: int = 0, **options: Any) -> Subscription:
        subscription = Subscription(session, request_id)
        self.plane.add_egress(self.now, subscription, entry(**options))
        return subscription

    def open(self, session: int, data: bytes, *, fin: bool = False, continued: bool = False) -> int:
        """Begin a stream; its id."""
        self._streams += 4
        kind = StreamKind.SUBGROUP
        self.plane.stream_opened(
            self.now, session, self._streams, kind, data, fin, continued=continued
        )
        return self._streams

    def more(self, session: int, stream: int, data: bytes, *, fin: bool = False) -> None:
        self.plane.stream_data(self.now, session, stream, data, fin)

    def send(
        self, session: int, data: bytes, places: Iterable[int] = (), *, fin: bool = True
    ) -> int:
        """A stream in pieces; its id."""
        first, *rest = cut(data, places)
        stream = self.open(session, first, fin=fin and not rest)
        for index, piece in enumerate(rest):
            self.more(session, stream, piece, fin=fin and index == len(rest) - 1)
        return stream

    def reset(self, session: int, stream: int, code: int = 1) -> None:
        self.plane.stream_reset(self.now, session, stream, code)

    def datagram(self, session: int, datagram: ObjectDatagram) -> None:
        data = encode_datagram(datagram, self.egress[session].draft)
        self.plane.datagram(self.now, session, data)

    def drop(self, session: int, index: int = -1, lost: int = 5, *, stopped: bool = False) -> None:
        """An outgoing stream is given up by the connection."""
        stream = self.egress[session].streams[index]
        stream.dropped = True
        self.plane.out_stream_gone(self.now, session, stream, lost, stopped=stopped)

    def wait(self, seconds: float) -> None:
        """Let time pass, with every timer that is due in it."""
        end = self.now + seconds
        while (due := self.plane.poll_timeout()) is not None and due <= end:
            self.now = max(self.now, due)
            self.plane.handle_timeout(self.now)
        self.now = end


def entry(
    *,
    track: int = 1,
    alias: int = 3,
    start: tuple[int, int] | None = None,
    **options: Any,
) -> EgressEntry:
    where = None if start is None else Location(*start)
    return EgressEntry(track=track, alias=alias, start=where, **options)
