"""Authorization: every request is asked about, and what is allowed no longer ends."""

from __future__ import annotations

import pytest

from laps_relay.server.auth import TokenAuthorizer
from laps_sdk.edge.authorization import Action, Authorizer, Decision
from laps_sdk.edge.events import RequestDenied, SessionOpened
from laps_sdk.edge.reports import PlaybackReports, ReportLimits
from laps_sdk.edge.settings import EdgeSettings
from laps_sdk.edge.state import RequestOutcome
from laps_sdk.forwarding.interfaces import Subscription
from laps_wire.moqt.codepoints import (
    PUBLISH_DONE_CODES,
    RequestErrorCode,
    SessionCode,
    SubscribeOptions,
)
from laps_wire.moqt.messages import PublishOk, RequestOk, StandaloneFetch, SubscribeOk
from laps_wire.moqt.parameters import NO_PARAMETERS, Parameters
from laps_wire.moqt.session import (
    PublishEnded,
    RequestAccepted,
    RequestCancelled,
    RequestReceived,
    RequestRejected,
    SessionLimits,
    Terminated,
    UpdateAccepted,
    UpdateRejected,
)
from laps_wire.moqt.setup import SetupOptions
from laps_wire.moqt.structures import Location, Token
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from laps_wire.reports import NAMESPACE as REPORTS
from testkit.edge_net import DRAFTS, NAMESPACE, TRACK, EdgeNet, Peer, RuleBook, track_of
from testkit.upstream import Upstream

both = pytest.mark.parametrize("draft", DRAFTS)


NO = Decision(allowed=False, reason="not you", code=RequestErrorCode.UNAUTHORIZED)


EXPIRED = int(RequestErrorCode.EXPIRED_AUTH_TOKEN)


SOME = StandaloneFetch(TRACK, Location(0, 0), Location(1, 0))


def with_token(value: bytes) -> Parameters:
    return Parameters(authorization_tokens=(Token.use_value(1, value),))


def make_request(peer: Peer, action: Action, parameters: Parameters = NO_PARAMETERS) -> int:
    session = peer.session
    match action:
        case Action.PUBLISH_NAMESPACE:
            return session.publish_namespace(NAMESPACE, parameters)
        case Action.SUBSCRIBE_NAMESPACE:
            return session.subscribe_namespace(NAMESPACE, SubscribeOptions.NAMESPACE, parameters)
        case Action.SUBSCRIBE:
            return session.subscribe(TRACK, parameters)
        case Action.PUBLISH:
            return session.publish(TRACK, 5, parameters)
        case Action.FETCH:
            return session.fetch(SOME, parameters)
        case _:
            return session.track_status(TRACK, parameters)


REQUESTS = [
    Action.PUBLISH_NAMESPACE,
    Action.SUBSCRIBE_NAMESPACE,
    Action.SUBSCRIBE,
    Action.PUBLISH,
    Action.FETCH,
    Action.TRACK_STATUS,
]


# Asking


@both
@pytest.mark.parametrize("action", REQUESTS)
def test_every_request_is_asked_about(draft: Draft, action: Action) -> None:
    rules = RuleBook()
    rules.rules[action] = NO
    net = EdgeNet(authorizer=rules)
    peer = net.connect(draft)
    make_request(peer, action)
    net.settle()
    error = peer.one(RequestRejected).message
    assert (error.error_code, error.reason) == (RequestErrorCode.UNAUTHORIZED, "not you")
    name = None if "NAMESPACE" in action.name else b"report"
    assert rules.asked == [(Action.CLIENT_SETUP, None, None), (action, NAMESPACE, name)]
    assert len(net.found(RequestDenied)) == 1
    assert net.plane.tracks == {}


