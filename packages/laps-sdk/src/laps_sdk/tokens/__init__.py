"""Authorization tokens: makes, shows and checks CAT for MoQT (draft-ietf-moq-c4m).

::

    mint:   Claims -> cbor -> signing (COSE, private key) -> bytes -> to_text
    show:   text -> from_text -> open_envelope -> Envelope -> Claims        (no key)
    verify: bytes -> authenticate (signature, KeyRing) -> judge (time, audience, issuer)

Clients mint and show tokens, relays verify them. Both import the names below from this package.
``constants`` has the numbers of the drafts, ``grants`` the text form of scopes, ``keys`` the key
files.

``keys`` and ``signing`` need the extra ``tokens`` (cwt) and are loaded at their first use. A client
that presents a token made elsewhere does not need it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

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

if TYPE_CHECKING:
    from laps_sdk.tokens.keys import (
        KeyRing,
        TokenKey,
        generate,
        load_keys,
        load_private_key,
        save_key,
    )
    from laps_sdk.tokens.signing import (
        Expectations,
        Genuine,
        Verified,
        authenticate,
        judge,
        mint,
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

_HOMES: Final = {
    "laps_sdk.tokens.keys": (
        "KeyRing",
        "TokenKey",
        "generate",
        "load_keys",
        "load_private_key",
        "save_key",
    ),
    "laps_sdk.tokens.signing": (
        "Expectations",
        "Genuine",
        "Verified",
        "authenticate",
        "judge",
        "mint",
        "verify",
    ),
}
_HOME_OF: Final = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Load a public name from where it is defined (PEP 562)."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
