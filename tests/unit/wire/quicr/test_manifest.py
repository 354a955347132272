"""Manifests: the seed's three examples, both ways, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from laps_wire.errors import EncodeError, MalformedError
from laps_wire.quicr.manifest import (
    MAX_MANIFEST,
    Channel,
    ChannelManifest,
    ConferenceManifest,
    Manifest,
    ManifestPublisher,
    ManifestSource,
    ManifestStream,
    StreamingManifest,
    format_manifest,
    parse_manifest,
)
from testkit.properties import check_any_bytes, check_bounded

# The seed's examples, with the commas and quotes that they lack there.
CONFERENCE = b"""
{
  "origin": "acme.meetings.com",
  "meeting": "meeting123",
  "publisher": {
    "id": "Alice",
    "source": [
      {"type": "audio", "streams": [
        {"id": "1111", "codec": "opus", "quality": "48khz"},
        {"id": "2222"}
      ]},
      {"type": "video", "streams": [
        {"id": "3333", "codec": "av1", "quality": "1920x720_60fps"}
      ]}
    ]
  }
}"""
ALICE = ManifestPublisher(
    "Alice",
    (
        ManifestSource("audio", (ManifestStream("1111", "opus", "48khz"), ManifestStream("2222"))),
        ManifestSource("video", (ManifestStream("3333", "av1", "1920x720_60fps"),)),
    ),
)
CHANNELS = b"""
{ "origin": "retail19012.sjc.acme.com",
  "channel": [ {"name": "bakery", "id": "1234"}, {"name": "gardening", "id": "5678"} ] }"""
STREAMING = b"""
{ "resource": "jon.doe.music.live.tv",
  "streams": [ {"id": "1234", "codec": "av1", "quality": "1920x720_60fps", "new": 1} ] }"""


@pytest.mark.parametrize(
    ("data", "manifest", "written"),
    [
        (
            CONFERENCE,
            ConferenceManifest("acme.meetings.com", "meeting123", (ALICE,)),
            (
                b'{"origin":"acme.meetings.com","meeting":"meeting123","publisher":[{"id":"Alice",'
                b'"source":[{"type":"audio","streams":[{"id":"1111","codec":"opus",'
                b'"quality":"48khz"},{"id":"2222"}]},{"type":"video","streams":[{"id":"3333",'
                b'"codec":"av1","quality":"1920x720_60fps"}]}]}]}'
            ),
        ),
        (
            CHANNELS,
            ChannelManifest(
                "retail19012.sjc.acme.com",
                (Channel("bakery", "1234"), Channel("gardening", "5678")),
            ),
            (
                b'{"origin":"retail19012.sjc.acme.com","channel":[{"name":"bakery","id":"1234"},'
                b'{"name":"gardening","id":"5678"}]}'
            ),
        ),
        (
            STREAMING,
            StreamingManifest(
                "jon.doe.music.live.tv", (ManifestStream("1234", "av1", "1920x720_60fps"),)
            ),
            (
                b'{"resource":"jon.doe.music.live.tv","streams":[{"id":"1234","codec":"av1",'
                b'"quality":"1920x720_60fps"}]}'
            ),
        ),
    ],
    ids=["conference", "push to talk", "streaming"],
)
def test_the_seeds_examples(data: bytes, manifest: Manifest, written: bytes) -> None:
    assert parse_manifest(data) == manifest
    assert format_manifest(manifest) == written
    assert parse_manifest(memoryview(written)) == manifest


texts = st.text(st.characters(codec="utf-8"), max_size=8)
streams = st.lists(st.builds(ManifestStream, texts, texts, texts), max_size=3).map(tuple)
sources = st.lists(st.builds(ManifestSource, texts, streams), max_size=3).map(tuple)
publishers = st.lists(st.builds(ManifestPublisher, texts, sources), max_size=3).map(tuple)
channels = st.lists(st.builds(Channel, texts, texts), max_size=3).map(tuple)
manifests: SearchStrategy[Manifest] = st.one_of(
    st.builds(ConferenceManifest, texts, texts, publishers),
    st.builds(ChannelManifest, texts, channels),
    st.builds(StreamingManifest, texts, streams),
)


@given(manifests)
def test_identity(manifest: Manifest) -> None:
    assert parse_manifest(format_manifest(manifest)) == manifest


@given(st.binary(max_size=60) | manifests.map(format_manifest).map(lambda data: data[:-1]))
def test_any_bytes(data: bytes) -> None:
    check_any_bytes(lambda b: (parse_manifest(b), len(b)), data)
    check_bounded(lambda b: (parse_manifest(b), len(b)), data)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\xff", "manifest: not JSON: .*utf-8"),
        (b"{", "manifest: not JSON"),
        (b'{"meeting": NaN}', "manifest: not JSON: NaN is no JSON"),
        (b'{"meeting": ' + b"9" * 5000 + b"}", "manifest: not JSON: .*digits"),
        (b"[" * 100_000, "manifest: nested too deeply"),
        (b"[]", "manifest: an object with a meeting, a channel or a resource belongs here"),
        (b"{}", "manifest: an object with a meeting, a channel or a resource"),
        (b'{"resource": 5, "streams": []}', "manifest.resource: a text belongs here"),
        (b'{"resource": "\\ud800", "streams": []}', "manifest.resource: half a character"),
        (b'{"resource": "r"}', "manifest.streams: a list belongs here"),
        (b'{"resource": "r", "streams": "s"}', "manifest.streams: a list belongs here"),
        (b'{"resource": "r", "streams": [{"id": "1"}, 5]}', r"manifest.streams\[1\]: an object"),
        (b'{"resource": "r", "streams": [{}]}', r"manifest.streams\[0\].id: a text"),
        (b'{"resource": "r", "streams": {"id": "1", "codec": 1}}', r"\[0\].codec: a text"),
        (b'{"resource": "r", "streams": {"id": "1", "quality": []}}', r"\[0\].quality: a text"),
        (b'{"channel": []}', "manifest.origin: a text belongs here"),
        (b'{"channel": {"id": "1"}, "origin": "o"}', r"manifest.channel\[0\].name: a text"),
        (b'{"channel": {"name": "n"}, "origin": "o"}', r"manifest.channel\[0\].id: a text"),
        (b'{"meeting": "m"}', "manifest.origin: a text"),
        (b'{"meeting": "m", "origin": "o", "publisher": {}}', r"publisher\[0\].id: a text"),
        (
            b'{"meeting": "m", "origin": "o", "publisher": {"id": "p", "source": {}}}',
            r"manifest.publisher\[0\].source\[0\].type: a text",
        ),
        (b" " * (MAX_MANIFEST + 1), "manifest: 1048577 bytes are over the limit of 1048576"),
    ],
    ids=lambda value: value[:30].decode(errors="replace") if isinstance(value, bytes) else "",
)
def test_what_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(MalformedError, match=words):
        parse_manifest(data)


def test_what_can_not_be_written() -> None:
    with pytest.raises(EncodeError, match="manifest: not encodable as UTF-8"):
        format_manifest(StreamingManifest("\ud800", ()))
    with pytest.raises(EncodeError, match="manifest: 1048602 bytes are over the limit of 1048576"):
        format_manifest(StreamingManifest("x" * (MAX_MANIFEST - 2), ()))
