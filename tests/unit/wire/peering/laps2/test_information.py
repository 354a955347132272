"""Announces and subscribes: identities, what must agree inside an entry, and their bytes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import testkit.laps2  # noqa: F401 - registers strategies
from laps_wire.errors import EncodeError, MalformedError
from laps_wire.layout import Layout
from laps_wire.names import FullTrackName, Namespace
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import information
from laps_wire.peering.laps2.codepoints import AnnounceKind
from laps_wire.peering.laps2.fields import Stamp
from laps_wire.peering.laps2.information import (
    ANNOUNCE_INFO,
    NO_DATA,
    SUBSCRIBE_DATA,
    SUBSCRIBE_INFO,
    AnnounceInfo,
    AnnounceWithdrawal,
    SubscribeData,
    SubscribeInfo,
    SubscribeResponse,
    SubscribeWithdrawal,
)
from laps_wire.peering.laps2.limits import MAX_BATCH, MAX_SUBSCRIBE_DATA_BYTES
from testkit.fields import check_codec_bytes, check_codec_values, read, write
from testkit.strategies import values_of

TABLES: dict[str, Layout[Any]] = {
    name: getattr(information, name) for name in information.__all__ if name.isupper()
}
del TABLES["NO_DATA"]
NODE = NodeId.parse("103.2:1")
NAME = FullTrackName(Namespace.of(b"a", b"b"), b"n")


@pytest.mark.parametrize("layout", TABLES.values(), ids=TABLES)
@given(data=st.data())
def test_identity_and_prefixes(layout: Layout[Any], data: st.DataObject) -> None:
    check_codec_values(layout, data.draw(values_of(layout)))


@pytest.mark.parametrize("layout", TABLES.values(), ids=TABLES)
@given(data=st.binary(min_size=1, max_size=120))
def test_any_bytes(layout: Layout[Any], data: bytes) -> None:
    check_codec_bytes(layout, data)


def track(**changes: Any) -> AnnounceInfo:
    values: dict[str, Any] = {
        "source": NODE,
        "stamp": Stamp(1, 2),
        "kind": AnnounceKind.TRACK,
        "element_hashes": (7, 8),
        "name_hash": 9,
        "full_name_hash": 10,
    }
    return AnnounceInfo(**(values | changes))


def test_an_announce_by_hand() -> None:
    assert write(ANNOUNCE_INFO, track()) == bytes.fromhex(
        "0067000200000001"
        "01 02"  # stamp
        "00"  # a track
        "02 0000000000000007 0000000000000008"
        "01 0000000000000009"
        "000000000000000a"
        "00"  # no plaintext
        "00"
    )


def test_a_subscribe_by_hand() -> None:
    entry = SubscribeInfo(NODE, Stamp(1, 2), (7,), 9, 10, data=SubscribeData(16, b"\xab"))
    assert write(SUBSCRIBE_INFO, entry) == bytes.fromhex(
        "0067000200000001"
        "01 02"
        "01 0000000000000007"
        "0000000000000009"
        "000000000000000a"
        "00"  # no scope
        "10 01 ab"  # draft 16, one byte
        "00"
    )


def test_what_an_announce_may_be() -> None:
    assert track(plaintext=NAME).plaintext == NAME
    space = FullTrackName(NAME.namespace, b"")
    both = track(kind=AnnounceKind.NAMESPACE, name_hash=None, plaintext=space)
    assert both.name_hash is None
    assert track(name_hash=0).name_hash == 0  # a hash may be zero


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name_hash": None}, "a track has a name hash and a namespace has none"),
        ({"kind": AnnounceKind.NAMESPACE}, "a track has a name hash and a namespace has none"),
        ({"plaintext": NAME, "element_hashes": (7,)}, "as many element hashes"),
        (
            {"kind": AnnounceKind.NAMESPACE, "name_hash": None, "plaintext": NAME},
            "a namespace has no track name",
        ),
    ],
)
def test_announces_that_contradict_themselves(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(EncodeError, match=words):
        track(**changes)


def test_a_contradiction_from_a_peer_is_its_fault() -> None:
    data = bytearray(write(ANNOUNCE_INFO, track()))
    data[10] = AnnounceKind.NAMESPACE
    with pytest.raises(MalformedError, match="a namespace has none"):
        read(ANNOUNCE_INFO, bytes(data))


def test_subscribe_data_needs_a_draft() -> None:
    with pytest.raises(EncodeError, match="data that no draft encoded"):
        SubscribeData(0, b"x")
    assert SubscribeData(18).body == b""
    assert SubscribeData() == NO_DATA
    most = SubscribeData(16, bytes(MAX_SUBSCRIBE_DATA_BYTES))
    assert read(SUBSCRIBE_DATA, write(SUBSCRIBE_DATA, most))[0] == most
    with pytest.raises(EncodeError, match="over the limit"):
        write(SUBSCRIBE_DATA, SubscribeData(16, bytes(MAX_SUBSCRIBE_DATA_BYTES + 1)))


def test_an_advertisement_and_its_withdrawal_have_one_identity() -> None:
    gone = AnnounceWithdrawal(NODE, Stamp(1, 3), AnnounceKind.TRACK, 10)
    assert track().identity == gone.identity == (NODE, AnnounceKind.TRACK, 10)
    # A namespace and a track with an empty name share a full-name hash, and are two things.
    assert (
        AnnounceWithdrawal(NODE, Stamp(1, 3), AnnounceKind.NAMESPACE, 10).identity != gone.identity
    )

    wanted = SubscribeInfo(NODE, Stamp(1, 2), (7,), 9, 10)
    unwanted = SubscribeWithdrawal(NODE, Stamp(1, 3), 10)
    answer = SubscribeResponse(NODE, 10, Stamp(1, 2), NodeId(1), 0)
    assert wanted.identity == unwanted.identity == answer.identity == (NODE, 10)


@pytest.mark.parametrize(
    "name",
    [
        "NODE_ADVERTISE",
        "ANNOUNCE_ADVERTISE",
        "ANNOUNCE_WITHDRAW",
        "SUBSCRIBE_ADVERTISE",
        "SUBSCRIBE_WITHDRAW",
    ],
)
def test_batches_are_bounded(name: str) -> None:
    assert MAX_BATCH == 1024
    with pytest.raises(MalformedError, match="count 1025 is over the limit of 1024"):
        read(TABLES[name], bytes.fromhex("4401"))
