"""What may leave a relay: networks instead of hosts, and words that stay words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.errors import TextFormError
from laps_wire.telemetry.privacy import MAX_TEXT, address_prefix, safe_text


@pytest.mark.parametrize(
    ("address", "prefix"),
    [
        ("192.0.2.77", "192.0.2.0/24"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1::/48"),
        ("::ffff:192.0.2.77", "192.0.2.0/24"),  # what a dual-stack socket shows
        ("fe80::1%eth0", "fe80::/48"),
    ],
)
def test_a_host_becomes_its_network(address: str, prefix: str) -> None:
    assert address_prefix(address) == prefix


@pytest.mark.parametrize("bad", ["", "alice@example.com", "192.0.2", "192.0.2.1:443"])
def test_a_text_that_is_no_address_is_not_repeated(bad: str) -> None:
    with pytest.raises(TextFormError) as caught:
        address_prefix(bad)
    assert str(caught.value) == "not an IP address such as 192.0.2.7 or 2001:db8::7"
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("plain wörds", "plain wörds"),
        ("\x1b[2J\r\nroot#", r"\x1b[2J\r\nroot#"),
        ("\u202egnp.exe", r"\u202egnp.exe"),  # right-to-left override
        ("back\\slash", r"back\\slash"),
        (b"ok \xff", r"ok \\xff"),
        ("\ud800", r"\ud800"),
        ("a" * MAX_TEXT, "a" * MAX_TEXT),
        ("a" * (MAX_TEXT + 1), "a" * (MAX_TEXT - 3) + "..."),
    ],
)
def test_words_of_a_peer(words: str | bytes, shown: str) -> None:
    assert safe_text(words) == shown


@given(st.text() | st.binary(), st.integers(3, 40))
def test_one_printable_line_of_bounded_length(words: str | bytes, limit: int) -> None:
    shown = safe_text(words, limit)
    assert len(shown) <= limit
    assert shown.isprintable()
    shown.encode()
