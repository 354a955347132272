from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.errors import ProtocolViolation, RemoteError, StateError
from laps_wire.moqt.errors import (
    AuthTokenCacheOverflow,
    DuplicateAuthTokenAlias,
    MalformedAuthToken,
    UnknownAuthTokenAlias,
)
from laps_wire.moqt.session import AuthToken
from laps_wire.moqt.session.tokens import ENTRY_COST, OwnTokens, TokenCache
from laps_wire.moqt.structures import Token

ONE = Token.register(1, 7, b"secret")
ANY_TOKEN = st.one_of(
    st.builds(Token.register, st.integers(0, 3), st.integers(0, 2), st.binary(max_size=20)),
    st.builds(Token.use_alias, st.integers(0, 3)),
    st.builds(Token.delete, st.integers(0, 3)),
    st.builds(Token.use_value, st.integers(0, 2), st.binary(max_size=20)),
)


# The cache of a receiver


def test_a_value_is_used_and_not_kept() -> None:
    cache = TokenCache(0)
    assert cache.resolve([Token.use_value(3, b"x")]) == (AuthToken(3, b"x"),)
    assert (len(cache), cache.size) == (0, 0)


def test_a_registered_token_is_used_by_alias_until_deleted() -> None:
    cache = TokenCache(100)
    assert cache.resolve([ONE]) == (AuthToken(7, b"secret"),)
    assert (len(cache), cache.size) == (1, ENTRY_COST + 6)
    assert cache.resolve([Token.use_alias(1)]) == (AuthToken(7, b"secret"),)
    assert cache.resolve([Token.delete(1)]) == ()
    assert (len(cache), cache.size) == (0, 0)
    with pytest.raises(UnknownAuthTokenAlias, match="alias 1"):
        cache.resolve([Token.use_alias(1)])


def test_an_empty_token_costs_sixteen_bytes() -> None:
    cache = TokenCache(32)
    cache.resolve([Token.register(1, 0, b""), Token.register(2, 1, b"")])
    assert cache.size == 32


@pytest.mark.parametrize(("limit", "fits"), [(22, True), (21, False), (0, False)])
def test_the_limit_is_exact(limit: int, fits: bool) -> None:
    cache = TokenCache(limit)
    if fits:
        cache.resolve([ONE])
        assert cache.size == 22
    else:
        with pytest.raises(AuthTokenCacheOverflow, match="22 bytes where 0 of"):
            cache.resolve([ONE])
        assert (len(cache), cache.size) == (0, 0)


def test_room_comes_back_with_a_deletion() -> None:
    cache = TokenCache(22)
    cache.resolve([ONE])
    with pytest.raises(AuthTokenCacheOverflow):
        cache.resolve([Token.register(2, 7, b"")])
    cache.resolve([Token.delete(1), Token.register(2, 7, b"secret")])
    assert cache.size == 22


def test_an_alias_is_registered_once() -> None:
    cache = TokenCache(100)
    cache.resolve([ONE])
    with pytest.raises(DuplicateAuthTokenAlias, match="alias 1"):
        cache.resolve([Token.register(1, 9, b"other")])


def test_an_unknown_alias_cannot_be_deleted() -> None:
    with pytest.raises(UnknownAuthTokenAlias):
        TokenCache(100).resolve([Token.delete(5)])


def test_the_same_token_twice_in_a_message_is_malformed_but_registered() -> None:
    cache = TokenCache(100)
    with pytest.raises(MalformedAuthToken, match="twice"):
        cache.resolve([ONE, Token.use_alias(1)])
    assert len(cache) == 1
    assert cache.resolve([Token.use_value(7, b"secret")]) == (AuthToken(7, b"secret"),)


# SETUP


def test_setup_registers_what_fits_and_uses_the_rest() -> None:
    cache = TokenCache(22)
    tokens = cache.resolve_setup([ONE, Token.register(2, 7, b"more"), Token.use_value(1, b"v")])
    assert tokens == (AuthToken(7, b"secret"), AuthToken(7, b"more"), AuthToken(1, b"v"))
    assert len(cache) == 1


@pytest.mark.parametrize("token", [Token.delete(1), Token.use_alias(1)])
def test_setup_cannot_refer_to_aliases(token: Token) -> None:
    with pytest.raises(ProtocolViolation, match=f"{token.alias_type.name} in SETUP"):
        TokenCache(100).resolve_setup([ONE, token])


