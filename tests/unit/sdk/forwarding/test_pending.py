"""Streams at their beginning, and what waits for its alias."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.forwarding.interfaces import PlaneLimits, SessionFault, Subscription
from laps_sdk.forwarding.pending import MOST_STREAMS
from laps_wire.moqt.data import (
    ObjectDatagram,
    ObjectStatus,
    SubgroupHeader,
    encode_datagram,
    encode_subgroup_header,
)
from laps_wire.moqt.versions import Draft
from testkit.plane import D16, D18, NAME, FakeStream, Net, bodies, cut, subgroup

DRAFTS = pytest.mark.parametrize("draft", [D16, D18])


def waiting_bytes(net: Net, session: int) -> int:
    return net.plane._pending[session].size


@DRAFTS
@pytest.mark.parametrize("subgroup_id", [0, 300, None])
def test_a_header_may_come_byte_by_byte(draft: Draft, subgroup_id: int | None) -> None:
    net = Net()
    publisher, receiver = net.publisher(draft), net.receiver(draft)
    data = subgroup(draft, {300: b"x", 301: b"y"}, subgroup_id=subgroup_id, group=70000)
    net.send(publisher, data, range(len(data)))
    (got,) = net.egress[receiver].subgroups()
    assert got.ids == [300, 301]
    assert got.header.subgroup_id == subgroup_id


@DRAFTS
@pytest.mark.parametrize("length", [1, 2])
def test_a_fin_inside_the_header(draft: Draft, length: int) -> None:
    net = Net()
    publisher = net.publisher(draft)
    net.send(publisher, subgroup(draft, bodies(1))[:length])
    (fault,) = net.plane.poll_notices()
    assert isinstance(fault, SessionFault)


def test_a_header_without_objects() -> None:
    net = Net()
    publisher, receiver = net.publisher(), net.receiver()
    start = encode_subgroup_header(SubgroupHeader(7, 0, None), D16)
    net.send(publisher, start)
    assert net.plane.poll_notices() == []
    net.send(publisher, start + b"\x40")
    (fault,) = net.plane.poll_notices()
    assert isinstance(fault, SessionFault)
    stream = net.open(publisher, start)
    net.reset(publisher, stream)
    stream = net.open(publisher, start[:1])
    net.reset(publisher, stream)
    assert net.egress[receiver].streams == []


def test_a_broken_header() -> None:
    net = Net()
    publisher = net.publisher()
    net.open(publisher, b"\x16\x07\x00\x00")
    (fault,) = net.plane.poll_notices()
    assert isinstance(fault, SessionFault)


def test_a_group_that_cannot_exist() -> None:
    net = Net()
    publisher = net.publisher()
    gap = b"\x3c\x02"  # the two groups before this one do not exist
    net.send(publisher, subgroup(D16, bodies(1), group=5, extensions=[gap]))
    stream = net.open(publisher, subgroup(D16, bodies(1), group=4))
    assert net.egress[publisher].stopped == [(stream, 0x12)]


def test_waiting_ends() -> None:
    net = Net()
    publisher = net.publisher()
    whole = net.send(publisher, subgroup(D16, bodies(2), alias=20))
    half = net.open(publisher, subgroup(D16, bodies(2), alias=21))
    gone = net.open(publisher, subgroup(D16, bodies(2), alias=21))
    net.reset(publisher, gone)
    net.datagram(publisher, ObjectDatagram(22, 0, 0, b"one"))
    net.datagram(publisher, ObjectDatagram(22, 0, 1, b"two"))
    assert waiting_bytes(net, publisher) > 0
    net.wait(2.9)
    assert net.egress[publisher].stopped == []
    net.wait(0.2)
    assert net.egress[publisher].stopped == [(half, 1)]
    assert waiting_bytes(net, publisher) == 0
    counted = net.plane.counters()
    assert counted.unknown_alias_streams == 2
    assert counted.unknown_alias_datagrams == 2
    net.more(publisher, half, b"more")
    net.plane.add_ingress(net.now, publisher, 20, 1, 128)
    assert net.plane.track_counters(1).objects_in == 0
    assert whole


def test_waiting_is_bounded_in_bytes() -> None:
    net = Net(limits=PlaneLimits(pending_bytes=300))
    publisher = net.publisher()
    first = net.open(publisher, subgroup(D16, bodies(1, 200), alias=20))
    second = net.open(publisher, subgroup(D16, bodies(1, 200), alias=21))
    net.datagram(publisher, ObjectDatagram(22, 0, 0, b"d" * 150))
    assert net.egress[publisher].stopped == [(second, 1)]
    net.more(publisher, first, b"x" * 200)
    assert net.egress[publisher].stopped == [(second, 1), (first, 1)]
    assert waiting_bytes(net, publisher) == 0
    counted = net.plane.counters()
    assert counted.pending_overflow_streams == 2
    assert counted.pending_overflow_datagrams == 1


def test_waiting_is_bounded_in_streams() -> None:
    net = Net(limits=PlaneLimits(pending_streams=2))
    publisher = net.publisher()
    streams = [net.open(publisher, subgroup(D16, bodies(1), alias=20)) for _ in range(3)]
    assert net.egress[publisher].stopped == [(streams[2], 1)]
    net.plane.remove_session(net.now, publisher)
    net.wait(10)
    assert net.plane.counters().unknown_alias_streams == 0


def test_a_fault_while_waiting_is_the_track_s() -> None:
    net = Net()
    publisher = net.publisher()
    net.send(publisher, subgroup(D16, bodies(1), group=5, extensions=[b"\x3c\x02"]))
    waiting = net.open(publisher, subgroup(D16, bodies(1), group=4, alias=9))
    assert net.plane._sessions[publisher].streams[waiting].track is None
    net.plane.add_ingress(net.now, publisher, 9, 1, 128)
    assert net.egress[publisher].stopped == [(waiting, 0x12)]
    assert len(net.plane.poll_notices()) == 1


class Taken:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.objects: list[bytes] = []

    def take(self, now: float, session: int, payload: bytes) -> None:
        self.objects.append(payload)

    def refuse(self, session: int, kind: str, reason: str) -> None:
        raise AssertionError(kind)


@DRAFTS
def test_what_the_relay_takes_itself_may_come_before_its_alias(draft: Draft) -> None:
    net, taken = Net(), Taken()
    player = net.session(draft)
    net.send(player, subgroup(draft, [b"early"]))
    net.plane.add_intake(net.now, player, 7, taken, 64)
    net.send(player, subgroup(draft, [b"late"], group=1))
    assert taken.objects == [b"early", b"late"]
    assert waiting_bytes(net, player) == 0


# Streams that go on with a subgroup, and come before its beginning.


ALIAS = 3


"""Of what the o-relay's plane sends, and the s-relay's gets."""


def parts(count: int, group: int = 5, *, objects: int | None = None) -> list[FakeStream]:
    """What an o-relay sends of a subgroup that goes on in so many streams, an object on each."""
    net = Net()
    one = net.publisher(D18)
    net.receiver(D18, peering=True)
    total = count if objects is None else objects
    whole = subgroup(D18, bodies(total, 60), group=group, end_of_group=True)
    empty = len(subgroup(D18, [], group=group, end_of_group=True))
    each = (len(whole) - empty) // total
    first, *rest = cut(whole, [empty + each * (index + 1) for index in range(count - 1)])
    stream = net.open(one, first, fin=not rest)
    for index, chunk in enumerate(rest):
        net.plane.renew_egress(Subscription(2, 0))
        net.more(one, stream, chunk, fin=index == len(rest) - 1)
    sent = net.egress[2].streams
    assert [each.fin for each in sent] == [True] * count
    return sent


class Side:
    """An s-relay's plane, which gets from other relays and gives to two clients."""

    def __init__(self, *, joined: bool = True, **limits: int) -> None:
        self.net = Net(limits=PlaneLimits(continued_time=3.0, **limits))
        self.peer = self.net.publisher(D18, alias=ALIAS, peering=True)
        self.clients = [self.net.receiver(D18), self.net.receiver(D16)]
        if joined:  # it has had something from its first object on
            self.take(parts(1, group=4)[0])

    def take(self, part: FakeStream, *, fin: bool = True) -> int:
        return self.net.open(self.peer, part.data, fin=fin, continued=part.continued)

    def heard(self, group: int = 5) -> list[list[int]]:
        """The objects of a group on each stream to the first client."""
        told = self.net.egress[self.clients[0]].subgroups()
        return [each.ids for each in told if each.header.group_id == group]

    def is_quiet(self) -> bool:
        """Whether nothing is remembered of what waited."""
        session = self.net.plane._sessions[self.peer]
        track = self.net.plane._state.tracks[1]
        return (
            not session.streams and not track.subgroups() and not len(self.net.plane._state.timers)
        )


