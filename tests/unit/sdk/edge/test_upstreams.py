"""The relay network as a session of an Edge: asked for every track, and for nothing else."""

from __future__ import annotations

import pytest

from laps_sdk.edge.settings import EdgeSettings
from laps_wire.moqt.codepoints import RequestErrorCode
from laps_wire.moqt.messages import Fetch, StandaloneFetch, Subscribe, SubscribeOk
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.session import (
    PublishEnded,
    RequestAccepted,
    RequestCancelled,
    RequestReceived,
    RequestRejected,
    UpdateReceived,
)
from laps_wire.moqt.setup import SetupOptions
from laps_wire.moqt.structures import Location
from laps_wire.moqt.top_n import top_n_options
from laps_wire.moqt.versions import Draft
from testkit.edge_net import DRAFTS, NAMESPACE, TRACK, EdgeNet, track_of
from testkit.upstream import Upstream

D18 = Draft.D18


@pytest.fixture
def net() -> EdgeNet:
    return EdgeNet()


@pytest.fixture
def network(net: EdgeNet) -> Upstream:
    return Upstream(net)


@pytest.mark.parametrize("draft", DRAFTS)
def test_it_is_asked_for_what_somebody_receives(
    net: EdgeNet, network: Upstream, draft: Draft
) -> None:
    subscriber = net.subscriber(draft)
    assert network.asked() == [TRACK]
    network.accept()
    subscriber.one(RequestAccepted)
    net.subscriber(draft)
    assert network.asked() == []


def test_it_is_asked_even_if_somebody_publishes_here(net: EdgeNet, network: Upstream) -> None:
    net.publisher(D18)
    assert network.asked() == []
    subscriber = net.subscriber(D18)
    subscriber.one(RequestAccepted)
    assert network.asked() == [TRACK]
    # It knows nobody: that is not asked again for every subscriber.
    network.refuse()
    net.subscriber(D18)
    assert network.asked() == []
    assert not subscriber.take(PublishEnded)


def test_it_is_asked_for_what_a_watcher_takes(net: EdgeNet, network: Upstream) -> None:
    watcher = net.connect(D18)
    watcher.session.subscribe_tracks(NAMESPACE)
    net.settle()
    net.publisher(D18)
    offer = watcher.one(RequestReceived)
    assert network.asked() == []
    watcher.session.accept(offer.request_id)
    net.settle()
    assert network.asked() == [TRACK]


def test_it_is_not_asked_for_what_only_it_receives(net: EdgeNet, network: Upstream) -> None:
    net.publisher(D18)
    network.subscribe()
    assert network.asked() == []
    other = net.subscriber(D18)
    assert network.asked() == [TRACK]
    network.accept()
    # When the others have gone, it is left alone again.
    net.leave(other)
    net.advance(4)
    assert not network.take(RequestCancelled)
    net.advance(2)
    network.one(RequestCancelled)
    assert [row.session for row in net.relay.subscriptions()] == [900]


def test_what_only_it_publishes_does_not_serve_it(net: EdgeNet, network: Upstream) -> None:
    net.subscriber(D18)
    network.asked()
    network.accept()
    network.subscribe()
    assert network.error() == RequestErrorCode.DOES_NOT_EXIST
    # It waits for a publisher that was asked, and hears what that one says.
    announcer = net.announcer(D18)
    event = announcer.one(RequestReceived)
    network.subscribe()
    assert not network.take(RequestRejected)
    announcer.session.reject(event.request_id, RequestErrorCode.NOT_SUPPORTED, "no")
    net.settle()
    assert network.error() == RequestErrorCode.NOT_SUPPORTED


def test_it_loses_a_track_with_the_last_publisher_here(net: EdgeNet, network: Upstream) -> None:
    publisher = net.publisher(D18)
    network.subscribe()
    subscriber = net.subscriber(D18)
    network.asked()
    network.accept()
    net.leave(publisher)
    net.advance(EdgeSettings().publisher_grace)
    network.one(PublishEnded)
    assert not subscriber.take(PublishEnded)


def test_a_track_that_it_refused_is_asked_for_again(net: EdgeNet, network: Upstream) -> None:
    waiting = net.subscriber(D18, parameters=Parameters(rendezvous_timeout=60_000))
    network.asked()
    network.refuse()
    assert not waiting.take(RequestRejected)
    assert net.relay.has_receivers(900, TRACK)
    net.relay.subscribe_again(net.now, 900, TRACK)
    assert network.asked() == [TRACK]
    network.accept()
    waiting.one(RequestAccepted)
    # Nothing to ask for, or nobody to ask.
    net.relay.subscribe_again(net.now, 900, track_of("unknown"))
    net.relay.subscribe_again(net.now, 901, TRACK)
    assert not net.relay.has_receivers(900, track_of("unknown"))
    assert not net.relay.has_receivers(901, TRACK)
    assert network.asked() == []


def test_a_refusal_is_forgotten_with_the_last_receiver(net: EdgeNet, network: Upstream) -> None:
    net.publisher(D18)
    subscriber = net.subscriber(D18)
    network.asked()
    network.refuse()
    net.leave(subscriber)
    assert not net.relay.has_receivers(900, TRACK)
    net.subscriber(D18)
    assert network.asked() == [TRACK]