@both
def test_what_the_cache_has_is_asked_about(draft: Draft) -> None:
    rules = RuleBook()
    net = EdgeNet(authorizer=rules)
    net.publisher(draft)
    net.plane.covered.add(1)
    net.plane.largest_of[1] = Location(3, 0)
    rules.tokens[b"bad"] = NO
    peer = net.connect(draft)
    peer.session.fetch(SOME, with_token(b"bad"))
    net.settle()
    assert peer.one(RequestRejected).message.error_code == RequestErrorCode.UNAUTHORIZED
    assert net.plane.served == {}


@both
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (0, RequestErrorCode.UNAUTHORIZED),
        (0x777, RequestErrorCode.UNAUTHORIZED),
        (EXPIRED, RequestErrorCode.EXPIRED_AUTH_TOKEN),
        (int(RequestErrorCode.MALFORMED_AUTH_TOKEN), RequestErrorCode.MALFORMED_AUTH_TOKEN),
    ],
)
def test_the_code_of_a_denial(draft: Draft, code: int, expected: int) -> None:
    rules = RuleBook()
    rules.rules[Action.SUBSCRIBE] = Decision(allowed=False, code=code)
    net = EdgeNet(authorizer=rules)
    peer = net.subscriber(draft)
    assert peer.one(RequestRejected).message.error_code == expected


@both
@pytest.mark.parametrize(
    ("code", "closed"), [(0, SessionCode.UNAUTHORIZED), (EXPIRED, SessionCode.EXPIRED_AUTH_TOKEN)]
)
def test_a_session_that_may_not_be(draft: Draft, code: int, closed: int) -> None:
    rules = RuleBook()
    rules.rules[Action.CLIENT_SETUP] = Decision(allowed=False, reason="go away", code=code)
    net = EdgeNet(authorizer=rules)
    peer = net.connect(draft)
    assert peer.one(Terminated).code == closed
    assert peer.gone
    assert net.found(SessionOpened) == []


@both
def test_tokens_of_the_session(draft: Draft) -> None:
    rules = RuleBook()
    rules.tokens[b"good"] = Decision(allowed=True)
    rules.rules[Action.SUBSCRIBE] = NO
    net = EdgeNet(authorizer=rules)
    net.publisher(draft)
    options = SetupOptions(authorization_tokens=(Token.use_value(1, b"good"),))
    peer = net.connect(draft, options=options)
    peer.session.subscribe(TRACK)
    net.settle()
    assert isinstance(peer.one(RequestAccepted).message, SubscribeOk)


# Time


@both
def test_expiry_stops_delivery(draft: Draft) -> None:
    rules = RuleBook()
    net = EdgeNet(authorizer=rules)
    net.publisher(draft)
    rules.tokens[b"short"] = Decision(allowed=True, expires=net.now + 30)
    peer = net.subscriber(draft, TRACK, with_token(b"short"))
    ok = peer.one(RequestAccepted).message
    assert isinstance(ok, SubscribeOk)
    assert ok.parameters.expires == 30_000
    net.advance(29.9)
    assert peer.take(PublishEnded) == []
    net.advance(0.1)
    assert peer.one(PublishEnded).message.status_code == PUBLISH_DONE_CODES[draft].EXPIRED
    reset = 0x7 if draft is Draft.D18 else 0x1
    assert net.plane.resets == [(Subscription(peer.id, peer.request), reset)]


@both
def test_new_tokens_extend_a_subscription(draft: Draft) -> None:
    rules = RuleBook()
    net = EdgeNet(authorizer=rules)
    net.publisher(draft)
    rules.tokens[b"short"] = Decision(allowed=True, expires=net.now + 30)
    rules.tokens[b"long"] = Decision(allowed=True, expires=net.now + 90)
    peer = net.subscriber(draft, TRACK, with_token(b"short"))
    net.advance(20)
    peer.session.update(peer.request, with_token(b"long"))
    net.settle()
    assert peer.one(UpdateAccepted).message.parameters.expires == 70_000
    net.advance(69)
    assert peer.take(PublishEnded) == []
    net.advance(1)
    assert len(peer.take(PublishEnded)) == 1


