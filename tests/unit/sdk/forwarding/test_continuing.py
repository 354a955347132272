"""Subgroups that go on with another stream: who sends them, who receives them."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.forwarding.coding import CANCELLED
from laps_sdk.forwarding.interfaces import PlaneLimits, SessionFault, Subscription
from testkit.plane import D16, D18, FakeStream, Net, bodies, cut, subgroup

ALIAS = 3
"""Of what a receiver of the test's plane gets."""


def pieces(net: Net, receiver: int) -> list[tuple[bytes, bool]]:
    """What was sent to a receiver: streams, and whether they have ended."""
    return [(stream.data, stream.fin) for stream in net.egress[receiver].streams]


def sender(count: int, places: list[int], renewals: set[int], *, fin: bool = True) -> Net:
    """A plane whose receiver 2 is another relay, renewed before some chunks."""
    net = Net()
    one = net.publisher(D18)
    net.receiver(D18, peering=True)
    first, *rest = cut(subgroup(D18, bodies(count, 60), end_of_group=True), places)
    stream = net.open(one, first, fin=fin and not rest)
    for index, chunk in enumerate(rest):
        if index in renewals:
            net.plane.renew_egress(Subscription(2, 0))
        net.more(one, stream, chunk, fin=fin and index == len(rest) - 1)
    return net


def listener(limits: PlaneLimits | None = None) -> tuple[Net, int, list[int]]:
    """A plane that gets from another relay, and gives to two clients."""
    net = Net(limits=limits or PlaneLimits(continued_time=3.0))
    peer = net.publisher(D18, alias=ALIAS, peering=True)
    return net, peer, [net.receiver(D18), net.receiver(D16)]


# Who sends


def test_a_stream_ends_before_the_next_object_and_another_one_goes_on() -> None:
    net = Net()
    one, near, far = net.publisher(D18), net.receiver(D18), net.receiver(D18, peering=True)
    whole = subgroup(D18, bodies(3, 10))
    stream = net.open(one, whole[:20])  # in the middle of the second object
    net.plane.renew_egress(Subscription(far, 0))
    net.plane.renew_egress(Subscription(far, 0))
    net.plane.renew_egress(Subscription(99, 0))
    net.more(one, stream, whole[20:24])
    assert len(net.egress[far].streams) == 1  # the object is not over
    net.more(one, stream, whole[24:])
    net.more(one, stream, b"", fin=True)
    first, second = net.egress[far].streams
    assert first.fin
    assert second.fin
    assert first.data[-1:] == b"\0"
    assert second.data.endswith(bodies(3, 10)[2])
    told = net.egress[near].subgroups()
    assert [each.payloads for each in told] == [bodies(3, 10)]
    counters = net.plane.subscription_counters(Subscription(far, 0))
    assert counters is not None
    assert (counters.objects, counters.streams) == (3, 2)


def test_a_stream_that_is_gone_is_not_renewed() -> None:
    net = Net()
    one, far = net.publisher(D18), net.receiver(D18, peering=True)
    whole = subgroup(D18, bodies(3, 10))
    stream = net.open(one, whole[:20])
    net.plane.renew_egress(Subscription(far, 0))
    net.drop(far)
    net.more(one, stream, whole[20:], fin=True)
    assert len(net.egress[far].streams) == 1


def test_a_stream_that_ends_first_is_not_cut() -> None:
    net = Net()
    one, far = net.publisher(D18), net.receiver(D18, peering=True)
    whole = subgroup(D18, bodies(2, 10))
    stream = net.open(one, whole)
    net.plane.renew_egress(Subscription(far, 0))
    net.more(one, stream, b"", fin=True)
    (told,) = net.egress[far].subgroups()
    assert told.payloads == bodies(2, 10)


def quiet_sender() -> tuple[Net, int, int, int]:
    """A publisher has sent two objects, and the receivers, two relays, should go on elsewhere."""
    net = Net()
    one = net.publisher(D18)
    near, far = net.receiver(D18, peering=True), net.receiver(D16, peering=True)
    stream = net.open(one, subgroup(D18, bodies(2, 60), end_of_group=True))
    for receiver in (near, far):
        net.plane.renew_egress(Subscription(receiver, 0))
    return net, one, stream, near


