"""Names: the limits, the one text that each has, and the bytes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import testkit.names  # noqa: F401 - registers the strategies
from laps_wire.buffer import QUIC, VI64, IntegerCoding, Reader
from laps_wire.errors import EncodeError, LapsError, MalformedError, TextFormError
from laps_wire.fields import FieldCodec
from laps_wire.names import (
    FULL_TRACK_NAME,
    NAMESPACE,
    NAMESPACE_PREFIX,
    FullTrackName,
    Namespace,
)
from testkit.fields import SUFFIXES, check_codec_bytes, check_codec_values, read, write
from testkit.strategies import values_of

CODECS: dict[str, FieldCodec[Any]] = {
    "NAMESPACE": NAMESPACE,
    "NAMESPACE_PREFIX": NAMESPACE_PREFIX,
    "FULL_TRACK_NAME": FULL_TRACK_NAME,
}
EXAMPLE = FullTrackName(Namespace.of(b"example.net", b"team2", b"project_x"), b"report")


# The values and their limits


def test_a_namespace_has_at_most_32_fields() -> None:
    assert len(Namespace((b"x",) * 32).fields) == 32
    with pytest.raises(EncodeError, match="33 fields, at most 32"):
        Namespace((b"x",) * 33)


def test_a_namespace_field_has_at_least_one_byte() -> None:
    with pytest.raises(EncodeError, match="field 1 is empty"):
        Namespace.of(b"x", b"")


def test_a_namespace_has_at_most_4096_bytes() -> None:
    assert Namespace.of(b"x" * 4000, b"y" * 96).size == 4096
    with pytest.raises(EncodeError, match="4097 bytes, at most 4096"):
        Namespace.of(b"x" * 4000, b"y" * 97)


def test_a_full_track_name_has_at_most_4096_bytes() -> None:
    namespace = Namespace.of(b"x" * 4000)
    assert FullTrackName(namespace, b"y" * 96).size == 4096
    with pytest.raises(EncodeError, match="4097 bytes, at most 4096"):
        FullTrackName(namespace, b"y" * 97)


def test_values_are_keys_and_have_an_order() -> None:
    assert {EXAMPLE: 1}[FullTrackName(EXAMPLE.namespace, b"report")] == 1
    assert Namespace.of(b"a") < Namespace.of(b"a", b"a") < Namespace.of(b"b")
    assert FullTrackName(Namespace.of(b"a"), b"z") < FullTrackName(Namespace.of(b"b"), b"a")


@pytest.mark.parametrize(
    ("prefix", "other", "expected"),
    [
        ((), (), True),
        ((), (b"a",), True),
        ((b"a",), (b"a",), True),
        ((b"a",), (b"a", b"b"), True),
        ((b"a", b"b"), (b"a",), False),
        ((b"b",), (b"a", b"b"), False),
        ((b"a",), (b"ab",), False),
    ],
)
def test_a_prefix_is_of_whole_fields(
    prefix: tuple[bytes, ...], other: tuple[bytes, ...], expected: bool
) -> None:
    assert Namespace(prefix).is_prefix_of(Namespace(other)) is expected


# Text


def test_the_drafts_example_both_ways() -> None:
    text = "example.2enet-team2-project_x--report"
    assert str(EXAMPLE) == text
    assert FullTrackName.parse(text) == EXAMPLE
    assert str(EXAMPLE.namespace) == "example.2enet-team2-project_x"
    assert Namespace.parse("example.2enet-team2-project_x") == EXAMPLE.namespace


@pytest.mark.parametrize(
    ("text", "fields", "name"),
    [
        ("--", (), b""),
        ("--n", (), b"n"),
        ("a--", (b"a",), b""),
        (".2d--.2d.2d", (b"-",), b"--"),
        ("Az09_-.00.ff--.2e", (b"Az09_", b"\x00\xff"), b"."),
        (".60.7b.40.5b.2f.3a.5e--x", (b"`{@[/:^",), b"x"),
    ],
)
def test_texts_at_the_edges(text: str, fields: tuple[bytes, ...], name: bytes) -> None:
    value = FullTrackName(Namespace(fields), name)
    assert FullTrackName.parse(text) == value
    assert str(value) == text


def test_the_empty_text_is_the_namespace_without_fields() -> None:
    assert Namespace.parse("") == Namespace()
    assert str(Namespace()) == ""


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("ab", "no '--' before the track name, at the end"),
        ("a-b", "no '--' before the track name, at the end"),
        ("a.2Enet--b", "'E' is not a lower-case hex digit, at character 4"),
        (".61--b", "'.61' must be written as 'a', at character 1"),
        ("a-.5f--b", "'.5f' must be written as '_', at character 3"),
        ("a--b.39", "'.39' must be written as '9', at character 5"),
        ("a--b.", "'.' must be followed by two hex digits, at the end"),
        ("a--b.2", "'.' must be followed by two hex digits, at the end"),
        ("a.--b", "'.' must be followed by two hex digits, at character 3"),
        ("a.2-b--c", "'.' must be followed by two hex digits, at character 4"),
        ("a--.g0", "'g' is not a lower-case hex digit, at character 5"),
        ("a--.0g", "'g' is not a lower-case hex digit, at character 6"),
        ("a--.\uff11\uff11", r"'\uff11' is not a lower-case hex digit, at character 5"),
        ("-a--b", "an empty namespace field, at character 1"),
        ("a---b", "'-' must be escaped as '.' and two hex digits a byte, at character 4"),
        ("a--b-c", "'-' must be escaped as '.' and two hex digits a byte, at character 5"),
        ("a b--c", "' ' must be escaped as '.' and two hex digits a byte, at character 2"),
        ("\xe9--c", r"'\xe9' must be escaped as '.' and two hex digits a byte, at character 1"),
        ("\u0661--c", r"'\u0661' must be escaped as '.'"),
        ("-".join("a" * 33) + "--b", "namespace: 33 fields, at most 32 fit, at the end"),
        ("a" * 4096 + "--b", "full track name: 4097 bytes, at most 4096 fit, at the end"),
    ],
)
def test_a_bad_full_name_is_pointed_at(text: str, complaint: str) -> None:
    with pytest.raises(TextFormError) as caught:
        FullTrackName.parse(text)
    assert complaint in str(caught.value)
    assert str(caught.value).startswith("track name '")
    assert str(caught.value).endswith("; a good one is 'example.2enet-team2--report'")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a--b", "an empty namespace field, at character 3"),
        ("a-", "an empty namespace field, at the end"),
        ("-", "an empty namespace field, at character 1"),
        ("a.2", "'.' must be followed by two hex digits, at the end"),
        ("a" * 4097, "namespace: 4097 bytes, at most 4096 fit, at the end"),
    ],
)
def test_a_bad_namespace_is_pointed_at(text: str, complaint: str) -> None:
    with pytest.raises(TextFormError) as caught:
        Namespace.parse(text)
    assert complaint in str(caught.value)
    assert str(caught.value).startswith("namespace '")
    assert str(caught.value).endswith("; a good one is 'example.2enet-team2'")


@given(values_of(NAMESPACE_PREFIX), st.binary(max_size=20))
def test_every_name_has_a_text_that_gives_it_back(namespace: Namespace, name: bytes) -> None:
    full = FullTrackName(namespace, name)
    assert FullTrackName.parse(str(full)) == full
    assert Namespace.parse(str(namespace)) == namespace
    assert str(full).isascii()


@given(st.text(st.sampled_from("aZ_9-.2defE\xe9 "), max_size=20))
def test_every_text_is_refused_or_the_only_one_of_its_name(text: str) -> None:
    try:
        full = FullTrackName.parse(text)
    except TextFormError:
        return
    assert str(full) == text


# Wire


def test_the_bytes_of_a_namespace_in_both_codings() -> None:
    long = Namespace.of(b"demo", b"x" * 70)
    assert write(NAMESPACE, Namespace.of(b"demo", b"a")) == b"\x02\x04demo\x01a"
    assert write(NAMESPACE, long, QUIC) == b"\x02\x04demo\x40\x46" + b"x" * 70
    assert write(NAMESPACE, long, VI64) == b"\x02\x04demo\x46" + b"x" * 70
    assert write(NAMESPACE_PREFIX, Namespace()) == b"\x00"


def test_the_bytes_of_a_full_track_name() -> None:
    full = FullTrackName(Namespace.of(b"demo/room1"), b"events")
    assert write(FULL_TRACK_NAME, full) == bytes.fromhex("01 0a") + b"demo/room1\x06events"


@pytest.mark.parametrize(
    ("codec", "data", "complaint"),
    [
        (NAMESPACE, b"\x00", "f: 0 fields where 1 to 32 belong (at byte 0)"),
        (NAMESPACE, b"\x21", "f: 33 fields where 1 to 32 belong (at byte 0)"),
        (NAMESPACE_PREFIX, b"\x21", "f: 33 fields where 0 to 32 belong (at byte 0)"),
        (NAMESPACE, b"\x02\x01a\x00", "f[1]: an empty namespace field (at byte 3)"),
        (NAMESPACE, b"\x01\x50\x01", "length 4097 is over the limit of 4096 (at byte 1)"),
        (
            NAMESPACE,
            b"\x02\x4f\xff" + b"x" * 4095 + b"\x02",
            "length 2 is over the limit of 1 (at byte 4098)",
        ),
        (
            FULL_TRACK_NAME,
            b"\x01\x4f\xff" + b"x" * 4095 + b"\x02",
            "name: length 2 is over the limit of 1 (at byte 4098)",
        ),
        (FULL_TRACK_NAME, b"\x00", "namespace: 0 fields where 1 to 32 belong"),
    ],
)
def test_what_can_never_be_a_name_is_refused_at_once(
    codec: Any, data: bytes, complaint: str
) -> None:
    with pytest.raises(MalformedError) as caught:
        read(codec, data)
    assert complaint in str(caught.value)
    assert caught.value.code == 0x3


def test_names_as_large_as_the_limits_pass() -> None:
    full = FullTrackName(Namespace((b"f" * 100,) * 32), b"n" * 896)
    assert read(FULL_TRACK_NAME, write(FULL_TRACK_NAME, full))[0] == full
    alone = FullTrackName(Namespace.of(b"f" * 4096), b"")
    assert read(FULL_TRACK_NAME, write(FULL_TRACK_NAME, alone))[0] == alone


def test_a_namespace_without_fields_is_not_written_where_one_belongs() -> None:
    with pytest.raises(EncodeError, match="f: 0 fields where at least 1 belong"):
        write(NAMESPACE, Namespace())
    with pytest.raises(EncodeError, match=r"f.namespace: 0 fields"):
        write(FULL_TRACK_NAME, FullTrackName(Namespace(), b"x"))


class Recorder(Reader):
    """Keeps what a tracing reader would draw."""

    def enter(self, field: str) -> None:
        seen.append(f"+{field}")

    def leave(self) -> None:
        seen.append("-")


seen: list[str] = []


def test_composites_are_entered_and_left() -> None:
    seen.clear()
    FULL_TRACK_NAME.read(Recorder(write(FULL_TRACK_NAME, EXAMPLE)), "track")
    assert seen == ["+track", "+namespace", "-", "-"]


@pytest.mark.parametrize("integers", [QUIC, VI64], ids=["quic", "vi64"])
@pytest.mark.parametrize("name", CODECS)
@given(data=st.data())
def test_identity_and_prefixes(name: str, integers: IntegerCoding, data: st.DataObject) -> None:
    codec = CODECS[name]
    value = data.draw(values_of(codec, integers))
    suffix = data.draw(st.binary(max_size=3))
    check_codec_values(codec, value, integers, suffixes=[*SUFFIXES, suffix])


@pytest.mark.parametrize("name", CODECS)
@given(data=st.binary(max_size=60))
def test_any_bytes(name: str, data: bytes) -> None:
    check_codec_bytes(CODECS[name], data)


@pytest.mark.parametrize("name", CODECS)
def test_memory_is_bounded_by_the_input(name: str) -> None:
    check_codec_bytes(CODECS[name], b"\x20" + b"\x4f\xff" * 8)


def test_a_name_never_raises_anything_but_our_errors() -> None:
    for text in ("\ud800--a", "--\U0010ffff", "." * 50):
        with pytest.raises(LapsError):
            FullTrackName.parse(text)
