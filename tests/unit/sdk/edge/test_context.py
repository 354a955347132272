"""What the parts share: commands, caps, rates."""

from __future__ import annotations

import pytest

from laps_sdk.edge.settings import EdgeSettings
from laps_sdk.edge.state import RequestOutcome
from laps_wire.moqt.codepoints import RequestErrorCode, SubscribeOptions
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.session import (
    PublishEnded,
    RequestAccepted,
    RequestCancelled,
    RequestReceived,
    RequestRejected,
    SessionLimits,
    UpdateRejected,
)
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from testkit.edge_net import DRAFTS, NAMESPACE, TRACK, EdgeNet, track_of
from testkit.upstream import Upstream

both = pytest.mark.parametrize("draft", DRAFTS)
LOAD = {Draft.D16: RequestErrorCode.INTERNAL_ERROR, Draft.D18: RequestErrorCode.EXCESSIVE_LOAD}


@both
def test_requests_have_a_rate(draft: Draft) -> None:
    net = EdgeNet(settings=EdgeSettings(request_rate=2.0, request_burst=3))
    peer = net.connect(draft)
    for index in range(5):
        peer.session.publish_namespace(Namespace.of(bytes([65 + index])))
    net.settle()
    assert len(peer.take(RequestAccepted)) == 3
    refused = peer.take(RequestRejected)
    assert [event.message.error_code for event in refused] == [LOAD[draft]] * 2
    assert refused[0].message.retry_interval == 501
    net.advance(0.5)
    peer.session.publish_namespace(Namespace.of(b"again"))
    net.settle()
    assert len(peer.take(RequestAccepted)) == 1


@both
def test_a_clock_that_was_read_earlier_takes_no_request_away(draft: Draft) -> None:
    """What a connection brought may be handled as of when it came, before its session was made."""
    net = EdgeNet(settings=EdgeSettings(request_rate=0.001, request_burst=3))
    peer = net.connect(draft)
    net.now -= 0.1
    for index in range(4):
        peer.session.publish_namespace(Namespace.of(bytes([65 + index])))
    net.settle()
    assert len(peer.take(RequestAccepted)) == 3
    assert len(peer.take(RequestRejected)) == 1


@both
def test_updates_count_too(draft: Draft) -> None:
    net = EdgeNet(settings=EdgeSettings(request_rate=1.0, request_burst=1))
    net.publisher(draft)
    peer = net.subscriber(draft)
    peer.session.update(peer.request, Parameters(forward=False))
    net.settle()
    assert peer.one(UpdateRejected).message.error_code == LOAD[draft]
    assert len(peer.take(PublishEnded)) == 1
    listener = net.announcer(draft)
    listener.session.update(listener.request, Parameters())
    net.settle()
    assert listener.one(UpdateRejected).message.error_code == LOAD[draft]
    # In draft 18 that is the end of a request about namespaces.
    assert len(net.relay.namespaces()) == (1 if draft is Draft.D16 else 0)


@both
def test_names_have_a_limit(draft: Draft) -> None:
    net = EdgeNet(settings=EdgeSettings(name_bytes=20))
    peer = net.subscriber(draft, FullTrackName(NAMESPACE, b"x" * 20))
    error = peer.one(RequestRejected).message
    assert error.error_code == LOAD[draft]
    assert error.retry_interval == 0


@both
def test_the_relay_has_as_many_subscriptions_as_it_can(draft: Draft) -> None:
    net = EdgeNet(settings=EdgeSettings(max_subscriptions=1))
    net.publisher(draft)
    net.subscriber(draft)
    second = net.subscriber(draft)
    assert second.one(RequestRejected).message.error_code == LOAD[draft]
    # What would be pushed counts too.
    watcher = net.connect(draft)
    if draft is Draft.D16:
        watcher.session.subscribe_namespace(NAMESPACE, SubscribeOptions.PUBLISH)
    else:
        watcher.session.subscribe_tracks(NAMESPACE)
    net.settle()
    assert watcher.take(RequestReceived) == []


def test_commands_to_who_is_gone_or_not_there_yet() -> None:
    net = EdgeNet()
    peer = net.connect(Draft.D18, settle=False)
    state = net.relay._state
    client = state.clients[peer.id]
    assert state.request(client, print, client.wire.track_status, TRACK) == RequestOutcome(None)
    net.settle()
    assert not state.command(client, client.wire.accept, 77)
    assert state.request(client, print, client.wire.update, 77, Parameters()) == RequestOutcome(
        None
    )
    net.lose(peer)
    assert not state.command(client, client.wire.close)
    assert net.relay.poll_dirty() == []


def test_how_much_may_wait() -> None:
    net = EdgeNet(settings=EdgeSettings(session_blocked=1))
    publisher = net.connect(Draft.D16, limits=SessionLimits(max_requests=1))
    publisher.session.publish_namespace(NAMESPACE)
    net.settle()
    for name in "abc":
        net.subscriber(Draft.D16, track_of(name))
    client = net.relay._state.clients[publisher.id]
    assert len(client.blocked) == 1
    assert len(client.feeds) == 2
    net.advance(30.0)
    assert publisher.take(RequestCancelled)
    assert client.feeds == {}


def test_the_network_has_no_rate_and_no_caps_of_a_session() -> None:
    net = EdgeNet(
        settings=EdgeSettings(request_burst=1, session_namespaces=1, name_bytes=4, max_namespaces=3)
    )
    network = Upstream(net)
    for index in range(4):
        network.session.publish_namespace(Namespace.of(b"long name", bytes([65 + index])))
    net.settle()
    assert len(network.take(RequestAccepted)) == 3
    # What the relay can hold in all is another matter.
    assert network.error() == RequestErrorCode.EXCESSIVE_LOAD
