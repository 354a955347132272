"""Streams that go on with a subgroup, and come before its beginning."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.forwarding.coding import CANCELLED
from laps_sdk.forwarding.interfaces import PlaneLimits, Subscription
from testkit.plane import D16, D18, FakeStream, Net, bodies, cut, subgroup

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
            not session.early_bytes
            and not session.streams
            and not any(group.early for group in track.groups.values())
            and not len(self.net.plane._state.timers)
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
    assert side.heard() == [[0]]
    side.net.wait(3.0)
    assert side.heard() == [[0, 2]]
    assert side.is_quiet()


def test_the_only_one_that_waits_is_reset() -> None:
    side = Side()
    side.net.reset(side.peer, side.take(parts(2)[1], fin=False))
    assert side.is_quiet()


def test_only_so_much_waits() -> None:
    side = Side(early_bytes=600)
    first, second, third = parts(3)
    side.take(second)
    assert side.heard() == []
    side.take(third)
    assert side.heard() == [[1, 2]]
    side.take(first)
    assert side.net.plane._sessions[side.peer].early_bytes == 0


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


@pytest.mark.parametrize("fin", [True, False])
def test_its_track_is_not_taken_any_more(fin: bool) -> None:
    side = Side()
    stream = side.take(parts(2)[1], fin=fin)
    side.net.plane.remove_ingress(side.net.now, side.peer, ALIAS)
    side.net.wait(3.0)
    assert side.heard() == []
    stopped = side.net.egress[side.peer].stopped
    assert stopped == ([] if fin else [(stream, CANCELLED)])


def test_what_waits_keeps_its_group() -> None:
    side = Side(group_records=1)
    first, second = parts(2)
    side.take(second)
    for group in (6, 7, 8):
        side.take(parts(1, group=group)[0])
    side.take(first)
    assert side.heard() == [[0, 1]]
