"""Authorization tokens: CAT for MoQT (draft-ietf-moq-c4m), made, shown and checked."""

from laps_sdk.tokens.claims import Action, Claims, Match, MatchKind, Scope
from laps_sdk.tokens.constants import MAX_TOKEN_BYTES, TOKEN_TYPE_CAT
from laps_sdk.tokens.envelope import Envelope, from_text, open_envelope, to_text
from laps_sdk.tokens.errors import (
    KeyFileError,
    TokenError,
    TokenExpiredError,
    TokenForgedError,
    TokenMalformedError,
    TokenRefusedError,
)
from laps_sdk.tokens.grants import format_scope, parse_scope
from laps_sdk.tokens.keys import (
    KeyRing,
    TokenKey,
    generate,
    load_keys,
    load_private_key,
    save_key,
)
from laps_sdk.tokens.minting import mint
from laps_sdk.tokens.verifier import (
    Expectations,
    Genuine,
    Verified,
    authenticate,
    judge,
    verify,
)

__all__ = [
    "MAX_TOKEN_BYTES",
    "TOKEN_TYPE_CAT",
    "Action",
    "Claims",
    "Envelope",
    "Expectations",
    "Genuine",
    "KeyFileError",
    "KeyRing",
    "Match",
    "MatchKind",
    "Scope",
    "TokenError",
    "TokenExpiredError",
    "TokenForgedError",
    "TokenKey",
    "TokenMalformedError",
    "TokenRefusedError",
    "Verified",
    "authenticate",
    "format_scope",
    "from_text",
    "generate",
    "judge",
    "load_keys",
    "load_private_key",
    "mint",
    "open_envelope",
    "parse_scope",
    "save_key",
    "to_text",
    "verify",
]
