"""Making and checking tokens. The clock is an argument.

::

    mint: Claims + private key -> token

    verify = authenticate (checks the signature: expensive, does not depend on the time)
           + judge        (checks time, audience and issuer: cheap)

The signature is checked before the claims are read, so an unsigned token reaches only our strict
reader of the envelope.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from cwt import COSE
from cwt.exceptions import CWTError

from laps_sdk.tokens import constants as c
from laps_sdk.tokens.cbor import decode, encode
from laps_sdk.tokens.claims import Claims
from laps_sdk.tokens.envelope import Envelope, open_envelope
from laps_sdk.tokens.errors import (
    KeyFileError,
    TokenError,
    TokenExpiredError,
    TokenForgedError,
    TokenRefusedError,
)
from laps_sdk.tokens.keys import KeyRing, TokenKey
from laps_wire.errors import EncodeError

__all__ = ["Expectations", "Genuine", "Verified", "authenticate", "judge", "mint", "verify"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectations:
    """The requirements of a verifier besides a valid signature."""

    audiences: Collection[str] = ()
    """Our own names. A token for another audience is refused, even if this is empty."""
    issuers: Collection[str] = ()
    """Trusted issuers; empty: any issuer with a trusted key."""
    leeway: float = 5.0
    """Seconds by which clocks may differ."""
    require_expiry: bool = True
    """Whether to refuse tokens without an expiry."""
    min_revalidation: float = 1.0
    """The shortest supported ``moqt-reval``, in seconds."""


@dataclass(frozen=True, slots=True)
class Genuine:
    """A token with a valid signature; :func:`judge` checks its claims."""

    claims: Claims
    kid: str
    algorithm: str


@dataclass(frozen=True, slots=True)
class Verified:
    """A valid token."""

    claims: Claims
    kid: str
    algorithm: str
    good_until: float | None
    """Unix time of the expiry, including the leeway; None: it never expires."""


_DEFAULT: Final = Expectations()
_COSE: Final = COSE.new()
_CWT_HEAD: Final = b"\xd8\x3d"
"""Tag 61."""


def mint(claims: Claims, key: TokenKey) -> bytes:
    """Make a token: a CWT in a COSE_Mac0 (HS256) or a COSE_Sign1 (ES256, EdDSA).

    Raises ``KeyFileError`` for a key that cannot sign, and ``EncodeError`` for claims that no
    verifier accepts.
    """
    if not key.private:
        raise KeyFileError(f"key {key.kid!a} is a public key: it can check tokens, not make them")
    payload = encode(claims.to_cbor())
    try:
        Claims.from_cbor(decode(payload))
    except TokenError as error:
        raise EncodeError(f"no verifier would take this token: {error}") from None
    # The key id is in the protected header, so that it cannot be changed.
    protected = {c.HEADER_ALG: key.algorithm_id, c.HEADER_KID: key.kid.encode()}
    cose = COSE.new(alg_auto_inclusion=False, kid_auto_inclusion=False)
    try:
        if key.algorithm == "HS256":
            body = cose.encode_and_mac(payload, key.cose, protected=protected)
        else:
            body = cose.encode_and_sign(payload, key.cose, protected=protected)
    except (CWTError, ValueError) as error:
        raise KeyFileError(f"key {key.kid!a} cannot make tokens: {error}") from None
    token = _CWT_HEAD + bytes(body)
    if len(token) > c.MAX_TOKEN_BYTES:
        raise EncodeError(
            f"a token of {len(token)} bytes, verifiers take {c.MAX_TOKEN_BYTES}; use fewer scopes"
        )
    return token


def verify(token: bytes, keys: KeyRing, now: float, expected: Expectations = _DEFAULT) -> Verified:
    """Verify a token at Unix time ``now``; raises :class:`TokenError` with the reason."""
    return judge(authenticate(token, keys), now, expected)


def authenticate(token: bytes, keys: KeyRing) -> Genuine:
    """Verify the signature of a token; raises ``TokenForgedError`` or ``TokenMalformedError``."""
    envelope = open_envelope(token)
    name = next((n for n, number in c.ALGORITHMS.items() if number == envelope.algorithm), None)
    if name is None:
        raise TokenForgedError(f"algorithm {envelope.algorithm} is not accepted")
    if envelope.mac != (name == "HS256"):
        raise TokenForgedError("the algorithm does not belong to this kind of COSE message")
    key = keys.find(envelope.kid, envelope.algorithm)
    if key is None:
        raise TokenForgedError("no key of this id and algorithm is known")
    _check_signature(envelope, key)
    return Genuine(envelope.claims(), key.kid, key.algorithm)


def judge(genuine: Genuine, now: float, expected: Expectations = _DEFAULT) -> Verified:
    """Check time, audience and issuer of a token; raises :class:`TokenError`."""
    claims = genuine.claims
    good_until = _check_time(claims, now, expected)
    _check_parties(claims, expected)
    if claims.revalidate and claims.revalidate < expected.min_revalidation:
        raise TokenRefusedError(
            f"moqt-reval of {claims.revalidate:g} s is shorter than this relay can honour"
            f" ({expected.min_revalidation:g} s)"
        )
    return Verified(claims, genuine.kid, genuine.algorithm, good_until)


def _check_signature(envelope: Envelope, key: TokenKey) -> None:
    try:
        payload = _COSE.decode(envelope.body, key.cose)
    except (CWTError, ValueError, TypeError):
        raise TokenForgedError("the signature does not hold") from None
    # Two parsers read the bytes: the signed payload must be the one that we evaluate.
    if payload != envelope.payload:
        raise TokenForgedError("the signature is not over the claims")


def _check_time(claims: Claims, now: float, expected: Expectations) -> float | None:
    if claims.expires is None:
        if expected.require_expiry:
            raise TokenRefusedError("the token has no exp claim; one that ends is required")
        good_until = None
    else:
        good_until = claims.expires + expected.leeway
        if now >= good_until:
            raise TokenExpiredError("the token has expired")
    if claims.not_before is not None and now < claims.not_before - expected.leeway:
        raise TokenRefusedError("the token is not valid yet (nbf)")
    return good_until


def _check_parties(claims: Claims, expected: Expectations) -> None:
    if claims.audience and not set(claims.audience) & set(expected.audiences):
        raise TokenRefusedError("the token is for another audience (aud)")
    if expected.audiences and not claims.audience:
        raise TokenRefusedError("the token names no audience (aud), one is required")
    if expected.issuers and claims.issuer not in expected.issuers:
        raise TokenRefusedError("the token is from an issuer that is not trusted (iss)")
