from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.tokens.cbor import Tagged, encode
from laps_sdk.tokens.claims import Claims, from_text, open_envelope, to_text
from laps_sdk.tokens.errors import TokenMalformedError

PROTECTED = encode({1: 5})


def cose(*parts: Any, tag: int = 17) -> bytes:
    return encode(Tagged(61, Tagged(tag, list(parts))))


def test_the_parts_of_a_token() -> None:
    payload = encode(Claims(issuer="me", expires=5).to_cbor())
    opened = open_envelope(cose(PROTECTED, {4: b"kid"}, payload, b"mac"))
    assert opened.mac
    assert opened.algorithm == 5
    assert opened.kid == b"kid"
    assert opened.signature == b"mac"
    assert opened.claims() == Claims(issuer="me", expires=5)
    bare = encode(Tagged(18, [encode({1: -7, 4: b"k"}), {}, payload, b"sig"]))
    opened = open_envelope(bare)
    assert not opened.mac
    assert opened.kid == b"k"
    assert opened.body == bare
    assert open_envelope(cose(PROTECTED, {}, payload, b"")).kid is None


@pytest.mark.parametrize(
    ("token", "words"),
    [
        (b"\x00" * 9000, "at most 8192"),
        (b"", "ends too early"),
        (encode(5), "not a COSE"),
        (encode(Tagged(61, 5)), "not a COSE"),
        (encode(Tagged(61, Tagged(61, 5))), "not a COSE"),
        (cose(PROTECTED, {}, b"", b"", tag=16), "not a COSE"),
        (cose(PROTECTED, {}, b"", b"", tag=98), "not a COSE"),
        (b"\xd9\x00\x3d" + cose(PROTECTED, {}, b"", b"")[2:], "shortest"),
        (cose(PROTECTED, {}, b""), "four parts"),
        (encode(Tagged(17, 5)), "four parts"),
        (cose(5, {}, b"", b""), "bytes, map"),
        (cose(PROTECTED, [], b"", b""), "bytes, map"),
        (cose(PROTECTED, {}, None, b""), "bytes, map"),
        (cose(PROTECTED, {}, b"", "x"), "bytes, map"),
        (cose(encode([]), {}, b"", b""), "protected header is not a map"),
        (cose(b"", {1: 5}, b"", b""), "no algorithm"),
        (cose(encode({1: "HS256"}), {}, b"", b""), "no algorithm"),
        (cose(encode({1: True}), {}, b"", b""), "no algorithm"),
        (cose(encode({1: 5, 2: [9]}), {}, b"", b""), "critical"),
        (cose(PROTECTED, {2: [9]}, b"", b""), "critical"),
        (cose(encode({1: 5, 4: b"a"}), {4: b"b"}, b"", b""), "both headers"),
        (cose(PROTECTED, {4: "text"}, b"", b""), "key id is"),
        (cose(PROTECTED, {4: b""}, b"", b""), "key id is"),
        (cose(PROTECTED, {4: b"k" * 300}, b"", b""), "key id is"),
        (cose(b"\xff", {}, b"", b""), "CBOR"),
    ],
)
def test_what_is_no_token(token: bytes, words: str) -> None:
    with pytest.raises(TokenMalformedError, match=words):
        open_envelope(token)


@given(st.binary(max_size=100))
def test_text_and_bytes(token: bytes) -> None:
    assert from_text(to_text(token)) == token
    assert from_text(f"  {to_text(token)}==\n") == token


def test_both_alphabets_are_read_and_others_refused() -> None:
    assert from_text("-_-_") == from_text("+/+/") == b"\xfb\xff\xbf"
    for text in ("ä", "a b", "A", "AAAA!"):
        with pytest.raises(TokenMalformedError, match="base64url"):
            from_text(text)
    with pytest.raises(TokenMalformedError, match="three-part"):
        from_text("ogEj.owF4.oAPD")