@both
def test_a_grant_that_was_renewed_elsewhere_goes_on(draft: Draft) -> None:
    rules = RuleBook()
    net = EdgeNet(authorizer=rules)
    net.publisher(draft)
    rules.tokens[b"short"] = Decision(allowed=True, expires=net.now + 30)
    peer = net.subscriber(draft, TRACK, with_token(b"short"))
    rules.tokens[b"short"] = Decision(allowed=True, expires=None)
    net.advance(1000)
    assert peer.take(PublishEnded) == []
    assert net.relay.poll_timeout() is None


@both
def test_an_update_that_is_not_allowed(draft: Draft) -> None:
    rules = RuleBook()
    rules.rules[Action.REQUEST_UPDATE] = NO
    net = EdgeNet(authorizer=rules)
    publisher = net.publisher(draft)
    peer = net.subscriber(draft)
    peer.session.update(peer.request, Parameters(forward=False))
    net.settle()
    assert peer.one(UpdateRejected).message.error_code == RequestErrorCode.UNAUTHORIZED
    done = peer.one(PublishEnded).message
    assert done.status_code == PUBLISH_DONE_CODES[draft].UPDATE_FAILED
    publisher.session.update(publisher.request, Parameters(forward=True))
    net.settle()
    assert publisher.one(UpdateRejected).message.error_code == RequestErrorCode.UNAUTHORIZED
    assert net.plane.ingress == {}


@both
def test_new_tokens_that_do_not_cover_the_request(draft: Draft) -> None:
    rules = RuleBook()
    net = EdgeNet(authorizer=rules)
    net.publisher(draft)
    peer = net.subscriber(draft)
    rules.rules[Action.SUBSCRIBE] = NO
    peer.session.update(peer.request, with_token(b"other"))
    net.settle()
    assert peer.one(UpdateRejected).message.error_code == RequestErrorCode.UNAUTHORIZED
    assert len(peer.take(PublishEnded)) == 1


@both
def test_a_fetch_whose_update_is_not_allowed(draft: Draft) -> None:
    rules = RuleBook()
    rules.rules[Action.REQUEST_UPDATE] = NO
    net = EdgeNet(authorizer=rules)
    net.publisher(draft)
    net.plane.covered.add(1)
    net.plane.largest_of[1] = Location(3, 0)
    peer = net.connect(draft)
    request = peer.session.fetch(SOME)
    net.settle()
    peer.session.update(request, Parameters(subscriber_priority=1))
    net.settle()
    assert peer.one(UpdateRejected).message.error_code == RequestErrorCode.UNAUTHORIZED
    assert net.plane.cancelled == [(Subscription(peer.id, request), 0)]


# Keys that change


@both
def test_reauthorizing_ends_what_is_not_allowed_any_more(draft: Draft) -> None:
    rules = RuleBook()
    net = EdgeNet(authorizer=rules)
    publisher = net.publisher(draft)
    announcer = net.announcer(draft, Namespace.of(b"other"))
    subscriber = net.subscriber(draft)
    listener = net.connect(draft)
    listener.session.subscribe_namespace(Namespace())
    waiting = Parameters(rendezvous_timeout=9000 if draft is Draft.D18 else None)
    waiter = net.connect(draft)
    waiter.session.subscribe(TRACK.__class__(Namespace.of(b"none"), b"x"), waiting)
    net.plane.covered.add(1)
    net.plane.largest_of[1] = Location(3, 0)
    fetcher = net.connect(draft)
    fetcher.session.fetch(SOME)
    net.settle()
    for peer in (publisher, announcer, subscriber, listener, fetcher):
        assert len(peer.take(RequestAccepted)) == 1

    net.relay.reauthorize(net.now)
    net.settle()
    assert len(net.plane.egress) == 1

    for action in REQUESTS:
        rules.rules[action] = NO
    net.relay.reauthorize(net.now)
    net.settle()
    done = subscriber.one(PublishEnded).message
    assert done.status_code in (
        PUBLISH_DONE_CODES[draft].UNAUTHORIZED,
        PUBLISH_DONE_CODES[draft].INTERNAL_ERROR,
    )
    assert publisher.session.open_requests == ()
    assert announcer.session.open_requests == ()
    assert len(announcer.take(RequestCancelled)) == 1
    assert listener.session.open_requests == ()
    assert waiter.one(RequestRejected).message.error_code == RequestErrorCode.UNAUTHORIZED
    assert net.plane.egress == {}
    assert net.plane.ingress == {}
    assert net.plane.tracks == {}
    assert net.plane.cancelled
    assert len(net.relay.sessions()) == 6


