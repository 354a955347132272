"""Tokens: no bytes but those of a key's holder are accepted, and every refusal is in words.

The first byte chooses: the bytes as a token, the bytes as claims behind a good signature, or the
bytes as the text of a scope.
"""

from __future__ import annotations

import hashlib
import hmac

from laps_sdk.tokens import (
    Claims,
    KeyRing,
    TokenError,
    format_scope,
    mint,
    open_envelope,
    parse_scope,
    verify,
)
from laps_sdk.tokens.cbor import Tagged, decode, encode
from laps_sdk.tokens.signing import from_jwk
from laps_wire.errors import LocalError

_KEY = from_jwk({"kty": "oct", "alg": "HS256", "kid": "k", "k": "A" * 43})
_RING = KeyRing([_KEY])
_PROTECTED = encode({1: 5, 4: b"k"})
_NOW = 1_000_000.0


def one_input(data: bytes) -> None:
    """Check one token."""
    kind, rest = data[:1], data[1:]
    try:
        if kind == b"s":
            _scope(rest)
        elif kind == b"c":
            _claims(rest)
        else:
            open_envelope(rest).claims()
            verify(rest, _RING, _NOW)
    except (TokenError, LocalError) as error:
        if not str(error).isprintable():
            raise AssertionError(f"a fault that does not print: {error!a}") from error


def _claims(payload: bytes) -> None:
    mac = hmac.new(bytes(32), encode(["MAC0", _PROTECTED, b"", payload]), hashlib.sha256).digest()
    token = encode(Tagged(61, Tagged(17, [_PROTECTED, {}, payload, mac])))
    claims = verify(token, _RING, _NOW).claims
    for scope in claims.scopes:
        format_scope(scope)
    if Claims.from_cbor(decode(encode(claims.to_cbor()))).scopes != claims.scopes:
        raise AssertionError(f"{claims!a} is not read as it was written")


def _scope(raw: bytes) -> None:
    scope = parse_scope(raw.decode("utf-8", "replace"))
    if parse_scope(format_scope(scope)) != scope:
        raise AssertionError(f"{scope!a} is not read as it was written")


def seeds() -> list[bytes]:
    """A token, claims and scopes."""
    scopes = ("all:*", "pub:example-a/*", "sub:a-b*--*c", "fetch:a--b*")
    claims = Claims(
        scopes=tuple(map(parse_scope, scopes)),
        issuer="me",
        subject="you",
        expires=_NOW + 9,
        not_before=_NOW,
        revalidate=5.5,
        token_id=b"1",
    )
    return [
        b"t" + mint(claims, _KEY),
        b"c" + encode(claims.to_cbor()),
        *(b"s" + text.encode() for text in scopes),
    ]