def test_who_sends_says_that_a_stream_goes_on() -> None:
    assert [part.continued for part in parts(3)] == [False, True, True]


@given(data=st.data())
def test_whatever_overtakes_what_clients_see_one_stream(data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 5))
    order = data.draw(st.permutations(range(count)))
    dice = random.Random(data.draw(st.integers(0, 1 << 16)))
    side = Side()
    sent = parts(count)
    queues = []
    for number in order:
        chunks = cut(sent[number].data, [dice.randrange(1, len(sent[number].data))])
        queues.append([(number, chunk, chunk is chunks[-1]) for chunk in chunks])
    opened: dict[int, int] = {}
    while queues:
        queue = dice.choice(queues[:2])
        number, chunk, fin = queue.pop(0)
        if number in opened:
            side.net.more(side.peer, opened[number], chunk, fin=fin)
        else:
            flag = sent[number].continued
            opened[number] = side.net.open(side.peer, chunk, fin=fin, continued=flag)
        queues = [queue for queue in queues if queue]
    for client in side.clients:
        told = side.net.egress[client].subgroups()[-1]
        assert told.payloads == bodies(count, 60)
        assert told.stream.fin
    assert side.heard() == [list(range(count))]
    assert side.is_quiet()


def test_a_newcomer_waits_for_nothing() -> None:
    """It gets no beginning of what was open when it joined, nor of what is older."""
    side = Side(joined=False)
    _, second, _ = parts(3)
    side.take(second)
    assert side.heard() == [[1]]
    side.take(parts(1, group=6)[0])
    side.take(parts(2, group=4)[1])
    assert side.heard(4) == [[1]]


