"""A second stream of a subgroup: duplicates, and taking over."""

from __future__ import annotations

import pytest

from laps_sdk.forwarding.interfaces import PlaneLimits, TrackMalformed
from laps_wire.moqt.versions import Draft
from testkit.plane import D16, D18, Net, bodies, subgroup

DRAFTS = pytest.mark.parametrize("second", [D16, D18])
HEAD = 3  # bytes of a SUBGROUP_HEADER here


def objects_of(net: Net, receiver: int) -> dict[tuple[int, int], bytes]:
    """Whole objects by location, however many streams they took."""
    found: dict[tuple[int, int], bytes] = {}
    for told in net.egress[receiver].subgroups():
        for item in told.objects:
            found[item.header.group_id, item.header.object_id] = item.payload
    return found


@DRAFTS
def test_an_object_is_sent_once(second: Draft) -> None:
    net = Net()
    one, two, receiver = net.publisher(D16), net.publisher(second), net.receiver()
    first = net.open(one, subgroup(D16, bodies(3, 80))[:100])
    net.send(two, subgroup(second, bodies(3, 80)), range(0, 300, 7))
    net.more(one, first, subgroup(D16, bodies(3, 80))[100:], fin=True)
    (got,) = net.egress[receiver].subgroups()
    assert got.payloads == bodies(3, 80)
    counted = net.plane.track_counters(1)
    assert (counted.objects_in, counted.duplicates) == (3, 3)
    # A third one comes when all is over.
    three = net.publisher(second)
    net.send(three, subgroup(second, bodies(3, 80)))
    assert net.plane.track_counters(1).duplicates == 6
    assert len(net.egress[receiver].streams) == 1


@DRAFTS
@pytest.mark.parametrize("ahead", [0, 1, 2, 3])
@pytest.mark.parametrize("inside", [0, 30])
@pytest.mark.parametrize("own_inside", [0, 1, 50])
def test_it_takes_over(second: Draft, ahead: int, inside: int, own_inside: int) -> None:
    """The first one is reset behind two objects (and a part of the third)."""
    net = Net()
    one, two = net.publisher(D16), net.publisher(second)
    receivers = [net.receiver(D16), net.receiver(D18)]
    payloads = bodies(5, 200)
    data, other = subgroup(D16, payloads), subgroup(second, payloads)
    each = (len(data) - HEAD) // 5
    first = net.open(one, data[: HEAD + 2 * each + inside])
    mine = HEAD + (2 + ahead) * each + own_inside
    backup = net.open(two, other[:mine])
    net.reset(one, first, 1)
    net.more(two, backup, other[mine:], fin=True)
    for receiver in receivers:
        assert objects_of(net, receiver) == {(0, i): body for i, body in enumerate(payloads)}
        assert net.egress[receiver].streams[-1].fin
        assert net.egress[receiver].resets() == [None]
    assert net.plane.track_counters(1).cached_objects == 5


@DRAFTS
def test_one_that_is_complete_takes_over(second: Draft) -> None:
    net = Net()
    one, two, receiver = net.publisher(D16), net.publisher(second), net.receiver()
    data = subgroup(D16, bodies(4, 50))
    first = net.open(one, data[: HEAD + 52])
    net.send(two, subgroup(second, bodies(4, 50)))
    net.reset(one, first)
    assert objects_of(net, receiver) == {(0, i): body for i, body in enumerate(bodies(4, 50))}
    assert net.egress[receiver].streams[-1].fin
    assert net.plane.poll_notices() == []


def test_a_third_one_follows_the_second() -> None:
    net = Net()
    sessions = [net.publisher(D16) for _ in range(3)]
    receiver = net.receiver()
    data = subgroup(D16, bodies(6, 50))
    ends = [HEAD + 52 + 20, HEAD + 2 * 52 + 20, len(data)]
    streams = [net.open(session, data[:end]) for session, end in zip(sessions, ends, strict=True)]
    net.reset(sessions[0], streams[0])
    net.reset(sessions[1], streams[1])
    net.more(sessions[2], streams[2], b"", fin=True)
    assert objects_of(net, receiver) == {(0, i): body for i, body in enumerate(bodies(6, 50))}


