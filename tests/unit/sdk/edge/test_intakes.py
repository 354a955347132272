"""The reserved namespace: one track of reports for a session, taken by this relay alone."""

from __future__ import annotations

import pytest

from laps_sdk.edge.authorization import Action, Decision, Grant
from laps_sdk.edge.events import PublisherAdded, ReportsRefused, TrackAdded
from laps_sdk.edge.reports import PlaybackReports, ReportLimits
from laps_sdk.edge.settings import EdgeSettings
from laps_wire.moqt.codepoints import RequestErrorCode
from laps_wire.moqt.messages import Publish, StandaloneFetch
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.session import (
    RequestAccepted,
    RequestCancelled,
    RequestReceived,
    RequestRejected,
)
from laps_wire.moqt.structures import Location
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from laps_wire.reports import NAMESPACE, PlayerReport, encode_reports
from testkit.edge_net import DRAFTS, EdgeNet, Peer, RuleBook

PLAYER = FullTrackName(NAMESPACE, b"p")
SAID = encode_reports([PlayerReport(at_ms=1, session="s", state="p")])


def scene(
    *, enabled: bool = True, authorizer: RuleBook | None = None, **settings: int
) -> tuple[EdgeNet, PlaybackReports]:
    desk = PlaybackReports(ReportLimits(enabled=enabled))
    edge = EdgeSettings(**settings)  # type: ignore[arg-type]
    return EdgeNet(desk=desk, authorizer=authorizer, settings=edge), desk


def answer(peer: Peer) -> Parameters:
    return peer.one(RequestAccepted).message.parameters


def reason(peer: Peer) -> str:
    return peer.one(RequestRejected).message.reason


@pytest.mark.parametrize("draft", DRAFTS)
def test_a_player_publishes_and_this_relay_takes_it(draft: Draft) -> None:
    net, desk = scene()
    watcher = net.connect(draft)
    watcher.session.subscribe_namespace(Namespace.of(b"laps"))
    net.settle()
    player = net.publisher(draft, PLAYER)
    assert answer(player).forward in (None, True)
    assert net.plane.intakes == {(player.id, 5): desk}
    # It is no track: nobody is told of it, here or in the network.
    assert (net.plane.tracks, net.plane.ingress, net.relay.tracks()) == ({}, {}, [])
    assert not [e for e in net.log if isinstance(e, TrackAdded | PublisherAdded)]
    assert watcher.take(RequestReceived) == []
    assert net.relay.sessions()[1].publishes == 1
    net.plane.intakes[player.id, 5].take(net.now, player.id, SAID)
    (window,) = desk.take_windows(net.now)
    assert (window.session, window.state) == (player.id, "p")


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("enabled", [True, False])
def test_nothing_else_can_be_done_there(draft: Draft, enabled: bool) -> None:
    net, _ = scene(enabled=enabled)
    net.publisher(draft, PLAYER)
    other = net.connect(draft)
    other.session.subscribe(PLAYER)
    other.session.fetch(StandaloneFetch(PLAYER, Location(0, 0), Location(1, 0)))
    other.session.track_status(PLAYER)
    other.session.publish_namespace(NAMESPACE)
    other.session.subscribe_namespace(Namespace((*NAMESPACE.fields, b"deeper")))
    net.settle()
    told = other.take(RequestRejected)
    assert {each.message.reason for each in told} == {
        "this namespace is for the reports of players"
    }
    assert len(told) == 5


def test_a_relay_that_takes_none_refuses_them() -> None:
    net, _ = scene(enabled=False)
    player = net.publisher(Draft.D18, PLAYER)
    rejected = player.one(RequestRejected).message
    assert rejected.error_code == RequestErrorCode.NOT_SUPPORTED
    assert rejected.reason == "this relay takes no reports"
    assert net.plane.intakes == {}


def test_without_a_desk_nothing_is_reserved() -> None:
    net = EdgeNet()
    net.publisher(Draft.D18, PLAYER)
    assert list(net.plane.tracks.values()) == [PLAYER]
    net.relay.remove_session(net.now, 1)