def test_a_beginning_that_does_not_come_is_not_waited_for_long() -> None:
    side = Side()
    _, second, third = parts(3)
    side.take(third)
    side.net.wait(1.0)
    side.take(second)
    assert side.heard() == []
    side.net.wait(1.9)
    assert side.heard() == []
    side.net.wait(0.2)
    assert side.heard() == [[1, 2]]
    assert side.is_quiet()


def test_a_beginning_is_waited_for_while_older_groups_still_come() -> None:
    """Its way is slow: what was sent before it is still under way. But not for ever."""
    side = Side()
    first, second = parts(2)
    older = side.net.open(side.peer, (whole := parts(1, group=3, objects=30)[0].data)[:9])
    side.take(second)
    for index in range(9, 15):
        side.net.more(side.peer, older, whole[index : index + 1])
        side.net.wait(2.0)
    assert side.heard() == []
    side.take(first)
    assert side.heard() == [[0, 1]]
    side.take(parts(2, group=6)[1])
    for index in range(15, 29):
        side.net.more(side.peer, older, whole[index : index + 1])
        side.net.wait(2.0)
    assert side.heard(6) == []
    side.net.more(side.peer, older, whole[29:30])
    side.net.wait(2.0)
    assert side.heard(6) == [[1]]


def test_newer_groups_do_not_make_it_wait_longer() -> None:
    side = Side()
    side.take(parts(2)[1])
    side.net.wait(2.0)
    side.take(parts(1, group=6)[0])
    side.net.wait(1.0)
    assert side.heard() == [[1]]


