"""Node, announce and subscribe entries and their messages."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import testkit.laps2  # noqa: F401 - registers strategies
from laps_wire.buffer import Reader, Writer
from laps_wire.errors import EncodeError, MalformedError
from laps_wire.fields import Layout
from laps_wire.names import FullTrackName, Namespace
from laps_wire.nodeid import NODE_ID, NodeId
from laps_wire.peering.laps2 import information
from laps_wire.peering.laps2.codepoints import (
    MAX_BATCH,
    MAX_HOPS,
    MAX_SUBSCRIBE_DATA_BYTES,
    AnnounceKind,
    LoadClass,
    RelayType,
)
from laps_wire.peering.laps2.fields import Parameters, Stamp
from laps_wire.peering.laps2.information import (
    ANNOUNCE_INFO,
    MAX_LOAD,
    NO_DATA,
    NODE_INFO,
    NODE_SELF,
    SUBSCRIBE_DATA,
    SUBSCRIBE_INFO,
    UNSIGNED,
    AnnounceInfo,
    AnnounceWithdrawal,
    Degrees,
    Load,
    Location,
    NodeInfo,
    NodePathItem,
    NodeSelf,
    NodeSignature,
    SubscribeData,
    SubscribeInfo,
    SubscribeResponse,
    SubscribeWithdrawal,
)
from testkit.fields import check_codec_bytes, check_codec_values, read, read_whole, write
from testkit.strategies import values_of

TABLES: dict[str, Layout[Any]] = {
    name: value
    for name, value in vars(information).items()
    if isinstance(value, Layout) and not name.startswith("_")
}
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


# Node information

BARE = NodeSelf(NodeId.parse("1:1"), RelayType.EDGE, Stamp(3, 9))
PATH = (NodePathItem(NodeId.parse("1:2"), 25_000), NodePathItem(NodeId.parse("1:3"), 50_000))


@given(values_of(NODE_INFO))
def test_identity_and_prefixes_of_node(value: NodeInfo) -> None:
    check_codec_values(NODE_INFO, value)


@given(st.binary(min_size=1, max_size=120))
def test_any_bytes_of_node(data: bytes) -> None:
    check_codec_bytes(NODE_INFO, data)


def test_the_smallest_node_by_hand() -> None:
    assert write(NODE_INFO, NodeInfo(BARE)) == bytes.fromhex(
        "0000000100000001"  # node ID 1:1
        "01"  # Edge
        "03 09"  # epoch, sequence
        "00"  # no contacts
        "00"  # no location
        "00"  # no region
        "00 00"  # load
        "00"  # nothing reachable
        "00"  # no labels
        "00"  # no parameters
        "00 00 00"  # unsigned
        "00"  # empty path
        "00"  # no parameters
    )


def test_a_location_by_hand() -> None:
    data = write(NODE_SELF, replace(BARE, location=Location(-180.0, 90.0)))
    assert bytes.fromhex("01 c066800000000000 4056800000000000") in data


@given(
    values_of(NODE_INFO),
    values_of(NODE_ID),
    st.integers(0, 2**40),
)
def test_a_hop_changes_nothing_that_the_node_said(
    value: NodeInfo, hop: NodeId, srtt_us: int
) -> None:
    received, _ = read(NODE_INFO, write(NODE_INFO, value))
    passed = received.passed_on(hop, srtt_us)
    assert write(NODE_SELF, passed.node) == write(NODE_SELF, value.node)
    assert passed.signature == value.signature
    assert passed.path == (*value.path, NodePathItem(hop, srtt_us))
    assert passed.sum_srtt_us == value.sum_srtt_us + srtt_us
    assert passed.parameters == value.parameters.carried()


def test_the_example_of_the_seed() -> None:
    # seed 000, Node Path: 1:4 hears 1:1 over 1:2 (25 ms) and 1:3 (50 ms), its own session has 60.
    info = NodeInfo(BARE).passed_on(NodeId.parse("1:2"), 25_000)
    info = info.passed_on(NodeId.parse("1:3"), 50_000)
    assert info.path == PATH
    assert len(info.path) == 2
    assert info.sum_srtt_us + 60_000 == 135_000
    assert NodeInfo(BARE).sum_srtt_us == 0


def test_the_longest_path_fits_and_no_longer() -> None:
    items = tuple(NodePathItem(NodeId(number), 1) for number in range(MAX_HOPS))
    info = NodeInfo(BARE, path=items)
    assert read(NODE_INFO, write(NODE_INFO, info))[0] == info
    with pytest.raises(EncodeError, match="17 items are over the limit of 16"):
        write(NODE_INFO, info.passed_on(NodeId(99), 1))


@pytest.mark.parametrize(
    ("codec", "value"),
    [
        (Degrees(180), 180.0),
        (Degrees(180), -180.0),
        (Degrees(90), 90.0),
        (Degrees(90), -90.0),
        (Degrees(90), -0.0),
    ],
)
def test_the_ends_of_the_world(codec: Degrees, value: float) -> None:
    decoded = read_whole(codec, write(codec, value))
    assert math.copysign(1, decoded) == math.copysign(1, value)
    assert decoded == value


@pytest.mark.parametrize("value", [90.00001, -90.00001, math.inf, -math.inf, math.nan])
def test_beyond_the_ends(value: float) -> None:
    writer = Writer()
    with pytest.raises(EncodeError, match=r"f: .* is outside -90..90"):
        Degrees(90).write(writer, value, "f")
    writer.f64(value, "f")
    with pytest.raises(MalformedError, match=r"outside -90..90|not a number") as caught:
        Degrees(90).read(Reader(writer.getvalue()), "f")
    assert caught.value.offset == 0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: NodeSignature(2, b"short", b""), "fingerprint: 5 bytes, 0 or 32 belong"),
        (lambda: NodeSignature(0, b"", b"sig"), "a signature without a scheme"),
    ],
)
def test_signatures_that_make_no_sense(make: Any, words: str) -> None:
    with pytest.raises(EncodeError, match=words):
        make()


def test_a_fingerprint_without_a_signature_is_fine() -> None:
    assert NodeSignature(0, bytes(32)).fingerprint == bytes(32)
    assert NodeSignature(2, bytes(32), b"s").signature == b"s"
    assert NodeSignature(0, b"", b"") == UNSIGNED


def test_load_orders_by_class_then_value() -> None:
    assert Load(LoadClass.NORMAL, MAX_LOAD) < Load(LoadClass.BUSY, 0) < Load(LoadClass.BUSY, 1)
    with pytest.raises(EncodeError, match=r"1001 is outside 0..1000"):
        write(NODE_SELF, replace(BARE, load=Load(LoadClass.NORMAL, MAX_LOAD + 1)))


def test_unknown_parameters_of_a_node_survive() -> None:
    node = replace(BARE, parameters=Parameters(((0x40, b"hop"), (0x4545, b"end"))))
    info = NodeInfo(node, parameters=Parameters(((0x3E, b"x"), (0x3F, b"y"))))
    received, _ = read(NODE_INFO, write(NODE_INFO, info))
    assert received == info
    passed = received.passed_on(NodeId(5), 1)
    assert passed.node.parameters == node.parameters  # signed: all of it stays
    assert passed.parameters == Parameters(((0x3F, b"y"),))
