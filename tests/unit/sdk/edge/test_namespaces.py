"""Namespaces, prefixes, pushed tracks and Top-N."""

from __future__ import annotations

import pytest

from laps_sdk.edge.authorization import Action, Decision
from laps_sdk.edge.events import NamespaceAdded, NamespaceGone, PrefixAdded, PrefixGone
from laps_sdk.edge.settings import EdgeSettings
from laps_sdk.forwarding.interfaces import RankChanged
from laps_wire.moqt.codepoints import RequestErrorCode, SubscribeOptions
from laps_wire.moqt.keyvalue import KeyValue
from laps_wire.moqt.messages import Publish, PublishNamespace, SubscribeTracks
from laps_wire.moqt.parameters import NO_PARAMETERS, Parameters
from laps_wire.moqt.session import (
    NamespaceAdvertised,
    NamespaceWithdrawn,
    PublishEnded,
    RequestAccepted,
    RequestReceived,
    RequestRejected,
    SessionLimits,
    TrackBlocked,
    UpdateAccepted,
    UpdateRejected,
)
from laps_wire.moqt.setup import SetupOptions
from laps_wire.moqt.structures import Location, Token
from laps_wire.moqt.top_n import (
    RANK_PROPERTY,
    TOP_N_EXTENSIONS,
    TOP_N_PARAMETER,
    top_n_options,
)
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from testkit.edge_net import DRAFTS, NAMESPACE, TRACK, EdgeNet, Peer, RuleBook, track_of

both = pytest.mark.parametrize("draft", DRAFTS)
pairs = pytest.mark.parametrize(("first", "second"), [(a, b) for a in DRAFTS for b in DRAFTS])

EVERYTHING = Namespace()
LOAD = {Draft.D16: RequestErrorCode.INTERNAL_ERROR, Draft.D18: RequestErrorCode.EXCESSIVE_LOAD}


def prefixes(net: EdgeNet) -> int:
    return sum(row.prefixes for row in net.relay.sessions())


def listen(net: EdgeNet, draft: Draft, prefix: Namespace = EVERYTHING) -> Peer:
    """A client that hears of namespaces."""
    peer = net.connect(draft)
    peer.request = peer.session.subscribe_namespace(prefix)
    net.settle()
    return peer


def watch(
    net: EdgeNet,
    draft: Draft,
    prefix: Namespace = NAMESPACE,
    *,
    peer: Peer | None = None,
    parameters: Parameters = NO_PARAMETERS,
) -> Peer:
    """A client that gets what is published."""
    peer = peer or net.connect(draft)
    if draft is Draft.D16:
        peer.request = peer.session.subscribe_namespace(
            prefix, SubscribeOptions.PUBLISH, parameters
        )
    else:
        peer.request = peer.session.subscribe_tracks(prefix, parameters)
    net.settle()
    return peer


def offered(peer: Peer) -> list[FullTrackName]:
    """The tracks that were PUBLISHed to a client since the last call."""
    found = []
    for event in peer.take(RequestReceived):
        assert isinstance(event.message, Publish)
        found.append(event.message.track)
    return found


def take_all(net: EdgeNet, peer: Peer) -> list[FullTrackName]:
    """Accept what was PUBLISHed."""
    found = []
    for event in peer.take(RequestReceived):
        assert isinstance(event.message, Publish)
        found.append(event.message.track)
        peer.session.accept(event.request_id)
    net.settle()
    return found


# Namespaces


@pairs
def test_namespaces_are_told_and_taken_back(first: Draft, second: Draft) -> None:
    net = EdgeNet()
    early = listen(net, second)
    publisher = net.announcer(first)
    late = listen(net, second, Namespace.of(b"example.net"))
    other = listen(net, second, Namespace.of(b"example.org"))
    for peer in (early, late):
        assert peer.one(NamespaceAdvertised).namespace == NAMESPACE
    again = net.announcer(first)
    assert early.take(NamespaceAdvertised) == []
    publisher.session.cancel(publisher.request)
    net.settle()
    assert early.take(NamespaceWithdrawn) == []
    net.leave(again)
    for peer in (early, late):
        assert peer.one(NamespaceWithdrawn).namespace == NAMESPACE
    assert other.take(NamespaceAdvertised) == []
    assert len(net.found(NamespaceAdded)) == len(net.found(NamespaceGone)) == 2