def test_a_reset_second_stream_is_forgotten() -> None:
    net = Net()
    one, two, receiver = net.publisher(), net.publisher(), net.receiver()
    data = subgroup(D16, bodies(3, 50))
    first = net.open(one, data[: HEAD + 52])
    backup = net.open(two, data[:-4])
    net.reset(two, backup)
    net.more(one, first, data[HEAD + 52 :], fin=True)
    (got,) = net.egress[receiver].subgroups()
    assert got.payloads == bodies(3, 50)


def test_a_subgroup_ends_at_one_place() -> None:
    net = Net()
    one, two = net.publisher(), net.publisher()
    first = net.open(one, subgroup(D16, {4: b"four"}))
    backup = net.open(two, subgroup(D16, {2: b"two"})[:-1])
    net.more(one, first, b"", fin=True)
    net.more(two, backup, b"o", fin=True)
    (notice,) = net.plane.poll_notices()
    assert isinstance(notice, TrackMalformed)
    assert notice.session == two


def test_what_is_kept_apart_is_bounded() -> None:
    net = Net(limits=PlaneLimits(spans=3))
    one, receiver = net.publisher(), net.receiver()
    for object_id in (20, 10, 30, 40):
        net.open(one, subgroup(D16, {object_id: b"x"}))
    assert sorted(objects_of(net, receiver)) == [(0, 20)]
    counted = net.plane.track_counters(1)
    assert (counted.cached_objects, counted.dropped_objects) == (3, 1)


def test_late_objects_cannot_be_put_before_others() -> None:
    net = Net()
    one, two, receiver = net.publisher(), net.publisher(), net.receiver()
    first = net.open(one, subgroup(D16, {4: b"four"}))
    data = subgroup(D16, {2: b"two!", 3: b"three", 5: b"five", 6: b"six"})
    backup = net.open(two, data[:10])
    net.reset(one, first)
    net.more(two, backup, data[10:], fin=True)
    (got,) = net.egress[receiver].subgroups()
    assert got.ids == [4, 5, 6]
    assert net.plane.counters().late_objects == 2


def test_one_subgroup_has_one_priority() -> None:
    net = Net()
    one, two = net.publisher(), net.publisher()
    net.open(one, subgroup(D16, bodies(1), priority=3))
    net.open(two, subgroup(D16, bodies(1), priority=4))
    (notice,) = net.plane.poll_notices()
    assert isinstance(notice, TrackMalformed)
    assert notice.session == two


def test_a_malformed_object_on_a_second_stream() -> None:
    net = Net()
    one, two = net.publisher(), net.publisher()
    net.send(one, subgroup(D16, bodies(2), subgroup_id=1, end_of_group=True))
    net.open(one, subgroup(D16, {0: b"again"}))
    net.open(two, subgroup(D16, {9: b"no"}))
    (notice,) = net.plane.poll_notices()
    assert isinstance(notice, TrackMalformed)
    assert notice.session == two


def test_a_session_with_a_second_stream_is_gone() -> None:
    net = Net()
    one, two, receiver = net.publisher(), net.publisher(), net.receiver()
    data = subgroup(D16, bodies(2, 50))
    first = net.open(one, data[:20])
    net.open(two, data[:20])
    net.plane.remove_session(net.now, two)
    net.more(one, first, data[20:], fin=True)
    assert net.egress[receiver].subgroups()[0].payloads == bodies(2, 50)


def test_a_stream_that_goes_on_with_one_that_was_cut() -> None:
    net = Net()
    peer = net.publisher(D18, peering=True)
    client = net.receiver(D18)
    first = net.open(peer, subgroup(D18, bodies(1, 20)))
    net.send(peer, subgroup(D18, {1: b"1" * 20, 2: b"2" * 20}) + b"\0")
    net.send(peer, subgroup(D18, {3: b"3" * 20}))
    net.more(peer, first, b"\0", fin=True)
    (told,) = net.egress[client].subgroups()
    assert (told.ids, told.stream.fin) == ([0, 1, 2, 3], True)


# What the network brings, and its own clients bring, too


