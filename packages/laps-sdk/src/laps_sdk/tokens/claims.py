"""What a token grants and how it is written: claims, COSE envelope, scopes as text.

**Claims**: allowed actions, names, times and parties (draft-ietf-moq-c4m-01, 2)::

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

**The envelope** of a token can be read without a key::

    61(                       CWT tag, optional
      17 | 18 (               COSE_Mac0 or COSE_Sign1
        [ protected: bytes,   {1: algorithm, 4?: key id}
          unprotected: {4?: key id},
          payload: bytes,     the claims
          signature: bytes ] ) )

A token is sent as these bytes. As text (files, command lines, URLs) it is their base64url form.
The three-part ``header.payload.signature`` text of the draft's appendix is not COSE and is refused.

**Scopes as text**, for command lines and configuration files::

    publish,subscribe:example.2enet-team2/*
    '---------------' '-----------------' '- any longer namespace too
        actions         namespace, as laps_wire writes it

    subscribe:example.2enet-team2               this namespace, any track
    subscribe:example.2enet-team2--report       this track
    subscribe:example.2enet-team2--video*       tracks whose name begins with video
    subscribe:example.2enet-team2--*json        tracks whose name ends with json
    subscribe:example.2enet-user.2d*            namespaces whose last field begins with user-
    all:*                                       everything

``*`` itself cannot be part of a name in this form: the text form of names escapes it.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Final

from laps_sdk.tokens import constants as c
from laps_sdk.tokens.cbor import Key, Tagged, Value, decode
from laps_sdk.tokens.errors import TokenMalformedError, TokenRefusedError
from laps_wire.errors import EncodeError, TextFormError
from laps_wire.names import MAX_FIELDS, FullTrackName, Namespace

__all__ = [
    "Action",
    "Claims",
    "Envelope",
    "Match",
    "MatchKind",
    "Scope",
    "format_scope",
    "from_text",
    "open_envelope",
    "parse_scope",
    "to_text",
]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """The parts of a token, not verified."""

    mac: bool
    """Whether the token has a MAC (shared secret) instead of a signature."""
    algorithm: int
    kid: bytes | None
    payload: bytes
    signature: bytes
    body: bytes
    """The token without the CWT tag, for the COSE library."""

    def claims(self) -> Claims:
        """Return the claims, not verified; see :func:`laps_sdk.tokens.verify`."""
        return Claims.from_cbor(decode(self.payload))


def open_envelope(token: bytes) -> Envelope:
    """Parse a token without verifying it; raises ``TokenMalformedError``."""
    if len(token) > c.MAX_TOKEN_BYTES:
        raise TokenMalformedError(
            f"a token of {len(token)} bytes, at most {c.MAX_TOKEN_BYTES} are looked at"
        )
    body = token
    value = decode(token)
    if isinstance(value, Tagged) and value.tag == c.TAG_CWT:
        # decode() also accepts a longer form of the tag's head, d8 3d.
        value = value.value
        body = token[2:]
        if token[:2] != b"\xd8\x3d":
            raise TokenMalformedError("the CWT tag is not in its shortest form")
    if not isinstance(value, Tagged) or value.tag not in (c.TAG_MAC0, c.TAG_SIGN1):
        raise TokenMalformedError("not a COSE_Mac0 or COSE_Sign1 message")
    parts = value.value
    if not isinstance(parts, list) or len(parts) != 4:
        raise TokenMalformedError("a COSE message has four parts")
    protected_bytes, unprotected, payload, signature = parts
    if (
        not isinstance(protected_bytes, bytes)
        or not isinstance(payload, bytes)
        or not isinstance(signature, bytes)
        or not isinstance(unprotected, Mapping)
    ):
        raise TokenMalformedError("a COSE message is [bytes, map, bytes, bytes]")
    protected = decode(protected_bytes) if protected_bytes else {}
    if not isinstance(protected, Mapping):
        raise TokenMalformedError("the protected header is not a map")
    algorithm = protected.get(c.HEADER_ALG)
    # Only the protected header counts: the other one can be changed on the path.
    if isinstance(algorithm, bool) or not isinstance(algorithm, int):
        raise TokenMalformedError("no algorithm in the protected header")
    if c.HEADER_CRIT in protected or c.HEADER_CRIT in unprotected:
        raise TokenMalformedError("critical header parameters are not supported")
    return Envelope(
        mac=value.tag == c.TAG_MAC0,
        algorithm=algorithm,
        kid=_kid(protected, unprotected),
        payload=payload,
        signature=signature,
        body=body,
    )


def _kid(protected: Mapping[Key, Value], unprotected: Mapping[Key, Value]) -> bytes | None:
    if c.HEADER_KID in protected and c.HEADER_KID in unprotected:
        raise TokenMalformedError("a key id in both headers")
    kid = protected.get(c.HEADER_KID, unprotected.get(c.HEADER_KID))
    if kid is None:
        return None
    if not isinstance(kid, bytes) or not 1 <= len(kid) <= c.MAX_KID_BYTES:
        raise TokenMalformedError(f"a key id is 1 to {c.MAX_KID_BYTES} bytes")
    return kid


def to_text(token: bytes) -> str:
    """Return the base64url form, without padding."""
    return base64.urlsafe_b64encode(token).rstrip(b"=").decode()


def from_text(text: str) -> bytes:
    """Read the base64url or base64 form, with or without white space around it."""
    compact = text.strip()
    if "." in compact:
        raise TokenMalformedError(
            "a three-part 'header.payload.signature' text is not a COSE token;"
            " this takes the base64url form of the token's bytes"
        )
    plain = compact.rstrip("=").translate(str.maketrans("+/", "-_"))
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise TokenMalformedError("the text of a token must be base64url") from None


_EXAMPLE: Final = "publish,subscribe:example.2enet-team2/*"
_GROUPS: Final = {
    "all": frozenset(Action),
    "pub": frozenset({Action.CLIENT_SETUP, Action.PUBLISH_NAMESPACE, Action.PUBLISH}),
    "sub": frozenset(
        {
            Action.CLIENT_SETUP,
            Action.SUBSCRIBE_NAMESPACE,
            Action.SUBSCRIBE,
            Action.REQUEST_UPDATE,
            Action.FETCH,
            Action.TRACK_STATUS,
        }
    ),
}
"""Words that stand for several actions."""


def parse_scope(text: str) -> Scope:
    """Read one scope; raises ``TextFormError`` for bad text."""
    words, colon, names = text.partition(":")
    if not colon:
        raise _fault(text, len(text), "no ':' between actions and names")
    actions: set[int] = set()
    for word in words.split(","):
        found = _action(word.strip())
        if found is None:
            known = ", ".join([*_GROUPS, *(action.name.lower() for action in Action)])
            raise _fault(text, text.find(word), f"unknown action {word!a} (known: {known})")
        actions |= found
    if names == "*":
        return Scope(actions=frozenset(actions))
    longer = names.endswith("/*")
    namespace_text, parted, track_text = names.removesuffix("/*").partition("--")
    if longer and parted:
        raise _fault(text, len(text), "'/*' follows a namespace, not a track name")
    if longer and not namespace_text:
        # Most likely a variable that was empty: it must not turn into a grant of everything.
        raise _fault(text, text.find(":") + 1, "no namespace before '/*'; everything is '*' alone")
    fields = _namespace(namespace_text)
    track = _pattern(track_text) if parted else None
    if track is not None and track.kind is MatchKind.PREFIX and not track.value:
        track = None
    return Scope(actions=frozenset(actions), namespace=fields, whole=not longer, track=track)


def format_scope(scope: Scope) -> str:
    """Write a scope. A part that :func:`parse_scope` cannot read is written with ``?``."""
    known = {action.value for action in Action}
    names = next((word for word, group in _GROUPS.items() if group == scope.actions), None)
    if names is None:
        names = ",".join(
            Action(number).name.lower() if number in known else f"?{number}"
            for number in sorted(scope.actions)
        )
    if not scope.namespace and not scope.whole:
        return f"{names}:*"
    fields = "-".join(_show(match, namespace=True) for match in scope.namespace)
    if scope.track is not None:
        # Text has no form for "any longer namespace, and this track": show it all the same.
        longer = "" if scope.whole else "/*"
        return f"{names}:{fields}{longer}--{_show(scope.track, namespace=False)}"
    if scope.whole and fields == "*":
        return f"{names}:*--*"  # any namespace of one field; "*" alone is everything
    return f"{names}:{fields}" if scope.whole else f"{names}:{fields}/*"


def _action(word: str) -> frozenset[int] | None:
    if word in _GROUPS:
        return frozenset(int(action) for action in _GROUPS[word])
    try:
        return frozenset({int(Action[word.upper().replace("-", "_")])})
    except KeyError:
        return None


def _namespace(text: str) -> tuple[Match, ...]:
    return tuple(_pattern(part, namespace=True) for part in text.split("-")) if text else ()


def _pattern(text: str, *, namespace: bool = False) -> Match:
    if text.startswith("*") and text != "*":
        return Match(_bytes(text[1:], namespace=namespace), MatchKind.SUFFIX)
    if text.endswith("*"):
        return Match(_bytes(text[:-1], namespace=namespace), MatchKind.PREFIX)
    return Match(_bytes(text, namespace=namespace))


def _bytes(text: str, *, namespace: bool) -> bytes:
    if namespace and text:
        return Namespace.parse(text).fields[0]
    return FullTrackName.parse(f"--{text}").name


def _show(match: Match, *, namespace: bool) -> str:
    text = str(Namespace.of(match.value)) if namespace and match.value else _name_text(match.value)
    if match.kind is MatchKind.PREFIX:
        return f"{text}*"
    return f"*{text}" if match.kind is MatchKind.SUFFIX else text


def _name_text(value: bytes) -> str:
    return str(FullTrackName(Namespace(), value)).removeprefix("--")


def _fault(text: str, index: int, reason: str) -> TextFormError:
    return TextFormError.at("scope", text, max(index, 0), reason, example=_EXAMPLE)
