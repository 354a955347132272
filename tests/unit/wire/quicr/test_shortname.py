"""Short names: prefixes of 128 bits, their one text, and how layouts divide them."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.errors import EncodeError, TextFormError
from laps_wire.quicr.shortname import BITS, CONFERENCE, NameLayout, ShortName
from testkit.names import short_names

ALL = ShortName(0, 0)


def bits(text: str) -> ShortName:
    """A prefix from its bits, as seed 002 writes them: ``10001 01 01``."""
    digits = text.replace(" ", "")
    return ShortName(int(digits.ljust(BITS, "0"), 2), len(digits))


def expand(name: ShortName) -> str:
    return f"{name.value:0128b}"[: name.length]


# Values


@pytest.mark.parametrize(
    ("value", "length", "complaint"),
    [
        (0, -1, "length -1 is outside 0 to 128"),
        (0, 129, "length 129 is outside 0 to 128"),
        (-1, 128, "-0x1 does not fit 128 bits"),
        (1 << 128, 128, "does not fit 128 bits"),
        (1, 127, "bits behind length 127 are set in 00000000000000000000000000000001"),
        (1, 0, "bits behind length 0 are set"),
        (1 << 87, 40, "bits behind length 40 are set"),
    ],
)
def test_what_is_not_a_short_name(value: int, length: int, complaint: str) -> None:
    with pytest.raises(EncodeError) as caught:
        ShortName(value, length)
    assert complaint in str(caught.value)


def test_the_last_bit_inside_the_length_may_be_set() -> None:
    assert ShortName(1 << 88, 40).prefix(39) == ShortName(0, 39)
    assert ShortName((1 << 128) - 1).length == 128


def test_the_least_specific_is_above_and_before_all() -> None:
    names = [bits("1"), bits("0"), ShortName(5), ALL, ShortName(0)]
    assert sorted(names) == [ALL, bits("0"), ShortName(0), ShortName(5), bits("1")]
    assert all(ALL.covers(name) for name in names)


# Prefixes, with seed 002's example tree


def test_the_specifications_tree() -> None:
    five, nine, other, four = bits("10001"), bits("100010101"), bits("100010110"), bits("1001")
    assert five.covers(nine)
    assert nine in five
    assert five.covers(other)
    assert not nine.covers(five)
    assert not five.covers(four)
    assert not four.overlaps(nine)
    assert not nine.overlaps(other)
    assert five.overlaps(nine)
    assert nine.overlaps(five)
    assert five.covers(five)


def test_only_a_name_of_128_bits_is_no_wildcard() -> None:
    assert not ShortName(5).is_wildcard
    assert ShortName(4, 127).is_wildcard


@pytest.mark.parametrize("length", [-1, 6])
def test_a_prefix_is_not_longer_than_its_name(length: int) -> None:
    with pytest.raises(EncodeError, match=f"no prefix of {length} bits in 5"):
        bits("10001").prefix(length)


@given(short_names(), short_names())
def test_covering_is_beginning_with(one: ShortName, other: ShortName) -> None:
    assert one.covers(other) is expand(other).startswith(expand(one))
    assert one.overlaps(other) is (one.covers(other) or other.covers(one))


@given(short_names(), st.data())
def test_a_name_is_covered_by_its_prefixes(name: ShortName, data: st.DataObject) -> None:
    length = data.draw(st.integers(0, name.length))
    prefix = name.prefix(length)
    assert expand(prefix) == expand(name)[:length]
    assert prefix.covers(name)
    assert prefix <= name


# Text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (ALL, "00000000000000000000000000000000/0"),
        (ShortName(0xAB), "000000000000000000000000000000ab/128"),
        (bits("10001"), "88000000000000000000000000000000/5"),
        (CONFERENCE.pack(1, 2, 3, 1000), "000000000100000008003000000003e8/128"),
        (CONFERENCE.pack(1), "00000000010000000000000000000000/40"),
    ],
)
def test_texts(name: ShortName, text: str) -> None:
    assert str(name) == text
    assert ShortName.parse(text) == name


ZEROS = "0" * 32


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "32 hex digits and a slash must come first, at the end"),
        ("00/8", "'/' is not a lower-case hex digit, at character 3"),
        (ZEROS, "32 hex digits and a slash must come first, at the end"),
        (ZEROS + "0/8", "32 hex digits and a slash must come first, at character 33"),
        ("A" + ZEROS[1:] + "/8", "'A' is not a lower-case hex digit, at character 1"),
        (ZEROS[1:] + "g/8", "'g' is not a lower-case hex digit, at character 32"),
        ("\u0660" + ZEROS[1:] + "/8", "is not a lower-case hex digit, at character 1"),
        (ZEROS + "/", "the length must be 0 to 128, at the end"),
        (ZEROS + "/129", "the length must be 0 to 128, at character 34"),
        (ZEROS + "/" + "1" * 5000, "the length must be 0 to 128, at character 34"),
        (ZEROS + "/0128", "the length must be 0 to 128, at character 34"),
        (ZEROS + "/08", "a leading zero, at character 34"),
        (ZEROS + "/00", "a leading zero, at character 34"),
        (ZEROS + "/+8", "'+' is not a decimal digit, at character 34"),
        (ZEROS + "/8 ", "' ' is not a decimal digit, at character 35"),
        (ZEROS + "/\u0668", "is not a decimal digit, at character 34"),
        (ZEROS[1:] + "1/127", "bit 127 is set, behind length 127, at character 32"),
        ("88" + ZEROS[2:] + "/4", "bit 4 is set, behind length 4, at character 2"),
        ("00f" + ZEROS[3:] + "/9", "bit 9 is set, behind length 9, at character 3"),
    ],
)
def test_a_bad_text_is_pointed_at(text: str, complaint: str) -> None:
    with pytest.raises(TextFormError) as caught:
        ShortName.parse(text)
    assert complaint in str(caught.value)
    assert str(caught.value).startswith("short name '")
    assert str(caught.value).endswith("; a good one is '00000000010000000000000000000000/40'")


@given(short_names())
def test_every_name_has_a_text_that_gives_it_back(name: ShortName) -> None:
    assert ShortName.parse(str(name)) == name


@given(st.text(st.sampled_from("08af/1"), min_size=30, max_size=37))
def test_every_text_is_refused_or_the_only_one_of_its_name(text: str) -> None:
    try:
        name = ShortName.parse(text)
    except TextFormError:
        return
    assert str(name) == text


# Layouts


def test_the_fields_stand_where_the_drawing_says() -> None:
    name = CONFERENCE.pack(0x12_3456_789A, 0x2ABC_DEF1, 0x3ABC, 0xFED_CBA9_8765)
    expected = 0x12_3456_789A << 88 | 0x2ABC_DEF1 << 58 | 0x3ABC << 44 | 0xFED_CBA9_8765
    assert name == ShortName(expected)


def test_prefix_lengths_of_the_conference_layout() -> None:
    assert [CONFERENCE.prefix_length(count) for count in range(5)] == [0, 40, 70, 84, 128]
    for count in (-1, 5):
        with pytest.raises(EncodeError, match=f"{count} of 4 fields asked for"):
            CONFERENCE.prefix_length(count)


def test_a_value_that_does_not_fit_its_field_is_refused() -> None:
    assert CONFERENCE.unpack(CONFERENCE.pack(1, 2, 2**14 - 1)) == (1, 2, 2**14 - 1)
    for value in (2**14, -1):
        with pytest.raises(EncodeError, match=f"source {value} does not fit 14 bits"):
            CONFERENCE.pack(1, 2, value)
    with pytest.raises(EncodeError, match="5 of 4 fields"):
        CONFERENCE.pack(1, 2, 3, 4, 5)


def test_a_prefix_that_ends_inside_a_field_leaves_the_field_out() -> None:
    name = CONFERENCE.pack(1, 2, 3, 4)
    assert CONFERENCE.unpack(name) == (1, 2, 3, 4)
    assert CONFERENCE.unpack(name.prefix(127)) == (1, 2, 3)
    assert CONFERENCE.unpack(name.prefix(84)) == (1, 2, 3)
    assert CONFERENCE.unpack(name.prefix(83)) == (1, 2)
    assert CONFERENCE.unpack(ALL) == ()


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ((), "widths sum to 0 bits, not to 128"),
        ((("a", 127),), "widths sum to 127 bits, not to 128"),
        ((("a", 64), ("b", 65)), "widths sum to 129 bits, not to 128"),
        ((("a", 0), ("b", 128)), "field a is 0 bits wide"),
        ((("a", -1), ("b", 129)), "field a is -1 bits wide"),
        ((("a", 64), ("a", 64)), "a field name occurs twice in a, a"),
    ],
)
def test_a_layout_that_does_not_fill_128_bits_is_refused(
    fields: tuple[tuple[str, int], ...], complaint: str
) -> None:
    with pytest.raises(EncodeError, match=complaint):
        NameLayout(fields)


@st.composite
def layouts(draw: st.DrawFn) -> NameLayout:
    cuts = sorted(draw(st.sets(st.integers(1, 127), max_size=5)))
    edges = [0, *cuts, 128]
    widths = [right - left for left, right in itertools.pairwise(edges)]
    return NameLayout(tuple((f"f{index}", width) for index, width in enumerate(widths)))


@given(layouts(), st.data())
def test_pack_and_unpack_are_inverse_in_any_layout(layout: NameLayout, data: st.DataObject) -> None:
    widths = [width for _, width in layout.fields]
    values = tuple(data.draw(st.integers(0, (1 << width) - 1)) for width in widths)
    values = values[: data.draw(st.integers(0, len(values)))]
    name = layout.pack(*values)
    assert name.length == sum(widths[: len(values)])
    assert layout.unpack(name) == values


@given(layouts(), short_names())
def test_what_is_unpacked_covers_the_name(layout: NameLayout, name: ShortName) -> None:
    assert layout.pack(*layout.unpack(name)).covers(name)