def test_a_publisher_that_says_nothing_keeps_no_way_open() -> None:
    net, one, stream, near = quiet_sender()
    net.wait(0.9)
    assert not net.egress[near].streams[0].closed
    net.wait(0.2)
    for egress in (net.egress[2], net.egress[3]):
        (first,) = egress.streams
        assert first.fin
        assert first.data[-1:] == b"\0"  # as if object 2 were next
    third = subgroup(D18, bodies(3, 60), end_of_group=True)[len(subgroup(D18, bodies(2, 60))) :]
    net.wait(60.0)
    net.more(one, stream, third, fin=True)
    for egress in (net.egress[2], net.egress[3]):
        _, second = egress.streams
        assert second.continued
        assert second.fin
        assert second.data.endswith(bodies(3, 60)[2])
    assert net.plane._state.timers.next() is None


def test_an_object_that_is_under_way_is_not_cut() -> None:
    net = Net()
    one, far = net.publisher(D18), net.receiver(D18, peering=True)
    whole = subgroup(D18, bodies(2, 60))
    stream = net.open(one, whole[:-10])
    net.plane.renew_egress(Subscription(far, 0))
    net.wait(5.0)
    assert not net.egress[far].streams[0].closed
    net.more(one, stream, whole[-10:])
    net.wait(1.0)
    assert net.egress[far].streams[0].fin


def test_a_subgroup_that_ends_after_a_cut_ends_with_an_empty_stream() -> None:
    net, one, stream, near = quiet_sender()
    net.wait(2.0)
    net.plane.remove_egress(net.now, Subscription(3, 0), reset_code=None)
    net.more(one, stream, b"", fin=True)
    _, second = net.egress[near].streams
    assert second.continued
    assert second.fin
    assert len(net.egress[3].streams) == 1  # it has left
    client, peer, (told, _) = listener()
    for each in net.egress[near].streams:
        client.open(peer, each.data, fin=True)
    client.wait(3.0)
    (heard,) = client.egress[told].subgroups()
    assert heard.payloads == bodies(2, 60)
    assert client.egress[told].streams[0].fin
    assert client.plane._state.timers.next() is None


def test_who_does_not_take_that_word_gets_the_empty_stream_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Another class: Python remembers of each whether it has all that a protocol asks for.
    plain = {name: value for name, value in vars(FakeStream).items() if name != "goes_on"}
    del plain["__dict__"], plain["__weakref__"]
    monkeypatch.setattr("testkit.plane.FakeStream", type("PlainStream", (), plain))
    net, one, stream, near = quiet_sender()
    net.wait(2.0)
    net.more(one, stream, b"", fin=True)
    assert [each.fin for each in net.egress[near].streams] == [True, True]


def test_a_subgroup_that_is_abandoned_after_a_cut() -> None:
    net, one, stream, near = quiet_sender()
    net.wait(2.0)
    net.reset(one, stream)
    assert len(net.egress[near].streams) == 1
    assert net.plane._state.timers.next() is None


def test_what_is_abandoned_is_not_cut_later() -> None:
    net, one, stream, near = quiet_sender()
    net.reset(one, stream)
    assert net.egress[near].resets() == [CANCELLED]
    assert net.plane._state.timers.next() is None


# Who receives


def test_nothing_is_missing_while_nothing_newer_has_come() -> None:
    """A chat whose way has changed says nothing for a minute."""
    one, two, _ = two_streams()
    net, peer, (client, _) = listener()
    net.open(peer, one, fin=True)
    net.wait(60.0)
    assert net.egress[client].resets() == [None]
    net.open(peer, two, fin=True)
    (told,) = net.egress[client].subgroups()
    assert told.ids == [0, 1]


