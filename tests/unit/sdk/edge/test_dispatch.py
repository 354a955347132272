"""Events of a session: each finds the part that knows, and late ones do no harm."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from laps_sdk.edge.authorization import Action, Decision
from laps_sdk.edge.events import RequestDenied, SessionClosed, SessionLeaving, SessionOpened
from laps_sdk.edge.reports import PlaybackReports, ReportLimits
from laps_sdk.edge.settings import EdgeSettings
from laps_wire.moqt.codepoints import RequestErrorCode, SubscribeOptions
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
    UpdateAccepted,
    UpdateReceived,
    UpdateRejected,
)
from laps_wire.moqt.setup import SetupOptions
from laps_wire.moqt.structures import Location
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from laps_wire.reports import NAMESPACE as REPORT_SPACE
from testkit.edge_net import DRAFTS, NAMESPACE, TRACK, EdgeNet, RuleBook, track_of

both = pytest.mark.parametrize("draft", DRAFTS)
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
    assert len(net.relay._state.watches) == 1


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
