from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from laps_relay.server.auth import AuthSettings, TokenAuthorizer, read_keys
from laps_sdk import tokens
from laps_sdk.edge.authorization import Action, Authorizer, Decision
from laps_sdk.tokens import Claims, Expectations, KeyFileError, TokenKey, parse_scope
from laps_wire.moqt.codepoints import RequestErrorCode
from laps_wire.moqt.session import AuthToken
from laps_wire.names import Namespace

WALL = 1_000_000.0
NOW = 50.0
ROOM = Namespace.of(b"example", b"room")


@cache
def key_of(kid: str) -> TokenKey:
    return tokens.generate("HS256", kid)


def token(
    *scopes: str,
    kid: str = "k1",
    lives: float = 60,
    kind: int = 1,
    revalidate: float | None = None,
    not_before: float | None = None,
) -> AuthToken:
    claims = Claims(
        scopes=tuple(map(parse_scope, scopes)),
        expires=WALL + lives,
        issuer="me",
        revalidate=revalidate,
        not_before=not_before,
    )
    return AuthToken(kind, tokens.mint(claims, key_of(kid)))


class Clock:
    def __init__(self) -> None:
        self.time = WALL

    def __call__(self) -> float:
        return self.time


def guard(settings: AuthSettings | None = None, clock: Clock | None = None) -> TokenAuthorizer:
    return TokenAuthorizer(settings or AuthSettings(keys=(key_of("k1"),)), wall=clock or Clock())


def ask(
    authorizer: Authorizer,
    *given: AuthToken,
    action: Action = Action.SUBSCRIBE,
    namespace: Namespace | None = ROOM,
    session: Sequence[AuthToken] = (),
) -> Decision:
    name = None if namespace is None else b"track"
    return authorizer.authorize(NOW, action, namespace, name, given, session)


def test_actions_are_the_same_here_and_in_tokens() -> None:
    assert {a.name: a.value for a in Action} == {a.name: a.value for a in tokens.Action}


def test_without_keys_everything_is_allowed() -> None:
    authorizer = guard(AuthSettings())
    assert authorizer.open
    assert ask(authorizer) == Decision(allowed=True)


def test_with_a_key_the_default_is_no() -> None:
    authorizer = guard()
    assert not authorizer.open
    denied = ask(authorizer)
    assert not denied.allowed
    assert denied.code == RequestErrorCode.UNAUTHORIZED
    assert denied.reason == "this needs a token"


def test_a_grant_ends_with_its_token_on_the_cores_clock() -> None:
    granted = ask(guard(), token("sub:example/*"))
    assert granted == Decision(allowed=True, expires=NOW + 65, tenant="me")


def test_a_token_that_wants_another_look_ends_sooner() -> None:
    assert ask(guard(), token("sub:example/*", revalidate=10)).expires == NOW + 10
    assert ask(guard(), token("sub:example/*", revalidate=900)).expires == NOW + 65
    for_ever = AuthSettings(keys=(key_of("k1"),), expected=Expectations(require_expiry=False))
    claims = Claims(scopes=(parse_scope("all:*"),), revalidate=7)
    assert ask(guard(for_ever), AuthToken(1, tokens.mint(claims, key_of("k1")))).expires == NOW + 7
    endless = Claims(scopes=(parse_scope("all:*"),))
    granted = ask(guard(for_ever), AuthToken(1, tokens.mint(endless, key_of("k1"))))
    assert granted.allowed
    assert granted.expires is None


def test_the_scope_decides() -> None:
    authorizer = guard()
    assert ask(authorizer, token("sub:example/*")).allowed
    assert not ask(authorizer, token("sub:other/*")).allowed
    denied = ask(authorizer, token("pub:example/*"))
    assert denied.reason == "the token does not allow SUBSCRIBE here"
    assert ask(authorizer, token("sub:other/*"), token("sub:example/*")).allowed


def test_tokens_of_the_request_replace_the_sessions() -> None:
    authorizer = guard()
    session = [token("sub:example/*")]
    assert ask(authorizer, session=session).allowed
    assert not ask(authorizer, token("pub:*"), session=session).allowed


def test_setup_may_come_without_a_token() -> None:
    authorizer = guard()
    setup = Action.CLIENT_SETUP
    assert ask(authorizer, action=setup, namespace=None).allowed
    assert ask(authorizer, AuthToken(9, b"x"), action=setup, namespace=None).allowed
    assert ask(authorizer, token("sub:*"), action=setup, namespace=None).allowed
    assert not ask(authorizer, token("fetch:*"), action=setup, namespace=None).allowed
    strict = guard(AuthSettings(keys=(key_of("k1"),), setup_required=True))
    assert not ask(strict, action=setup, namespace=None).allowed
    assert ask(strict, token("sub:*"), action=setup, namespace=None).allowed


def test_what_anybody_may_do() -> None:
    settings = AuthSettings(keys=(key_of("k1"),), anonymous=(parse_scope("sub:example/*"),))
    authorizer = guard(settings)
    assert ask(authorizer).allowed
    assert ask(authorizer, token("pub:other")).allowed
    assert not ask(authorizer, action=Action.PUBLISH).allowed
    # A bad token is told so, also where none was needed.
    assert ask(authorizer, token("sub:*", lives=-60)).code == RequestErrorCode.EXPIRED_AUTH_TOKEN


