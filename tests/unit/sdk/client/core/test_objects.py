from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.client.core.objects import (
    CAPTURE_TIMESTAMP,
    Object,
    capture_time,
    encode_object_extensions,
    namespace_path,
    to_bytes,
    to_namespace,
    to_track,
    track_path,
)
from laps_wire.errors import EncodeError, TextFormError
from laps_wire.moqt.data import parse_extensions
from laps_wire.moqt.keyvalue import KeyValue
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace

VIDEO = FullTrackName(Namespace.of(b"demo", b"camera"), b"video")


def test_a_path_is_a_namespace() -> None:
    assert to_namespace("demo/camera") == Namespace.of(b"demo", b"camera")
    assert to_namespace("") == Namespace()
    assert to_namespace("zu%2fhause/50%25/%ff") == Namespace.of(b"zu/hause", b"50%", b"\xff")


def test_fields_and_namespaces_are_taken_as_they_are() -> None:
    assert to_namespace(["a/b", b"\x00"]) == Namespace.of(b"a/b", b"\x00")
    assert to_namespace(VIDEO.namespace) is VIDEO.namespace


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/demo", "an empty field, at character 1; a good one is 'demo/camera'"),
        ("demo//camera", "an empty field, at character 6"),
        ("demo/", "an empty field, at the end"),
        ("a/5%", "'%' must be followed by two hex digits, at character 4"),
        ("a/5%zz", "'%' must be followed by two hex digits, at character 4"),
        ("/".join("abcdefgh" * 5), "40 fields, at most 32 fit"),
    ],
)
def test_a_bad_path_says_what_is_wrong(path: str, words: str) -> None:
    with pytest.raises(TextFormError) as caught:
        to_namespace(path)
    assert words in str(caught.value)


def test_a_track_is_named_in_three_ways() -> None:
    assert to_track("demo/camera", "video") == VIDEO
    assert to_track(["demo", b"camera"], b"video") == VIDEO
    assert to_track("demo-camera--video") == VIDEO
    assert to_track(VIDEO) is VIDEO


def test_a_track_without_a_name_is_refused() -> None:
    with pytest.raises(TextFormError, match="'demo/camera', 'video'"):
        to_track("demo/camera")
    with pytest.raises(TextFormError, match="'demo-camera--video'"):
        to_track(["demo"])
    with pytest.raises(TextFormError, match="leave 'audio' out"):
        to_track(VIDEO, "audio")


def test_a_name_that_is_too_long_is_refused() -> None:
    with pytest.raises(EncodeError, match="4096"):
        to_track("demo", "x" * 5000)


def test_names_for_people() -> None:
    assert track_path(VIDEO) == "demo/camera video"
    assert track_path(FullTrackName(Namespace.of(b"a b"), b"\xff/\n%")) == "a%20b %ff%2f%0a%25"
    assert to_bytes("ä") == b"\xc3\xa4"
    assert to_bytes(bytearray(b"x")) == b"x"  # type: ignore[arg-type] # works all the same


@given(st.lists(st.binary(min_size=1, max_size=12), max_size=8).map(tuple))
def test_every_namespace_has_a_path(fields: tuple[bytes, ...]) -> None:
    namespace = Namespace(fields)
    path = namespace_path(namespace)
    assert to_namespace(path) == namespace
    assert path.isprintable()


@pytest.mark.parametrize("draft", list(Draft))
def test_a_stamp_is_read_back(draft: Draft) -> None:
    block = encode_object_extensions([(0x100, 7), (0x101, b"x")], 1_700_000_000.25, draft)
    pairs = parse_extensions(block, draft).pairs
    assert pairs[:2] == (KeyValue(0x100, 7), KeyValue(0x101, b"x"))
    assert capture_time(pairs) == 1_700_000_000.25
    obj = Object(1, 0, b"", extensions=pairs, received_at=1_700_000_000.75)
    assert obj.captured_at == 1_700_000_000.25
    assert obj.latency == 0.5


def test_without_a_stamp_there_is_no_latency() -> None:
    assert encode_object_extensions([], None, Draft.D18) == b""
    assert capture_time(()) is None
    obj = Object(1, 0, b"", extensions=(KeyValue(0x100, 7),), received_at=5.0)
    assert obj.latency is None


def test_a_stamp_of_the_application_wins() -> None:
    block = encode_object_extensions([(CAPTURE_TIMESTAMP, 5_000_000)], 9.0, Draft.D16)
    assert parse_extensions(block, Draft.D16).pairs == (KeyValue(CAPTURE_TIMESTAMP, 5_000_000),)


@pytest.mark.parametrize("pair", [(0x100, b"bytes"), (0x101, 5)])
def test_a_value_of_the_wrong_kind_is_refused(pair: tuple[int, int | bytes]) -> None:
    with pytest.raises(EncodeError, match="takes"):
        encode_object_extensions([pair], None, Draft.D18)
