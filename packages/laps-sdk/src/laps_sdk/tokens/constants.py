"""The numbers of the token formats.

The claim keys of ``moqt`` and ``moqt-reval`` are not registered yet; these are the ones that the
test vectors of draft-ietf-moq-c4m-01 use (Appendix A).
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "ALGORITHMS",
    "ALG_EDDSA",
    "ALG_ES256",
    "ALG_HS256",
    "CLAIM_AUD",
    "CLAIM_CATV",
    "CLAIM_CTI",
    "CLAIM_EXP",
    "CLAIM_IAT",
    "CLAIM_ISS",
    "CLAIM_MOQT",
    "CLAIM_MOQT_REVAL",
    "CLAIM_NAMES",
    "CLAIM_NBF",
    "CLAIM_SUB",
    "HEADER_ALG",
    "HEADER_CRIT",
    "HEADER_KID",
    "MATCH_PREFIX",
    "MATCH_SUFFIX",
    "MAX_AUDIENCES",
    "MAX_KID_BYTES",
    "MAX_SCOPES",
    "MAX_TEXT",
    "MAX_TOKEN_BYTES",
    "TAG_CWT",
    "TAG_MAC0",
    "TAG_SIGN1",
    "TOKEN_TYPE_CAT",
]

TOKEN_TYPE_CAT: Final = 0x01
"""MoQT's Auth Token Type of a CAT (draft-ietf-moq-c4m-01)."""

# COSE (RFC 9052) and CWT (RFC 8392)

TAG_MAC0: Final = 17
TAG_SIGN1: Final = 18
TAG_CWT: Final = 61

HEADER_ALG: Final = 1
HEADER_CRIT: Final = 2
HEADER_KID: Final = 4

ALG_HS256: Final = 5
ALG_ES256: Final = -7
ALG_EDDSA: Final = -8

ALGORITHMS: Final = {"HS256": ALG_HS256, "ES256": ALG_ES256, "EdDSA": ALG_EDDSA}
"""The supported algorithms by the names that JWK and the command line use."""

CLAIM_ISS: Final = 1
CLAIM_SUB: Final = 2
CLAIM_AUD: Final = 3
CLAIM_EXP: Final = 4
CLAIM_NBF: Final = 5
CLAIM_IAT: Final = 6
CLAIM_CTI: Final = 7

# The Common Access Token and its claims for MoQT

CLAIM_CATV: Final = 310
CLAIM_MOQT: Final = 327
CLAIM_MOQT_REVAL: Final = 328

CLAIM_NAMES: Final = {
    8: "cnf (proof of possession)",
    308: "catreplay",
    309: "catpor",
    311: "catnip",
    312: "catu",
    313: "catm",
    314: "catalpn",
    315: "cath",
    316: "catgeoiso3166",
    317: "catgeocoord",
    318: "catgeoalt",
    319: "cattpk",
    320: "catifdata",
    321: "catdpop (proof of possession)",
    322: "catif",
    323: "catr",
}
"""Restricting claims that the SDK does not evaluate, with names for error messages."""

MATCH_PREFIX: Final = 1
MATCH_SUFFIX: Final = 2

# Limits

MAX_TOKEN_BYTES: Final = 8192
MAX_KID_BYTES: Final = 256
MAX_SCOPES: Final = 64
MAX_AUDIENCES: Final = 32
MAX_TEXT: Final = 1024
"""Characters of an issuer, a subject or an audience."""
