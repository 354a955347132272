"""Setup options: what is understood, what is kept, and parts of URIs."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.buffer import Reader, Writer
from laps_wire.errors import EncodeError, MalformedError, ProtocolViolation, RemoteError
from laps_wire.moqt.codepoints import grease, registries
from laps_wire.moqt.errors import KeyValueFormattingError, MalformedAuthority, MalformedPath
from laps_wire.moqt.keyvalue import KeyValue
from laps_wire.moqt.setup import (
    NO_OPTIONS,
    SetupOptions,
    SetupOptionsCodec,
    entries_of,
    refuse_alias_tokens,
)
from laps_wire.moqt.structures import Token
from laps_wire.moqt.versions import Draft
from testkit.moqt import option_values
from testkit.properties import check_any_bytes, check_prefixes, check_round_trip

D16, D18 = Draft.D16, Draft.D18
DRAFTS = pytest.mark.parametrize("draft", list(Draft))


def encode(options: SetupOptions, draft: Draft = D16, *, from_client: bool = False) -> bytes:
    writer = Writer(integers=draft.integers)
    SetupOptionsCodec(draft, from_client).write(writer, options, "options")
    return writer.getvalue()


def decode(
    data: bytes, draft: Draft = D16, *, from_client: bool = False, partial: bool = False
) -> tuple[SetupOptions, int]:
    reader = Reader(data, integers=draft.integers, partial=partial)
    return SetupOptionsCodec(draft, from_client).read(reader, "options"), reader.pos


ALL = SetupOptions(
    path="/moq?room=1",
    authorization_tokens=(Token.register(1, 0, b"a"), Token.use_value(2, b"")),
    max_auth_token_cache_size=1024,
    authority="relay.example:443",
    moqt_implementation="laps/1",
    unknown=(KeyValue(0x0B, b"?"), KeyValue(0x0B, b"!"), KeyValue(0xF0, 7)),
)
ALL_D18 = (
    "01 0b 2f6d6f713f726f6f6d3d31 02 04 01010061 00 02 0302 01 8400 01 11"
    "72656c61792e6578616d706c653a343433 02 06 6c6170732f31 04 01 3f 00 01 21 80e5 07"
)


def test_bytes() -> None:
    data = bytes.fromhex(ALL_D18)
    assert encode(ALL, D18) == data
    assert decode(data, D18) == (ALL, len(data))
    assert encode(SetupOptions(max_request_id=300, max_auth_token_cache_size=0), D16).hex(" ") == (
        "02 02 41 2c 02 00"
    )
    assert encode(NO_OPTIONS, D16) == b"\x00"
    assert encode(NO_OPTIONS, D18) == b""


def test_options_are_values() -> None:
    assert hash(ALL) == hash(replace(ALL))
    assert replace(ALL, path="/") != ALL
    with pytest.raises(FrozenInstanceError):
        ALL.path = "/"  # type: ignore[misc]


@DRAFTS
def test_each_option_of_the_draft_is_understood(draft: Draft) -> None:
    names = {entry.name: entry.type for entry in entries_of(draft).values()}
    assert names == registries(draft)["setup_options"]
    assert list(entries_of(draft)) == sorted(entries_of(draft))


def test_draft_18_does_not_know_max_request_id() -> None:
    assert decode(b"\x02\x64", D18)[0] == SetupOptions(unknown=(KeyValue(2, 100),))
    with pytest.raises(EncodeError, match="draft 18 has no MAX_REQUEST_ID"):
        encode(SetupOptions(max_request_id=100), D18)


@DRAFTS
def test_grease_is_kept(draft: Draft) -> None:
    options = SetupOptions(unknown=(KeyValue(grease(0), b"x"), KeyValue(grease(1), 1)))
    assert decode(encode(options, draft), draft)[0] == options


def test_what_is_known_may_not_hide_in_unknown() -> None:
    with pytest.raises(EncodeError, match="PATH has its own attribute"):
        encode(SetupOptions(unknown=(KeyValue(1, b"/"),)))


def test_what_is_known_may_not_repeat() -> None:
    with pytest.raises(MalformedError, match="MAX_AUTH_TOKEN_CACHE_SIZE: stands twice"):
        decode(bytes.fromhex("04 01 00 01"), D18)


# Tokens


def test_a_token_without_its_form() -> None:
    with pytest.raises(KeyValueFormattingError, match="AUTHORIZATION_TOKEN: 9 is not an alias"):
        decode(bytes.fromhex("03 01 09"), D18)


@pytest.mark.parametrize("token", [Token.delete(1), Token.use_alias(1)])
def test_a_client_can_not_use_aliases(token: Token) -> None:
    options = SetupOptions(authorization_tokens=(Token.use_value(0, b""), token))
    with pytest.raises(EncodeError, match=f"a token {token.alias_type.name} in a client's SETUP"):
        encode(options, from_client=True)
    data = encode(options)
    assert decode(data)[0] == options
    with pytest.raises(ProtocolViolation, match=token.alias_type.name) as caught:
        decode(data, from_client=True)
    assert caught.value.code == 0x3
    with pytest.raises(ProtocolViolation):
        refuse_alias_tokens(options)


def test_a_client_can_register() -> None:
    refuse_alias_tokens(ALL)
    assert decode(encode(ALL, from_client=True), from_client=True)[0] == ALL


# Parts of a URI

PATHS = ["", "/", "/moq", "/a//b/", "/%2F", "/a:@!$&'()*+,;=", "?q", "/p?a=/?b", "/-._~"]
NOT_PATHS = ["moq", "/ ", "/%2", "/%zz", "/#f", "/\n", "/a\n", "/[", "\u00e9", "/?#", '/"']
AUTHORITIES = [
    "a",
    "a:443",
    "a:",
    "user@a",
    "u:p@a.example:1",
    "192.0.2.1",
    "[::1]:443",
    "u@[2001:DB8::192.0.2.1]",
    "[::]",
    "[1:2:3:4:5:6:7::]",
    "[1111:2222:3333:4444:5555:6666:255.255.255.255]:1",
    "[v1.a:]",
    "[V1F.a]",
]
NOT_AUTHORITIES = [
    "",
    ":443",
    "a:b",
    "a b",
    "@",
    "u@",
    "a@b@c",
    "[::1",
    "[]",
    "a/b",
    "[g::]",
    "a:1\n",
    # Letters of an IPv6 address, but not its form (RFC 3986, 3.2.2).
    "[1]",
    "[:]",
    "[1::2::3]",
    "[1:2:3:4:5:6:7]:443",
    "[12345::]",
    "u@[192.0.2.1]",
    "[::192.0.2.256]",
]


@pytest.mark.parametrize("path", PATHS)
def test_paths(path: str) -> None:
    assert decode(encode(SetupOptions(path=path)))[0].path == path


@pytest.mark.parametrize("authority", AUTHORITIES)
def test_authorities(authority: str) -> None:
    assert decode(encode(SetupOptions(authority=authority)))[0].authority == authority


def refused(type_: int, text: str, error: type[RemoteError], code: int) -> None:
    data = text.encode()
    with pytest.raises(error, match="not what RFC 3986 allows") as caught:
        decode(bytes([type_, len(data)]) + data, D18)
    assert caught.value.code == code


@pytest.mark.parametrize("path", NOT_PATHS)
def test_what_is_not_a_path(path: str) -> None:
    refused(1, path, MalformedPath, 0x9)
    with pytest.raises(EncodeError, match="not what RFC 3986 allows"):
        encode(SetupOptions(path=path))


@pytest.mark.parametrize("authority", NOT_AUTHORITIES)
def test_what_is_not_an_authority(authority: str) -> None:
    refused(5, authority, MalformedAuthority, 0x1A)
    with pytest.raises(EncodeError, match="not what RFC 3986 allows"):
        encode(SetupOptions(authority=authority))


def test_bytes_that_are_not_ascii_are_no_path() -> None:
    with pytest.raises(MalformedPath, match="PATH: "):
        decode(b"\x01\x02/\xff", D18)


def test_long_values_are_checked_in_linear_time() -> None:
    for text in ("%41" * 20000 + " ", "a" * 60000 + " ", "a:" * 30000 + "@ "):
        data = text.encode()
        for type_ in (1, 5):
            raw = bytes([type_]) + D18.integers.encode(len(data)) + data
            with pytest.raises((MalformedPath, MalformedAuthority)):
                decode(raw, D18)


# Words


def test_the_implementation_may_be_any_bytes() -> None:
    assert decode(b"\x07\x03a\xffb", D18)[0].moqt_implementation == "a?b"
    with pytest.raises(EncodeError, match="MOQT_IMPLEMENTATION: not encodable"):
        encode(SetupOptions(moqt_implementation="\ud800"))


# The properties of every codec


@pytest.mark.parametrize("from_client", [False, True])
@DRAFTS
@given(data=st.data())
def test_round_trips(draft: Draft, from_client: bool, data: st.DataObject) -> None:
    codec = SetupOptionsCodec(draft, from_client)
    options = data.draw(option_values(codec))

    def write(value: SetupOptions) -> bytes:
        return encode(value, draft, from_client=from_client)

    def read(raw: bytes) -> tuple[SetupOptions, int]:
        return decode(raw, draft, from_client=from_client, partial=True)

    check_round_trip(write, read, options)
    if draft is D16:  # draft 18's options end where their message ends
        check_prefixes(write, read, options)


@given(st.binary(min_size=1, max_size=60))
def test_any_bytes(data: bytes) -> None:
    for draft in Draft:
        check_any_bytes(lambda raw, draft=draft: decode(raw, draft, partial=True), data)  # type: ignore[misc]
