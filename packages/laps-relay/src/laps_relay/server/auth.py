"""Authorization of requests by CAT tokens: the ``Authorizer`` of the Edge.

::

    no key configured        everything is allowed
    a key configured         a request needs a token whose scope covers it, or the anonymous scope;
                             a Stub or C++ relay, which proved itself as a peer and passes no
                             tokens on, the scopes of auth.guests

Every request is decided anew, also one that the cache answers. A signature check is expensive
(0.2 ms for ES256), so its result is cached by the token's SHA-256. Forged tokens are in a second,
small table, so that a flood of them evicts no genuine token. The times of a token are checked at
each request: the clock may have been set.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hmac import compare_digest
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from laps_relay.config import RelayConfig
from laps_relay.telemetry.sampler import AuthCounters
from laps_sdk.edge.authorization import Action, Decision
from laps_sdk.tokens import (
    TOKEN_TYPE_CAT,
    Expectations,
    Genuine,
    KeyRing,
    Scope,
    TokenError,
    TokenExpiredError,
    TokenKey,
    TokenMalformedError,
    Verified,
    authenticate,
    judge,
    load_keys,
    parse_scope,
)
from laps_wire.moqt.codepoints import RequestErrorCode
from laps_wire.moqt.session import AuthToken
from laps_wire.names import Namespace

__all__ = ["AuthSettings", "TokenAuthorizer", "auth_settings", "read_keys"]

PEER_TOKEN: Final = 0x4C41_5053
"""Token type of foreign peers; clients may send it, but do not know the value."""
_ALLOWED: Final = Decision(allowed=True)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthSettings:
    """How tokens are checked."""

    keys: tuple[TokenKey, ...] = ()
    """Keys whose tokens are accepted. Several at a time let keys be replaced without a gap."""
    expected: Expectations = field(default_factory=Expectations)
    anonymous: tuple[Scope, ...] = ()
    """What a request may do without a token."""
    foreign_peers: tuple[Scope, ...] = ()
    """What Stubs and C++ relays may do for their clients."""
    token_types: frozenset[int] = frozenset({TOKEN_TYPE_CAT})
    """MoQT token types that are read as CAT; others are ignored."""
    setup_required: bool = False
    """Whether SETUP itself needs a token; if not, requests may bring their own."""
    max_tokens: int = 4
    """Largest number of tokens of one request that are checked."""
    cached_tokens: int = 4096
    cached_forgeries: int = 1024


class _Failure(NamedTuple):
    """Why a token is not valid."""

    code: RequestErrorCode
    reason: str


def read_keys(paths: Sequence[Path]) -> tuple[TokenKey, ...]:
    """Return the keys of all files. Raises ``TokenError`` for no keys, or an id twice."""
    keys = tuple(key for path in paths for key in load_keys(path))
    KeyRing(keys)
    return keys


class TokenAuthorizer:
    """Decides about requests; ``wall`` is the clock that the times in tokens are on."""

    __slots__ = (
        "_allowed",
        "_denied",
        "_forged",
        "_good",
        "_ring",
        "_settings",
        "_signatures",
        "_wall",
        "peer_token",
    )

    def __init__(
        self, settings: AuthSettings | None = None, *, wall: Callable[[], float] = time.time
    ) -> None:
        self._wall = wall
        self.peer_token = AuthToken(PEER_TOKEN, secrets.token_bytes(32))
        """The token in the SETUP of a foreign peer's session; it never leaves this process."""
        self._allowed = self._denied = self._signatures = 0
        self._good: OrderedDict[bytes, Genuine] = OrderedDict()
        self._forged: OrderedDict[bytes, _Failure] = OrderedDict()
        self.replace(settings or AuthSettings())

    @property
    def open(self) -> bool:
        """Whether everything is allowed because no key is configured."""
        return not self._ring

    @property
    def counters(self) -> AuthCounters:
        """The decisions so far."""
        return AuthCounters(self._allowed, self._denied, self._signatures, len(self._good))

    def replace(self, settings: AuthSettings) -> None:
        """Use other keys and rules from the next request on."""
        self._ring = KeyRing(settings.keys)
        self._settings = settings
        self._good.clear()
        self._forged.clear()

    def authorize(
        self,
        now: float,
        action: Action,
        namespace: Namespace | None,
        name: bytes | None,
        tokens: Sequence[AuthToken],
        session_tokens: Sequence[AuthToken],
    ) -> Decision:
        """Decide about a request; see :class:`~laps_sdk.edge.authorization.Authorizer`."""
        decision = (
            self._decide(now, action, namespace, name, tokens or session_tokens)
            if self._ring
            else _ALLOWED
        )
        if decision.allowed:
            self._allowed += 1
        else:
            self._denied += 1
        return decision

    def _decide(
        self,
        now: float,
        action: Action,
        namespace: Namespace | None,
        name: bytes | None,
        tokens: Sequence[AuthToken],
    ) -> Decision:
        settings = self._settings
        fields = None if namespace is None else namespace.fields
        if self._is_foreign_peer(tokens):
            return self._as_foreign_peer(action, fields, name)
        readable = [token.value for token in tokens if token.type in settings.token_types]
        if len(readable) > settings.max_tokens:
            return _denied(f"{len(readable)} tokens, at most {settings.max_tokens} are looked at")
        wall = self._wall()
        failures: list[_Failure] = []
        for value in readable:
            found = self._check(value, wall)
            if isinstance(found, _Failure):
                failures.append(found)
            elif found.claims.allows(action, fields, name):
                return _granted(found, now, wall)
        if failures:
            # A client can act on "expired", so this reason comes first.
            worst = min(failures, key=_by_usefulness)
            return Decision(allowed=False, reason=worst.reason, code=worst.code)
        # A good token never takes away what anybody may do.
        if any(scope.allows(action, fields, name) for scope in settings.anonymous):
            return _ALLOWED
        if readable:
            return _denied(f"the token does not allow {action.name} here")
        if action is Action.CLIENT_SETUP and not settings.setup_required:
            return _ALLOWED
        if tokens:
            return _denied("no token of a type that this relay reads")
        return _denied("this needs a token")

    def _is_foreign_peer(self, tokens: Sequence[AuthToken]) -> bool:
        return any(
            token.type == PEER_TOKEN and compare_digest(token.value, self.peer_token.value)
            for token in tokens
        )

    def _as_foreign_peer(
        self, action: Action, fields: tuple[bytes, ...] | None, name: bytes | None
    ) -> Decision:
        settings = self._settings
        if action is Action.CLIENT_SETUP or any(
            scope.allows(action, fields, name)
            for scope in (*settings.foreign_peers, *settings.anonymous)
        ):
            return _ALLOWED
        return _denied(f"auth.guests does not allow {action.name} here to a Stub")

    def _check(self, value: bytes, wall: float) -> Verified | _Failure:
        digest = hashlib.sha256(value).digest()
        forged = self._forged.get(digest)
        if forged is not None:
            return forged
        genuine = self._good.get(digest)
        if genuine is not None:
            self._good.move_to_end(digest)
        else:
            self._signatures += 1
            try:
                genuine = authenticate(value, self._ring)
            except TokenError as error:
                failure = _failure(error)
                _remember(self._forged, digest, failure, self._settings.cached_forgeries)
                return failure
            _remember(self._good, digest, genuine, self._settings.cached_tokens)
        try:
            return judge(genuine, wall, self._settings.expected)
        except TokenError as error:
            return _failure(error)


