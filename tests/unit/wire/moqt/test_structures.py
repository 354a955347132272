"""Structures inside messages: their values, their bytes, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import testkit.moqt  # noqa: F401 - registers the strategies
from laps_wire.buffer import QUIC, VI64, IntegerCoding
from laps_wire.errors import EncodeError, MalformedError
from laps_wire.fields import readable
from laps_wire.moqt.codepoints import AliasType, FilterType
from laps_wire.moqt.structures import (
    LOCATION,
    MAX_REASON_LENGTH,
    MAX_URI_LENGTH,
    REASON,
    REDIRECT,
    SAME_TRACK,
    TOKEN,
    URI,
    AbsoluteJoiningFetch,
    FetchTargetCodec,
    FilterCodec,
    Location,
    Redirect,
    RelativeJoiningFetch,
    StandaloneFetch,
    SubscriptionFilter,
    Token,
)
from laps_wire.names import FULL_TRACK_NAME, FullTrackName, Namespace
from testkit.fields import (
    check_codec_bytes,
    check_codec_values,
    check_whole_bytes,
    check_whole_values,
    read,
    read_whole,
    write,
)
from testkit.strategies import values_of

ABSOLUTE, DELTA = FilterCodec(delta=False), FilterCodec(delta=True)
FETCH = FetchTargetCodec(FULL_TRACK_NAME)
TRACK = FullTrackName(Namespace.of(b"live"), b"video")
RANGE = SubscriptionFilter(FilterType.ABSOLUTE_RANGE, Location(10, 3), 20)


@pytest.mark.parametrize(
    ("codec", "integers", "value", "data"),
    [
        (LOCATION, QUIC, Location(10, 300), "0a 412c"),
        (LOCATION, VI64, Location(2**64 - 1, 300), "ffffffffffffffffff 812c"),
        (ABSOLUTE, QUIC, SubscriptionFilter(FilterType.NEXT_GROUP_START), "01"),
        (ABSOLUTE, QUIC, SubscriptionFilter(FilterType.LARGEST_OBJECT), "02"),
        (
            DELTA,
            VI64,
            SubscriptionFilter(FilterType.ABSOLUTE_START, Location(10, 3)),
            "03 0a 03",
        ),
        (ABSOLUTE, QUIC, RANGE, "04 0a 03 14"),
        (DELTA, VI64, RANGE, "04 0a 03 0a"),
        (TOKEN, QUIC, Token.delete(7), "00 07"),
        (TOKEN, QUIC, Token.register(7, 1, b"tok"), "01 07 01 746f6b"),
        (TOKEN, QUIC, Token.use_alias(7), "02 07"),
        (TOKEN, QUIC, Token.use_value(0, b""), "03 00"),
        (REASON, QUIC, "caf\u00e9", "05 636166c3a9"),
        (URI, QUIC, "moqt://b", "08 6d6f71743a2f2f62"),
        (REDIRECT, VI64, Redirect(), "00 00 00"),
        (REDIRECT, VI64, Redirect("a", TRACK), "01 61 01 04 6c697665 05 766964656f"),
        (
            FETCH,
            QUIC,
            StandaloneFetch(TRACK, Location(1, 2), Location(3, 0)),
            "01 01 04 6c697665 05 766964656f 01 02 03 00",
        ),
        (FETCH, QUIC, RelativeJoiningFetch(4, 2), "02 04 02"),
        (FETCH, QUIC, AbsoluteJoiningFetch(4, 2), "03 04 02"),
    ],
)
def test_bytes(codec: Any, integers: IntegerCoding, value: Any, data: str) -> None:
    raw = bytes.fromhex(data)
    assert write(codec, value, integers) == raw
    assert read_whole(codec, raw, integers) == value


def test_locations_compare_by_group_then_object() -> None:
    assert Location(1, 9) < Location(2, 0) < Location(2, 1)
    assert max(Location(3, 0), Location(2, 7)) == Location(3, 0)


# Filters


@pytest.mark.parametrize(
    ("type_", "start", "end", "words"),
    [
        (FilterType.LARGEST_OBJECT, Location(0, 0), None, "LARGEST_OBJECT has no start"),
        (FilterType.ABSOLUTE_START, None, None, "ABSOLUTE_START needs a start"),
        (FilterType.ABSOLUTE_START, Location(0, 0), 1, "ABSOLUTE_START has no end group"),
        (FilterType.ABSOLUTE_RANGE, Location(0, 0), None, "ABSOLUTE_RANGE needs an end group"),
        (FilterType.ABSOLUTE_RANGE, Location(5, 0), 4, "end group 4 is before 5"),
        (FilterType.ABSOLUTE_RANGE, Location(5, 0), 2**64, "above 2\\*\\*64 - 1"),
    ],
)
def test_filters_that_make_no_sense(
    type_: FilterType, start: Location | None, end: int | None, words: str
) -> None:
    with pytest.raises(EncodeError, match=words):
        SubscriptionFilter(type_, start, end)


def test_a_range_may_be_one_group() -> None:
    assert SubscriptionFilter(FilterType.ABSOLUTE_RANGE, Location(5, 1), 5).end_group == 5


@pytest.mark.parametrize(
    ("codec", "data", "words"),
    [
        (ABSOLUTE, "00", "0 is not a filter type"),
        (DELTA, "05", "5 is not a filter type"),
        (ABSOLUTE, "04 0a 03 09", "end group 9 is before 10"),
        (DELTA, "04 ffffffffffffffffff 00 01", "above"),
        (DELTA, "04 0a", "truncated"),
    ],
)
def test_filters_that_are_refused(codec: Any, data: str, words: str) -> None:
    with pytest.raises(MalformedError, match=words) as caught:
        read_whole(codec, bytes.fromhex(data), VI64)
    assert caught.value.code == 0x3


# Tokens


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((AliasType.DELETE,), "DELETE has an alias and no type and value"),
        ((AliasType.USE_ALIAS, 1, 1, b""), "USE_ALIAS has an alias and no type and value"),
        ((AliasType.USE_ALIAS, 1, None, b""), "no type and value"),
        ((AliasType.REGISTER, 1), "REGISTER has an alias and a type and value"),
        ((AliasType.REGISTER, 1, 0, None), "a type and value"),
        ((AliasType.USE_VALUE, 1, 0, b""), "USE_VALUE has no alias and a type and value"),
    ],
)
def test_tokens_that_make_no_sense(arguments: tuple[Any, ...], words: str) -> None:
    with pytest.raises(EncodeError, match=words):
        Token(*arguments)


def test_a_token_of_another_kind_is_refused() -> None:
    with pytest.raises(MalformedError, match="4 is not an alias type"):
        read_whole(TOKEN, b"\x04\x00")


# Words


def test_words_that_are_not_utf8_never_grow() -> None:
    assert read_whole(REASON, b"\x04a\xff\xc3b") == "a??b"
    worst = b"\xff" * MAX_REASON_LENGTH
    text = readable(worst)
    assert text == "?" * MAX_REASON_LENGTH
    assert len(write(REASON, text)) == 2 + MAX_REASON_LENGTH


def test_limits_of_words() -> None:
    assert len(write(REASON, "x" * 1024)) == 1026
    with pytest.raises(EncodeError, match="1025 bytes are over the limit of 1024"):
        write(REASON, "x" * 1025)
    # A character of two bytes counts twice.
    with pytest.raises(EncodeError, match="over the limit"):
        write(REASON, "\u00e9" * 513)
    with pytest.raises(EncodeError, match="not encodable"):
        write(REASON, "\ud800")
    with pytest.raises(MalformedError, match="over the limit of 1024"):
        read(REASON, bytes.fromhex("4401"))
    assert len(write(URI, "x" * MAX_URI_LENGTH)) == 8194
    with pytest.raises(EncodeError, match="over the limit of 8192"):
        write(URI, "x" * 8193)


# Redirects and fetches


def test_a_redirect_may_keep_the_track() -> None:
    assert Redirect("moqt://b").track == SAME_TRACK
    assert FullTrackName(Namespace(), b"") == SAME_TRACK


@pytest.mark.parametrize("data", ["00", "04 00 00"])
def test_fetch_types_that_are_refused(data: str) -> None:
    with pytest.raises(MalformedError, match="is not one of: 1 STANDALONE"):
        read_whole(FETCH, bytes.fromhex(data))


# The properties of every codec

CODECS = {
    "location": LOCATION,
    "absolute filter": ABSOLUTE,
    "delta filter": DELTA,
    "reason": REASON,
    "redirect": REDIRECT,
    "fetch": FETCH,
}


@pytest.mark.parametrize("integers", [QUIC, VI64], ids=["quic", "vi64"])
@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
@given(data=st.data())
def test_round_trips(codec: Any, integers: IntegerCoding, data: st.DataObject) -> None:
    check_codec_values(codec, data.draw(values_of(codec, integers)), integers)
    check_codec_bytes(codec, data.draw(st.binary(max_size=40)), integers)


@given(values_of(TOKEN, VI64))
def test_tokens_round_trip(token: Token) -> None:
    check_whole_values(TOKEN, token, VI64)


@given(st.binary(min_size=1, max_size=40))
def test_any_bytes_of_tokens(data: bytes) -> None:
    check_whole_bytes(TOKEN, data, VI64)
