from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.uri import DEFAULT_PORT, RelayAddress, parse_address
from laps_wire.errors import TextFormError


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("moqt://relay.example", "moqt://relay.example:33435"),
        ("relay.example", "moqt://relay.example:33435"),
        ("relay.example:5", "moqt://relay.example:5"),
        ("MOQT://h:1/a/b?c=d", "moqt://h:1/a/b?c=d"),
        ("moqt://h?token=x", "moqt://h:33435/?token=x"),
        ("moqt://[::1]:9", "moqt://[::1]:9"),
        ("moqt://[::1]", "moqt://[::1]:33435"),
        ("https://h", "https://h:33435/moq"),
        ("https://h:443/other", "https://h:443/other"),
        ("https://h/", "https://h:33435/"),
    ],
)
def test_addresses(text: str, canonical: str) -> None:
    address = parse_address(text)
    assert str(address) == canonical
    assert parse_address(canonical) == address


def test_parts() -> None:
    assert parse_address("https://[2001:db8::1]") == RelayAddress(
        host="2001:db8::1", port=DEFAULT_PORT, path="/moq", webtransport=True
    )
    assert parse_address("moqt://h").path == ""
    assert parse_address("moqt://[::1]:7").authority == "[::1]:7"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no host"),
        ("moqt://", "no host, at the end"),
        ("moqt://:5", "no host, at character 8"),
        ("quic://h", "scheme 'quic' is neither 'moqt' nor 'https', at character 1"),
        ("moqt://h:", "not ':' and a port"),
        ("moqt://h:x", "not ':' and a port"),
        ("moqt://h:0", "a port is 1 to 65535, at character 10"),
        ("moqt://h:65536", "a port is 1 to 65535"),
        ("moqt://h:99999999999", "a port is 1 to 65535"),
        ("moqt://::1", "must stand in brackets"),
        ("moqt://[::1", "'[' without ']'"),
        ("moqt://[1.2.3.4]", "is not an IPv6 address"),
        ("moqt://[relay]", "is not an IPv6 address"),
        ("moqt://[::1]9", "not ':' and a port"),
        ("moqt://a b", "is not a host name"),
        ("moqt://user@h", "use a token, at character 12"),
        ("moqt://h/a b", "must be percent-encoded"),
        ("moqt://h/a#b", "a fragment means nothing here, at character 11"),
    ],
)
def test_a_bad_address_shows_a_good_one(text: str, words: str) -> None:
    with pytest.raises(TextFormError) as caught:
        parse_address(text)
    assert words in str(caught.value)
    assert "a good one is 'moqt://relay.example:33435'" in str(caught.value)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("localhost", True), ("LocalHost.", True), ("a.localhost", True), ("127.0.0.1", True),
        ("127.9.9.9", True), ("::1", True), ("192.0.2.1", False), ("localhost.example", False),
    ],
)  # fmt: skip
def test_loopback(host: str, loopback: bool) -> None:
    assert RelayAddress(host=host).is_loopback is loopback


@given(st.text(max_size=40))
def test_any_text_is_an_address_or_says_why_not(text: str) -> None:
    try:
        address = parse_address(text)
    except TextFormError:
        return
    assert parse_address(str(address)) == address