def test_what_follows_may_have_a_later_number_than_was_thought() -> None:
    net, peer, (client, _) = listener()
    net.open(peer, subgroup(D18, bodies(1, 60), alias=ALIAS) + b"\0", fin=True)
    net.wait(60.0)
    rest = {9: bodies(1, 60)[0]}
    net.open(peer, subgroup(D18, rest, alias=ALIAS, subgroup_id=0), continued=True)
    net.wait(3.0)
    (told,) = net.egress[client].subgroups()
    assert told.ids == [0, 9]
    assert net.egress[client].resets() == [None]


def test_numbers_of_other_subgroups_are_not_waited_for() -> None:
    """The guess was wrong, and everybody can see it: nothing of the subgroup is between."""
    net, peer, (client, _) = listener()
    net.open(peer, subgroup(D18, bodies(1, 60), alias=ALIAS) + b"\0", fin=True)
    others = {number: bodies(1)[0] for number in range(1, 9)}
    net.open(peer, subgroup(D18, others, alias=ALIAS, subgroup_id=1), fin=True)
    rest = {9: bodies(1, 60)[0]}
    net.open(peer, subgroup(D18, rest, alias=ALIAS, subgroup_id=0), continued=True)
    assert [told.ids for told in net.egress[client].subgroups()] == [[0, 9], list(range(1, 9))]


def test_what_begins_before_the_cut_does_not_follow() -> None:
    net, peer, (client, _) = listener()
    net.open(peer, subgroup(D18, bodies(2, 60), alias=ALIAS) + b"\0", fin=True)
    net.open(peer, subgroup(D18, bodies(1, 60), alias=ALIAS, subgroup_id=0), continued=True)
    (told,) = net.egress[client].subgroups()
    assert told.ids == [0, 1]


def test_a_track_of_which_nothing_more_comes_is_not_waited_for() -> None:
    one, *_ = two_streams()
    net, peer, (client, _) = listener()
    net.open(peer, one, fin=True)
    net.plane.remove_ingress(net.now, peer, ALIAS)
    net.wait(3.0)
    assert net.egress[client].resets() == [CANCELLED]
    assert net.plane._state.timers.next() is None


@given(data=st.data())
def test_nothing_is_lost_and_nothing_comes_twice(data: st.DataObject) -> None:
    """Whatever the pieces and renewals are, and in whatever order streams overtake each other."""
    count = data.draw(st.integers(2, 8))
    places = data.draw(st.lists(st.integers(1, 64 * count), max_size=12))
    renewals = data.draw(st.sets(st.integers(0, 12)))
    streams = pieces(sender(count, places, renewals), 2)
    net, peer, clients = listener()
    dice = random.Random(data.draw(st.integers(0, 1 << 16)))
    queues = []
    for whole, fin in streams:
        edges = [dice.randrange(1, len(whole)) for _ in range(3)]
        chunks = [(chunk, False) for chunk in cut(whole, edges)]
        queues.append([*chunks[:-1], (chunks[-1][0], fin)])
    # The first of them is known before any other one: it is older than the shortest wait.
    opened = {0: net.open(peer, queues[0][0][0], fin=queues[0].pop(0)[1])}
    while any(queues):
        number = dice.choice([index for index, queue in enumerate(queues) if queue])
        chunk, fin = queues[number].pop(0)
        if number in opened:
            net.more(peer, opened[number], chunk, fin=fin)
        else:
            opened[number] = net.open(peer, chunk, fin=fin)
    for client in clients:
        (told,) = net.egress[client].subgroups()
        assert told.payloads == bodies(count, 60)
        assert told.stream.fin
    assert net.plane.track_counters(1).duplicates == 0
    assert net.plane.poll_notices() == []
    assert net.plane._state.tracks[1].subgroups() == []


def two_streams() -> tuple[bytes, bytes, bytes]:
    """Three parts of a subgroup: objects 0, 1 and 2."""
    streams = pieces(sender(3, [64, 126], {0, 1}), 2)
    assert [fin for _, fin in streams] == [True] * 3
    return streams[0][0], streams[1][0], streams[2][0]