def test_the_codes_of_bad_tokens() -> None:
    authorizer = guard()
    expired, garbage = token("sub:*", lives=-60), AuthToken(1, b"garbage")
    forged = token("sub:*", kid="k2")
    assert ask(authorizer, expired).code == RequestErrorCode.EXPIRED_AUTH_TOKEN
    assert ask(authorizer, garbage).code == RequestErrorCode.MALFORMED_AUTH_TOKEN
    assert ask(authorizer, forged).code == RequestErrorCode.UNAUTHORIZED
    assert ask(authorizer, forged, garbage).code == RequestErrorCode.MALFORMED_AUTH_TOKEN
    assert ask(authorizer, forged, garbage, expired).code == RequestErrorCode.EXPIRED_AUTH_TOKEN
    assert ask(authorizer, forged, token("sub:*")).allowed
    assert ask(authorizer, AuthToken(16, b"x")).reason.startswith("no token of a type")
    assert "at most 4" in ask(authorizer, *[token("sub:*")] * 5).reason


def test_signatures_are_checked_once() -> None:
    clock = Clock()
    authorizer = guard(clock=clock)
    good, forged = token("sub:*"), token("sub:*", kid="k2")
    for _ in range(3):
        assert ask(authorizer, good).allowed
        assert not ask(authorizer, forged).allowed
    assert authorizer.counters == (3, 3, 2, 1)
    clock.time += 64
    assert ask(authorizer, good).expires == pytest.approx(NOW + 1)
    clock.time += 1
    assert ask(authorizer, good).code == RequestErrorCode.EXPIRED_AUTH_TOKEN
    # Nor again when it has expired: old tokens are no lever for making work.
    assert authorizer.counters.signatures == 2


def test_a_clock_that_steps_is_believed_at_once() -> None:
    clock = Clock()
    authorizer = guard(clock=clock)
    given = token("sub:*", not_before=WALL - 20)
    assert ask(authorizer, given).allowed
    clock.time = WALL - 60
    assert "not valid yet" in ask(authorizer, given).reason
    clock.time = WALL + 600
    assert ask(authorizer, given).code == RequestErrorCode.EXPIRED_AUTH_TOKEN
    clock.time = WALL
    assert ask(authorizer, given).expires == NOW + 65
    assert authorizer.counters.signatures == 1


def test_a_token_whose_time_comes_is_taken_then() -> None:
    clock = Clock()
    authorizer = guard(clock=clock)
    early = token("sub:*", not_before=WALL + 20)
    assert not ask(authorizer, early).allowed
    clock.time += 20
    assert ask(authorizer, early).allowed


def test_the_caches_are_bounded() -> None:
    settings = AuthSettings(keys=(key_of("k1"),), cached_tokens=2, cached_forgeries=1)
    authorizer = guard(settings)
    given = [token("sub:*", lives=lives) for lives in (10, 20, 30)]
    for each in given:
        ask(authorizer, each)
    assert authorizer.counters.cached == 2
    ask(authorizer, given[1])
    assert authorizer.counters.signatures == 3
    ask(authorizer, given[0])
    assert authorizer.counters.signatures == 4
    for value in (b"one", b"two", b"one"):
        ask(authorizer, AuthToken(1, value))
    assert authorizer.counters.signatures == 7
    ask(authorizer, AuthToken(1, b"one"))
    assert authorizer.counters.signatures == 7


def test_keys_are_replaced_with_an_overlap() -> None:
    authorizer = guard()
    old, new = token("sub:*"), token("sub:*", kid="k2")
    assert not ask(authorizer, new).allowed
    authorizer.replace(AuthSettings(keys=(key_of("k1"), key_of("k2"))))
    assert ask(authorizer, old).allowed
    assert ask(authorizer, new).allowed
    authorizer.replace(AuthSettings(keys=(key_of("k2"),)))
    assert not ask(authorizer, old).allowed
    assert ask(authorizer, new).allowed


def test_keys_are_read_from_files(tmp_path: Path) -> None:
    for kid in ("k1", "k2"):
        tokens.save_key(key_of(kid), tmp_path / kid)
    assert read_keys([tmp_path / "k1", tmp_path / "k2"]) == (key_of("k1"), key_of("k2"))
    with pytest.raises(KeyFileError, match="two keys with the id"):
        read_keys([tmp_path / "k1", tmp_path / "k1"])


def test_foreign_peers_have_scopes_of_their_own_and_nobody_passes_for_one() -> None:
    settings = AuthSettings(
        keys=(key_of("k1"),),
        foreign_peers=(parse_scope("sub:example/*"),),
        anonymous=(parse_scope("pub:public/*"),),
        setup_required=True,
    )
    authorizer = guard(settings)
    assert ask(authorizer, authorizer.peer_token).allowed
    assert ask(authorizer, authorizer.peer_token, action=Action.CLIENT_SETUP).allowed
    refused = ask(authorizer, authorizer.peer_token, action=Action.PUBLISH)
    assert (refused.allowed, "auth.guests" in refused.reason) == (False, True)
    impostor = AuthToken(authorizer.peer_token.type, guard(settings).peer_token.value)
    for stranger in (impostor, AuthToken(authorizer.peer_token.type, b"")):
        assert not ask(authorizer, stranger).allowed
        assert not ask(authorizer, stranger, action=Action.CLIENT_SETUP).allowed
