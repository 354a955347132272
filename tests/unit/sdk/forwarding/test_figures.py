"""What the plane counts: counters stay, what is taken is taken once."""

from __future__ import annotations

from laps_sdk.forwarding.interfaces import CacheLimits, Subscription
from laps_sdk.forwarding.plane import Plane
from testkit.plane import D16, NAME, Net, bodies, subgroup


def test_a_plane_has_figures() -> None:
    figures = Plane()
    assert set(figures.counters()) == {0}
    assert figures.subscription_counters(Subscription(1, 2)) is None
    assert figures.take_traffic() == []
    assert figures.take_clients() == []


def test_counters_of_tracks_and_receivers_stay() -> None:
    net = Net()
    publisher, receiver = net.publisher(), net.receiver()
    net.send(publisher, subgroup(D16, bodies(2)))
    for _ in range(2):
        assert net.plane.track_counters(1).objects_out == 2
        counted = net.plane.subscription_counters(Subscription(receiver, 0))
        assert counted is not None
        assert counted.objects == 2
    assert net.plane.subscription_counters(Subscription(receiver, 7)) is None


def test_traffic_is_told_once_and_not_lost_with_its_track() -> None:
    net = Net()
    publisher = net.publisher()
    net.receiver()
    net.plane.count_traffic()
    net.send(publisher, subgroup(D16, bodies(1)))
    assert [each.bytes_out for each in net.plane.take_traffic([1, 2])] == [10]
    net.send(publisher, subgroup(D16, bodies(1), group=1))
    net.plane.remove_track(net.now, 1)
    assert [each.bytes_out for each in net.plane.take_traffic()] == [10]
    assert net.plane.take_traffic() == []


def test_nobody_counts_what_tracks_did_that_are_gone() -> None:
    net = Net()
    publisher = net.publisher()
    net.receiver()
    net.send(publisher, subgroup(D16, bodies(1)))
    net.plane.remove_track(net.now, 1)
    assert net.plane.take_traffic() == []


def test_the_cache_and_the_clients_are_told_since_the_last_time() -> None:
    net = Net()
    publisher, receiver = net.publisher(), net.receiver()
    net.send(publisher, subgroup(D16, bodies(3)))
    figures, held = net.plane.take_cache()
    assert held == net.plane.track_counters(1).cached_bytes > 0
    assert figures.evicted == 0
    net.plane.set_cache_limits(net.now, CacheLimits(max_bytes=0))
    figures, held = net.plane.take_cache()
    assert (figures.evicted > 0, held) == (True, 0)
    assert net.plane.take_cache()[0].evicted == 0
    (client,) = net.plane.take_clients()
    assert (client.session, client.track) == (receiver, NAME)


def test_objects_are_timed_while_somebody_wants_that() -> None:
    net = Net()
    net.plane.time_objects(None)
    assert net.plane.poll_timeout() is None