def _failure(error: TokenError) -> _Failure:
    if isinstance(error, TokenExpiredError):
        return _Failure(RequestErrorCode.EXPIRED_AUTH_TOKEN, str(error))
    if isinstance(error, TokenMalformedError):
        return _Failure(RequestErrorCode.MALFORMED_AUTH_TOKEN, str(error))
    return _Failure(RequestErrorCode.UNAUTHORIZED, str(error))


def _by_usefulness(failure: _Failure) -> int:
    order = (RequestErrorCode.EXPIRED_AUTH_TOKEN, RequestErrorCode.MALFORMED_AUTH_TOKEN)
    return order.index(failure.code) if failure.code in order else len(order)


def _remember(table: OrderedDict[bytes, _T], digest: bytes, value: _T, limit: int) -> None:
    table[digest] = value
    if len(table) > limit:
        table.popitem(last=False)


def _granted(found: Verified, now: float, wall: float) -> Decision:
    """Return a grant that ends with its token, or when the token must be checked again."""
    left = None if found.good_until is None else found.good_until - wall
    if found.claims.revalidate:
        left = found.claims.revalidate if left is None else min(left, found.claims.revalidate)
    return Decision(
        allowed=True,
        expires=None if left is None else now + left,
        tenant=found.claims.issuer or "",
    )


def _denied(reason: str) -> Decision:
    return Decision(allowed=False, reason=reason, code=RequestErrorCode.UNAUTHORIZED)


def auth_settings(config: RelayConfig) -> AuthSettings:
    """Return how tokens are checked; reads the key files."""
    auth = config.auth
    return AuthSettings(
        keys=read_keys(auth.keys),
        expected=Expectations(
            audiences=tuple(auth.audience),
            issuers=tuple(auth.issuers),
            leeway=auth.leeway,
            require_expiry=auth.require_expiry,
        ),
        anonymous=tuple(parse_scope(text) for text in auth.anonymous),
        foreign_peers=tuple(parse_scope(text) for text in auth.guests),
        token_types=frozenset(auth.token_types),
        setup_required=auth.setup_required,
        max_tokens=auth.max_tokens,
        cached_tokens=auth.cached_tokens,
    )