def shared(
    draft: Draft = D18, limits: PlaneLimits | None = None, **stub: bool
) -> tuple[Net, int, int, int]:
    """An Edge with a network that brings a track and wants it, a Stub that brings it, a client."""
    net = Net(limits=limits or PlaneLimits())
    network = net.publisher(D18, peering=True, upstream=True)
    net.subscribe(network, echo=False)
    return net, network, net.publisher(draft, peering=True, **stub), net.receiver(D18)


def ids_at(net: Net, receiver: int) -> list[list[int]]:
    return [told.ids for told in net.egress[receiver].subgroups()]


def test_the_network_gets_what_clients_bring_whoever_was_first() -> None:
    """Others in the network want it, and may lose whoever they have it from (seed 2460)."""
    net, network, stub, client = shared()
    data = subgroup(D18, bodies(6, 20))
    each = (len(data) - HEAD) // 6
    far = net.open(network, data[: HEAD + each + 9])
    assert ids_at(net, network) == []
    near = net.open(stub, data[: HEAD + 3 * each])
    assert ids_at(net, network) == [[0, 1, 2]]
    assert ids_at(net, client) == [[0, 1, 2]]
    net.more(network, far, data[HEAD + each + 9 : HEAD + 4 * each])
    assert (ids_at(net, network), ids_at(net, client)) == ([[0, 1, 2]], [[0, 1, 2, 3]])
    net.reset(stub, near)
    assert net.egress[network].streams[0].reset_code is not None
    net.more(network, far, data[HEAD + 4 * each :], fin=True)
    (told,) = net.egress[client].subgroups()
    assert (told.payloads, told.stream.fin) == (bodies(6, 20), True)


def test_the_network_ends_before_a_client_does() -> None:
    net, network, stub, client = shared()
    data = subgroup(D18, bodies(4, 20))
    each = (len(data) - HEAD) // 4
    near = net.open(stub, data[: HEAD + each + 9])
    net.send(network, data)
    (told,) = net.egress[client].subgroups()
    assert (told.payloads, told.stream.fin) == (bodies(4, 20), True)
    assert not net.egress[network].streams[0].fin
    net.more(stub, near, data[HEAD + each + 9 :], fin=True)
    (told,) = net.egress[network].subgroups()
    assert (told.payloads, told.stream.fin) == (bodies(4, 20), True)
    assert net.plane._state.tracks[1].subgroups() == []


def test_a_client_that_begins_later_is_a_stream_of_its_own_to_the_network() -> None:
    """Between its objects and those of another client there may be others."""
    net, network, stub, client = shared()
    other = net.publisher(D18)
    first = net.open(other, subgroup(D18, bodies(1, 20)))
    net.open(stub, subgroup(D18, {3: b"3" * 20}))
    net.reset(other, first)
    assert ids_at(net, network) == [[0], [3]]
    assert net.egress[network].resets() == [1, None]
    assert ids_at(net, client) == [[0], [3]]


@pytest.mark.parametrize("draft", [D16, D18])
def test_who_brings_a_subgroup_needs_nothing_of_it(draft: Draft) -> None:
    """A Stub whose clients want what others of them publish has the track at its parent, too."""
    net, network, stub, _ = shared(draft)
    net.subscribe(stub, echo=False)
    data = subgroup(draft, bodies(4, 20))
    each = (len(data) - HEAD) // 4
    net.open(network, subgroup(D18, bodies(1, 20)))
    near = net.open(stub, data[: HEAD + 2 * each])
    net.more(stub, near, data[HEAD + 2 * each :])
    assert ids_at(net, network) == [[0, 1, 2, 3]]
    assert ids_at(net, stub) == [[0]]


def test_who_stopped_a_stream_gets_no_other_one() -> None:
    net, network, stub, client = shared()
    near = net.open(stub, subgroup(D18, bodies(1, 20)))
    (out,) = net.egress[network].streams
    net.plane.out_stream_gone(net.now, network, out, 0, stopped=True)
    net.open(network, subgroup(D18, bodies(3, 20)))
    net.reset(stub, near)
    net.open(stub, subgroup(D18, bodies(4, 20)))
    assert len(net.egress[network].streams) == 1
    assert ids_at(net, client) == [[0, 1, 2, 3]]
