"""The COSE envelope of a token, which can be read without a key.

::

    61(                       CWT tag, optional
      17 | 18 (               COSE_Mac0 or COSE_Sign1
        [ protected: bytes,   {1: algorithm, 4?: key id}
          unprotected: {4?: key id},
          payload: bytes,     the claims
          signature: bytes ] ) )

A token is sent as these bytes. As text (files, command lines, URLs) it is their base64url form.
The three-part ``header.payload.signature`` text of the draft's appendix is not COSE and is refused.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass

from laps_sdk.tokens import constants as c
from laps_sdk.tokens.cbor import Key, Tagged, Value, decode
from laps_sdk.tokens.claims import Claims
from laps_sdk.tokens.errors import TokenMalformedError

__all__ = ["Envelope", "from_text", "open_envelope", "to_text"]


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
