"""Authorization tokens: the cache of registered tokens, and the resolution of a message's tokens.

::

    Token                 effect on the cache            resolves to
    USE_VALUE             none                           its type and value
    REGISTER a            a := type, value               its type and value
    USE_ALIAS a           none                           type and value of a
    DELETE a              a is removed                   nothing

A registered token costs 16 bytes and the length of its value, until it is deleted
(moq-transport-16, 9.3.1.4). The receiver announces its limit in MAX_AUTH_TOKEN_CACHE_SIZE; 0, the
default, forbids aliases. The two directions have separate caches. :class:`OwnTokens` mirrors the
tokens that we have registered at the peer, and refuses a registration that would end the session.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from laps_wire.errors import ProtocolViolation, RemoteError, StateError
from laps_wire.moqt.codepoints import AliasType
from laps_wire.moqt.errors import (
    AuthTokenCacheOverflow,
    DuplicateAuthTokenAlias,
    MalformedAuthToken,
    UnknownAuthTokenAlias,
)
from laps_wire.moqt.structures import Token

__all__ = ["ENTRY_COST", "AuthToken", "OwnTokens", "TokenCache"]

ENTRY_COST: Final = 16
"""The cost of a registered token beside its value, in bytes (moq-transport-16, 9.3.1.4)."""

_UNLIMITED: Final = 1 << 62
"""Our own SETUP has no limit: the peer registers the tokens that fit."""


@dataclass(frozen=True, slots=True)
class AuthToken:
    """A token with its alias resolved, as the application checks it."""

    type: int
    """The type of the value; 0: agreed out of band."""
    value: bytes


class TokenCache:
    """The tokens that one endpoint has registered at the other.

    Its errors are faults of the peer. For our own registrations the session turns them into a
    :class:`~laps_wire.errors.StateError` before anything is sent.
    """

    __slots__ = ("_tokens", "limit", "size")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        """MAX_AUTH_TOKEN_CACHE_SIZE of the side that keeps the tokens."""
        self.size = 0
        """The cost of all registered tokens."""
        self._tokens: dict[int, AuthToken] = {}

    def __len__(self) -> int:
        return len(self._tokens)

    def cost(self, alias: int) -> int:
        """Return the cost of the token ``alias``; 0 if there is none."""
        token = self._tokens.get(alias)
        return 0 if token is None else ENTRY_COST + len(token.value)

    def copy(self) -> TokenCache:
        """Return a copy, to test changes on."""
        other = TokenCache(self.limit)
        other.size = self.size
        other._tokens = dict(self._tokens)
        return other

    def resolve(self, tokens: Iterable[Token]) -> tuple[AuthToken, ...]:
        """Apply the tokens of one message in order, and return what they resolve to.

        Registrations persist even if the message is refused for another reason, so the peer need
        not wait (moq-transport-16, 9.2.2.1). Call this before any other check.
        """
        return _distinct(self._apply(token) for token in tokens)

    def resolve_setup(self, tokens: Iterable[Token]) -> tuple[AuthToken, ...]:
        """Apply the tokens of SETUP, where nothing is registered yet and the limit is not known.

        A token that does not fit is used once instead of registered: its sender may not know the
        limit (moq-transport-16, 9.3.1.5).
        """
        return _distinct(self._apply_setup(token) for token in tokens)

    def shrink(self, limit: int) -> None:
        """Apply the limit of the peer's SETUP, and remove tokens that the peer did not register.

        The peer registered our SETUP's tokens in order, as far as they fit; this does the same.
        """
        before = self._tokens
        self.limit, self.size, self._tokens = limit, 0, {}
        for alias, token in before.items():
            if self.size + ENTRY_COST + len(token.value) <= limit:
                self._register(alias, token)

    def _apply(self, token: Token) -> AuthToken | None:
        if token.alias is None:
            return _value_of(token)
        if token.alias_type is AliasType.REGISTER:
            return self._register(token.alias, _value_of(token))
        found = self._tokens.get(token.alias)
        if found is None:
            raise UnknownAuthTokenAlias(f"no token is registered as alias {token.alias}")
        if token.alias_type is AliasType.DELETE:
            del self._tokens[token.alias]
            self.size -= ENTRY_COST + len(found.value)
            return None
        return found

    def _apply_setup(self, token: Token) -> AuthToken:
        if token.alias is None:
            return _value_of(token)
        if token.alias_type is not AliasType.REGISTER:
            raise ProtocolViolation(f"a token {token.alias_type.name} in SETUP")
        value = _value_of(token)
        if self.size + ENTRY_COST + len(value.value) > self.limit:
            return value
        return self._register(token.alias, value)

    def _register(self, alias: int, token: AuthToken) -> AuthToken:
        if alias in self._tokens:
            raise DuplicateAuthTokenAlias(f"token alias {alias} is in use")
        cost = ENTRY_COST + len(token.value)
        if self.size + cost > self.limit:
            raise AuthTokenCacheOverflow(
                f"a token of {cost} bytes where {self.size} of {self.limit} are taken"
            )
        self._tokens[alias] = token
        self.size += cost
        return token


def _value_of(token: Token) -> AuthToken:
    """Return the type and value of a REGISTER or USE_VALUE token."""
    return AuthToken(token.token_type or 0, token.value or b"")


def _distinct(resolved: Iterable[AuthToken | None]) -> tuple[AuthToken, ...]:
    """Return all tokens; raise MalformedAuthToken if two are equal (moq-transport-16, 9.2.2.1)."""
    tokens = tuple(token for token in resolved if token is not None)
    if len(set(tokens)) != len(tokens):
        raise MalformedAuthToken("the same token twice in one message")
    return tokens


class OwnTokens:
    """The tokens that we have registered at the peer, and the order in which they may be used.

    The mirror refuses what the peer would close the session for. It also keeps draft 18's order
    across streams (moq-transport-18, 10.2.2):

    - An alias may be used on another stream than the one that registered or deleted it only after
      the peer has answered.
    - An alias is not deleted while a message that uses it is unanswered.
    - Space that a DELETE frees is used on another stream only after its answer, because that stream
      could arrive first.
    - A cancelled message may never have arrived, so it counts as unanswered for ever.

    A message is named by its request ID, a stream by that of its request.
    """

    __slots__ = (
        "_cache",
        "_changed_by",
        "_freed_by",
        "_lost",
        "_pinned",
        "_used_by",
        "limit_known",
    )

    def __init__(self, setup: Iterable[Token]) -> None:
        self._cache = TokenCache(_UNLIMITED)
        self._cache.resolve_setup(setup)
        self._changed_by: dict[int, tuple[int, int]] = {}
        """By alias: the unanswered message that registers or deletes the alias, and its stream."""
        self._used_by: dict[int, set[int]] = {}
        """By alias: the unanswered messages that use the alias."""
        self._freed_by: dict[int, tuple[int, int]] = {}
        """By unanswered message: the bytes that its DELETEs will free, and its stream."""
        self._pinned: set[int] = set()
        """Aliases that a cancelled message used, which are never deleted."""
        self._lost = 0
        """Bytes of DELETEs in cancelled messages, which the peer may still hold."""
        self.limit_known = False
        """Whether the peer's SETUP, with its limit, has arrived."""

    @property
    def size(self) -> int:
        """The cost of our registered tokens at the peer."""
        return self._cache.size

    def set_limit(self, limit: int) -> None:
        """Apply MAX_AUTH_TOKEN_CACHE_SIZE of the peer's SETUP."""
        self._cache.shrink(limit)
        self.limit_known = True

    def check(self, tokens: tuple[Token, ...], stream: int | None) -> TokenCache:
        """Return the cache after a message with ``tokens``; raise StateError if it is not allowed.

        ``stream`` is the request whose stream will carry the message; None in draft 16.
        """
        if not any(token.alias is not None for token in tokens):
            return self._cache
        if not self.limit_known:
            raise StateError("token aliases must wait for the peer's SETUP: it tells the limit")
        for token in tokens:
            if token.alias is not None and stream is not None:
                self._check_order(token, token.alias, stream)
        cache = self._cache.copy()
        cache.limit -= self._not_yet_free(stream)
        try:
            cache.resolve(tokens)
        except RemoteError as error:
            raise StateError(f"the peer would close the session: {error}") from error
        cache.limit = self._cache.limit
        return cache

    def _not_yet_free(self, stream: int | None) -> int:
        """Return the bytes of deleted tokens that the peer may hold when ``stream`` arrives."""
        return self._lost + sum(cost for cost, other in self._freed_by.values() if other != stream)

    def _check_order(self, token: Token, alias: int, stream: int) -> None:
        change = self._changed_by.get(alias)
        if change is not None and change[1] != stream:
            raise StateError(
                f"token alias {alias}: request {change[0]}, which changes it, is unanswered"
            )
        if token.alias_type is not AliasType.DELETE:
            return
        users = self._used_by.get(alias)
        if users:
            raise StateError(f"token alias {alias}: request {min(users)} uses it, unanswered")
        if alias in self._pinned:
            raise StateError(f"token alias {alias}: a cancelled request used it, unanswered")

    def sent(
        self, cache: TokenCache, tokens: tuple[Token, ...], message: int, stream: int | None
    ) -> None:
        """Record that a message was sent, with the ``cache`` that :meth:`check` returned."""
        before, self._cache = self._cache, cache
        if stream is None:
            return  # a single stream keeps the order
        freed = 0
        for token in tokens:
            if token.alias is None:
                continue
            if token.alias_type is AliasType.USE_ALIAS:
                self._used_by.setdefault(token.alias, set()).add(message)
                continue
            self._changed_by[token.alias] = (message, stream)
            if token.alias_type is AliasType.DELETE:
                freed += before.cost(token.alias)
        if freed:
            self._freed_by[message] = (freed, stream)

    def answered(self, message: int) -> None:
        """Record that the peer has answered a message: the order no longer depends on it."""
        for alias in [a for a, (by, _) in self._changed_by.items() if by == message]:
            del self._changed_by[alias]
        self._freed_by.pop(message, None)
        self._forget_user(message)

    def abandoned(self, message: int) -> None:
        """Record that no answer to a message will arrive; no effect if it was answered.

        Its restrictions are stored by alias and in bytes, not by message: the peer's limit bounds
        aliases and bytes, but not the number of messages.
        """
        self._lost += self._freed_by.pop(message, (0, 0))[0]
        self._pinned.update(self._forget_user(message))

    def _forget_user(self, message: int) -> list[int]:
        """Remove ``message`` as a user of aliases, and return those aliases."""
        used = [alias for alias, users in self._used_by.items() if message in users]
        for alias in used:
            self._used_by[alias].discard(message)
            if not self._used_by[alias]:
                del self._used_by[alias]
        return used
