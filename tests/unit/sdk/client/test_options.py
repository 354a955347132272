from __future__ import annotations

from typing import Any

import pytest

from laps_sdk.client.options import ConnectOptions
from laps_sdk.tokens.errors import TokenMalformedError
from laps_wire.errors import EncodeError


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"drafts": ()}, "one or more of moqt-18, moqt-16"),
        ({"drafts": ("moqt-16", "moq-00")}, "one or more of"),
        ({"insecure": True, "ca_file": "x"}, "leave ca_file and pin out"),
        ({"timeout": 0.0}, "seconds above 0"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(EncodeError, match=words):
        ConnectOptions(**options)


def test_tokens() -> None:
    assert ConnectOptions().token_value() is None
    assert ConnectOptions(token="aGk_").token_value() == b"hi?"  # noqa: S106
    assert ConnectOptions(token="abc", token_type=7).token_value() == b"abc"  # noqa: S106
    with pytest.raises(TokenMalformedError, match="base64url"):
        ConnectOptions(token="no text form").token_value()  # noqa: S106
    assert ConnectOptions(token=b"abc").token_value() == b"abc"
    fresh = iter([b"one", b"two"])
    options = ConnectOptions(token=lambda: next(fresh))
    assert [options.token_value(), options.token_value()] == [b"one", b"two"]
