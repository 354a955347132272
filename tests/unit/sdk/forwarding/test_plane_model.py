"""Random publishers, receivers, joins, drops and resets, held to a dictionary of objects.

One track, each object written once by the model; publishers send the same objects, in both drafts,
cut anywhere. Whatever happens, a receiver gets no object twice and none that was not published, its
payloads are right, its order inside a stream is ascending; and one that nothing was taken from gets
everything that it asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from laps_sdk.forwarding.interfaces import CacheLimits, FetchEnded, FetchRange, Subscription
from laps_wire.moqt.data import MoqObject, ObjectDatagram
from laps_wire.moqt.structures import Location
from testkit.plane import D16, D18, Net, subgroup
from testkit.properties import examples

DRAFTS = st.sampled_from([D16, D18])
INDEX = st.integers(0, 1000)


@dataclass
class Stream:
    """A stream of a publisher that is under way."""

    publisher: int
    stream_id: int
    rest: bytes
    ids: list[tuple[int, int]]


@dataclass
class Listener:
    """A receiver, and what it must get."""

    session: int
    start: tuple[int, int] | None
    joined: set[tuple[int, int]] = field(default_factory=set)
    """What had begun when it came."""
    harmed: bool = False
    """Whether a stream of it was dropped, or one that it was fed from was reset."""


class PlaneModel(RuleBasedStateMachine):
    """The plane and its model."""

    def __init__(self) -> None:
        super().__init__()
        limits = CacheLimits(max_groups=1000, max_age=1e9)
        self.net = Net(cache=limits)
        self.publishers = [self.net.publisher(D16), self.net.publisher(D18)]
        self.objects: dict[tuple[int, int], bytes] = {}
        self.streams: list[Stream] = []
        self.listeners: list[Listener] = []
        self.groups = 0
        self.doubtful: set[tuple[int, int]] = set()
        """Of streams that were reset: nobody may have sent the rest."""

    @rule(size=st.integers(1, 60), count=st.integers(1, 4), extended=st.booleans(), which=INDEX)
    def publish(self, size: int, count: int, extended: bool, which: int) -> None:
        """A new group of one subgroup begins; nothing of it was sent yet."""
        group, self.groups = self.groups, self.groups + 1
        payloads = [f"{group}/{index}/".encode() * size for index in range(count)]
        ids = [(group, index) for index in range(count)]
        self.objects.update(zip(ids, payloads, strict=True))
        self._open(which, payloads, group, ids, extended=extended)

    def _open(
        self,
        which: int,
        payloads: list[bytes],
        group: int,
        ids: list[tuple[int, int]],
        *,
        extended: bool,
    ) -> None:
        publisher = self.publishers[which % 2]
        data = subgroup(
            self.net.egress[publisher].draft,
            payloads,
            group=group,
            extensions=[b""] * len(payloads) if extended else None,
        )
        stream_id = self.net.open(publisher, data[:1])
        self.streams.append(Stream(publisher, stream_id, data[1:], ids))

    @precondition(lambda self: self.streams)
    @rule(which=INDEX)
    def second_publisher(self, which: int) -> None:
        """The other publisher sends a subgroup as well."""
        stream = self.streams[which % len(self.streams)]
        other = 1 - self.publishers.index(stream.publisher)
        payloads = [self.objects[each] for each in stream.ids]
        self._open(other, payloads, stream.ids[0][0], stream.ids, extended=False)

    @precondition(lambda self: self.streams)
    @rule(which=INDEX, size=st.integers(1, 300))
    def bytes_arrive(self, which: int, size: int) -> None:
        """More of a stream, perhaps its end."""
        index = which % len(self.streams)
        stream = self.streams[index]
        piece, stream.rest = stream.rest[:size], stream.rest[size:]
        self.net.more(stream.publisher, stream.stream_id, piece, fin=not stream.rest)
        if not stream.rest:
            del self.streams[index]

    @precondition(lambda self: self.streams)
    @rule(which=INDEX)
    def stream_is_reset(self, which: int) -> None:
        """Receivers that were fed from it may miss the rest of the group."""
        stream = self.streams.pop(which % len(self.streams))
        self.net.reset(stream.publisher, stream.stream_id)
        self.doubtful.update(stream.ids)
        for listener in self.listeners:
            listener.harmed = True

    @rule(payload=st.binary(min_size=1, max_size=20), which=INDEX)
    def datagram(self, payload: bytes, which: int) -> None:
        """An object of a group of its own, in a datagram, from one publisher."""
        group, self.groups = self.groups, self.groups + 1
        self.objects[group, 0] = payload
        self.net.datagram(self.publishers[which % 2], ObjectDatagram(7, group, 0, payload))

    @rule(draft=DRAFTS, start=st.none() | st.integers(0, 6))
    def join(self, draft: object, start: int | None) -> None:
        """A receiver comes."""
        session = self.net.session(D16 if draft is D16 else D18)
        begun = {
            (group_id, object_id)
            for group_id, group in self.net.plane._state.tracks[1].groups.items()
            for object_id in range(10)
            if object_id in group.seen
        }
        where = None if start is None else (start, 0)
        self.listeners.append(Listener(session, where, begun))
        self.net.subscribe(session, start=where)

    @precondition(lambda self: self.listeners)
    @rule(which=INDEX, stream=INDEX)
    def drop(self, which: int, stream: int) -> None:
        """The connection of a receiver gives a stream up."""
        listener = self.listeners[which % len(self.listeners)]
        streams = self.net.egress[listener.session].streams
        if streams:
            listener.harmed = True
            self.net.drop(listener.session, stream % len(streams), lost=3)

    @rule(seconds=st.sampled_from([0.0, 1.0, 100.0]))
    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.net.wait(seconds)

    @precondition(lambda self: self.listeners)
    @rule(which=INDEX, draft=DRAFTS)
    def fetch(self, which: int, draft: object) -> None:
        """What the cache tells is what was published."""
        group = which % (self.groups + 1)
        session = self.net.session(D16 if draft is D16 else D18)
        wanted = FetchRange(track=1, start=Location(group, 0), end=Location(group, 9))
        self.net.plane.serve_fetch(self.net.now, Subscription(session, 0), wanted, partial=True)
        _, items = self.net.egress[session].fetched()
        for item in items:
            if isinstance(item, MoqObject):
                where = (item.header.group_id, item.header.object_id)
                assert item.payload == self.objects[where]

    def receivers_are_right(self) -> None:
        """See the module."""
        for listener in self.listeners:
            egress = self.net.egress[listener.session]
            got: dict[tuple[int, int], bytes] = {}
            for told in egress.subgroups():
                assert told.ids == sorted(set(told.ids))
                for item in told.objects:
                    where = (item.header.group_id, item.header.object_id)
                    assert where not in got or listener.harmed
                    got[where] = item.payload
            for datagram in egress.object_datagrams():
                where = (datagram.group_id, datagram.object_id)
                assert where not in got
                got[where] = datagram.payload
            assert all(self.objects[where] == payload for where, payload in got.items())
            if listener.start is None:
                assert not set(got) & listener.joined or listener.harmed
            elif got:
                assert min(got) >= listener.start

    @invariant()
    def memory_is_counted(self) -> None:
        """The cache's figures are those of a recount."""
        cache = self.net.plane._state.cache
        assert cache.bytes == sum(segment.memory for segment in cache.order)
        counted = self.net.plane.track_counters(1)
        assert counted.cached_bytes == cache.bytes
        assert counted.cached_objects == sum(segment.count for segment in cache.order)

    def teardown(self) -> None:
        """Everything ends: who was not harmed has everything."""
        for stream in tuple(self.streams):
            self.net.more(stream.publisher, stream.stream_id, stream.rest, fin=True)
        notices = self.net.plane.poll_notices()
        assert all(isinstance(each, FetchEnded) and each.complete for each in notices)
        self.receivers_are_right()
        for listener in self.listeners:
            if listener.harmed:
                continue
            egress = self.net.egress[listener.session]
            got = set(egress.objects())
            got |= {(each.group_id, each.object_id) for each in egress.object_datagrams()}
            wanted = set(self.objects) - listener.joined
            if listener.start is not None:
                wanted = {where for where in self.objects if where >= listener.start}
            assert got - self.doubtful == wanted - self.doubtful
            counted = self.net.plane.subscription_counters(Subscription(listener.session, 0))
            assert counted is not None
            assert counted.objects == len(got)
            assert counted.bytes == sum(len(self.objects[where]) for where in got)
        super().teardown()


TestPlaneModel = PlaneModel.TestCase
TestPlaneModel.settings = settings(stateful_step_count=25, max_examples=examples(30))