@both
def test_a_subscriber_alone_is_not_allowed_any_more(draft: Draft) -> None:
    rules = RuleBook()
    net = EdgeNet(authorizer=rules)
    net.publisher(draft)
    subscriber = net.subscriber(draft)
    rules.rules[Action.SUBSCRIBE] = NO
    net.relay.reauthorize(net.now)
    net.settle()
    done = subscriber.one(PublishEnded).message
    assert done.status_code == PUBLISH_DONE_CODES[draft].UNAUTHORIZED


@both
def test_a_session_expires(draft: Draft) -> None:
    rules = RuleBook()
    net = EdgeNet(authorizer=rules)
    rules.rules[Action.CLIENT_SETUP] = Decision(allowed=True, expires=net.now + 5)
    peer = net.connect(draft)
    net.advance(5.0)
    assert peer.one(Terminated).code == SessionCode.EXPIRED_AUTH_TOKEN


@both
def test_a_publish_expires(draft: Draft) -> None:
    rules = RuleBook()
    net = EdgeNet(authorizer=rules)
    rules.tokens[b"short"] = Decision(allowed=True, expires=net.now + 30)
    publisher = net.publisher(draft, parameters=with_token(b"short"))
    message = publisher.one(RequestAccepted).message
    assert isinstance(message, PublishOk | RequestOk)
    assert message.parameters.expires == 30_000
    subscriber = net.subscriber(draft)
    net.advance(30.0)
    assert publisher.session.open_requests == ()
    done = subscriber.one(PublishEnded).message
    assert done.status_code == PUBLISH_DONE_CODES[draft].UNAUTHORIZED


@both
def test_what_is_pushed_expires_with_its_tokens(draft: Draft) -> None:
    rules = RuleBook()
    net = EdgeNet(authorizer=rules)
    net.publisher(draft)
    rules.tokens[b"short"] = Decision(allowed=True, expires=net.now + 30)
    peer = net.connect(draft)
    if draft is Draft.D16:
        peer.session.subscribe_namespace(NAMESPACE, SubscribeOptions.PUBLISH, with_token(b"short"))
    else:
        peer.session.subscribe_tracks(NAMESPACE, with_token(b"short"))
    net.settle()
    event = peer.one(RequestReceived)
    assert event.message.parameters.expires == 30_000
    peer.session.accept(event.request_id)
    net.settle()
    net.advance(30.0)
    assert net.plane.egress == {}
    assert peer.session.open_requests == ()


@both
def test_what_the_relay_asked_for_itself_needs_no_grant(draft: Draft) -> None:
    net = EdgeNet(authorizer=RuleBook())
    publisher = net.announcer(draft)
    peer = net.connect(draft)
    peer.session.fetch(SOME)
    peer.session.track_status(TRACK)
    peer.session.subscribe(TRACK)
    net.settle()
    net.relay.reauthorize(net.now)
    net.settle()
    assert len(publisher.take(RequestReceived)) == 3
    grants = net.relay._admission
    for record in list(net.relay._state.clients[publisher.id].requests.values()):
        grants.hold(record)
        if record.grant is None:
            assert grants.renew(net.now, record, 99, ())
    assert net.relay._state.clients[publisher.id].requests


