"""How a session and its requests end, whoever ends them."""

from __future__ import annotations

import pytest

from laps_wire.errors import StateError
from laps_wire.moqt.codepoints import RequestErrorCode, SessionCode
from laps_wire.moqt.errors import InvalidRequestId
from laps_wire.moqt.messages import (
    NamespaceMessage,
    PublishDone,
    PublishNamespace,
    RequestError,
    RequestOk,
    RequestUpdate,
    Subscribe,
    SubscribeNamespace,
    SubscribeOk,
)
from laps_wire.moqt.parameters import NO_PARAMETERS, Parameters
from laps_wire.moqt.session import (
    CloseSession,
    NamespaceWithdrawn,
    RequestCancelled,
    RequestRefused,
    Role,
    SessionConfig,
    State,
    Terminated,
)
from laps_wire.moqt.session.core import MAX_CLOSE_REASON, Core
from laps_wire.moqt.setup import SetupOptions
from laps_wire.moqt.structures import Token
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from testkit.moqt_pair import Lone

D16, D18 = Draft.D16, Draft.D18
CLIENT, SERVER = Role.CLIENT, Role.SERVER
NS = Namespace.of(b"a", b"b")
TRACK = FullTrackName(NS, b"one")
BOTH = pytest.mark.parametrize("draft", [D16, D18])


def rid(draft: Draft, request_id: int) -> int | None:
    return request_id if draft is D16 else None


# The session


@BOTH
def test_a_session_ends_once(draft: Draft) -> None:
    core = Core(SessionConfig(draft=draft, role=SERVER))
    core.check_open()
    core.fail(InvalidRequestId("no such id"))
    core.terminate(0, "later", by_peer=True)
    assert core.events == [Terminated(code=0x4, reason="no such id", by_peer=False)]
    assert core.streams.drain() == [CloseSession(0x4, "no such id")]
    with pytest.raises(StateError, match="closed"):
        core.check_open()


def test_a_reason_fits_a_packet() -> None:
    core = Core(SessionConfig(draft=D18, role=SERVER))
    core.terminate(0, "x" * 5000, by_peer=False)
    assert core.streams.drain() == [CloseSession(0, "x" * MAX_CLOSE_REASON)]


def test_what_the_peer_ended_needs_no_close() -> None:
    core = Core(SessionConfig(draft=D18, role=SERVER))
    core.terminate(0, "bye", by_peer=True)
    assert core.streams.drain() == []
    assert core.events == [Terminated(code=0, reason="bye", by_peer=True)]


@BOTH
def test_everything_goes_with_the_session(draft: Draft) -> None:
    lone = Lone.established(draft, SERVER)
    stream_id = lone.request(Subscribe(0, TRACK))
    lone.on(stream_id, RequestUpdate(2, rid(draft, 0)))
    lone.session.close(SessionCode.UNAUTHORIZED, "no")
    core = lone.session._core
    assert (len(core.requests), core.updates, core.early) == (0, {}, {})
    assert lone.close_code == SessionCode.UNAUTHORIZED


def test_codes_and_ids_by_draft() -> None:
    old, new = (Core(SessionConfig(draft=draft, role=CLIENT)) for draft in (D16, D18))
    assert (old.reply_id(4), new.reply_id(4)) == (4, None)
    assert (old.cancelled, new.cancelled) == (1, 1)
    assert (old.overload, new.overload) == (0, 9)
    assert (old.own_ids.maximum, new.own_ids.maximum) == (0, None)


def test_a_bad_configuration_is_refused_at_once() -> None:
    config = SessionConfig(draft=D18, role=SERVER, options=SetupOptions(path="/x"))
    with pytest.raises(StateError, match="our own SETUP"):
        Core(config)


# The end of a request


def test_unanswered_updates_of_both_sides_go_with_the_request() -> None:
    lone = Lone.established(D16, SERVER)
    lone.session.subscribe(TRACK)
    lone.control(SubscribeOk(1, 7))
    update_id = lone.session.update(1, NO_PARAMETERS)
    lone.control(PublishDone(1, 0, 0))
    core = lone.session._core
    assert core.updates == {}
    assert core.recent_updates.get(update_id) is True
    # Their answer may still come, once.
    lone.control(RequestError(update_id, 0))
    assert core.recent_updates.get(update_id) is False
    assert lone.close_code is None


@BOTH
def test_the_peers_updates_go_with_the_request(draft: Draft) -> None:
    lone = Lone.established(draft, SERVER)
    stream_id = lone.request(PublishNamespace(0, NS))
    lone.session.accept(0)
    lone.on(stream_id, RequestUpdate(2, rid(draft, 0)), RequestUpdate(4, rid(draft, 0)))
    lone.sent()
    lone.session.cancel(0)
    assert lone.session._core.updates == {}
    assert lone.session._core.credit.busy == 0
    sent = lone.sent()[stream_id]
    if draft is D16:
        assert [item.request_id for item in sent[1:]] == [2, 4]
    else:
        assert sent == [("reset", 1), ("stop", 1)]


