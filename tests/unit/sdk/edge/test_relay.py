"""The relay as a whole: publish, subscribe, leave; see the other files for its parts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from laps_sdk.edge.authorization import Action, Decision
from laps_sdk.edge.events import (
    NamespaceRow,
    ReportsRefused,
    RequestDenied,
    SessionClosed,
    SessionFaulted,
    SessionLeaving,
    SessionOpened,
    SessionRow,
    SubscriptionRow,
    TrackRow,
)
from laps_sdk.edge.reports import PlaybackReports, ReportLimits
from laps_sdk.edge.settings import EdgeSettings
from laps_sdk.forwarding.interfaces import (
    FetchEnded,
    RankChanged,
    SessionFault,
    Subscription,
    SubscriptionDone,
    TrackEnded,
    TrackMalformed,
    UpstreamEnded,
)
from laps_wire.errors import ProtocolViolation
from laps_wire.moqt.codepoints import RequestErrorCode, SessionCode, SubscribeOptions
from laps_wire.moqt.messages import (
    Fetch,
    FetchOk,
    Publish,
    PublishDone,
    RelativeJoiningFetch,
    RequestError,
    RequestOk,
    RequestUpdate,
    StandaloneFetch,
    Subscribe,
    SubscribeOk,
)
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.session import (
    GoawayReceived,
    PeerBlocked,
    PublishEnded,
    RequestAccepted,
    RequestCancelled,
    RequestReceived,
    RequestRefused,
    RequestRejected,
    RequestsAllowed,
    SessionLimits,
    Terminated,
    UpdateAccepted,
    UpdateReceived,
    UpdateRejected,
)
from laps_wire.moqt.setup import SetupOptions
from laps_wire.moqt.structures import Location, Token
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from laps_wire.reports import NAMESPACE as REPORT_SPACE
from laps_wire.reports import PlayerReport, encode_reports
from testkit.edge_net import DRAFTS, NAMESPACE, TRACK, EdgeNet, RuleBook, track_of
from testkit.upstream import Upstream

both = pytest.mark.parametrize("draft", DRAFTS)


pairs = pytest.mark.parametrize(("first", "second"), [(a, b) for a in DRAFTS for b in DRAFTS])


@both
def test_announce_then_subscribe(draft: Draft) -> None:
    net = EdgeNet()
    publisher, subscriber = net.connect(draft), net.connect(draft)
    publisher.session.publish_namespace(NAMESPACE)
    net.settle()
    assert isinstance(publisher.one(RequestAccepted).message, RequestOk)

    request = subscriber.session.subscribe(TRACK)
    net.settle()
    asked = publisher.one(RequestReceived)
    publisher.session.accept_subscribe(asked.request_id, 77)
    net.settle()

    ok = subscriber.one(RequestAccepted)
    assert ok.request_id == request
    assert isinstance(ok.message, SubscribeOk)
    assert net.plane.receivers(TRACK) == [subscriber.id]
    assert net.plane.publishers(TRACK) == [publisher.id]


@pairs
def test_publish_then_subscribe(first: Draft, second: Draft) -> None:
    net = EdgeNet()
    publisher, subscriber = net.connect(first), net.connect(second)
    published = publisher.session.publish(TRACK, 5)
    net.settle()
    assert publisher.one(RequestAccepted).request_id == published
    subscriber.session.subscribe(TRACK)
    net.settle()
    assert isinstance(subscriber.one(RequestAccepted).message, SubscribeOk)
    publisher.session.publish_done(published, 2, 0, "over")
    net.settle()
    net.advance(0.0)
    assert subscriber.one(PublishEnded).message.status_code == 2
    assert net.plane.egress == {}


def test_a_track_that_nobody_publishes() -> None:
    net = EdgeNet()
    subscriber = net.connect(Draft.D16)
    subscriber.session.subscribe(TRACK)
    net.settle()
    assert subscriber.take(RequestRejected) == []
    net.advance(1.0)
    error = subscriber.one(RequestRejected).message
    assert error.error_code == RequestErrorCode.DOES_NOT_EXIST


@both
def test_sessions_come_and_go(draft: Draft) -> None:
    net = EdgeNet()
    peer = net.connect(draft)
    assert [event.session for event in net.found(SessionOpened)] == [peer.id]
    assert net.relay.path_of(peer.id) == net.relay.sessions()[0].info.path
    named = net.connect(draft, options=SetupOptions(path="/moq?a=b"))
    assert net.relay.path_of(named.id) == "/moq?a=b"
    net.leave(named)
    net.leave(peer)
    assert [event.session for event in net.found(SessionClosed)] == [named.id, peer.id]
    assert net.relay.sessions() == []
    assert net.relay.path_of(peer.id) == ""
    assert net.plane.sessions == {}


# Sessions


@both
def test_too_many_sessions(draft: Draft) -> None:
    net = EdgeNet(settings=EdgeSettings(max_sessions=1))
    net.connect(draft)
    second = net.connect(draft)
    assert second.gone
    assert second.one(Terminated).code == SessionCode.INTERNAL_ERROR
    assert len(net.relay.sessions()) == 1


@both
def test_everything_of_a_session_ends_with_it(draft: Draft) -> None:
    net = EdgeNet()
    publisher = net.publisher(draft)
    peer = net.subscriber(draft)
    session = peer.session
    session.publish_namespace(NAMESPACE)
    session.subscribe_namespace(Namespace())
    session.publish(track_of("mine"), 9)
    session.fetch(StandaloneFetch(TRACK, Location(0, 0), Location(1, 0)))
    net.settle()
    # The relay asks it for something too; the first is the track that it receives itself.
    other = net.connect(draft)
    other.session.fetch(StandaloneFetch(track_of("a"), Location(0, 0), Location(1, 0)))
    other.session.track_status(track_of("b"))
    net.settle()
    assert len(peer.take(RequestReceived)) == 3
    net.lose(peer)
    net.relay.remove_session(net.now, peer.id)
    assert net.plane.receivers(TRACK) == []
    assert len(other.take(RequestRejected)) == 2
    assert [row.session for row in net.relay.sessions()] == [publisher.id, other.id]
    assert net.relay.namespaces() == []
    assert len(net.relay.tracks()) == 1


@both
def test_a_peer_that_breaks_the_protocol_on_a_data_stream(draft: Draft) -> None:
    net = EdgeNet()
    peer, other = net.publisher(draft), net.subscriber(draft)
    fault = SessionFault(peer.id, ProtocolViolation("a bad header"))
    net.notify(fault, fault, SessionFault(999, ProtocolViolation("nobody")))
    assert peer.one(Terminated).code == SessionCode.PROTOCOL_VIOLATION
    assert len(net.found(SessionFaulted)) >= 1
    assert not other.gone
    net.advance(EdgeSettings().publisher_grace)
    assert len(other.take(PublishEnded)) == 1


# Draining


@both
def test_draining(draft: Draft) -> None:
    net = EdgeNet(settings=EdgeSettings(goaway_timeout=4.0))
    stays, leaves = net.subscriber(draft), net.connect(draft)
    early = net.connect(draft, settle=False)
    net.relay.drain(net.now, "moqt://other.example")
    net.relay.drain(net.now, "moqt://other.example")
    net.settle()
    assert early.gone
    for peer in (stays, leaves):
        goaway = peer.one(GoawayReceived).message
        assert goaway.new_session_uri == "moqt://other.example"
        assert goaway.timeout == (4000 if draft is Draft.D18 else 0)
    assert all(row.leaving for row in net.relay.sessions())
    # Who comes now is told at once.
    late = net.connect(draft)
    assert len(late.take(GoawayReceived)) == 1
    net.leave(leaves)
    net.advance(4.0)
    assert stays.one(Terminated).code == SessionCode.GOAWAY_TIMEOUT
    assert net.relay.sessions() == []
    assert len(net.found(SessionLeaving)) == 3


@both
def test_each_session_may_get_an_address_of_its_own(draft: Draft) -> None:
    net = EdgeNet(settings=EdgeSettings(goaway_timeout=4.0))
    first, second = net.connect(draft), net.connect(draft)
    own = {row.session for row in net.relay.sessions()}
    net.relay.drain(
        net.now,
        "moqt://all.example",
        places=lambda session: "moqt://one.example" if session == min(own) else "",
    )
    net.settle()
    assert first.one(GoawayReceived).message.new_session_uri == "moqt://one.example"
    assert second.one(GoawayReceived).message.new_session_uri == "moqt://all.example"
    # It changed its mind: who comes now may stay.
    net.relay.resume()
    late = net.connect(draft)
    assert late.take(GoawayReceived) == []


@both
def test_a_drain_that_is_taken_back(draft: Draft) -> None:
    """Who has not left may stay and ask for more; GOAWAY is not said twice."""
    net = EdgeNet(settings=EdgeSettings(goaway_timeout=4.0))
    first, second = net.connect(draft), net.connect(draft)
    net.relay.drain(net.now, "")
    net.settle()
    net.leave(second)
    net.relay.resume(all_stay=True)
    net.advance(10.0)
    assert [row.leaving for row in net.relay.sessions()] == [False]
    assert len(first.take(GoawayReceived)) == 1
    publisher = net.connect(draft)
    publisher.session.publish_namespace(NAMESPACE)
    net.settle()
    request = RequestReceived(request_id=0, message=Subscribe(0, TRACK))
    net.relay.handle_session_event(net.now, first.id, request)
    assert len(net.relay.subscriptions()) == 1
    net.relay.drain(net.now, "")
    net.settle()
    assert first.take(GoawayReceived) == []
    assert [row.leaving for row in net.relay.sessions()] == [True, True]
    net.advance(4.0)
    assert first.one(Terminated).code == SessionCode.GOAWAY_TIMEOUT


@both
def test_some_sessions_are_sent_elsewhere(draft: Draft) -> None:
    net = EdgeNet(settings=EdgeSettings(goaway_timeout=4.0))
    goes, stays = net.connect(draft), net.connect(draft)
    places = {goes.id: "moqt://other.example", 99: "moqt://nobody.example"}
    assert net.relay.redirect(net.now, places) == 1
    assert net.relay.redirect(net.now, places) == 0  # it knows
    net.settle()
    assert goes.one(GoawayReceived).message.new_session_uri == "moqt://other.example"
    assert stays.take(GoawayReceived) == []
    assert net.connect(draft).take(GoawayReceived) == []
    net.advance(4.0)
    assert goes.one(Terminated).code == SessionCode.GOAWAY_TIMEOUT
    assert len(net.relay.sessions()) == 2


def test_new_requests_behind_goaway() -> None:
    net = EdgeNet()
    peer = net.connect(Draft.D16)
    peer.session.subscribe(TRACK)
    net.relay.drain(net.now, "")
    net.settle()
    assert peer.one(RequestRejected).message.error_code == RequestErrorCode.GOING_AWAY


# Orders


@both
def test_settings_can_change(draft: Draft) -> None:
    net = EdgeNet()
    net.publisher(draft)
    net.relay.set_settings(net.now, EdgeSettings(session_subscriptions=0))
    peer = net.subscriber(draft)
    assert len(peer.take(RequestRejected)) == 1


@both
def test_purging(draft: Draft) -> None:
    net = EdgeNet()
    publisher = net.publisher(draft)
    assert net.relay.purge() == 7
    assert net.relay.purge(TRACK) == 7
    assert net.relay.purge(track_of("unknown")) == 0
    net.plane.cached[1] = 1
    net.leave(publisher)
    assert net.relay.purge(TRACK) == 7
    assert net.plane.purged == [None, 1, 1]


@both
def test_rows_of_what_waits(draft: Draft) -> None:
    net = EdgeNet()
    waiting = Parameters(rendezvous_timeout=9000 if draft is Draft.D18 else None)
    net.subscriber(draft, TRACK, waiting)
    (row,) = net.relay.subscriptions()
    assert not row.established
    assert row.counters is None
    assert net.relay.tracks() == []


# Notices and timers


@both
def test_notices_about_what_is_gone(draft: Draft) -> None:
    net = EdgeNet()
    peer = net.publisher(draft)
    net.notify(
        TrackMalformed(9, peer.id, ""),
        TrackEnded(9, Location(0, 0)),
        SubscriptionDone(Subscription(peer.id, 99)),
        FetchEnded(Subscription(peer.id, 99), complete=True),
        UpstreamEnded(peer.id, 99, complete=True),
        RankChanged(9, 1),
    )
    assert not peer.gone


@both
def test_notices_about_what_is_there(draft: Draft) -> None:
    net = EdgeNet()
    publisher = net.publisher(draft)
    peer = net.subscriber(draft)
    net.notify(RankChanged(1, 4))
    assert net.relay.tracks()[0].rank == 4
    net.notify(TrackEnded(1, Location(3, 3)))
    net.advance(1.0)
    assert len(peer.take(PublishEnded)) == 1
    again = net.subscriber(draft)
    net.notify(SubscriptionDone(Subscription(again.id, again.request)))
    assert len(again.take(PublishEnded)) == 1
    request = again.session.fetch(StandaloneFetch(TRACK, Location(0, 0), Location(1, 0)))
    net.settle()
    asked = publisher.one(RequestReceived)
    publisher.session.accept_fetch(asked.request_id, Location(1, 0))
    net.settle()
    net.notify(
        UpstreamEnded(publisher.id, asked.request_id, complete=True),
        FetchEnded(Subscription(again.id, request), complete=True),
    )
    assert net.relay.sessions()[2].fetches == 0
    net.notify(TrackMalformed(1, publisher.id, "bad"))
    assert net.plane.ingress == {}


@both
def test_every_timer(draft: Draft) -> None:
    rules = RuleBook()
    net = EdgeNet(authorizer=rules)
    assert net.relay.poll_timeout() is None
    publisher = net.announcer(draft)
    net.subscriber(draft)
    peer = net.connect(draft)
    peer.session.track_status(track_of("a"))
    peer.session.fetch(StandaloneFetch(track_of("b"), Location(0, 0), Location(1, 0)))
    net.settle()
    net.advance(10.0)
    codes = {event.message.error_code for event in peer.take(RequestRejected)}
    assert codes == {RequestErrorCode.TIMEOUT}
    publisher.take(RequestReceived)
    rules.tokens[b"short"] = Decision(allowed=True, expires=net.now + 1)
    token = Parameters(authorization_tokens=(Token.use_value(1, b"short"),))
    second = net.subscriber(draft, TRACK, token)
    request = net.answer(publisher)
    net.advance(1.0)
    assert len(second.take(PublishEnded)) == 1
    net.plane.cached[net.plane.number(TRACK)] = 1
    # It lingers, then only its cache is left, then nothing.
    net.advance(5.0)
    assert publisher.session.request_state(request) is None
    assert len(net.plane.tracks) == 1
    net.advance(30.0)
    assert net.plane.tracks == {}
    assert net.relay.poll_timeout() is None


def test_tracks_are_read_in_parts() -> None:
    net = EdgeNet()
    net.publisher(Draft.D18)
    (number,) = net.relay.track_numbers()
    assert net.relay.tracks([number, number + 1]) == net.relay.tracks()
    assert net.relay.tracks([]) == []


def test_the_network_survives_a_bad_stream_and_a_drain() -> None:
    net = EdgeNet()
    network, peer = Upstream(net), net.connect(Draft.D18)
    assert net.plane.upstream == {network.id}
    net.notify(SessionFault(network.id, ProtocolViolation("somebody far away")))
    assert [event.session for event in net.found(SessionFaulted)] == [network.id]
    net.relay.drain(net.now, "")
    net.settle()
    peer.one(GoawayReceived)
    net.advance(60)
    assert peer.gone
    assert not network.gone
    assert not network.take(GoawayReceived)


def test_the_network_is_not_drained_before_its_setup() -> None:
    net = EdgeNet()
    network = Upstream(net, settle=False)
    net.relay.drain(net.now, "")
    net.settle()
    assert not network.gone


def test_what_a_bridge_asks() -> None:
    net = EdgeNet()
    assert net.relay.largest(TRACK) is None
    publisher = net.publisher(Draft.D18, parameters=Parameters(largest_object=Location(4, 2)))
    assert net.relay.largest(TRACK) == Location(4, 2)
    assert not net.relay.is_watched(NAMESPACE)
    publisher.session.subscribe_namespace(NAMESPACE)
    net.settle()
    assert not net.relay.is_watched(NAMESPACE)
    publisher.session.subscribe_tracks(Namespace(NAMESPACE.fields[:1]))
    net.settle()
    assert net.relay.is_watched(NAMESPACE)
    assert not net.relay.is_watched(Namespace.of(b"elsewhere"))


def test_tracks_of_the_network_are_shown_as_such() -> None:
    net = EdgeNet()
    network = Upstream(net)
    net.subscriber(Draft.D18)
    network.asked()
    network.accept()
    (row,) = net.relay.tracks()
    assert (row.network, row.publishers) == (True, (network.id,))
    (session, _) = net.relay.sessions()
    assert session.info.upstream


@pytest.mark.parametrize("done", [True, False])
def test_what_a_player_said_outlives_its_session(done: bool) -> None:
    desk = PlaybackReports(ReportLimits(enabled=True))
    net = EdgeNet(desk=desk)
    player = net.publisher(Draft.D18, REPORTS)
    desk.take(net.now, player.id, encode_reports([PlayerReport(at_ms=1, session="s")]))
    desk.take(net.now, player.id, b"?")
    assert [event.kind for event in net.relay.poll_events() if isinstance(event, ReportsRefused)]
    if done:
        player.session.publish_done(player.request, 2, 1)
        net.settle()
    net.relay.remove_session(net.now, player.id)
    assert len(desk.take_windows(net.now)) == 1
    net.relay.handle_timeout(net.now + 60)
    assert net.relay.poll_timeout() is None


# Events of a session: each finds the part that knows, and late ones do no harm.


REPORTS = FullTrackName(REPORT_SPACE, b"p")


@both
def test_setup(draft: Draft) -> None:
    net = EdgeNet()
    net.connect(draft, options=SetupOptions(moqt_implementation="test/1"))
    (opened,) = net.found(SessionOpened)
    assert opened.implementation == "test/1"
    assert opened.info.draft is draft


@both
def test_every_kind_of_request(draft: Draft) -> None:
    net = EdgeNet()
    publisher = net.publisher(draft)
    peer = net.connect(draft)
    session = peer.session
    requests = {
        session.subscribe(TRACK),
        session.track_status(TRACK),
        session.publish_namespace(NAMESPACE),
        session.subscribe_namespace(Namespace()),
        session.publish(track_of("other"), 4),
    }
    net.settle()
    assert {event.request_id for event in peer.take(RequestAccepted)} == requests
    fetched = session.fetch(StandaloneFetch(TRACK, Location(0, 0), Location(1, 0)))
    net.settle()
    asked = publisher.one(RequestReceived)
    assert isinstance(asked.message, Fetch)
    publisher.session.accept_fetch(asked.request_id, Location(1, 0))
    net.settle()
    assert peer.one(RequestAccepted).request_id == fetched
    # And each of them can end without a word.
    for request in session.open_requests:
        if request % 2 == 0 and request != fetched:
            try:
                session.cancel(request)
            except RuntimeError:
                session.publish_done(request, 2, 0, "")
    session.cancel(fetched)
    net.settle()
    net.advance(0.0)
    row = net.relay.sessions()[1]
    assert (row.subscriptions, row.publishes, row.namespaces, row.prefixes, row.fetches) == (
        0,
        0,
        0,
        0,
        0,
    )


def test_every_kind_of_end_in_draft_18() -> None:
    """A publisher resets the streams of requests that it got from the relay."""
    net = EdgeNet()
    publisher = net.announcer(Draft.D18)
    peer = net.subscriber(Draft.D18)
    peer.session.track_status(track_of("other"))
    peer.session.fetch(StandaloneFetch(TRACK, Location(0, 0), Location(1, 0)))
    net.settle()
    asked = publisher.take(RequestReceived)
    assert len(asked) == 3
    for event in asked:
        publisher.session.cancel(event.request_id)
    net.settle()
    assert len(peer.take(RequestRejected)) == 3
    assert net.plane.tracks == {}


@both
def test_answers_of_publishers_and_subscribers(draft: Draft) -> None:
    net = EdgeNet()
    publisher = net.announcer(draft)
    watcher = net.connect(draft)
    if draft is Draft.D16:
        watcher.session.subscribe_namespace(NAMESPACE, SubscribeOptions.PUBLISH)
    else:
        watcher.session.subscribe_tracks(NAMESPACE)
    peer = net.connect(draft)
    peer.session.track_status(TRACK)
    peer.session.fetch(StandaloneFetch(TRACK, Location(0, 0), Location(1, 0)))
    net.settle()
    for event in publisher.take(RequestReceived):
        publisher.session.reject(event.request_id, 0x10, "no")
    net.settle()
    assert len(peer.take(RequestRejected)) == 2
    peer.session.track_status(TRACK)
    net.settle()
    publisher.session.accept(publisher.one(RequestReceived).request_id)
    net.settle()
    assert isinstance(peer.one(RequestAccepted).message, RequestOk)
    peer.session.fetch(StandaloneFetch(TRACK, Location(0, 0), Location(1, 0)))
    net.settle()
    publisher.session.accept_fetch(publisher.one(RequestReceived).request_id, Location(1, 0))
    net.settle()
    assert isinstance(peer.one(RequestAccepted).message, FetchOk)
    subscriber = net.subscriber(draft)
    publisher.session.reject(publisher.one(RequestReceived).request_id, 0x10, "no")
    net.settle()
    assert len(subscriber.take(RequestRejected)) == 1
    subscriber.session.subscribe(TRACK)
    net.settle()
    net.answer(publisher)
    assert len(subscriber.take(RequestAccepted)) == 1
    net.publisher(draft, track_of("pushed"))
    offer = watcher.one(RequestReceived)
    assert isinstance(offer.message, Publish)
    watcher.session.reject(offer.request_id, RequestErrorCode.UNINTERESTED)
    net.settle()
    net.publisher(draft, track_of("pushed too"))
    offer = watcher.one(RequestReceived)
    watcher.session.accept(offer.request_id)
    net.settle()
    assert net.plane.receivers(track_of("pushed too")) == [watcher.id]


@both
def test_updates_of_every_kind(draft: Draft) -> None:
    net = EdgeNet()
    publisher = net.publisher(draft)
    publisher.session.update(publisher.request, Parameters(forward=True))
    namespace = publisher.session.publish_namespace(NAMESPACE)
    prefix = publisher.session.subscribe_namespace(Namespace())
    net.settle()
    publisher.session.update(namespace, Parameters())
    publisher.session.update(prefix, Parameters())
    net.settle()
    assert len(publisher.take(UpdateAccepted)) == 3


@both
def test_a_fetch_may_not_be_updated_too_often(draft: Draft) -> None:
    net = EdgeNet(settings=EdgeSettings(request_rate=1.0, request_burst=1))
    net.publisher(draft)
    net.plane.covered.add(1)
    net.plane.largest_of[1] = Location(2, 0)
    peer = net.connect(draft)
    request = peer.session.fetch(StandaloneFetch(TRACK, Location(0, 0), Location(1, 0)))
    net.settle()
    peer.session.update(request, Parameters(subscriber_priority=2))
    net.settle()
    assert len(peer.take(UpdateRejected)) == 1


def test_what_comes_late_does_no_harm() -> None:
    net = EdgeNet()
    peer = net.connect(Draft.D18)
    relay, now = net.relay, net.now
    for event in (
        PublishEnded(request_id=9, message=PublishDone(None, 2, 0)),
        RequestCancelled(request_id=9),
        RequestAccepted(request_id=9, message=RequestOk()),
        RequestRejected(request_id=9, message=RequestError(None, 0)),
        UpdateReceived(request_id=9, update_id=11, message=RequestUpdate(11)),
        UpdateRejected(request_id=9, update_id=11, message=RequestError(None, 0)),
        PeerBlocked(max_request_id=4),
        RequestReceived(request_id=0, message=Fetch(0, RelativeJoiningFetch(44, 1))),
        RequestReceived(request_id=2, message=Subscribe(2, TRACK)),
    ):
        relay.handle_session_event(now, peer.id, event)
        relay.handle_session_event(now, 999, event)
    net.settle()
    assert relay.subscriptions() == []
    assert not peer.gone


@both
def test_a_request_that_the_session_refuses_is_told(draft: Draft) -> None:
    net = EdgeNet()
    peer = net.connect(draft)
    peer.session.subscribe_namespace(NAMESPACE)
    peer.session.subscribe_namespace(Namespace())
    net.settle()
    (denied,) = net.found(RequestDenied)
    assert denied.code == RequestErrorCode.PREFIX_OVERLAP


def test_an_update_that_the_session_refuses_ends_the_request() -> None:
    net = EdgeNet()
    peer = net.connect(Draft.D18)
    peer.session.subscribe_namespace(Namespace.of(b"a"))
    second = peer.session.subscribe_namespace(Namespace.of(b"b"))
    net.settle()
    overlap = Parameters(track_namespace_prefix=Namespace.of(b"a", b"c"))
    peer.session.update(second, overlap)
    net.settle()
    assert len(peer.take(UpdateRejected)) == 1
    assert [row.prefixes for row in net.relay.sessions()] == [1]


@both
def test_a_token_that_cannot_be_read_ends_a_subscription(draft: Draft) -> None:
    net = EdgeNet()
    publisher = net.publisher(draft)
    peer = net.subscriber(draft)
    listener = net.announcer(draft)
    for client, request in ((peer, peer.request), (publisher, publisher.request)):
        refused = RequestRefused(
            request_id=request, message=RequestUpdate(99), error_code=4, reason="bad token"
        )
        net.relay.handle_session_event(net.now, client.id, refused)
    refused = RequestRefused(
        request_id=listener.request, message=RequestUpdate(99), error_code=4, reason="bad token"
    )
    net.relay.handle_session_event(net.now, listener.id, refused)
    net.settle()
    assert len(peer.take(PublishEnded)) == 1
    assert net.plane.ingress == {}
    assert len(net.relay.namespaces()) == 1


@both
def test_goaway_of_a_client(draft: Draft) -> None:
    net = EdgeNet()
    publisher = net.announcer(draft)
    publisher.session.goaway()
    net.settle()
    assert net.found(SessionLeaving)[0].by_peer
    assert net.relay.sessions()[0].leaving
    peer = net.subscriber(draft)
    net.advance(1.0)
    # It is not asked for anything any more.
    assert publisher.take(RequestReceived) == []
    assert len(peer.take(RequestRejected)) == 1


@both
def test_nothing_reaches_a_session_that_is_closed(draft: Draft) -> None:
    net = EdgeNet()
    peer = net.connect(draft)
    net.relay._state.clients[peer.id].closed = True
    peer.session.subscribe(TRACK)
    net.settle()
    assert net.relay.subscriptions() == []
    net.leave(peer)
    assert len(net.found(SessionClosed)) == 1


def test_more_requests_are_allowed() -> None:
    net = EdgeNet()
    publisher = net.connect(Draft.D16, limits=SessionLimits(max_requests=1))
    publisher.session.publish_namespace(NAMESPACE)
    net.settle()
    for name in "abc":
        net.subscriber(Draft.D16, track_of(name))
    answered = 0
    while asked := publisher.take(RequestReceived):
        assert len(asked) == 1
        publisher.session.reject(asked[0].request_id, 0x10, "no")
        net.settle()
        answered += 1
    assert answered == 3


def test_who_allows_one_request_at_a_time_gets_one_tried() -> None:
    """Each MAX_REQUEST_ID would try all that wait, and turn their order around."""
    net = EdgeNet()
    peer = net.connect(Draft.D16)
    client = net.relay._state.clients[peer.id]
    tried: list[int] = []
    allowed = 0

    def request(number: int) -> Callable[[float], None]:
        def retry(_: float) -> None:
            tried.append(number)
            if number >= allowed:
                client.blocked.append(request(number))

        return retry

    client.blocked.extend(request(number) for number in range(1000))
    for allowed in (2, 4):
        event = RequestsAllowed(max_request_id=allowed)
        net.relay.handle_session_event(net.now, peer.id, event)
    assert tried == [0, 1, 2, 2, 3, 4]
    assert len(client.blocked) == 996


def test_a_track_status_cannot_be_updated() -> None:
    net = EdgeNet()
    peer = net.connect(Draft.D18)
    event = UpdateReceived(request_id=0, update_id=2, message=RequestUpdate(2))
    net.relay.handle_session_event(net.now, peer.id, event)
    assert not peer.gone


# Draining and load


@both
def test_who_may_stay_after_goaway_is_not_told_again(draft: Draft) -> None:
    net = EdgeNet()
    peer = net.connect(draft)
    relay = net.relay
    relay.resume(all_stay=True)  # nobody has sent it away
    places = {peer.id: "moqt://other.example"}
    assert relay.redirect(net.now, places) == 1
    assert relay.redirect(net.now, places) == 0
    relay.resume(all_stay=True)
    net.settle()
    net.advance(60.0)
    assert not peer.gone
    relay.drain(net.now)
    net.settle()
    (told,) = peer.take(GoawayReceived)
    assert told.message.new_session_uri == "moqt://other.example"
    net.advance(60.0)
    assert peer.gone


@both
def test_goaway_to_everybody_and_to_who_comes_later(draft: Draft) -> None:
    net = EdgeNet()
    peer = net.connect(draft)
    net.relay.drain(net.now, "")
    net.relay.drain(net.now, "")
    net.settle()
    late = net.connect(draft)
    for client in (peer, late):
        assert len(client.take(GoawayReceived)) == 1
    # What was under way when GOAWAY was sent.
    event = RequestReceived(request_id=0, message=Subscribe(0, TRACK))
    net.relay.handle_session_event(net.now, peer.id, event)
    assert net.relay.subscriptions() == []


@both
def test_too_many_requests(draft: Draft) -> None:
    net = EdgeNet(settings=EdgeSettings(request_rate=1.0, request_burst=1))
    peer = net.announcer(draft)
    peer.session.track_status(TRACK)
    peer.session.update(peer.request, Parameters())
    net.settle()
    assert peer.one(RequestRejected).message.retry_interval > 0
    assert len(peer.take(UpdateRejected)) == 1
    assert len(net.relay.namespaces()) == (1 if draft is Draft.D16 else 0)


@both
def test_a_request_that_is_not_allowed(draft: Draft) -> None:
    rules = RuleBook()
    rules.rules[Action.SUBSCRIBE] = Decision(allowed=False)
    rules.rules[Action.REQUEST_UPDATE] = Decision(allowed=False)
    net = EdgeNet(authorizer=rules)
    publisher = net.publisher(draft)
    peer = net.subscriber(draft)
    assert len(peer.take(RequestRejected)) == 1
    publisher.session.update(publisher.request, Parameters())
    net.settle()
    assert net.plane.ingress == {}
    rules.rules[Action.CLIENT_SETUP] = Decision(allowed=False)
    assert net.connect(draft).gone


@both
def test_a_fetch_joins_a_subscription(draft: Draft) -> None:
    net = EdgeNet()
    net.publisher(draft, parameters=Parameters(largest_object=Location(3, 0)))
    net.plane.covered.add(1)
    peer = net.subscriber(draft)
    peer.session.fetch(RelativeJoiningFetch(peer.request, 0))
    net.settle()
    assert len(net.plane.served) == 1


@both
def test_a_subscriber_refuses_an_update(draft: Draft) -> None:
    net = EdgeNet()
    net.publisher(draft)
    peer = net.subscriber(draft)
    event = UpdateRejected(
        request_id=peer.request, update_id=9, message=RequestError(None, 0, 0, "no")
    )
    net.relay.handle_session_event(net.now, peer.id, event)
    net.settle()
    assert len(peer.take(PublishEnded)) == 1


# Reports of players


def reporting(*, authorizer: RuleBook | None = None) -> tuple[EdgeNet, PlaybackReports]:
    desk = PlaybackReports(ReportLimits(enabled=True))
    return EdgeNet(desk=desk, authorizer=authorizer), desk


def test_reports_find_their_part() -> None:
    book = RuleBook()
    net, _ = reporting(authorizer=book)
    player = net.publisher(Draft.D18, REPORTS)
    player.session.update(player.request, Parameters())
    player.session.subscribe(REPORTS)
    net.settle()
    player.one(UpdateAccepted)
    player.one(RequestRejected)
    player.session.publish_done(player.request, 2, 0)
    net.settle()
    net.advance(10.0)
    assert net.plane.intakes == {}
    book.rules[Action.REQUEST_UPDATE] = Decision(allowed=False, reason="no")
    other = net.publisher(Draft.D16, REPORTS)
    other.session.update(other.request, Parameters())
    net.settle()
    assert net.plane.intakes == {}


def test_a_player_that_takes_its_request_back() -> None:
    net, desk = reporting()
    player = net.publisher(Draft.D18, REPORTS)
    over = RequestCancelled(request_id=player.request)
    net.relay.handle_session_event(net.now, player.id, over)
    assert net.plane.intakes == {}
    assert desk.open(net.now, player.id) is None


# Rows for the admin: they show the tables, and stay as they were.


@both
def test_rows(draft: Draft) -> None:
    rules = RuleBook()
    net = EdgeNet(authorizer=rules)
    rules.tokens[b"short"] = Decision(allowed=True, expires=150.0)
    token = Parameters(authorization_tokens=(Token.use_value(1, b"short"),))
    publisher = net.publisher(draft, parameters=Parameters(largest_object=Location(1, 2)))
    publisher.session.publish_namespace(NAMESPACE, token)
    subscriber = net.subscriber(draft, TRACK, token)
    net.plane.streams.clear()

    sessions = net.relay.sessions()
    assert sessions[0] == SessionRow(
        session=publisher.id,
        info=publisher.info,
        opened=100.0,
        ready=True,
        leaving=False,
        subscriptions=0,
        publishes=1,
        namespaces=1,
        prefixes=0,
        fetches=0,
        offers=0,
    )
    assert sessions[1].subscriptions == 1
    assert net.relay.tracks() == [
        TrackRow(
            track=TRACK,
            number=1,
            live=True,
            publishers=(publisher.id,),
            subscribers=1,
            waiting=0,
            largest=Location(1, 2),
            rank=None,
            counters=net.plane.track_counters(1),
        )
    ]
    (row,) = net.relay.subscriptions()
    assert row == SubscriptionRow(
        session=subscriber.id,
        request_id=subscriber.request,
        track=TRACK,
        pushed=False,
        established=True,
        forward=True,
        priority=128,
        expires=150.0,
        counters=row.counters,
    )
    assert net.relay.namespaces() == [
        NamespaceRow(namespace=NAMESPACE, session=publisher.id, expires=150.0)
    ]
    net.leave(subscriber)
    assert row.established