def test_it_needs_the_grant_that_any_publish_needs() -> None:
    book = RuleBook()
    net, _ = scene(authorizer=book)
    book.rules[Action.PUBLISH] = Decision(allowed=False, reason="no token")
    player = net.publisher(Draft.D18, PLAYER)
    assert reason(player) == "no token"
    assert (Action.PUBLISH, NAMESPACE, b"p") in book.asked
    book.rules[Action.PUBLISH] = Decision(allowed=True, expires=net.now + 5)
    player = net.publisher(Draft.D18, PLAYER)
    assert answer(player).expires == 5000
    book.rules[Action.PUBLISH] = Decision(allowed=False, reason="too late")
    net.advance(6.0)
    player.one(RequestCancelled)
    assert net.plane.intakes == {}


@pytest.mark.parametrize("allowed", [True, False])
def test_an_update_is_judged(allowed: bool) -> None:
    book = RuleBook()
    net, _ = scene(authorizer=book)
    player = net.publisher(Draft.D18, PLAYER)
    book.rules[Action.REQUEST_UPDATE] = Decision(allowed=allowed, reason="not you")
    player.session.update(player.request, Parameters())
    net.settle()
    assert bool(net.plane.intakes) is allowed


def test_one_for_a_session_and_the_next_when_it_has_ended() -> None:
    net, desk = scene()
    player = net.publisher(Draft.D18, PLAYER)
    second = FullTrackName(NAMESPACE, b"q")
    player.session.publish(second, 6)
    net.settle()
    assert reason(player) == "a session has one track of reports"
    player.session.publish_done(player.request, 2, 1)
    net.settle()
    # Its last words may come behind its end.
    net.plane.intakes[player.id, 5].take(net.now, player.id, SAID)
    request = player.session.publish(second, 6)
    net.settle()
    assert list(net.plane.intakes) == [(player.id, 6)]
    (window,) = desk.take_windows(net.now)
    assert window.records == 1
    player.session.publish_done(request, 2, 0)
    net.settle()
    net.advance(10.0)
    assert net.plane.intakes == {}
    assert net.relay.sessions()[0].publishes == 0


def test_a_player_that_is_gone_before_the_answer() -> None:
    net, desk = scene()
    player = net.publisher(Draft.D18, FullTrackName(NAMESPACE, b"other"))
    player.session.publish_done(player.request, 2, 0)
    net.settle()
    net.advance(10.0)
    client = net.relay._state.clients[player.id]
    client.closed = True
    message = Publish(request_id=2, track=PLAYER, track_alias=6)
    grant = Grant(action=Action.PUBLISH, namespace=NAMESPACE, name=b"p", tokens=(), expires=None)
    net.relay._reports.publish_received(net.now, client, message, grant)
    assert net.plane.intakes == {}
    assert desk.open(net.now, player.id) is None


def test_caps_hold_for_it_too() -> None:
    net, _ = scene(session_publishes=0)
    player = net.publisher(Draft.D18, PLAYER)
    assert "a session may have 0 publishes" in reason(player)


@pytest.mark.parametrize("done", [True, False])
def test_a_session_that_goes_leaves_its_last_words(done: bool) -> None:
    net, desk = scene()
    player = net.publisher(Draft.D18, PLAYER)
    desk.take(net.now, player.id, SAID)
    if done:
        player.session.publish_done(player.request, 2, 1)
        net.settle()
    net.relay.remove_session(net.now, player.id)
    assert len(desk.take_windows(net.now)) == 1
    assert desk.open(net.now, player.id) is None
    net.advance(10.0)


def test_what_is_refused_is_an_event() -> None:
    net, desk = scene()
    player = net.publisher(Draft.D18, PLAYER)
    desk.take(net.now, player.id, b"?")
    desk.take(net.now, player.id, b"?")
    (event,) = net.relay.poll_events()
    assert event == ReportsRefused(player.id, "form", "not JSON: Expecting value (at byte 0)", 2)