@BOTH
def test_giving_up_tells_what_is_lost(draft: Draft) -> None:
    lone = Lone.established(draft, CLIENT)
    lone.session.subscribe_namespace(NS)
    stream_id = lone.stream_of()
    lone.on(stream_id, RequestOk(rid(draft, 0)), NamespaceMessage(Namespace.of(b"c")))
    lone.events()
    core = lone.session._core
    request = core.requests.get(0)
    assert request is not None
    core.give_up(request, "why")
    assert lone.events() == [
        NamespaceWithdrawn(request_id=0, namespace=Namespace.of(b"a", b"b", b"c")),
        RequestCancelled(request_id=0, code=core.overload, reason="why", by_peer=False),
    ]


def test_what_we_advertised_ourselves_is_no_news() -> None:
    lone = Lone.established(D18, SERVER)
    stream_id = lone.request(SubscribeNamespace(0, NS))
    lone.session.accept(0)
    lone.session.namespace(0, Namespace.of(b"c"))
    lone.events()
    lone.session.receive_stream_reset(stream_id, 1)
    assert lone.events() == [RequestCancelled(request_id=0, code=1)]


def test_a_new_prefix_drops_what_it_does_not_cover() -> None:
    core = Core(SessionConfig(draft=D18, role=CLIENT))
    lone = Lone.established(D18, CLIENT)
    lone.session.subscribe_namespace(NS)
    request = lone.session._core.requests.get(0)
    assert request is not None
    inside, outside = Namespace.of(b"a", b"b", b"c"), Namespace.of(b"a", b"b", b"d")
    request.namespaces = {inside: None, outside: None}
    core.move_prefix(request, inside)
    assert (request.prefix, list(request.namespaces)) == (inside, [inside])
    assert core.events == [NamespaceWithdrawn(request_id=0, namespace=outside)]


# Saying no


@BOTH
def test_refusing_an_update(draft: Draft) -> None:
    lone = Lone.established(draft, SERVER)
    stream_id = lone.request(Subscribe(0, TRACK))
    lone.session.accept_subscribe(0, 7)
    lone.events()
    lone.sent()
    twice = Parameters(authorization_tokens=(Token.use_value(0, b"x"),) * 2)
    update = RequestUpdate(2, rid(draft, 0), twice)
    lone.on(stream_id, update)
    code, reason = RequestErrorCode.MALFORMED_AUTH_TOKEN, "the same token twice in one message"
    assert lone.events() == [
        RequestRefused(request_id=0, message=update, error_code=code, reason=reason)
    ]
    # A subscription lives on until PUBLISH_DONE says UPDATE_FAILED.
    assert lone.sent() == {stream_id: [RequestError(rid(draft, 2), code, 0, reason)]}
    assert lone.session.request_state(0) is State.FAILING


@BOTH
def test_refusing_an_update_before_the_reply_refuses_the_request(draft: Draft) -> None:
    lone = Lone.established(draft, SERVER)
    stream_id = lone.request(Subscribe(0, TRACK))
    twice = Parameters(authorization_tokens=(Token.use_value(0, b"x"),) * 2)
    lone.on(stream_id, RequestUpdate(2, rid(draft, 0), twice))
    assert lone.session.open_requests == ()
    assert lone.sent()[stream_id][0].request_id == rid(draft, 0)


def test_rejecting_an_update_answers_those_behind_it_in_draft_18() -> None:
    lone = Lone.established(D18, SERVER)
    stream_id = lone.request(PublishNamespace(0, NS))
    lone.session.accept(0)
    lone.on(stream_id, RequestUpdate(2), RequestUpdate(4))
    lone.sent()
    lone.session.reject(2, 0, "no")
    assert lone.sent() == {stream_id: [RequestError(None, 0, 0, "no"), "fin"]}
    assert lone.session._core.updates == {}
    assert lone.session.open_requests == ()


def test_draft_16_answers_updates_one_by_one() -> None:
    lone = Lone.established(D16, SERVER)
    lone.request(PublishNamespace(0, NS))
    lone.session.accept(0)
    lone.control(RequestUpdate(2, 0), RequestUpdate(4, 0))
    lone.session.reject(4, 0)
    assert list(lone.session._core.updates) == [2]
    lone.session.accept(2)
    assert lone.session._core.updates == {}


def test_a_server_of_draft_16_has_no_control_stream_at_first() -> None:
    core = Core(SessionConfig(draft=D16, role=SERVER))
    with pytest.raises(StateError, match="no control stream yet"):
        core.control_stream()
