from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from laps_relay.network.relay import NetworkRelay
from laps_relay.peer_forwarding.forwarding import Ingress
from laps_relay.sim.clients.clients import NO_DATA, Left, Publication, Style, track
from laps_relay.sim.clients.direct import DirectClients
from laps_relay.sim.clients.ledger import BreakError, GivenUp, Group, Ledger, encode_object
from laps_relay.sim.net.clock import Clock
from laps_sdk.forwarding.interfaces import OutStream
from laps_sdk.upstream.interfaces import Answer
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    AnnounceInfo,
    AnnounceKind,
    DataHeader,
    DataKind,
    Stamp,
    SubscribeCode,
)

KEY, NAME = track("t0")


class Core:
    """Writes down what clients ask of it."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, object]] = []

    def __getattr__(self, verb: str) -> Callable[..., None]:
        return lambda _, *what: self.asked.append((verb, what[0]))


class FakeFeed:
    """Takes streams and datagrams."""

    ingress = Ingress(0, 1)

    def __init__(self) -> None:
        self.streams: list[list[tuple[bytes, bool]]] = []
        self.datagrams: list[bytes] = []
        self.deadlines: list[float | None] = []

    def open_stream(
        self,
        now: float,
        *,
        priority: int,
        ttl_ms: int = 0,
        deadline: float | None = None,
        continued: bool = False,
        to: tuple[int, int] | None = None,
    ) -> OutStream:
        written: list[tuple[bytes, bool]] = []
        self.streams.append(written)

        class Stream:
            closed = False
            queued = 0

            def write(self, data: bytes, fin: bool = False) -> None:
                written.append((data, fin))

            def reset(self, code: int) -> None:
                written.append((b"reset", True))

            def set_deadline(self, deadline: float | None) -> None:
                deadlines.append(deadline)

        deadlines = self.deadlines
        deadlines.append(deadline)
        return cast("OutStream", Stream())

    def send_datagram(self, now: float, payload: bytes, *, priority: int, ttl_ms: int = 0) -> bool:
        self.datagrams.append(payload)
        return True


class Desk:
    def __init__(self) -> None:
        self.clock, self.ledger, self.core = Clock(), Ledger(), Core()
        core = cast("NetworkRelay", self.core)
        self.clients = DirectClients(self.clock, self.ledger, "a", self.call, lambda: core)
        self.feed = FakeFeed()

        self.stands = False
        self.waiting: list[Callable[[float], None]] = []

    def call(self, action: Callable[[float], None]) -> None:
        """As a process does: one that stands still does it when it goes on."""
        if self.stands:
            self.waiting.append(action)
        else:
            action(self.clock.now)

    def go_on(self) -> None:
        self.stands = False
        waiting, self.waiting = self.waiting, []
        for action in waiting:
            self.call(action)

    def header(self, kind: DataKind = DataKind.STREAM, key: int = KEY) -> DataHeader:
        return DataHeader(kind, 1, key, 5)

    def published(self) -> int:
        """A group that somebody else published."""
        flow = self.ledger.flows.begin("z", KEY, "")
        group = Group(flow, 1, 0.0, False)
        group.sent, group.whole = 3, True
        flow.groups[1] = group
        return flow.number


@pytest.fixture
def desk() -> Desk:
    return Desk()


def pulled(desk: Desk, style: Style, kind: AnnounceKind = AnnounceKind.TRACK) -> Publication:
    name = NAME if kind is AnnounceKind.TRACK else FullTrackName(NAME.namespace, b"")
    publication = Publication(kind, name, "t0", style)
    desk.clients.publish(publication)
    desk.clients.serve_track(0.0, KEY, NAME, NO_DATA, cast("Any", desk.feed))
    return publication


def test_a_publisher_speaks_when_it_is_pulled(desk: Desk) -> None:
    publication = pulled(desk, Style(period=1.0, objects=3, gap=0.1))
    desk.clock.run(2.5)
    assert desk.core.asked[:2] == [("announce", AnnounceKind.TRACK), ("publisher_accepted", KEY)]
    assert len(desk.feed.streams) == 2
    assert [fin for _, fin in desk.feed.streams[0]] == [False, False, True]
    desk.clients.release(2.5, KEY)
    desk.clock.run(5.0)
    assert len(desk.feed.streams) == 2
    desk.clients.unpublish(publication)
    desk.clients.unpublish(publication)
    assert desk.core.asked[-1] == ("withdraw", AnnounceKind.TRACK)
    assert desk.ledger.published == 6


def test_what_was_released_before_the_publisher_agreed_is_not_sent(desk: Desk) -> None:
    publication = pulled(desk, Style(period=1.0))
    desk.clients.release(0.0, KEY)
    desk.clock.run(1.5)
    assert not publication.flows
    assert not desk.feed.streams


def test_datagrams_are_one_object_each(desk: Desk) -> None:
    pulled(desk, Style(period=1.0, objects=2, datagrams=True), AnnounceKind.NAMESPACE)
    desk.clock.run(1.5)
    assert len(desk.feed.datagrams) == 2


@pytest.mark.parametrize(
    ("style", "after"),
    [
        (Style(period=1.0, objects=2, gap=0.1), 3),
        (Style(period=1.0, objects=2, gap=0.1, datagrams=True), 3),
        (Style(period=1.0, endless=True), 2),
    ],
)
def test_a_relay_that_stands_still_takes_nothing_from_its_publishers(
    desk: Desk, style: Style, after: int
) -> None:
    """Seed 4196: it sent on by sets that a policy, which waited as well, would have ended."""
    publication = pulled(desk, style)
    desk.clock.run(1.05)
    desk.stands = True
    desk.clock.run(2.5)
    assert sum(map(len, desk.feed.streams)) + len(desk.feed.datagrams) == 1
    desk.go_on()
    assert sum(map(len, desk.feed.streams)) + len(desk.feed.datagrams) == after
    (flow, _) = publication.flows[KEY]
    assert flow.groups[2].began == 2.0, "what was published before a policy is known as such"


def test_a_stream_that_does_not_end_is_ended_when_its_relay_goes_on(desk: Desk) -> None:
    publication = pulled(desk, Style(period=1.0, endless=True))
    desk.clock.run(1.5)
    desk.stands = True
    desk.clients.unpublish(publication)
    assert [fin for _, fin in desk.feed.streams[0]] == [False]
    desk.go_on()
    assert [fin for _, fin in desk.feed.streams[0]] == [False, True]


def test_a_publisher_that_ends_while_it_is_pulled_says_so(desk: Desk) -> None:
    publication = pulled(desk, Style())
    desk.clock.run(0.1)
    desk.clients.unpublish(publication)
    assert desk.core.asked[-2:] == [("publisher_ended", KEY), ("withdraw", AnnounceKind.TRACK)]
    desk.clients.serve_track(0.0, KEY, NAME, NO_DATA, cast("Any", desk.feed))
    desk.clock.run(1.0)
    assert desk.core.asked[-1] == ("publisher_ended", KEY)


def test_nothing_happens_after_the_end_of_the_relay(desk: Desk) -> None:
    pulled(desk, Style(period=0.5, objects=9, gap=0.2))
    desk.clock.run(0.6)
    asked = len(desk.core.asked)
    desk.clients.serve_track(0.0, KEY, NAME, NO_DATA, cast("Any", desk.feed))
    desk.clients.gone()
    desk.clock.run(5.0)
    assert len(desk.core.asked) == asked


def test_a_want_has_its_track_from_the_answer_to_the_end(desk: Desk) -> None:
    desk.clients.subscribe(KEY, NAME)
    desk.clients.subscribe(KEY, NAME)
    for answer in (Answer.REFUSED, Answer.ACCEPTED, Answer.ACCEPTED):
        desk.clients.answered(
            1.0, KEY, answer, code=SubscribeCode.ACCEPTED, reason="", data=NO_DATA
        )
    assert [interval.start for interval in desk.ledger.intervals] == [1.0]
    desk.clock.run(2.0)
    desk.clients.unsubscribe(KEY)
    desk.clients.unsubscribe(KEY)
    assert desk.ledger.intervals[0].end == 2.0
    desk.clients.answered(
        3.0, KEY, Answer.ACCEPTED, code=SubscribeCode.ACCEPTED, reason="", data=NO_DATA
    )
    assert len(desk.ledger.intervals) == 1
    desk.clients.subscribe(KEY, NAME)
    desk.clients.answered(
        4.0, KEY, Answer.ACCEPTED, code=SubscribeCode.ACCEPTED, reason="", data=NO_DATA
    )
    desk.clients.gone()
    assert desk.ledger.intervals[1].end == 2.0


def test_a_ttl_is_a_deadline_in_the_first_relay_too(desk: Desk) -> None:
    pulled(desk, Style(period=1.0, objects=2, gap=0.1, ttl_ms=300))
    desk.clock.run(1.5)
    assert desk.feed.deadlines == pytest.approx([1.3, 1.3, 1.4])


def test_an_end_that_comes_too_soon_and_a_reset_without_a_reason_are_seen(desk: Desk) -> None:
    flow = desk.published()
    desk.clients.subscribe(KEY, NAME)
    one = encode_object(flow, 1, 0, 0.0)
    desk.clients.stream_opened(1.0, 4, desk.header(), one, False)
    with pytest.raises(BreakError, match="cut short: a stream of 1/1 ended at a with 1 objects"):
        desk.clients.stream_data(1.0, 4, b"", True)
    desk.clients.stream_opened(1.0, 8, desk.header(), b"", False)
    with pytest.raises(BreakError, match="inside an object"):
        desk.clients.stream_data(1.0, 8, b"", True)
    desk.clients.answered(
        0.5, KEY, Answer.ACCEPTED, code=SubscribeCode.ACCEPTED, reason="", data=NO_DATA
    )
    group = desk.ledger.group(flow, 1, 1.0)
    group.got.clear()
    group.began = 1.0
    desk.clients.stream_opened(1.0, 12, desk.header(), one, False)
    with pytest.raises(BreakError, match="reset: a stream of 1/1 was reset at a with 0x7"):
        desk.clients.stream_reset(1.0, 12, 7)
    group.got.clear()
    desk.clients.stream_opened(1.0, 16, desk.header(), one, False)
    group.given_up = (GivenUp("a", frozenset({"a"}), 7),)
    desk.clients.stream_reset(1.0, 16, 7)
    assert desk.clients.open_streams == 0


def test_streams_are_read_in_pieces(desk: Desk) -> None:
    flow = desk.published()
    desk.clients.subscribe(KEY, NAME)
    data = b"".join(encode_object(flow, 1, number, 0.0) for number in range(3))
    desk.clients.stream_opened(1.0, 4, desk.header(), data[:10], False)
    desk.clients.stream_data(1.0, 4, data[10:50], False)
    assert desk.clients.open_streams == 1
    desk.clients.stream_data(1.0, 4, data[50:], True)
    assert desk.ledger.deliveries == 3
    assert desk.clients.open_streams == 0
    desk.clients.stream_opened(1.0, 5, desk.header(), b"", False)
    desk.clients.stream_reset(1.0, 5, 3)
    assert desk.clients.open_streams == 0


def test_what_is_not_in_order_not_whole_or_not_wanted_is_seen(desk: Desk) -> None:
    flow = desk.published()
    with pytest.raises(BreakError, match="not wanted"):
        desk.clients.stream_opened(1.0, 4, desk.header(), b"", False)
    desk.clients.subscribe(KEY, NAME)
    with pytest.raises(BreakError, match="order"):
        desk.clients.stream_opened(1.0, 4, desk.header(), encode_object(flow, 1, 1, 0.0), False)
    with pytest.raises(BreakError, match="inside an object"):
        desk.clients.stream_opened(1.0, 5, desk.header(), b"L", True)
    header = desk.header(DataKind.DATAGRAM)
    desk.clients.datagram(1.0, header, encode_object(flow, 1, 0, 0.0))
    with pytest.raises(BreakError, match="not one object"):
        desk.clients.datagram(1.0, header, encode_object(flow, 1, 1, 0.0) + b"x")


def test_what_is_not_wanted_any_more_may_come_for_a_while_only(desk: Desk) -> None:
    desk.clients.stays = 2.0
    desk.clients.subscribe(KEY, NAME)
    desk.clock.run(1.0)
    desk.clients.unsubscribe(KEY)
    desk.clients.stream_opened(2.9, 4, desk.header(), b"", False)
    with pytest.raises(BreakError, match=r"nobody wants since 1\.000"):
        desk.clients.stream_opened(3.1, 5, desk.header(), b"", False)
    desk.ledger.exempt(2.0, 3.0)  # somebody was cut off, and did not hear of it
    desk.clients.stream_opened(3.1, 6, desk.header(), b"", False)


def test_who_leaves_is_remembered_with_whether_it_was_served(desk: Desk) -> None:
    """The subscribe of who is served waits before it ends; what is refused may end any time."""
    desk.clients.subscribe(KEY, NAME)
    desk.clients.unsubscribe(KEY)
    assert desk.clients.past == {KEY: Left(0.0, False)}
    desk.clients.subscribe(KEY, NAME)
    assert desk.clients.past == {}
    desk.clients.answered(
        0.5, KEY, Answer.ACCEPTED, code=SubscribeCode.ACCEPTED, reason="", data=NO_DATA
    )
    desk.clients.unsubscribe(KEY)
    desk.clients.unsubscribe(KEY)
    assert desk.clients.past == {KEY: Left(0.0, True)}


def test_what_was_wanted_in_a_former_life_may_come_for_a_while_too(desk: Desk) -> None:
    desk.clients.former = {KEY + 1: 0.5}
    desk.clients.subscribe(KEY, NAME)
    desk.clients.subscribe(KEY + 2, NAME)
    desk.clock.run(1.0)
    desk.clients.unsubscribe(KEY + 2)
    desk.clock.run(1.5)
    asked = desk.clients.asked()
    assert asked == {KEY: 1.5, KEY + 1: 0.5, KEY + 2: 1.0}
    desk.clients.forget()
    with pytest.raises(BreakError, match="which nobody wanted"):
        desk.clients.stream_opened(3.4, 4, desk.header(), b"", False)
    desk.clients.former, desk.clients.stays = asked, 2.0
    desk.clients.stream_opened(3.4, 5, desk.header(), b"", False)
    desk.ledger.exempt(1.5, 1.5)  # that is how the life ended, and is no excuse for ever
    with pytest.raises(BreakError, match=r"nobody wants since 1\.500"):
        desk.clients.stream_opened(3.6, 6, desk.header(), b"", False)


def test_names_are_discovered_and_vanish(desk: Desk) -> None:
    entry = AnnounceInfo(
        source=NodeId(1),
        stamp=Stamp(epoch=1, sequence=1),
        kind=AnnounceKind.TRACK,
        element_hashes=(1, 2),
        name_hash=3,
        full_name_hash=KEY,
        plaintext=NAME,
    )
    desk.clients.announce_added(1.0, entry)
    assert desk.clients.discovered_names == {(AnnounceKind.TRACK, NAME): None}
    desk.clients.announce_removed(1.0, AnnounceKind.TRACK, NAME)
    assert desk.clients.discovered_names == {}


def test_a_stream_that_does_not_end_goes_on_in_others(desk: Desk) -> None:
    publication = pulled(desk, Style(period=0.1, endless=True))
    desk.clock.run(desk.clock.now + 0.25)
    desk.clients.renew(desk.clock.now, KEY, desk.clock.now)
    desk.clock.run(desk.clock.now + 0.2)
    first, second = desk.feed.streams
    assert [fin for _, fin in first] == [False] * (len(first) - 1) + [True]
    assert first[-1] == (b"\0", True)
    assert len(second) == 2
    # It arrives in any order, each object once.
    desk.clients.subscribe(KEY, NAME)
    (flow,) = desk.ledger.flows.all.values()
    for number, stream in enumerate((second, first), 1):
        data = b"".join(piece for piece, _ in stream)
        desk.clients.stream_opened(5.0, number, desk.header(), data, stream is first)
    assert desk.ledger.deliveries == len(flow.groups)
    desk.clients.stream_reset(5.0, 1, 3)
    desk.clients.unpublish(publication)
    assert second[-1] == (b"", True)
    assert flow.over


def test_an_end_and_an_order_that_a_stream_without_end_cannot_have(desk: Desk) -> None:
    pulled(desk, Style(period=0.1, endless=True))
    desk.clock.run(desk.clock.now + 0.25)
    desk.clients.subscribe(KEY, NAME)
    ((one, two, *_),) = desk.feed.streams
    with pytest.raises(BreakError, match="cut short"):
        desk.clients.stream_opened(5.0, 1, desk.header(), one[0], True)
    with pytest.raises(BreakError, match="order"):
        desk.clients.stream_opened(5.0, 2, desk.header(), two[0] + one[0], False)
    desk.clients.release(5.0, KEY)
    assert desk.feed.streams[0][-1] == (b"reset", True)
