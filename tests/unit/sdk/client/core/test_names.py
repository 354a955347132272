from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.client.core.names import namespace_path, to_bytes, to_namespace, to_track, track_path
from laps_wire.errors import EncodeError, TextFormError
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
