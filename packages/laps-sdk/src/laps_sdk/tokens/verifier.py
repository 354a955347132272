"""Checking tokens: the signature first, then the claims. The clock is an argument.

::

    verify = authenticate (whose token is it? dear, and the same at any time)
           + judge        (does it hold now, and for us? cheap)

The order matters. The envelope is small and its shape is checked by our own strict reader; the
claims are not looked at before the signature holds, so a stranger reaches no more code than that.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from cwt import COSE
from cwt.exceptions import CWTError

from laps_sdk.tokens import constants as c
from laps_sdk.tokens.claims import Claims
from laps_sdk.tokens.envelope import Envelope, open_envelope
from laps_sdk.tokens.errors import TokenExpiredError, TokenForgedError, TokenRefusedError
from laps_sdk.tokens.keys import KeyRing, TokenKey

__all__ = ["Expectations", "Genuine", "Verified", "authenticate", "judge", "verify"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectations:
    """What a verifier wants to see beside a good signature."""

    audiences: Collection[str] = ()
    """Who we are. A token for somebody else is refused, also if we are nobody in particular."""
    issuers: Collection[str] = ()
    """Whom we trust; none: whoever holds a key."""
    leeway: float = 5.0
    """Seconds that clocks may differ."""
    require_expiry: bool = True
    """Refuse tokens that would be good for ever."""
    min_revalidation: float = 1.0
    """The shortest ``moqt-reval`` that we can honour, in seconds."""


@dataclass(frozen=True, slots=True)
class Genuine:
    """A token that a key of ours made; whether it holds is for :func:`judge` to say."""

    claims: Claims
    kid: str
    algorithm: str


@dataclass(frozen=True, slots=True)
class Verified:
    """A token that holds."""

    claims: Claims
    kid: str
    algorithm: str
    good_until: float | None
    """Unix time at which it ends, our leeway included; None: it does not."""


_DEFAULT: Final = Expectations()
_COSE: Final = COSE.new()


def verify(token: bytes, keys: KeyRing, now: float, expected: Expectations = _DEFAULT) -> Verified:
    """Check a token at Unix time ``now``; raises a :class:`TokenError` that says what is wrong."""
    return judge(authenticate(token, keys), now, expected)


def authenticate(token: bytes, keys: KeyRing) -> Genuine:
    """Check who made a token. The answer stays the same for as long as the keys do."""
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
    """Whether a genuine token holds at Unix time ``now``, and for us."""
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
    # Two readers saw the bytes; what was signed must be what we go on with.
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