def test_setup_cannot_register_an_alias_twice() -> None:
    with pytest.raises(DuplicateAuthTokenAlias):
        TokenCache(100).resolve_setup([ONE, Token.register(1, 8, b"x")])


# Our mirror of the peer's cache


def own(limit: int = 1000, *setup: Token) -> OwnTokens:
    tokens = OwnTokens(setup)
    tokens.set_limit(limit)
    return tokens


def send(tokens: OwnTokens, message: int, *sent: Token, stream: int | None = None) -> None:
    """Send a message on the stream of a request; None is draft 16, where there is only one."""
    cache = tokens.check(sent, stream)
    tokens.sent(cache, sent, message, stream)


def test_aliases_wait_for_the_limit() -> None:
    tokens = OwnTokens([])
    send(tokens, 0, Token.use_value(1, b"x"))
    with pytest.raises(StateError, match="wait for the peer's SETUP"):
        send(tokens, 0, ONE)
    tokens.set_limit(22)
    send(tokens, 0, ONE)
    assert tokens.size == 22


@pytest.mark.parametrize(
    "bad",
    [
        (Token.register(1, 7, b"again"),),
        (Token.use_alias(2),),
        (Token.delete(2),),
        (Token.register(2, 7, b"x" * 1000),),
        (Token.use_alias(1), Token.use_value(7, b"secret")),
    ],
)
def test_what_would_end_the_session_is_not_sent(bad: tuple[Token, ...]) -> None:
    tokens = own()
    send(tokens, 0, ONE)
    with pytest.raises(StateError, match="the peer would close the session"):
        tokens.check(bad, None)
    assert tokens.size == 22


def test_what_the_peer_did_not_register_from_setup_is_purged() -> None:
    big, small = Token.register(1, 0, b"x" * 50), Token.register(2, 0, b"y")
    tokens = own(40, big, small)
    assert tokens.size == 17
    send(tokens, 0, Token.use_alias(2))
    with pytest.raises(StateError):
        send(tokens, 2, Token.use_alias(1))


def test_another_stream_waits_for_the_answer_to_a_registration() -> None:
    tokens = own()
    send(tokens, 0, ONE, stream=0)
    send(tokens, 2, Token.use_alias(1), stream=0)  # an update, behind it on the same stream
    with pytest.raises(StateError, match="request 0, which changes it, is unanswered"):
        send(tokens, 4, Token.use_alias(1), stream=4)
    tokens.answered(0)
    send(tokens, 4, Token.use_alias(1), stream=4)


def test_a_deletion_waits_for_the_answers_to_uses() -> None:
    tokens = own()
    send(tokens, 0, ONE, stream=0)
    tokens.answered(0)
    send(tokens, 2, Token.use_alias(1), stream=2)
    send(tokens, 4, Token.use_alias(1), stream=4)
    with pytest.raises(StateError, match="request 2 uses it, unanswered"):
        send(tokens, 6, Token.delete(1), stream=6)
    tokens.answered(2)
    with pytest.raises(StateError, match="request 4 uses it, unanswered"):
        send(tokens, 6, Token.delete(1), stream=6)
    tokens.answered(4)
    send(tokens, 6, Token.delete(1), stream=6)
    assert tokens.size == 0
    with pytest.raises(StateError, match="request 6, which changes it"):
        send(tokens, 8, ONE, stream=8)
    tokens.answered(6)
    send(tokens, 8, ONE, stream=8)


def test_one_stream_needs_no_waiting() -> None:
    tokens = own()
    send(tokens, 0, ONE)
    send(tokens, 2, Token.use_alias(1))
    send(tokens, 4, Token.delete(1))
    send(tokens, 6, ONE)
    assert tokens.size == 22


def test_answers_leave_nothing_behind() -> None:
    tokens = own()
    send(tokens, 0, ONE, Token.register(2, 7, b"b"), Token.use_value(0, b""), stream=0)
    send(tokens, 2, Token.use_alias(1), Token.use_alias(2), stream=0)
    tokens.answered(2)
    tokens.answered(0)
    send(tokens, 4, Token.delete(1), Token.delete(2), stream=4)