def test_what_was_broken_off_has_no_beginning_any_more() -> None:
    side = Side()
    first, second = parts(2)
    stream = side.take(first, fin=False)
    side.net.reset(side.peer, stream)
    side.take(second)
    assert side.heard() == [[0], [1]]
    assert side.is_quiet()


def test_only_so_many_are_known_as_broken_off() -> None:
    side = Side(id_ranges=2)
    for subgroup_id in (1, 2, 3):
        data = subgroup(D18, {subgroup_id: b"x"}, alias=ALIAS, group=5, subgroup_id=subgroup_id)
        side.net.reset(side.peer, side.net.open(side.peer, data))
    assert list(side.net.plane._state.tracks[1].groups[5].broken) == [2, 3]


def test_one_that_waits_and_is_reset_is_forgotten() -> None:
    side = Side()
    first, second, third = parts(3)
    side.take(third)
    stream = side.take(second, fin=False)
    side.net.reset(side.peer, stream)
    side.take(first)
    assert side.heard() == [[0, 1, 2]]
    assert side.is_quiet()


def test_the_only_one_that_waits_is_reset() -> None:
    side = Side()
    side.net.reset(side.peer, side.take(parts(2)[1], fin=False))
    side.net.wait(3.0)
    assert side.heard() == [[1]]
    assert side.is_quiet()


def test_who_has_no_object_yet_is_not_the_first() -> None:
    side = Side()
    _, second, third = parts(3)
    header = len(subgroup(D18, [], alias=ALIAS, group=5, end_of_group=True))
    stream = side.net.open(side.peer, third.data[:header], continued=True)
    side.take(second)
    side.net.wait(3.0)
    assert side.heard() == [[1]]
    side.net.more(side.peer, stream, third.data[header:], fin=True)
    assert side.heard() == [[1, 2]]


def test_what_waits_keeps_its_group() -> None:
    side = Side(group_records=1)
    first, second = parts(2)
    side.take(second)
    for group in (6, 7, 8):
        side.take(parts(1, group=group)[0])
    side.take(first)
    assert side.heard() == [[0, 1]]


def test_a_stream_of_the_network_outlives_its_track() -> None:
    """Its clients left and came back, while the network still had their subscription."""
    net = Net()
    network = net.publisher(D18, peering=True, upstream=True)
    net.receiver(D18)
    data = subgroup(D18, bodies(5, 20))
    each = (len(data) - len(subgroup(D18, []))) // 5
    ends = [len(data) - each * left for left in range(5)][::-1]
    stream = net.open(network, data[: ends[0]])
    net.plane.remove_ingress(net.now, network, 7)
    net.plane.remove_track(net.now, 1)
    net.more(network, stream, data[ends[0] : ends[1] + 3])
    assert net.egress[network].stopped == []
    net.plane.add_track(2, NAME)
    net.plane.add_ingress(net.now, network, 7, 2, 128)
    again = net.receiver(D16, track=2)
    net.more(network, stream, data[ends[1] + 3 : ends[3]])
    net.more(network, stream, data[ends[3] :], fin=True)
    (told,) = net.egress[again].subgroups()
    assert (told.ids, told.payloads) == ([3, 4], bodies(5, 20)[3:])
    assert told.stream.fin


# Tracks that the relay takes itself: whole objects of limited size, and nothing kept.


class Desk:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.objects: list[tuple[int, bytes]] = []
        self.refused: list[tuple[int, str]] = []

    def take(self, now: float, session: int, payload: bytes) -> None:
        assert now == 100.0
        assert type(payload) is bytes
        self.objects.append((session, payload))

    def refuse(self, session: int, kind: str, reason: str) -> None:
        assert reason
        self.refused.append((session, kind))


