"""The claims of a token: allowed actions, names, times and parties (draft-ietf-moq-c4m-01, 2).

::

    moqt = [ scope, ... ]                     any scope that matches grants
    scope = [ [action, ...],                  what
              [match, ..., nil?],             each field of the namespace, in order
              match ]                         the track name
    match = bytes                             exactly this
          | [1, bytes]                        begins with
          | [2, bytes]                        ends with

A scope whose namespace list does not end with nil also covers longer namespaces. Without a track
match a scope covers every name, without a namespace list every namespace. Bytes are compared
without normalisation. An action that no scope grants is denied.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Final

from laps_sdk.tokens import constants as c
from laps_sdk.tokens.cbor import Key, Value
from laps_sdk.tokens.errors import TokenMalformedError, TokenRefusedError
from laps_wire.errors import EncodeError
from laps_wire.names import MAX_FIELDS

__all__ = ["Action", "Claims", "Match", "MatchKind", "Scope"]


class Action(IntEnum):
    """The actions that a scope can grant (draft-ietf-moq-c4m-01, Table 1)."""

    CLIENT_SETUP = 0
    SERVER_SETUP = 1
    PUBLISH_NAMESPACE = 2
    SUBSCRIBE_NAMESPACE = 3
    SUBSCRIBE = 4
    REQUEST_UPDATE = 5
    PUBLISH = 6
    FETCH = 7
    TRACK_STATUS = 8


class MatchKind(Enum):
    """How the bytes of a match are compared."""

    EXACT = "exact"
    PREFIX = "prefix"
    SUFFIX = "suffix"


_MATCH_TYPES: Final = {c.MATCH_PREFIX: MatchKind.PREFIX, c.MATCH_SUFFIX: MatchKind.SUFFIX}
_MATCH_CODES: Final = {kind: code for code, kind in _MATCH_TYPES.items()}


@dataclass(frozen=True, slots=True)
class Match:
    """One pattern for a namespace field or a track name."""

    value: bytes
    kind: MatchKind = MatchKind.EXACT

    def accepts(self, field: bytes) -> bool:
        """Return whether the pattern matches a field."""
        if self.kind is MatchKind.EXACT:
            return field == self.value
        if self.kind is MatchKind.PREFIX:
            return field.startswith(self.value)
        return field.endswith(self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Actions and the names on which a token grants them."""

    actions: frozenset[int]
    """Numbers of :class:`Action`. Unknown numbers are kept, but grant no known action."""
    namespace: tuple[Match, ...] = ()
    whole: bool = False
    """Whether longer namespaces are excluded (nil at the end of the list)."""
    track: Match | None = None

    def __post_init__(self) -> None:
        if not self.actions:
            raise EncodeError("a scope needs at least one action")
        if self.track is not None and not self.namespace and not self.whole:
            raise EncodeError(
                "a scope with a track match needs a namespace match: the token has no place for"
                " one without the other"
            )

    def allows(self, action: int, namespace: Sequence[bytes] | None, name: bytes | None) -> bool:
        """Return whether this scope grants the action.

        ``name`` is None for actions on namespaces, ``namespace`` is None for SETUP.
        """
        if action not in self.actions:
            return False
        if namespace is None:
            return True
        wanted = len(self.namespace)
        if len(namespace) < wanted or (self.whole and len(namespace) > wanted):
            return False
        for match, field in zip(self.namespace, namespace, strict=False):
            if not match.accepts(field):
                return False
        return name is None or self.track is None or self.track.accepts(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """The claims of a token that the SDK evaluates. Times are Unix seconds."""

    scopes: tuple[Scope, ...] = ()
    issuer: str | None = None
    subject: str | None = None
    audience: tuple[str, ...] = ()
    expires: float | None = None
    not_before: float | None = None
    issued_at: float | None = None
    token_id: bytes | None = None
    revalidate: float | None = None
    """Seconds after which a relay checks the token again; None or 0: never."""
    ignored: tuple[str, ...] = ()
    """Private claims (negative or textual keys), which are not evaluated."""

    def allows(self, action: int, namespace: Sequence[bytes] | None, name: bytes | None) -> bool:
        """Return whether any scope grants the action."""
        return any(scope.allows(action, namespace, name) for scope in self.scopes)

    def to_cbor(self) -> dict[Key, Value]:
        """Return the claims as a CWT claims set."""
        out: dict[Key, Value] = {}
        if self.issuer is not None:
            out[c.CLAIM_ISS] = self.issuer
        if self.subject is not None:
            out[c.CLAIM_SUB] = self.subject
        if self.audience:
            # One audience stands alone, several in an array (RFC 8392, 3.1.3).
            out[c.CLAIM_AUD] = self.audience[0] if len(self.audience) == 1 else [*self.audience]
        for key, value in (
            (c.CLAIM_EXP, self.expires),
            (c.CLAIM_NBF, self.not_before),
            (c.CLAIM_IAT, self.issued_at),
        ):
            if value is not None:
                out[key] = _whole(value)
        if self.token_id is not None:
            out[c.CLAIM_CTI] = self.token_id
        if self.scopes:
            out[c.CLAIM_MOQT] = [_scope_to_cbor(scope) for scope in self.scopes]
        if self.revalidate is not None:
            out[c.CLAIM_MOQT_REVAL] = _whole(self.revalidate)
        return out

    @classmethod
    def from_cbor(cls, value: Value) -> Claims:
        """Read a CWT claims set.

        Raises ``TokenRefusedError`` for a restricting claim that the SDK cannot evaluate, and
        ``TokenMalformedError`` for a wrong shape.
        """
        if not isinstance(value, Mapping):
            raise TokenMalformedError("the token's payload is not a map of claims")
        ignored: list[str] = []
        for key in value:
            if key in _UNDERSTOOD:
                continue
            if isinstance(key, int) and key >= 0:
                name = c.CLAIM_NAMES.get(key, f"number {key}")
                raise TokenRefusedError(f"claim {name} is not supported, so the token is refused")
            ignored.append(ascii(key)[:40])
        return cls(
            scopes=_scopes(value),
            issuer=_text(value, c.CLAIM_ISS, "iss"),
            subject=_text(value, c.CLAIM_SUB, "sub"),
            audience=_audience(value),
            expires=_number(value, c.CLAIM_EXP, "exp"),
            not_before=_number(value, c.CLAIM_NBF, "nbf"),
            issued_at=_number(value, c.CLAIM_IAT, "iat"),
            token_id=_token_id(value),
            revalidate=_number(value, c.CLAIM_MOQT_REVAL, "moqt-reval"),
            ignored=tuple(ignored),
        )


_UNDERSTOOD: Final = frozenset(
    {
        *(c.CLAIM_ISS, c.CLAIM_SUB, c.CLAIM_AUD, c.CLAIM_EXP, c.CLAIM_NBF, c.CLAIM_IAT),
        *(c.CLAIM_CTI, c.CLAIM_CATV, c.CLAIM_MOQT, c.CLAIM_MOQT_REVAL),
    }
)


def _whole(value: float) -> int | float:
    # Above 2**53 a float is not an exact integer, and integers end at 64 bits.
    return int(value) if value < 2**53 and float(value).is_integer() else float(value)


def _scope_to_cbor(scope: Scope) -> Value:
    out: list[Value] = [[*sorted(scope.actions)]]
    if scope.namespace or scope.whole:
        matches: list[Value] = [_match_to_cbor(match) for match in scope.namespace]
        out.append([*matches, None] if scope.whole else matches)
    if scope.track is not None:
        out.append(_match_to_cbor(scope.track))
    return out


def _match_to_cbor(match: Match) -> Value:
    if match.kind is MatchKind.EXACT:
        return match.value
    return [_MATCH_CODES[match.kind], match.value]


# Reading: every shape is checked, since who holds a key may still have made a mistake.


def _text(claims: Mapping[Key, Value], key: int, name: str) -> str | None:
    value = claims.get(key)
    if value is None and key not in claims:
        return None
    if not isinstance(value, str) or len(value) > c.MAX_TEXT:
        raise TokenMalformedError(f"claim {name} is not a text of at most {c.MAX_TEXT} characters")
    return value


def _number(claims: Mapping[Key, Value], key: int, name: str) -> float | None:
    value = claims.get(key)
    if value is None and key not in claims:
        return None
    # True is a number in Python; 2**64 seconds and not-a-number are no times.
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TokenMalformedError(f"claim {name} is not a number")
    if value < 0:
        raise TokenMalformedError(f"claim {name} is negative")
    return value


def _audience(claims: Mapping[Key, Value]) -> tuple[str, ...]:
    if c.CLAIM_AUD not in claims:
        return ()
    value = claims[c.CLAIM_AUD]
    items = value if isinstance(value, list) else [value]
    texts = tuple(item for item in items if isinstance(item, str) and len(item) <= c.MAX_TEXT)
    if not texts or len(texts) != len(items) or len(items) > c.MAX_AUDIENCES:
        raise TokenMalformedError(
            f"claim aud is not a text or a list of 1 to {c.MAX_AUDIENCES} texts"
        )
    return texts


def _token_id(claims: Mapping[Key, Value]) -> bytes | None:
    if c.CLAIM_CTI not in claims:
        return None
    value = claims[c.CLAIM_CTI]
    if not isinstance(value, bytes):
        raise TokenMalformedError("claim cti is not a byte string")
    return value


def _scopes(claims: Mapping[Key, Value]) -> tuple[Scope, ...]:
    if c.CLAIM_MOQT not in claims:
        return ()
    value = claims[c.CLAIM_MOQT]
    if not isinstance(value, list) or not 1 <= len(value) <= c.MAX_SCOPES:
        raise TokenMalformedError(f"claim moqt is not a list of 1 to {c.MAX_SCOPES} scopes")
    return tuple(_scope(item, f"moqt[{index}]") for index, item in enumerate(value))


def _scope(value: Value, where: str) -> Scope:
    if not isinstance(value, list) or not 1 <= len(value) <= 3:
        raise TokenMalformedError(f"{where} is not [actions, namespace matches?, track match?]")
    actions = value[0]
    if not isinstance(actions, list) or not actions:
        raise TokenMalformedError(f"{where}: the actions are not a list of numbers")
    numbers = [item for item in actions if isinstance(item, int) and not isinstance(item, bool)]
    if len(numbers) != len(actions):
        raise TokenMalformedError(f"{where}: an action that is not a number")
    namespace: tuple[Match, ...] = ()
    whole = False
    if len(value) > 1:
        matches = value[1]
        if not isinstance(matches, list) or not 1 <= len(matches) <= MAX_FIELDS + 1:
            raise TokenMalformedError(
                f"{where}: the namespace is not a list of 1 to {MAX_FIELDS + 1} matches"
            )
        whole = matches[-1] is None
        fields = matches[:-1] if whole else matches
        namespace = tuple(
            _match(item, f"{where} namespace[{index}]") for index, item in enumerate(fields)
        )
    track = _match(value[2], f"{where} track") if len(value) > 2 else None
    return Scope(actions=frozenset(numbers), namespace=namespace, whole=whole, track=track)


def _match(value: Value, where: str) -> Match:
    if isinstance(value, bytes):
        return Match(value)
    if value is None:
        raise TokenMalformedError(f"{where}: nil may only end the list")
    if isinstance(value, list) and len(value) == 2:
        code, pattern = value
        kind = _MATCH_TYPES.get(code) if type(code) is int else None
        if kind is not None and isinstance(pattern, bytes):
            return Match(pattern, kind)
    raise TokenMalformedError(
        f"{where}: a match is a byte string, [1, prefix bytes] or [2, suffix bytes]"
    )
