"""Making tokens."""

from __future__ import annotations

from typing import Final

from cwt import COSE
from cwt.exceptions import CWTError

from laps_sdk.tokens import constants as c
from laps_sdk.tokens.cbor import decode, encode
from laps_sdk.tokens.claims import Claims
from laps_sdk.tokens.errors import KeyFileError, TokenError
from laps_sdk.tokens.keys import TokenKey
from laps_wire.errors import EncodeError

__all__ = ["mint"]

_CWT_HEAD: Final = b"\xd8\x3d"
"""Tag 61."""


def mint(claims: Claims, key: TokenKey) -> bytes:
    """Make a token: a CWT in a COSE_Mac0 (HS256) or a COSE_Sign1 (ES256, EdDSA)."""
    if not key.private:
        raise KeyFileError(f"key {key.kid!a} is a public key: it can check tokens, not make them")
    payload = encode(claims.to_cbor())
    try:
        Claims.from_cbor(decode(payload))
    except TokenError as error:
        raise EncodeError(f"no verifier would take this token: {error}") from None
    # The key id is protected too: nobody can point a token at another key.
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