@both
def test_a_publisher_hears_of_its_own_namespace(draft: Draft) -> None:
    net = EdgeNet()
    peer = listen(net, draft)
    peer.session.publish_namespace(NAMESPACE)
    net.settle()
    assert peer.one(NamespaceAdvertised).namespace == NAMESPACE


@both
def test_a_listener_that_stops(draft: Draft) -> None:
    net = EdgeNet()
    peer = listen(net, draft)
    peer.session.cancel(peer.request)
    net.settle()
    net.announcer(draft)
    assert peer.take(NamespaceAdvertised) == []
    assert len(net.found(PrefixGone)) == 1
    assert prefixes(net) == 0


def test_draft_16_can_ask_for_both() -> None:
    net = EdgeNet()
    peer = net.connect(Draft.D16)
    peer.session.subscribe_namespace(EVERYTHING, SubscribeOptions.BOTH)
    net.settle()
    net.announcer(Draft.D16)
    net.publisher(Draft.D16)
    assert peer.one(NamespaceAdvertised).namespace == NAMESPACE
    assert offered(peer) == [TRACK]
    assert net.found(PrefixAdded)[0].tracks


@both
def test_caps(draft: Draft) -> None:
    net = EdgeNet(settings=EdgeSettings(session_namespaces=1, session_prefixes=1))
    peer = net.announcer(draft)
    peer.session.publish_namespace(Namespace.of(b"more"))
    net.settle()
    assert peer.one(RequestRejected).message.error_code == LOAD[draft]
    peer.session.subscribe_namespace(Namespace.of(b"a"))
    peer.session.subscribe_namespace(Namespace.of(b"b"))
    net.settle()
    assert peer.one(RequestRejected).message.error_code == LOAD[draft]


@both
def test_all_namespaces_of_the_relay(draft: Draft) -> None:
    net = EdgeNet(settings=EdgeSettings(max_namespaces=1))
    net.announcer(draft)
    second = net.announcer(draft, Namespace.of(b"more"))
    assert second.one(RequestRejected).message.error_code == LOAD[draft]


@both
def test_a_prefix_that_matches_too_much(draft: Draft) -> None:
    net = EdgeNet(settings=EdgeSettings(max_enumerated=1))
    net.announcer(draft, Namespace.of(b"a"))
    assert listen(net, draft).take(RequestRejected) == []
    net.announcer(draft, Namespace.of(b"b"))
    expected = {
        Draft.D16: RequestErrorCode.INTERNAL_ERROR,
        Draft.D18: RequestErrorCode.NAMESPACE_TOO_LARGE,
    }
    assert listen(net, draft).one(RequestRejected).message.error_code == expected[draft]
    net.publisher(draft, track_of("a"))
    net.publisher(draft, track_of("b"))
    assert watch(net, draft).one(RequestRejected).message.error_code == expected[draft]


def test_a_new_prefix() -> None:
    net = EdgeNet()
    peer = listen(net, Draft.D18, Namespace.of(b"example.net"))
    net.announcer(Draft.D18)
    net.announcer(Draft.D18, Namespace.of(b"example.org"))
    assert peer.one(NamespaceAdvertised).namespace == NAMESPACE
    peer.session.update(
        peer.request, Parameters(track_namespace_prefix=Namespace.of(b"example.org"))
    )
    net.settle()
    assert len(peer.take(UpdateAccepted)) == 1
    assert peer.one(NamespaceAdvertised).namespace == Namespace.of(b"example.org")
    assert peer.one(NamespaceWithdrawn).namespace == NAMESPACE
    net.announcer(Draft.D18, Namespace.of(b"example.net", b"new"))
    assert peer.take(NamespaceAdvertised) == []


@both
def test_updates_with_tokens(draft: Draft) -> None:
    rules = RuleBook()
    net = EdgeNet(authorizer=rules)
    publisher = net.announcer(draft)
    peer = listen(net, draft)
    fresh = Parameters(authorization_tokens=(Token.use_value(1, b"fresh"),))
    publisher.session.update(publisher.request, fresh)
    peer.session.update(peer.request, fresh)
    net.settle()
    for client in (publisher, peer):
        assert len(client.take(UpdateAccepted)) == 1
    rules.tokens[b"bad"] = Decision(allowed=False, code=RequestErrorCode.UNAUTHORIZED)
    bad = Parameters(authorization_tokens=(Token.use_value(1, b"bad"),))
    publisher.session.update(publisher.request, bad)
    peer.session.update(peer.request, bad)
    net.settle()
    for client in (publisher, peer):
        assert client.one(UpdateRejected).message.error_code == RequestErrorCode.UNAUTHORIZED
    # In draft 18 that is the end of the request.
    left = 1 if draft is Draft.D16 else 0
    assert len(net.relay.namespaces()) == prefixes(net) == left


