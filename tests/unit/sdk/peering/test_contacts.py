"""Contacts as people and node information write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.peering.contacts import ContactError, parse_contact, show_contact


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("relay.example", ("relay.example", 33434)),
        ("relay.example:1", ("relay.example", 1)),
        (" 192.0.2.1:65535 ", ("192.0.2.1", 65535)),
        ("2001:db8::1", ("2001:db8::1", 33434)),
        ("[2001:db8::1]", ("2001:db8::1", 33434)),
        ("[2001:db8::1]:443", ("2001:db8::1", 443)),
    ],
)
def test_forms(text: str, address: tuple[str, int]) -> None:
    assert parse_contact(text) == address
    assert parse_contact(show_contact(address)) == address


@pytest.mark.parametrize(
    "text",
    [
        *("", ":1", "a:", "a:0", "a:65536", "a:x", "a:1e3", "a:٣", "[::1", "[::1]x", "[::1]:"),
        *("a b:1", "a..b:1", "x" * 70, "\udc80:1"),
    ],
)
def test_what_is_no_contact(text: str) -> None:
    with pytest.raises(ContactError, match="is no contact"):
        parse_contact(text)


@given(st.text(max_size=300))
def test_any_text_is_a_contact_or_is_refused(text: str) -> None:
    try:
        host, port = parse_contact(text)
    except ContactError:
        return
    assert host
    assert 0 < port <= 65535