def test_the_rest_is_waited_for_while_older_groups_still_come() -> None:
    """The way that it takes is slow; newer groups say nothing of it, and there is an end."""
    one, two, _ = two_streams()
    limits = PlaneLimits(continued_time=3.0, continued_limit=10.0)
    for group, seconds in ((1, 3.0), (0, 12.0)):
        net, peer, (client, _) = listener(limits)
        net.open(peer, one, fin=True)
        other = subgroup(D18, bodies(9), alias=ALIAS, group=group, subgroup_id=7)
        stream = net.open(peer, other[:5])
        for index in range(5, 30):
            assert net.egress[client].resets()[0] is None
            net.more(peer, stream, other[index : index + 1])
            net.wait(seconds / 25)
        assert net.egress[client].resets()[0] == CANCELLED
        net.open(peer, two, fin=True)


def test_who_is_waited_for_too_long() -> None:
    """Somebody else goes on: what was between is a gap."""
    one, _, three = two_streams()
    net, peer, (client, _) = listener()
    net.open(peer, one, fin=True)
    net.wait(1.0)
    net.open(peer, three, fin=False)
    (told,) = net.egress[client].subgroups()
    assert told.ids == [0]
    net.wait(2.0)
    (told,) = net.egress[client].subgroups()
    assert told.ids == [0, 2]
    assert not told.stream.closed


def newer(net: Net, peer: int) -> None:
    """A newer group comes: there is something behind what is waited for."""
    net.open(peer, subgroup(D18, bodies(1), alias=ALIAS, group=1), fin=True)


def test_a_stream_that_has_begun_is_not_given_up() -> None:
    one, two, _ = two_streams()
    net, peer, (client, _) = listener()
    net.open(peer, one, fin=True)
    idle = net.open(peer, two[:4])  # its first object has not begun
    newer(net, peer)
    net.wait(3.0)
    del net.egress[client].streams[1]  # that of the newer group
    assert net.egress[client].resets() == [None]
    assert net.plane._state.timers.next() is None
    net.more(peer, idle, two[4:], fin=False)
    assert [told.ids for told in net.egress[client].subgroups()] == [[0, 1]]


def test_a_track_that_ends_while_one_waits() -> None:
    one, *_ = two_streams()
    net, peer, (client, _) = listener()
    net.open(peer, one, fin=True)
    net.plane.remove_track(net.now, 1)
    assert net.egress[client].resets() == [CANCELLED]
    assert net.plane._state.timers.next() is None


def test_one_with_other_headers_follows_on_the_same_streams() -> None:
    """Objects with extensions have other headers."""
    one, *_ = two_streams()
    net, peer, (client, _) = listener()
    net.open(peer, one, fin=True)
    rest = {1: bodies(3, 60)[1]}
    net.open(peer, subgroup(D18, rest, alias=ALIAS, extensions=[b""]), fin=False)
    assert [told.ids for told in net.egress[client].subgroups()] == [[0, 1]]
    assert net.egress[client].resets() == [None]


def test_streams_that_come_before_the_end_of_the_first_follow_it() -> None:
    one, two, three = two_streams()
    net, peer, (client, _) = listener()
    first = net.open(peer, one[:-1])
    net.open(peer, two, fin=True)
    net.open(peer, three, fin=True)
    assert net.egress[client].subgroups()[0].ids == [0, 1, 2]
    net.more(peer, first, one[-1:], fin=True)
    (told,) = net.egress[client].subgroups()
    assert (told.ids, told.stream.fin) == ([0, 1, 2], True)


@pytest.mark.parametrize("standby", [False, True])
def test_a_client_may_not_end_so(standby: bool) -> None:
    one, *_ = two_streams()
    net = Net()
    if standby:
        net.open(net.publisher(D18, alias=ALIAS), subgroup(D18, bodies(1, 60), alias=ALIAS))
    client = net.publisher(D18, alias=ALIAS)
    net.open(client, one, fin=True)
    (notice,) = net.plane.poll_notices()
    assert isinstance(notice, SessionFault)