def test_what_a_delete_frees_is_free_elsewhere_after_its_answer() -> None:
    # Streams overtake each other: the REGISTER could arrive before the DELETE (18: 10.2.2).
    tokens = own(40)
    send(tokens, 0, Token.register(1, 0, b"x" * 20), stream=0)
    tokens.answered(0)
    send(tokens, 2, Token.delete(1), stream=0)
    another = Token.register(2, 0, b"y" * 20)
    with pytest.raises(StateError, match="would close the session"):
        send(tokens, 4, another, stream=4)
    # The same stream keeps its order, and so does one message.
    assert tokens.check((another,), 0).size == 36
    tokens.answered(2)
    send(tokens, 4, another, Token.delete(2), Token.register(3, 0, b"z" * 20), stream=4)
    assert tokens.size == 36
    assert tokens.check((Token.delete(3),), 4).limit == 40


def test_what_a_cancelled_delete_would_free_is_never_free() -> None:
    tokens = own(40)
    send(tokens, 0, Token.register(1, 0, b"x" * 20), stream=0)
    tokens.answered(0)
    send(tokens, 2, Token.delete(1), stream=2)
    tokens.abandoned(2)
    tokens.answered(2)
    with pytest.raises(StateError, match="would close the session"):
        send(tokens, 4, Token.register(2, 0, b"y" * 20), stream=2)


def test_an_alias_that_a_cancelled_message_used_stays() -> None:
    tokens = own()
    send(tokens, 0, ONE, Token.register(2, 7, b"b"), stream=0)
    tokens.answered(0)
    for message in range(2, 2000, 2):
        send(tokens, message, Token.use_alias(1), stream=message)
        tokens.abandoned(message)
    with pytest.raises(StateError, match="alias 1: a cancelled request used it"):
        send(tokens, 2000, Token.delete(1), stream=2000)
    send(tokens, 2000, Token.use_alias(1), Token.delete(2), stream=2000)


def test_an_answered_message_cannot_be_abandoned() -> None:
    tokens = own()
    send(tokens, 0, ONE, stream=0)
    send(tokens, 2, Token.use_alias(1), stream=0)
    for message in (0, 2):
        tokens.answered(message)
        tokens.abandoned(message)
    send(tokens, 4, Token.delete(1), stream=4)
    assert tokens.size == 0


@given(
    st.integers(20, 100),
    st.lists(
        st.tuples(st.integers(0, 3), ANY_TOKEN, st.sampled_from(["answer", "cancel", "wait"])),
        max_size=15,
    ),
    st.randoms(use_true_random=False),
)
def test_no_order_of_streams_makes_the_peer_close(
    limit: int, messages: list[tuple[int, Token, str]], random: Random
) -> None:
    mirror, cache = own(limit), TokenCache(limit)
    waiting: list[tuple[int, int, Token]] = []

    def arrive(stream: int) -> None:
        for item in [item for item in waiting if item[1] == stream]:
            waiting.remove(item)
            cache.resolve([item[2]])
            mirror.answered(item[0])

    dead: set[int] = set()
    for number, (stream, token, fate) in enumerate(messages):
        if stream in dead:
            continue
        try:
            send(mirror, number, token, stream=stream)
        except StateError:
            continue
        waiting.append((number, stream, token))
        if fate == "answer":
            arrive(stream)
        elif fate == "cancel":
            # Nothing that is under way on this stream arrives any more.
            dead.add(stream)
            for item in [item for item in waiting if item[1] == stream]:
                waiting.remove(item)
                mirror.abandoned(item[0])
    streams = list(range(4))
    random.shuffle(streams)
    for stream in streams:
        arrive(stream)


@given(st.lists(st.lists(ANY_TOKEN, max_size=3), max_size=12), st.integers(0, 80))
def test_the_mirror_never_lets_through_what_the_cache_refuses(
    messages: list[list[Token]], limit: int
) -> None:
    mirror, cache = own(limit), TokenCache(limit)
    for number, message in enumerate(messages):
        try:
            send(mirror, number, *message)
        except StateError:
            continue
        try:
            cache.resolve(message)
        except MalformedAuthToken:
            # Without an alias nothing is checked: such a message is only rejected.
            assert all(token.alias is None for token in message)
        assert mirror.size == cache.size <= limit


@given(st.lists(ANY_TOKEN, max_size=30), st.integers(0, 80))
def test_the_size_is_what_is_registered(tokens: list[Token], limit: int) -> None:
    cache = TokenCache(limit)
    for token in tokens:
        try:
            cache.resolve([token])
        except RemoteError as error:
            assert error.code in (0x13, 0x14, 0x17)  # noqa: PT017
        aliases = {token.alias for token in tokens if token.alias is not None}
        assert cache.size == sum(cache.cost(alias) for alias in aliases) <= limit