def test_a_new_prefix_must_be_allowed() -> None:
    rules = RuleBook()
    net = EdgeNet(authorizer=rules)
    peer = listen(net, Draft.D18, Namespace.of(b"a"))
    rules.rules[Action.SUBSCRIBE_NAMESPACE] = Decision(allowed=False, reason="no")
    peer.session.update(peer.request, Parameters(track_namespace_prefix=Namespace.of(b"b")))
    net.settle()
    assert peer.one(UpdateRejected).message.error_code == RequestErrorCode.UNAUTHORIZED
    assert prefixes(net) == 0


# Pushed tracks


@pairs
def test_tracks_are_pushed(first: Draft, second: Draft) -> None:
    net = EdgeNet()
    properties = (KeyValue(0x1235, b"unknown"),)
    net.publisher(first, properties=properties)
    peer = watch(net, second)
    (event,) = peer.take(RequestReceived)
    assert isinstance(event.message, Publish)
    assert event.message.track == TRACK
    assert event.message.track_properties == properties
    peer.session.accept(event.request_id)
    net.settle()
    assert net.plane.receivers(TRACK) == [peer.id]
    net.publisher(first, track_of("new", b"deeper"))
    net.publisher(first, FullTrackName(Namespace.of(b"example.org"), b"other"))
    assert offered(peer) == [track_of("new", b"deeper")]


@both
def test_forward_state_of_what_is_pushed(draft: Draft) -> None:
    net = EdgeNet()
    peer = watch(net, draft, parameters=Parameters(forward=False))
    net.publisher(draft)
    (event,) = peer.take(RequestReceived)
    assert event.message.parameters.forward is False
    peer.session.accept(event.request_id)
    net.settle()
    assert [entry.forward for entry in net.plane.egress.values()] == [False]


@both
def test_what_is_only_announced_is_not_pushed(draft: Draft) -> None:
    net = EdgeNet()
    peer = watch(net, draft)
    publisher = net.announcer(draft)
    net.subscriber(draft)
    net.answer(publisher)
    assert offered(peer) == []


@both
def test_a_session_never_gets_its_own(draft: Draft) -> None:
    net = EdgeNet()
    peer = net.publisher(draft)
    watch(net, draft, peer=peer)
    assert offered(peer) == []
    # Another publisher of the same track does not change that.
    other = net.publisher(draft)
    assert offered(peer) == []
    # But when it does not publish it any more, it may want it from the other.
    publish = next(
        request
        for request in peer.session.open_requests
        if peer.session.request_kind(request) is not None and request != peer.request
    )
    peer.session.publish_done(publish, 2, 0, "")
    net.settle()
    net.advance(0.0)
    assert offered(peer) == [TRACK]
    assert other.id in net.plane.publishers(TRACK)


@both
def test_who_publishes_what_was_pushed_gets_it_no_longer(draft: Draft) -> None:
    net = EdgeNet()
    peer = watch(net, draft)
    net.publisher(draft)
    take_all(net, peer)
    peer.session.publish(TRACK, 5)
    net.settle()
    assert len(peer.take(PublishEnded)) == 1
    assert net.plane.receivers(TRACK) == []


@both
def test_who_subscribed_is_not_pushed_to(draft: Draft) -> None:
    net = EdgeNet()
    waiting = Parameters(rendezvous_timeout=9000 if draft is Draft.D18 else None)
    peer = net.subscriber(draft, TRACK, waiting)
    watch(net, draft, peer=peer)
    net.publisher(draft)
    assert offered(peer) == []
    assert net.plane.receivers(TRACK) == [peer.id]


@both
def test_each_track_must_be_allowed(draft: Draft) -> None:
    rules = RuleBook()
    rules.rules[Action.SUBSCRIBE] = Decision(allowed=False)
    net = EdgeNet(authorizer=rules)
    net.publisher(draft)
    peer = watch(net, draft)
    assert peer.take(RequestRejected) == []
    assert offered(peer) == []


@both
def test_pushed_tracks_outlive_their_prefix(draft: Draft) -> None:
    net = EdgeNet()
    peer = watch(net, draft)
    net.publisher(draft)
    take_all(net, peer)
    peer.session.cancel(peer.request)
    net.settle()
    assert net.plane.receivers(TRACK) == [peer.id]
    net.publisher(draft, track_of("new"))
    assert offered(peer) == []


