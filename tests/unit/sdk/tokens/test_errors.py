from __future__ import annotations

import pytest

from laps_sdk.tokens import errors
from laps_wire.errors import LapsError, LocalError, RemoteError


@pytest.mark.parametrize(
    "kind",
    [
        errors.TokenMalformedError,
        errors.TokenForgedError,
        errors.TokenExpiredError,
        errors.TokenRefusedError,
    ],
)
def test_a_bad_token_closes_no_session(kind: type[errors.TokenError]) -> None:
    assert issubclass(kind, errors.TokenError)
    assert issubclass(kind, LapsError)
    assert not issubclass(kind, RemoteError | LocalError)


def test_a_bad_key_file_is_our_own_fault() -> None:
    assert issubclass(errors.KeyFileError, LocalError)
    assert issubclass(errors.KeyFileError, ValueError)