def scene(draft: Draft = D18, size: int = 64) -> tuple[Net, Desk, int]:
    net, desk = Net(), Desk()
    player = net.session(draft)
    net.plane.add_intake(net.now, player, 7, desk, size)
    return net, desk, player


@DRAFTS
@given(places=st.sets(st.integers(1, 60)))
def test_objects_are_taken_whole_however_they_come(draft: Draft, places: set[int]) -> None:
    net, desk, player = scene(draft)
    status = (9, ObjectStatus.END_OF_GROUP)
    net.send(player, subgroup(draft, [b"one", b"", b"three" * 5], status=status), places)
    assert desk.objects == [(player, b"one"), (player, b"three" * 5)]
    assert (desk.refused, net.plane.poll_notices()) == ([], [])
    assert not net.plane._sessions[player].streams


@DRAFTS
def test_a_datagram_is_an_object(draft: Draft) -> None:
    net, desk, player = scene(draft)
    net.plane.datagram(net.now, player, encode_datagram(ObjectDatagram(7, 0, 0, b"x"), draft))
    assert desk.objects == [(player, b"x")]


@DRAFTS
def test_what_came_before_its_alias_is_taken_with_it(draft: Draft) -> None:
    net, desk = Net(), Desk()
    player = net.session(draft)
    net.send(player, subgroup(draft, [b"first"]))
    half = net.open(player, (data := subgroup(draft, [b"second"], group=1))[:-3])
    net.plane.datagram(net.now, player, encode_datagram(ObjectDatagram(7, 2, 0, b"third"), draft))
    net.plane.add_intake(net.now, player, 7, desk, 64)
    net.more(player, half, data[-3:], fin=True)
    assert [payload for _, payload in desk.objects] == [b"first", b"third", b"second"]


def test_an_object_that_is_too_long_is_not_even_read() -> None:
    net, desk, player = scene(size=8)
    data = subgroup(D18, [b"good", b"x" * 9, b"good"])
    stream = net.open(player, data[:10])
    net.more(player, stream, data[10:], fin=True)
    assert desk.objects == [(player, b"good")]
    assert desk.refused == [(player, "size")]
    assert net.egress[player].stopped == [(stream, 0x1)]
    net.more(player, stream, b"more")
    net.send(player, subgroup(D18, [b"again"], group=1))
    assert desk.objects[-1] == (player, b"again")


def test_so_many_streams_at_a_time() -> None:
    net, desk, player = scene()
    begun = [
        net.open(player, subgroup(D18, [b"part"], group=group)[:-1])
        for group in range(MOST_STREAMS + 1)
    ]
    assert desk.refused == [(player, "streams")]
    assert net.egress[player].stopped == [(begun[-1], 0x1)]
    for stream in begun[:2]:
        net.reset(player, stream)
    net.send(player, subgroup(D18, [b"room"], group=50))
    assert desk.objects == [(player, b"room")]
    net.plane.remove_session(net.now, player)
    assert desk.objects == [(player, b"room")]


def test_a_stream_that_breaks_off() -> None:
    net, desk, player = scene()
    net.send(player, subgroup(D18, bodies(1))[:-1])
    (fault,) = net.plane.poll_notices()
    assert isinstance(fault, SessionFault)
    assert desk.objects == []
    assert net.plane._sessions[player].intakes[7].streams == 0


def test_it_ends_and_its_alias_is_free() -> None:
    net, desk, player = scene()
    net.plane.remove_intake(player, 7)
    net.plane.remove_intake(99, 7)
    net.send(player, subgroup(D18, [b"late"]))
    assert desk.objects == []
    net.plane.add_intake(net.now, player, 7, desk, 64)
    net.plane.add_track(1, NAME)
    net.plane.add_ingress(net.now, player, 7, 1, 128)
    viewer = net.receiver(D18)
    net.send(player, subgroup(D18, [b"media"], group=3))
    assert (desk.objects, list(net.egress[viewer].objects().values())) == (
        [(player, b"late")],
        [b"media"],
    )