def test_too_much_to_push() -> None:
    net = EdgeNet(settings=EdgeSettings(session_offers=1))
    peer = watch(net, Draft.D18)
    older = watch(net, Draft.D16)
    net.publisher(Draft.D18, track_of("one"))
    net.publisher(Draft.D18, track_of("two"))
    assert offered(peer) == offered(older) == [track_of("one")]
    assert peer.one(TrackBlocked).track == track_of("two")
    # It was told once, and is not pushed any more.
    net.publisher(Draft.D18, track_of("two"))
    assert peer.take(TrackBlocked) == []


def test_a_publish_that_must_wait_is_sent_later() -> None:
    net = EdgeNet()
    peer = net.connect(Draft.D16, limits=SessionLimits(max_requests=1))
    watch(net, Draft.D16, peer=peer)
    net.publisher(Draft.D16, track_of("one"))
    gone = net.publisher(Draft.D16, track_of("two"))
    net.publisher(Draft.D16, track_of("three"))
    (event,) = peer.take(RequestReceived)
    net.leave(gone)
    peer.session.reject(event.request_id, RequestErrorCode.UNINTERESTED)
    net.settle()
    assert offered(peer) == [track_of("three")]


# Authorization that ends


@both
def test_a_namespace_is_revoked(draft: Draft) -> None:
    rules = RuleBook()
    net = EdgeNet(authorizer=rules)
    publisher = net.announcer(draft)
    pushed = net.publisher(draft, track_of("pushed"))
    peer = net.subscriber(draft)
    net.answer(publisher)
    net.subscriber(draft, track_of("pushed"))
    rules.rules[Action.PUBLISH_NAMESPACE] = Decision(allowed=False, reason="revoked")
    net.relay.reauthorize(net.now)
    net.settle()
    assert net.relay.namespaces() == []
    assert publisher.session.open_requests == ()
    assert len(peer.take(PublishEnded)) == 1
    assert pushed.id in net.plane.publishers(track_of("pushed"))


@both
def test_another_namespace_of_the_session_holds_its_tracks(draft: Draft) -> None:
    rules = RuleBook()
    net = EdgeNet(authorizer=rules)
    publisher = net.connect(draft)
    soon = Parameters(authorization_tokens=(Token.use_value(1, b"soon"),))
    rules.tokens[b"soon"] = Decision(allowed=True, expires=net.now + 10)
    publisher.session.publish_namespace(NAMESPACE, soon)
    publisher.session.publish_namespace(Namespace.of(b"example.net"))
    net.settle()
    publisher.take(RequestAccepted)
    peer = net.subscriber(draft)
    net.answer(publisher)
    net.advance(10.0)
    assert len(net.relay.namespaces()) == 1
    assert peer.take(PublishEnded) == []


# Top-N


def top(net: EdgeNet, draft: Draft, n: int, *, peer: Peer | None = None) -> Peer:
    """A client that gets the N highest."""
    if draft is Draft.D16:
        peer = peer or net.connect(draft, extensions=TOP_N_EXTENSIONS)
        parameters = Parameters(ignored=(KeyValue(TOP_N_PARAMETER, bytes([n])),))
    else:
        peer = peer or net.connect(draft, options=SetupOptions(unknown=top_n_options(n)))
        parameters = NO_PARAMETERS
    return watch(net, draft, peer=peer, parameters=parameters)


def rank(net: EdgeNet, track: FullTrackName, value: int) -> None:
    net.notify(RankChanged(net.plane.number(track), value))


A, B, C = (track_of(name) for name in "abc")


@both
def test_the_highest_are_pushed(draft: Draft) -> None:
    net = EdgeNet()
    net.publisher(draft, A)
    peer = top(net, draft, 2)
    assert net.found(PrefixAdded)[0].top_n == 2
    for track in (B, C):
        net.publisher(draft, track)
    assert set(net.plane.ranked.values()) == {RANK_PROPERTY}
    assert take_all(net, peer) == [A, B]
    rank(net, C, 5)
    assert take_all(net, peer) == [C]
    done = peer.one(PublishEnded).message
    assert done.status_code == 0x3
    assert net.plane.receivers(B) == []
    # Equal values change nothing; larger ones do.
    rank(net, B, 0)
    assert take_all(net, peer) == []
    rank(net, A, 5)
    rank(net, B, 6)
    assert take_all(net, peer) == [B]
    assert net.plane.receivers(C) == []
    net.notify(RankChanged(999, 1))


