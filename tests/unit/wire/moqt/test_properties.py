"""Track properties: ranges, defaults, what is immutable and what is mandatory."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import testkit.moqt  # noqa: F401 - registers the strategies
from laps_wire.buffer import Reader, Writer
from laps_wire.errors import EncodeError, MalformedError
from laps_wire.moqt.codepoints import GroupOrder, grease
from laps_wire.moqt.keyvalue import KeyValue, KeyValues
from laps_wire.moqt.properties import TrackProperties, TrackPropertiesCodec
from laps_wire.moqt.versions import Draft
from testkit.properties import check_round_trip
from testkit.strategies import values_of

D16, D18 = Draft.D16, Draft.D18
DRAFTS = pytest.mark.parametrize("draft", list(Draft))


def encode(pairs: KeyValues, draft: Draft) -> bytes:
    writer = Writer(integers=draft.integers)
    TrackPropertiesCodec(draft).write(writer, pairs, "track_properties")
    return writer.getvalue()


def decode(data: bytes, draft: Draft) -> tuple[KeyValues, int]:
    reader = Reader(data, integers=draft.integers)
    return TrackPropertiesCodec(draft).read(reader, "track_properties"), reader.pos


def immutable(*pairs: KeyValue, draft: Draft = D18) -> KeyValue:
    return KeyValue(0x0B, encode(pairs, draft))


# The codec


def test_bytes() -> None:
    pairs = (KeyValue(0x02, 5000), KeyValue(0x0E, 128), KeyValue(0x22, 2), KeyValue(0x30, 1))
    assert encode(pairs, D16).hex(" ") == "02 53 88 0c 40 80 14 02 0e 01"
    assert encode(pairs, D18).hex(" ") == "02 93 88 0c 80 80 14 02 0e 01"
    for draft in Draft:
        assert decode(encode(pairs, draft), draft)[0] == pairs


@DRAFTS
@pytest.mark.parametrize(
    ("data", "pair", "words"),
    [
        ("0e c00100", KeyValue(0x0E, 256), "PRIORITY is 256, outside 0..255"),
        ("22 00", KeyValue(0x22, 0), "GROUP_ORDER is 0, outside 1..2"),
        ("22 03", KeyValue(0x22, 3), "GROUP_ORDER is 3, outside 1..2"),
        ("30 02", KeyValue(0x30, 2), "DYNAMIC_GROUPS is 2, outside 0..1"),
    ],
)
def test_ranges(draft: Draft, data: str, pair: KeyValue, words: str) -> None:
    raw = bytes.fromhex("0e 4100" if draft is D16 and "PRIORITY" in words else data)
    with pytest.raises(MalformedError, match=words) as caught:
        decode(raw, draft)
    assert caught.value.code == 0x3
    assert caught.value.offset == 0
    with pytest.raises(EncodeError, match=words):
        encode((pair,), draft)


def test_a_delivery_timeout_of_0() -> None:
    pair = (KeyValue(0x02, 0),)
    with pytest.raises(MalformedError, match="DELIVERY_TIMEOUT is 0"):
        decode(b"\x02\x00", D16)
    with pytest.raises(EncodeError, match="DELIVERY_TIMEOUT is 0"):
        encode(pair, D16)
    assert decode(encode(pair, D18), D18)[0] == pair
    assert TrackProperties.of(pair, D18).object_delivery_timeout is None


@DRAFTS
@given(data=st.data())
def test_round_trips(draft: Draft, data: st.DataObject) -> None:
    pairs: Any = data.draw(values_of(TrackPropertiesCodec(draft), draft.integers))
    check_round_trip(lambda value: encode(value, draft), lambda raw: decode(raw, draft), pairs)
    TrackProperties.of(pairs, draft)


# The view


@DRAFTS
def test_defaults(draft: Draft) -> None:
    view = TrackProperties.of((), draft)
    assert view == TrackProperties()
    assert view.publisher_priority == 128
    assert view.group_order is GroupOrder.ASCENDING
    assert not view.dynamic_groups
    assert view.object_delivery_timeout is None
    assert view.max_cache_duration is None


def test_everything_at_once() -> None:
    pairs = (
        KeyValue(0x02, 5000),
        KeyValue(0x04, 0),
        KeyValue(0x06, 70),
        KeyValue(0x0E, 1),
        KeyValue(0x22, 2),
        KeyValue(0x30, 1),
        KeyValue(0x39, b"application's own"),
        KeyValue(grease(1), 7),
    )
    view = TrackProperties.of(pairs, D18)
    assert view == TrackProperties(
        object_delivery_timeout=5000,
        subgroup_delivery_timeout=70,
        max_cache_duration=0,
        publisher_priority=1,
        group_order=GroupOrder.DESCENDING,
        dynamic_groups=True,
    )
    # 0x06 is no property of tracks in draft 16.
    assert TrackProperties.of(pairs, D16).subgroup_delivery_timeout is None


def test_immutable_properties_count() -> None:
    pairs = (immutable(KeyValue(0x0E, 9), KeyValue(0x30, 1)), KeyValue(0x30, 0))
    view = TrackProperties.of(pairs, D18)
    assert view.publisher_priority == 9
    assert not view.dynamic_groups  # what stands outside was first
    assert not view.malformed


@pytest.mark.parametrize(
    "pair",
    [
        KeyValue(0x0B, b"\x0e"),
        immutable(KeyValue(0x0B, b"")),
        KeyValue(0x0B, b"\x22\x07"),
    ],
    ids=["cut", "nested", "range"],
)
def test_bad_immutable_properties_make_the_track_malformed(pair: KeyValue) -> None:
    # But they do not end the session.
    assert decode(encode((pair,), D18), D18)[0] == (pair,)
    assert TrackProperties.of((pair,), D18).malformed


def test_mandatory_properties() -> None:
    pairs = (KeyValue(0x3FFF, b""), KeyValue(0x4000, 1), KeyValue(0x7FFF, b""), KeyValue(0x8000, 1))
    assert TrackProperties.of(pairs, D18).mandatory == (0x4000, 0x7FFF)
    assert TrackProperties.of(pairs, D16).mandatory == ()
    assert TrackProperties.of((immutable(KeyValue(0x4001, b"")),), D18).mandatory == (0x4001,)
