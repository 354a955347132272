"""Making and changing requests: hop by hop, both drafts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from laps_wire.errors import EncodeError, StateError
from laps_wire.moqt.codepoints import SubscribeOptions
from laps_wire.moqt.messages import (
    Fetch,
    Goaway,
    MaxRequestId,
    Publish,
    PublishNamespace,
    PublishOk,
    RequestError,
    RequestOk,
    RequestsBlocked,
    RequestUpdate,
    StandaloneFetch,
    Subscribe,
    SubscribeNamespace,
    SubscribeOk,
    SubscribeTracks,
    TrackStatus,
)
from laps_wire.moqt.parameters import NO_PARAMETERS, Parameters
from laps_wire.moqt.session import (
    RequestReceived,
    RequestsAllowed,
    RequestsBlockedError,
    Role,
    Session,
    State,
    UpdateReceived,
)
from laps_wire.moqt.setup import SetupOptions
from laps_wire.moqt.structures import Location, Token
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from testkit.moqt_pair import Lone, Pair

D16, D18 = Draft.D16, Draft.D18
NS = Namespace.of(b"a", b"b")
TRACK, OTHER = FullTrackName(NS, b"one"), FullTrackName(NS, b"two")
RANGE = StandaloneFetch(TRACK, Location(0, 0), Location(1, 0))
PRIORITY = Parameters(subscriber_priority=7)
BOTH = pytest.mark.parametrize("draft", [D16, D18])
TOKEN = Token.register(1, 0, b"t")

COMMANDS: list[Any] = [
    (lambda s: s.subscribe(TRACK, PRIORITY), lambda i: Subscribe(i, TRACK, PRIORITY)),
    (lambda s: s.publish(TRACK, 7), lambda i: Publish(i, TRACK, 7)),
    (lambda s: s.fetch(RANGE, PRIORITY), lambda i: Fetch(i, RANGE, PRIORITY)),
    (lambda s: s.track_status(TRACK), lambda i: TrackStatus(i, TRACK)),
    (lambda s: s.publish_namespace(NS), lambda i: PublishNamespace(i, NS)),
    (lambda s: s.subscribe_namespace(NS), lambda i: SubscribeNamespace(i, NS)),
    (lambda s: s.subscribe_tracks(NS), lambda i: SubscribeTracks(i, NS)),
]
NAMES = ["subscribe", "publish", "fetch", "track_status", "publish_ns", "subscribe_ns", "tracks"]


@BOTH
@pytest.mark.parametrize(("command", "message"), COMMANDS, ids=NAMES)
@pytest.mark.parametrize("role", list(Role))
def test_a_request_reaches_the_peer(
    draft: Draft, role: Role, command: Callable[[Session], int], message: Callable[[int], Any]
) -> None:
    pair = Pair.established(draft)
    end, hop = (
        (pair.client, pair.to_server) if role is Role.CLIENT else (pair.server, pair.to_client)
    )
    if draft is D16 and isinstance(message(0), SubscribeTracks):
        with pytest.raises(EncodeError, match="draft 16 has no message SUBSCRIBE_TRACKS"):
            command(end.session)
        assert end.session.open_requests == ()
        return
    # The command
    request_id = command(end.session)
    assert request_id == role.value
    assert end.session.request_state(request_id) is State.PENDING
    # One hop
    assert hop() == [RequestReceived(request_id=request_id, message=message(request_id))]
    for session in (pair.client.session, pair.server.session):
        assert session.open_requests == (request_id,)
        assert session.request_state(request_id) is State.PENDING
    # The next one has the next id
    assert end.session.track_status(OTHER) == request_id + 2


def test_draft_16_asks_for_more_than_namespaces() -> None:
    pair = Pair.established(D16)
    pair.client.session.subscribe_namespace(NS, SubscribeOptions.BOTH)
    (event,) = pair.to_server()
    assert isinstance(event, RequestReceived)
    assert event.message == SubscribeNamespace(0, NS, SubscribeOptions.BOTH)


# What is refused here


@BOTH
def test_one_subscription_for_each_role(draft: Draft) -> None:
    session = Lone.established(draft, Role.CLIENT).session
    session.subscribe(TRACK)
    with pytest.raises(StateError, match=r"a subscription to .* already"):
        session.subscribe(TRACK)
    session.publish(TRACK, 7)
    with pytest.raises(StateError, match="the peer has a subscription"):
        session.publish(TRACK, 8)
    session.subscribe(OTHER)
    assert session.open_requests == (0, 2, 4)


@BOTH
def test_an_alias_of_ours_stands_for_one_track(draft: Draft) -> None:
    session = Lone.established(draft, Role.CLIENT).session
    session.publish(TRACK, 7)
    with pytest.raises(StateError, match="alias 7 stands for the track of 0"):
        session.publish(OTHER, 7)
    assert session.publish(OTHER, 8) == 2


def test_reserved_namespaces_are_not_asked_for_in_draft_18() -> None:
    namespace = Namespace.of(b".session")
    with pytest.raises(StateError, match="reserved"):
        Lone.established(D18, Role.CLIENT).session.publish_namespace(namespace)
    assert Lone.established(D16, Role.CLIENT).session.publish_namespace(namespace) == 0


@BOTH
def test_no_new_requests_to_a_peer_that_leaves(draft: Draft) -> None:
    lone = Lone.established(draft, Role.CLIENT)
    lone.control(Goaway("moqt://else", request_id=None if draft is D16 else 0))
    with pytest.raises(StateError, match="GOAWAY"):
        lone.session.subscribe(TRACK)
    assert lone.session.going_away


@BOTH
def test_what_a_leaving_peer_has_accepted_can_be_changed(draft: Draft) -> None:
    # GOAWAY speaks of new requests, and REQUEST_UPDATE is not in its list (16: 9.4; 18: 10.4).
    pair = Pair.established(draft)
    request_id = pair.client.session.subscribe(TRACK)
    pair.to_server()
    pair.server.session.accept_subscribe(request_id, 7)
    pair.server.session.goaway()
    pair.settle()
    assert pair.client.session.update(request_id, PRIORITY) == 2
    (event,) = pair.to_server()
    assert isinstance(event, UpdateReceived)
    assert pair.violations == []


def test_an_update_to_a_leaving_peer_can_be_blocked_too() -> None:
    lone = Lone.established(D16, Role.CLIENT, SetupOptions(max_request_id=2))
    lone.session.subscribe(TRACK)
    lone.control(SubscribeOk(0, 7), Goaway())
    lone.sent()
    with pytest.raises(RequestsBlockedError):
        lone.session.update(0, PRIORITY)
    assert lone.sent() == {0: [RequestsBlocked(2)]}


def test_a_cancelled_request_leaves_no_trace_in_the_tokens() -> None:
    lone = Lone.established(D18, Role.CLIENT, SetupOptions(max_auth_token_cache_size=100))
    session = lone.session
    session.subscribe(TRACK, Parameters(authorization_tokens=(TOKEN,)))
    lone.on(lone.stream_of(), SubscribeOk(None, 7))
    use = Parameters(authorization_tokens=(Token.use_alias(1),))
    session.cancel(session.subscribe(OTHER, use))
    session.update(0, use)
    session.cancel(0)
    assert session._core.own_tokens._used_by == {}
    delete = Parameters(authorization_tokens=(Token.delete(1),))
    with pytest.raises(StateError, match="a cancelled request used it"):
        session.subscribe(OTHER, delete)


@BOTH
def test_nothing_after_the_end(draft: Draft) -> None:
    lone = Lone.established(draft, Role.CLIENT)
    lone.session.close()
    with pytest.raises(StateError, match="closed"):
        lone.session.subscribe(TRACK)
    with pytest.raises(StateError, match="closed"):
        lone.session.update(0, NO_PARAMETERS)


@BOTH
def test_what_cannot_be_written_changes_nothing(draft: Draft) -> None:
    lone = Lone.established(draft, Role.CLIENT)
    with pytest.raises(EncodeError):
        lone.session.subscribe(TRACK, Parameters(subscriber_priority=256))
    assert lone.session.open_requests == ()
    assert lone.sent() == {}
    assert lone.session.subscribe(TRACK) == 0


# Draft 16 counts


def test_requests_wait_for_max_request_id() -> None:
    lone = Lone.established(D16, Role.CLIENT, SetupOptions(max_request_id=3))
    session = lone.session
    assert [session.track_status(TRACK), session.track_status(TRACK)] == [0, 2]
    lone.sent()
    for _ in range(2):
        with pytest.raises(RequestsBlockedError, match="request 4 must wait"):
            session.subscribe(TRACK)
    # It is said once.
    assert lone.sent() == {0: [RequestsBlocked(3)]}
    lone.control(MaxRequestId(5))
    assert lone.events() == [RequestsAllowed(max_request_id=5)]
    assert session.subscribe(TRACK) == 4
    with pytest.raises(RequestsBlockedError):
        session.subscribe(OTHER)
    assert lone.sent() == {0: [Subscribe(4, TRACK), RequestsBlocked(5)]}


def test_nothing_is_asked_before_setup_in_draft_16() -> None:
    lone = Lone(D16, Role.CLIENT)
    lone.sent()
    with pytest.raises(RequestsBlockedError):
        lone.session.subscribe(TRACK)
    assert lone.sent() == {}
    lone.setup(SetupOptions())
    with pytest.raises(RequestsBlockedError):
        lone.session.subscribe(TRACK)
    assert lone.sent() == {0: [RequestsBlocked(0)]}


def test_draft_18_asks_before_setup() -> None:
    lone = Lone(D18, Role.CLIENT)
    lone.sent()
    assert lone.session.subscribe(TRACK) == 0
    assert lone.sent() == {0: [Subscribe(0, TRACK)]}


def test_an_update_is_a_request_too() -> None:
    lone = Lone.established(D16, Role.CLIENT, SetupOptions(max_request_id=2))
    lone.session.subscribe(TRACK)
    lone.control(SubscribeOk(0, 7))
    with pytest.raises(RequestsBlockedError, match="request 2"):
        lone.session.update(0, PRIORITY)
    assert lone.session._core.updates == {}


# Updates


def accepted(draft: Draft) -> Lone:
    """A client whose SUBSCRIBE 0 the peer accepted."""
    lone = Lone.established(draft, Role.CLIENT)
    lone.session.subscribe(TRACK)
    ok = SubscribeOk(0 if draft is D16 else None, 7)
    lone.on(0 if draft is D16 else lone.stream_of(), ok)
    lone.events()
    lone.sent()
    return lone


@BOTH
def test_an_update_reaches_the_peer(draft: Draft) -> None:
    pair = Pair.established(draft)
    request_id = pair.client.session.subscribe(TRACK)
    pair.to_server()
    pair.server.session.accept_subscribe(request_id, 7)
    pair.to_client()
    update_id = pair.client.session.update(request_id, Parameters(forward=False))
    assert update_id == 2
    message = RequestUpdate(2, 0 if draft is D16 else None, Parameters(forward=False))
    assert pair.to_server() == [UpdateReceived(request_id=0, update_id=2, message=message)]


@BOTH
def test_an_update_waits_for_the_reply(draft: Draft) -> None:
    session = Lone.established(draft, Role.CLIENT).session
    session.subscribe(TRACK)
    with pytest.raises(StateError, match="was not accepted yet"):
        session.update(0, PRIORITY)


@BOTH
def test_only_what_exists_and_allows_it_is_updated(draft: Draft) -> None:
    lone = Lone.established(draft, Role.SERVER)
    lone.request(Subscribe(0, TRACK))
    lone.session.accept_subscribe(0, 7)
    with pytest.raises(StateError, match="responder cannot 'update'"):
        lone.session.update(0, PRIORITY)
    with pytest.raises(StateError, match="request 5 does not exist"):
        lone.session.update(5, PRIORITY)


@BOTH
def test_an_update_has_the_parameters_of_its_kind(draft: Draft) -> None:
    lone = Lone.established(draft, Role.CLIENT)
    request_id = lone.session.publish_namespace(NS)
    stream_id = 0 if draft is D16 else lone.stream_of()
    lone.on(stream_id, RequestOk(request_id if draft is D16 else None))
    lone.sent()
    with pytest.raises(EncodeError, match="SUBSCRIBER_PRIORITY does not belong"):
        lone.session.update(request_id, PRIORITY)
    assert lone.sent() == {}
    assert lone.session.update(request_id, NO_PARAMETERS) == 2


@BOTH
def test_a_subscriber_updates_what_it_was_offered(draft: Draft) -> None:
    lone = Lone.established(draft, Role.CLIENT)
    stream_id = lone.request(Publish(1, TRACK, 7))
    lone.session.accept(1)
    assert lone.session.update(1, Parameters(forward=False)) == 0
    reply_id = 1 if draft is D16 else None
    ok = PublishOk(1) if draft is D16 else RequestOk(None)
    update = RequestUpdate(0, reply_id, Parameters(forward=False))
    assert lone.sent() == {stream_id: [ok, update]}


def test_a_new_prefix_waits_for_its_answer() -> None:
    lone = Lone.established(D18, Role.CLIENT)
    lone.session.subscribe_namespace(NS)
    lone.on(lone.stream_of(), RequestOk())
    prefix = Namespace.of(b"c")
    update_id = lone.session.update(0, Parameters(track_namespace_prefix=prefix))
    request = lone.session._core.requests.get(0)
    assert request is not None
    assert (request.prefix, request.prefixes) == (NS, {update_id: prefix})
    lone.on(lone.stream_of(), RequestOk())
    assert (request.prefix, request.prefixes) == (prefix, {})


# Tokens


def tokens(*items: Token) -> Parameters:
    return Parameters(authorization_tokens=items)


CACHE = SetupOptions(max_request_id=100, max_auth_token_cache_size=40)
CACHE18 = SetupOptions(max_auth_token_cache_size=40)


def test_a_registration_counts_against_the_peers_cache() -> None:
    lone = Lone.established(D16, Role.CLIENT, CACHE)
    lone.session.subscribe(TRACK, tokens(Token.register(1, 0, b"x" * 24)))
    assert lone.session._core.own_tokens.size == 40
    with pytest.raises(StateError, match="the peer would close the session"):
        lone.session.subscribe(OTHER, tokens(Token.register(2, 0, b"")))
    assert lone.session.subscribe(OTHER, tokens(Token.use_alias(1))) == 2


def test_draft_18_waits_for_the_answer_before_another_stream_uses_an_alias() -> None:
    lone = Lone.established(D18, Role.CLIENT, CACHE18)
    lone.session.subscribe(TRACK, tokens(TOKEN))
    first = lone.stream_of()
    with pytest.raises(StateError, match="unanswered"):
        lone.session.subscribe(OTHER, tokens(Token.use_alias(1)))
    lone.on(first, RequestError(None, 0))
    assert lone.session.subscribe(OTHER, tokens(Token.use_alias(1))) == 2


def test_an_update_on_the_same_stream_needs_no_answer() -> None:
    lone = Lone.established(D18, Role.CLIENT, CACHE18)
    lone.session.subscribe(TRACK)
    lone.on(lone.stream_of(), SubscribeOk(None, 7))
    lone.session.update(0, tokens(TOKEN))
    lone.session.update(0, tokens(Token.use_alias(1)))
    with pytest.raises(StateError, match="request 4 uses it"):
        lone.session.update(0, tokens(Token.delete(1)))
    lone.on(lone.stream_of(), RequestOk(), RequestOk())
    lone.session.update(0, tokens(Token.delete(1)))
    assert lone.session._core.own_tokens.size == 0


def test_accepted_leaves_room_for_updates_of_both_drafts() -> None:
    for draft in (D16, D18):
        lone = accepted(draft)
        assert [lone.session.update(0, PRIORITY) for _ in range(3)] == [2, 4, 6]