@both
def test_a_place_becomes_free(draft: Draft) -> None:
    net = EdgeNet()
    peer = top(net, draft, 1)
    first = net.publisher(draft, A)
    net.publisher(draft, B)
    assert take_all(net, peer) == [A]
    net.leave(first)
    assert take_all(net, peer) == [B]
    # One that is not wanted makes room too, and does not come back.
    net.publisher(draft, C)
    (request,) = (
        request
        for request in peer.session.open_requests
        if request % 2 and peer.session.request_kind(request) is not None
    )
    peer.session.cancel(request)
    net.settle()
    assert take_all(net, peer) == [C]
    rank(net, B, 99)
    assert take_all(net, peer) == []


@both
def test_ones_own_tracks_do_not_rank(draft: Draft) -> None:
    net = EdgeNet()
    peer = top(net, draft, 1)
    net.publisher(draft, A)
    assert take_all(net, peer) == [A]
    peer.session.publish(B, 50)
    net.settle()
    rank(net, B, 100)
    assert net.plane.receivers(A) == [peer.id]
    # A track that it begins to publish itself leaves its top.
    net.publisher(draft, C)
    peer.session.publish(A, 51)
    net.settle()
    assert take_all(net, peer) == [C]


@both
def test_ranking_ends_with_its_last_watch(draft: Draft) -> None:
    net = EdgeNet()
    net.publisher(draft, A)
    first, second = top(net, draft, 1), top(net, draft, 1)
    take_all(net, first)
    net.leave(second)
    assert len(net.plane.ranked) == 1
    first.session.cancel(first.request)
    net.settle()
    assert net.plane.ranked == {}
    assert len(first.take(PublishEnded)) == 1


def test_a_new_prefix_ranks_anew() -> None:
    net = EdgeNet()
    other = FullTrackName(Namespace.of(b"example.org"), b"x")
    net.publisher(Draft.D18, A)
    net.publisher(Draft.D18, other)
    peer = top(net, Draft.D18, 1)
    assert take_all(net, peer) == [A]
    peer.session.update(
        peer.request, Parameters(track_namespace_prefix=Namespace.of(b"example.org"))
    )
    net.settle()
    assert take_all(net, peer) == [other]
    assert set(net.plane.ranked) == {net.plane.number(other)}


def test_the_margin_and_the_largest_n() -> None:
    net = EdgeNet(settings=EdgeSettings(top_n_max=1, top_n_margin=10))
    net.publisher(Draft.D18, A)
    net.publisher(Draft.D18, B)
    peer = top(net, Draft.D18, 500)
    assert take_all(net, peer) == [A]
    rank(net, B, 10)
    assert take_all(net, peer) == []
    rank(net, B, 11)
    assert take_all(net, peer) == [B]


def test_a_top_that_may_not_have_its_track_stays_empty() -> None:
    net = EdgeNet(settings=EdgeSettings(session_offers=0))
    net.publisher(Draft.D18, A)
    peer = top(net, Draft.D18, 1)
    assert offered(peer) == []
    assert peer.take(TrackBlocked) == []
    assert net.plane.largest_of.get(1, Location(0, 0)) == Location(0, 0)


@both
def test_who_waits_for_a_namespace(draft: Draft) -> None:
    net = EdgeNet()
    waiting = Parameters(rendezvous_timeout=9000 if draft is Draft.D18 else None)
    peer = net.subscriber(draft, TRACK, waiting)
    publisher = net.announcer(draft)
    net.answer(publisher)
    assert len(peer.take(RequestAccepted)) == 1
    # A track that nobody receives is not asked for.
    net.leave(peer)
    assert net.announcer(draft).take(RequestReceived) == []


def test_requests_that_are_over_already() -> None:
    net = EdgeNet()
    peer = net.connect(Draft.D18)
    client = net.relay._state.clients[peer.id]
    grant, _ = net.relay._admission.request(
        net.now, client, Action.SUBSCRIBE_NAMESPACE, NAMESPACE, None, ()
    )
    namespaces = net.relay._namespaces
    namespaces.publish_namespace_received(net.now, client, PublishNamespace(0, NAMESPACE), grant)
    namespaces.subscribe_namespace_received(net.now, client, SubscribeTracks(2, NAMESPACE), grant)
    assert net.relay.namespaces() == []
    assert prefixes(net) == 0
