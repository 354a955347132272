"""Errors of tokens and key files, part of the tree of :mod:`laps_wire.errors`.

::

    LapsError
    ├── TokenError              a token is not accepted
    │   ├── TokenMalformedError     not a token, or claims of the wrong shape
    │   ├── TokenForgedError        no trusted key signed it
    │   ├── TokenExpiredError       it has expired
    │   └── TokenRefusedError       wrong audience or issuer, not yet valid, or unsupported claims
    └── LocalError
        └── KeyFileError        (ValueError) a key or key file that cannot be used
"""

from __future__ import annotations

from laps_wire.errors import LapsError, LocalError

__all__ = [
    "KeyFileError",
    "TokenError",
    "TokenExpiredError",
    "TokenForgedError",
    "TokenMalformedError",
    "TokenRefusedError",
]


class TokenError(LapsError):
    """A token was not accepted. The text is sent to the peer, so it holds no part of the token."""


class TokenMalformedError(TokenError):
    """The token is no CWT in COSE, or its claims do not follow draft-ietf-moq-c4m."""


class TokenForgedError(TokenError):
    """No trusted key signed the token: unknown key id, other algorithm, or wrong signature."""


class TokenExpiredError(TokenError):
    """The token has expired."""


class TokenRefusedError(TokenError):
    """The signature is valid, but audience, issuer, time or a claim is not accepted."""


class KeyFileError(LocalError, ValueError):
    """A key or key file cannot be used; the text names the file and the remedy."""