def test_a_namespace_of_others_asks_again(net: EdgeNet, network: Upstream) -> None:
    waiting = net.subscriber(D18, parameters=Parameters(rendezvous_timeout=60_000))
    network.asked()
    network.refuse()
    network.session.publish_namespace(NAMESPACE)
    assert network.asked() == [TRACK]
    network.accept()
    net.settle()
    waiting.one(RequestAccepted)


@pytest.mark.parametrize(
    ("code", "draft", "told"),
    [
        (RequestErrorCode.DOES_NOT_EXIST, Draft.D18, RequestErrorCode.DOES_NOT_EXIST),
        (RequestErrorCode.DOES_NOT_EXIST, Draft.D16, None),
        (RequestErrorCode.UNAUTHORIZED, Draft.D18, RequestErrorCode.UNAUTHORIZED),
        (RequestErrorCode.UNAUTHORIZED, Draft.D16, RequestErrorCode.UNAUTHORIZED),
    ],
)
def test_refusals(
    net: EdgeNet, network: Upstream, code: RequestErrorCode, draft: Draft, told: int | None
) -> None:
    subscriber = net.subscriber(draft)
    network.asked()
    network.refuse(code)
    errors = [event.message.error_code for event in subscriber.take(RequestRejected)]
    assert errors == ([] if told is None else [told])


def test_one_that_comes_late_is_asked_for_everything(net: EdgeNet) -> None:
    net.publisher(D18)
    net.subscriber(D18)
    net.publisher(D18, track_of("unwatched"))
    assert Upstream(net).asked() == [TRACK]


def test_one_that_leaves_ends_what_it_gave(net: EdgeNet, network: Upstream) -> None:
    subscriber = net.subscriber(D18)
    network.asked()
    network.accept()
    subscriber.one(RequestAccepted)
    net.leave(network)
    net.advance(EdgeSettings().publisher_grace)
    subscriber.one(PublishEnded)
    again = net.subscriber(D18)
    assert again.one(RequestRejected).message.error_code == RequestErrorCode.DOES_NOT_EXIST


def test_a_session_with_relays_behind_it_need_not_be_upstream(net: EdgeNet) -> None:
    network = Upstream(net, upstream=False)
    net.subscriber(D18)
    assert network.asked() == []
    network.session.publish_namespace(NAMESPACE)
    net.settle()
    # It is a publisher like others, but for itself.
    net.subscriber(D18)
    assert network.asked() == [TRACK]
    network.subscribe(track_of("own"))
    assert network.asked() == []


def test_aliases_are_its_own(net: EdgeNet) -> None:
    network = Upstream(net, alias=lambda name: 1000 + len(name.name))
    net.publisher(D18)
    network.subscribe()
    ok = network.one(RequestAccepted).message
    assert isinstance(ok, SubscribeOk)
    assert ok.track_alias == 1000 + len(TRACK.name)
    (entry,) = net.plane.egress.values()
    assert (entry.alias, entry.echo) == (1006, False)


def test_caps_of_a_session_are_not_for_it() -> None:
    net = EdgeNet(settings=EdgeSettings(max_sessions=1, session_namespaces=1, request_burst=1))
    network = Upstream(net)
    net.connect(D18)
    for number in range(3):
        network.session.publish_namespace(track_of("", b"%d" % number).namespace)
    net.settle()
    assert len(net.relay.namespaces()) == 3
    assert net.connect(D18).gone


def test_what_it_pushes_is_brought_here_only_for_somebody(net: EdgeNet) -> None:
    network = Upstream(net)
    network.session.publish(TRACK, 5)
    net.settle()
    ok = network.one(RequestAccepted).message
    assert ok.parameters.forward is False
    subscriber = net.subscriber(D18)
    update = network.one(UpdateReceived)
    assert update.message.parameters.forward is True
    network.session.accept(update.update_id)
    net.leave(subscriber)
    assert network.one(UpdateReceived).message.parameters.forward is False


def test_what_it_pushes_is_brought_here_to_be_ranked(net: EdgeNet) -> None:
    network = Upstream(net)
    network.session.publish(TRACK, 5)
    net.settle()
    top = SetupOptions(unknown=top_n_options(1))
    watcher = net.connect(D18, options=top)
    request_id = watcher.session.subscribe_tracks(NAMESPACE)
    net.settle()
    offer = watcher.one(RequestReceived)
    watcher.session.reject(offer.request_id, RequestErrorCode.UNINTERESTED, "no")
    net.settle()
    assert network.take(UpdateReceived)[-1].message.parameters.forward is True
    watcher.session.cancel(request_id)
    net.settle()
    assert network.one(UpdateReceived).message.parameters.forward is False


def test_it_is_not_asked_for_the_past(net: EdgeNet) -> None:
    network = Upstream(net)
    network.session.publish_namespace(NAMESPACE)
    client = net.connect(D18)
    client.session.track_status(TRACK)
    client.session.fetch(StandaloneFetch(TRACK, Location(0, 0), Location(1, 0)))
    net.settle()
    assert not network.take(RequestReceived)
    assert len(client.take(RequestRejected)) == 2
    # A publisher here is asked, though the network feeds the track as well.
    net.subscriber(D18)
    network.asked()
    network.accept()
    announcer = net.announcer(D18)
    client.session.fetch(StandaloneFetch(TRACK, Location(0, 0), Location(1, 0)))
    net.settle()
    kinds = [type(event.message) for event in announcer.take(RequestReceived)]
    assert kinds == [Subscribe, Fetch]
    assert not network.take(RequestReceived)
