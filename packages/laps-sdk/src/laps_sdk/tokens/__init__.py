"""Authorization tokens: makes, shows and checks CAT for MoQT (draft-ietf-moq-c4m).

::

    mint:   Claims -> cbor -> signing (COSE, private key) -> bytes -> to_text
    show:   text -> from_text -> open_envelope -> Envelope -> Claims        (no key)
    verify: bytes -> authenticate (signature, KeyRing) -> judge (time, audience, issuer)

Clients mint and show tokens, relays verify them. Both import the names below from this package.

- ``claims``: what a token grants, its COSE envelope, and scopes as text. It needs no key.
- ``signing``: keys and key files, signatures, and the checks of a verifier.
- ``cbor``: the strict coding of tokens. ``constants``: the numbers of the drafts. ``errors``.

``signing`` needs the extra ``tokens`` (cwt) and is loaded at its first use. A client that presents
a token made elsewhere does not need it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from laps_sdk.tokens.claims import (
    Action,
    Claims,
    Envelope,
    Match,
    MatchKind,
    Scope,
    format_scope,
    from_text,
    open_envelope,
    parse_scope,
    to_text,
)
from laps_sdk.tokens.constants import MAX_TOKEN_BYTES, TOKEN_TYPE_CAT
from laps_sdk.tokens.errors import (
    KeyFileError,
    TokenError,
    TokenExpiredError,
    TokenForgedError,
    TokenMalformedError,
    TokenRefusedError,
)

if TYPE_CHECKING:
    from laps_sdk.tokens.signing import (
        Expectations,
        Genuine,
        KeyRing,
        TokenKey,
        Verified,
        authenticate,
        generate,
        judge,
        load_keys,
        load_private_key,
        mint,
        save_key,
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

_LAZY: Final = frozenset(
    {
        "Expectations",
        "Genuine",
        "KeyRing",
        "TokenKey",
        "Verified",
        "authenticate",
        "generate",
        "judge",
        "load_keys",
        "load_private_key",
        "mint",
        "save_key",
        "verify",
    }
)
"""The public names of ``signing``."""


def __getattr__(name: str) -> Any:
    """Load a public name of ``signing`` at its first use (PEP 562)."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module("laps_sdk.tokens.signing"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