@both
def test_an_answer_that_is_over_when_it_comes(draft: Draft) -> None:
    """An authorizer that allows what has expired is not believed."""
    rules = RuleBook()
    net = EdgeNet(authorizer=rules)
    rules.rules[Action.SUBSCRIBE] = Decision(allowed=True, expires=net.now)
    peer = net.subscriber(draft)
    assert peer.one(RequestRejected).message.error_code == EXPIRED


def test_our_own_network_is_trusted() -> None:
    book = RuleBook()
    book.rules = dict.fromkeys(Action, NO)
    net = EdgeNet(authorizer=book)
    network = Upstream(net)
    network.session.publish_namespace(NAMESPACE)
    net.settle()
    network.one(RequestAccepted)
    net.relay.reauthorize(net.now)
    net.settle()
    assert [row.namespace for row in net.relay.namespaces()] == [NAMESPACE]
    assert book.asked == []


@both
def test_policy_keeps_a_track_from_everybody_here_whoever_publishes_it(draft: Draft) -> None:
    net = EdgeNet(authorizer=RuleBook())
    denied: list[FullTrackName] = [TRACK]
    net.relay.set_policy(lambda name: "only in the US" if name in denied else None)
    publisher = net.publisher(draft)
    assert len(publisher.take(RequestAccepted)) == 1
    for action in (Action.SUBSCRIBE, Action.FETCH, Action.TRACK_STATUS):
        peer = net.connect(draft)
        make_request(peer, action)
        net.settle()
        error = peer.one(RequestRejected).message
        assert (error.error_code, error.reason) == (RequestErrorCode.UNAUTHORIZED, "only in the US")
    # A track that it would be pushed is not, and our own network is not asked: others decide there.
    watcher = net.connect(draft)
    network = Upstream(net)
    if draft is Draft.D18:
        watcher.session.subscribe_tracks(NAMESPACE)
    else:
        watcher.session.subscribe_namespace(NAMESPACE, SubscribeOptions.BOTH)
    network.session.subscribe(TRACK)
    net.settle()
    assert watcher.take(RequestReceived) == []
    assert isinstance(network.one(RequestAccepted).message, SubscribeOk)

    denied.clear()
    subscriber = net.subscriber(draft)
    assert len(subscriber.take(RequestAccepted)) == 1
    denied.append(TRACK)
    net.relay.reauthorize(net.now)
    net.settle()
    done = subscriber.one(PublishEnded).message
    assert done.status_code == PUBLISH_DONE_CODES[draft].UNAUTHORIZED
    assert done.reason == "only in the US"
    assert len(net.plane.egress) == 1


@both
def test_reports_end_with_their_grant(draft: Draft) -> None:
    book = RuleBook()
    net = EdgeNet(authorizer=book, desk=PlaybackReports(ReportLimits(enabled=True)))
    player = net.publisher(draft, FullTrackName(REPORTS, b"p"))
    book.rules[Action.PUBLISH] = NO
    net.relay.reauthorize(net.now)
    net.settle()
    assert net.plane.intakes == {}
    player.one(RequestCancelled)


# What the parts share: commands, caps, rates.


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


# The border with whoever decides about requests.


# For the type checker: this line fails if one side of the border moves alone.
AUTHORIZER: type[Authorizer] = TokenAuthorizer


def test_the_actions_are_numbered_as_in_the_draft() -> None:
    assert [action.name for action in sorted(Action)] == [
        "CLIENT_SETUP",
        "SERVER_SETUP",
        "PUBLISH_NAMESPACE",
        "SUBSCRIBE_NAMESPACE",
        "SUBSCRIBE",
        "REQUEST_UPDATE",
        "PUBLISH",
        "FETCH",
        "TRACK_STATUS",
    ]
    assert [int(action) for action in sorted(Action)] == list(range(9))


def test_a_denial_names_no_tenant() -> None:
    assert not Decision(allowed=False).tenant
