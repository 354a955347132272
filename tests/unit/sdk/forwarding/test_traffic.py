"""What a track did since somebody looked."""

from __future__ import annotations

import pytest

from laps_sdk.forwarding.traffic import (
    ClientTraffic,
    LinkTraffic,
    Service,
    Tally,
    TrackTraffic,
    gained,
)
from laps_wire.moqt.data.datagram import ObjectDatagram
from laps_wire.names import FullTrackName, Namespace
from testkit.plane import D16, NAME, Net, bodies, subgroup

BEFORE = TrackTraffic(NAME, 1, 10, 2, 20, 3, None, 4, (LinkTraffic(-1, 1, 2, 3, 4),))


def test_a_tally_counts_both_directions() -> None:
    tally = Tally()
    for _ in range(2):
        tally.came(1, 10)
        tally.sent(2, 20)
    assert (tally.objects_in, tally.bytes_in) == (2, 20)
    assert (tally.objects_out, tally.bytes_out) == (4, 40)


def test_the_first_look_sees_everything() -> None:
    assert gained(BEFORE, None) is BEFORE


def test_the_next_one_sees_what_was_added() -> None:
    now = TrackTraffic(
        NAME, 2, 15, 2, 26, 3, 4, 6, (LinkTraffic(-1, 1, 2, 5, 9), LinkTraffic(-2, 1, 7, 0, 0))
    )
    assert gained(now, BEFORE) == TrackTraffic(
        NAME, 1, 5, 0, 6, 0, 5, 6, (LinkTraffic(-1, 0, 0, 2, 5), LinkTraffic(-2, 1, 7, 0, 0))
    )


@pytest.mark.parametrize(
    ("before", "now", "first"), [(None, 3, 3), (3, 3, 3), (3, 5, 4), (None, None, None)]
)
def test_groups_of_a_window(before: int | None, now: int | None, first: int | None) -> None:
    old = BEFORE._replace(last_group=before)
    assert gained(BEFORE._replace(first_group=now, last_group=now), old)[6:8] == (first, now)


def test_idle_is_where_nothing_happened() -> None:
    idle = TrackTraffic(NAME, 0, 0, 0, 0, 0, 3, 3, (LinkTraffic(-1, 0, 0, 0, 0),))
    assert idle.is_idle
    assert not idle._replace(dropped=1).is_idle
    assert not idle._replace(links=(LinkTraffic(-1, 0, 0, 0, 1),)).is_idle


def test_the_start_up_is_told_once() -> None:
    service = Service()
    service.began(1.0)  # nobody had asked: it was pushed before
    assert service.take() == (0, None)
    for now in (2.0, 3.0):
        service.asked(now)
    for now in (2.5, 4.0):
        service.began(now)
    service.gaps += 2
    assert service.take() == (2, 0.5)
    service.gaps += 1
    assert service.take() == (1, None)


def test_clients_that_are_subscribed() -> None:
    net = Net()
    publisher, viewer = net.publisher(), net.receiver()
    net.receiver(peering=True)
    assert net.plane.take_clients() == [ClientTraffic(viewer, 0, None, NAME)]
    net.now += 0.25
    net.send(publisher, subgroup(D16, bodies(2)))
    assert net.plane.take_clients() == [ClientTraffic(viewer, 0, 0.25, NAME)]


def test_what_it_does_not_get_is_a_gap() -> None:
    net = Net()
    publisher, slow = net.publisher(), net.receiver(fast=False)
    stream = net.open(publisher, subgroup(D16, bodies(1)))
    net.drop(slow)
    net.more(publisher, stream, subgroup(D16, bodies(3))[len(subgroup(D16, bodies(1))) :], fin=True)
    (client,) = net.plane.take_clients()
    assert client.gaps >= 3
    net.egress[slow].takes_datagrams = False
    net.datagram(publisher, ObjectDatagram(7, 5, 0, b"x"))
    net.egress[slow].takes_datagrams = True
    net.datagram(publisher, ObjectDatagram(7, 6, 0, b"x"))
    assert net.plane.take_clients()[0].gaps == 1


def test_the_track_of_which_it_gets_most() -> None:
    net = Net()
    publisher, viewer = net.publisher(), net.receiver()
    other = FullTrackName(Namespace((b"tests",)), b"audio")
    net.plane.add_track(2, other)
    net.plane.add_ingress(net.now, publisher, 8, 2, 128)
    net.subscribe(viewer, 1, track=2, alias=4)
    net.send(publisher, subgroup(D16, bodies(5)))
    net.send(publisher, subgroup(D16, bodies(9), alias=8))
    (client,) = net.plane.take_clients()
    assert client.track == other
    for number in range(2, 20):
        net.subscribe(viewer, number, alias=number + 10)
    (client,) = net.plane.take_clients()
    assert client.track is None
