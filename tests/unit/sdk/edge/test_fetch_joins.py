"""FETCHes that wait for another one: how many ask upstream, and what becomes of the others."""

from __future__ import annotations

from laps_sdk.edge.events import FetchRelayed
from laps_sdk.edge.settings import EdgeSettings
from laps_sdk.edge.tracks import JOIN_PATIENCE
from laps_sdk.forwarding.interfaces import Subscription, UpstreamEnded
from laps_wire.moqt.codepoints import RequestErrorCode
from laps_wire.moqt.messages import StandaloneFetch
from laps_wire.moqt.session import (
    RequestAccepted,
    RequestCancelled,
    RequestReceived,
    RequestRejected,
)
from laps_wire.moqt.structures import Location
from laps_wire.moqt.versions import Draft
from testkit.edge_net import TRACK, EdgeNet, Peer

D18 = Draft.D18
FIRST = StandaloneFetch(TRACK, Location(4, 0), Location(4, 6))


def fetch(net: EdgeNet, target: StandaloneFetch = FIRST) -> Peer:
    peer = net.connect(D18)
    peer.request = peer.session.fetch(target)
    net.settle()
    return peer


def scene(readers: int) -> tuple[EdgeNet, Peer, list[Peer]]:
    """A publisher that was asked once, and readers that wait for it."""
    net = EdgeNet(settings=EdgeSettings(upstream_timeout=10.0))
    publisher = net.announcer(D18)
    peers = [fetch(net) for _ in range(readers)]
    return net, publisher, peers


def cached(net: EdgeNet) -> None:
    """What came is in the cache."""
    number = net.plane.number(TRACK)
    net.plane.covered.add(number)
    net.plane.cached[number] = 6


def test_others_have_it_from_the_cache() -> None:
    net, publisher, (first, second, third) = scene(3)
    asked = publisher.one(RequestReceived)
    publisher.session.accept_fetch(asked.request_id, Location(4, 6))
    net.settle()
    first.one(RequestAccepted)
    assert second.take(RequestAccepted) == []
    cached(net)
    net.notify(UpstreamEnded(publisher.id, asked.request_id, complete=True))
    for peer in (second, third):
        peer.one(RequestAccepted)
        assert Subscription(peer.id, peer.request) in net.plane.served
    assert len(net.found(FetchRelayed)) == 1
    assert (net.relay.take_fetch_joins(), net.relay.take_fetch_joins()) == (2, 0)
    net.advance(20.0)
    assert second.take(RequestRejected) == []


def test_who_does_not_find_it_there_asks_by_itself_once() -> None:
    net, publisher, (_, second) = scene(2)
    asked = publisher.one(RequestReceived)
    publisher.session.accept_fetch(asked.request_id, Location(4, 6))
    net.settle()
    net.notify(UpstreamEnded(publisher.id, asked.request_id, complete=True))
    again = publisher.one(RequestReceived)
    publisher.session.reject(again.request_id, RequestErrorCode.NOT_SUPPORTED, "no history")
    net.settle()
    second.one(RequestRejected)
    assert net.relay.take_fetch_joins() == 1


def test_only_who_begins_where_another_one_does_joins_it() -> None:
    net, publisher, _ = scene(1)
    fetch(net, StandaloneFetch(TRACK, Location(4, 0), Location(9, 0)))
    fetch(net, StandaloneFetch(TRACK, Location(3, 0), Location(4, 6)))
    fetch(net, StandaloneFetch(TRACK, Location(5, 0), Location(5, 6)))
    assert len(publisher.take(RequestReceived)) == 3
    assert net.relay.take_fetch_joins() == 1


def test_the_first_one_gives_up_and_the_next_asks() -> None:
    net, publisher, (first, second, third) = scene(3)
    first.session.cancel(first.request)
    net.settle()
    publisher.one(RequestCancelled)
    assert len(publisher.take(RequestReceived)) == 3  # each of the others asks by itself
    second.session.cancel(second.request)
    third.session.cancel(third.request)
    net.settle()
    assert all(row.fetches == 0 for row in net.relay.sessions())


def test_one_that_waits_gives_up() -> None:
    net, publisher, (_, second) = scene(2)
    second.session.cancel(second.request)
    net.settle()
    asked = publisher.one(RequestReceived)
    publisher.session.reject(asked.request_id, RequestErrorCode.INVALID_RANGE, "none")
    net.settle()
    assert publisher.take(RequestReceived) == []


def test_errors_and_losses_release_all_of_them() -> None:
    net, publisher, peers = scene(2)
    code = RequestErrorCode.INVALID_RANGE
    publisher.session.reject(publisher.one(RequestReceived).request_id, code, "none")
    net.settle()
    publisher.session.reject(publisher.one(RequestReceived).request_id, code, "none")
    net.settle()
    assert [peer.one(RequestRejected).message.error_code for peer in peers] == [code, code]
    net, publisher, peers = scene(2)
    publisher.session.close()
    net.settle()
    for peer in peers:
        peer.one(RequestRejected)


def test_a_wait_that_is_too_long_ends_with_a_fetch_of_its_own() -> None:
    net, publisher, (first, second) = scene(2)
    asked = publisher.one(RequestReceived)
    publisher.session.accept_fetch(asked.request_id, Location(4, 6))
    net.settle()
    first.one(RequestAccepted)
    net.advance(JOIN_PATIENCE)
    again = publisher.one(RequestReceived)
    publisher.session.accept_fetch(again.request_id, Location(4, 6))
    net.settle()
    second.one(RequestAccepted)


def test_a_session_that_is_gone_with_both() -> None:
    net = EdgeNet()
    publisher = net.announcer(D18)
    peer = net.connect(D18)
    for _ in range(3):
        peer.session.fetch(FIRST)
    net.settle()
    peer.session.close()
    net.settle()
    assert len(publisher.take(RequestReceived)) == 1
    publisher.one(RequestCancelled)
