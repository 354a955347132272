"""What can be wrong with a token or a key file, below the one tree of :mod:`laps_wire.errors`.

::

    LapsError
    ├── TokenError              a token is not accepted
    │   ├── TokenMalformedError     bytes that are no token, or claims of the wrong shape
    │   ├── TokenForgedError        no key of ours made it
    │   ├── TokenExpiredError       its time is over
    │   └── TokenRefusedError       genuine, but not for us, not yet, or more than we can check
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
    """A token that is not accepted. The text goes to the peer: it holds no part of the token."""


class TokenMalformedError(TokenError):
    """Not a CWT in COSE, or claims that do not have the shape of draft-ietf-moq-c4m."""


class TokenForgedError(TokenError):
    """No key of ours made this token: unknown key id, other algorithm, or a wrong signature."""


class TokenExpiredError(TokenError):
    """The token was good once."""


class TokenRefusedError(TokenError):
    """A genuine token that does not hold here: audience, issuer, time, or unchecked claims."""


class KeyFileError(LocalError, ValueError):
    """A key, or a file of keys, that cannot be used; says which file and what would be right."""
