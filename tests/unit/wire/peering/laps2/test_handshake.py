"""The handshake's messages: what they must hold, and their bytes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import testkit.laps2  # noqa: F401 - registers strategies
from laps_wire.errors import EncodeError, MalformedError
from laps_wire.layout import Layout
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import handshake
from laps_wire.peering.laps2.codepoints import Direction, Mode, RelayType
from laps_wire.peering.laps2.fields import Stamp
from laps_wire.peering.laps2.handshake import (
    CHALLENGE,
    CONNECT,
    CONNECT_REFUSED,
    NO_EVIDENCE,
    PROOF,
    Challenge,
    Connect,
    ConnectRefused,
    ConnectResponse,
    Evidence,
    Proof,
)
from laps_wire.peering.laps2.node import NodeInfo, NodeSelf
from testkit.fields import check_codec_bytes, check_codec_values, read, write
from testkit.strategies import values_of

TABLES: dict[str, Layout[Any]] = {
    name: getattr(handshake, name)
    for name in handshake.__all__
    if name.isupper() and name != "NO_EVIDENCE"
}
SELF = NodeInfo(NodeSelf(NodeId(1), RelayType.EDGE, Stamp(3, 9)))
HEARD = SELF.passed_on(NodeId(2), 5)


@pytest.mark.parametrize("layout", TABLES.values(), ids=TABLES)
@given(data=st.data())
def test_identity_and_prefixes(layout: Layout[Any], data: st.DataObject) -> None:
    check_codec_values(layout, data.draw(values_of(layout)))


@pytest.mark.parametrize("layout", TABLES.values(), ids=TABLES)
@given(data=st.binary(min_size=1, max_size=120))
def test_any_bytes(layout: Layout[Any], data: bytes) -> None:
    check_codec_bytes(layout, data)


def connect(node_info: NodeInfo = SELF, **changes: Any) -> Connect:
    values: dict[str, Any] = {
        "versions": (0x200,),
        "features": (1,),
        "mode": Mode.BOTH,
        "direction": Direction.BIDIRECTIONAL,
        "challenge": bytes(range(32)),
        "schemes": (0, 2),
    }
    return Connect(node_info=node_info, **(values | changes))


def test_connect_by_hand() -> None:
    data = write(CONNECT, connect())
    assert data == bytes.fromhex(
        "01 4200"
        "01 01"
        "02 01"
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
        "02 00 02"
        "0000000000000001 01 03 09 00 00 00 00 00 00 00 00 00 00 00 00 00"
        "00"
    )


def test_the_others_by_hand() -> None:
    nonce = bytes(32)
    challenge = Challenge(0x200, (), NodeId(2), nonce, (2,))
    assert write(CHALLENGE, challenge) == bytes.fromhex("4200 00 0000000000000002") + nonce + (
        b"\x01\x02\x00"
    )
    proof = Proof(Mode.CONTROL, Direction.UNIDIRECTIONAL, Evidence(3, b"k", b"mac"))
    assert write(PROOF, proof) == bytes.fromhex("00 00 03 016b 036d6163 00")
    refused = ConnectRefused(5, "no", 64, ("h",))
    assert write(CONNECT_REFUSED, refused) == bytes.fromhex("05 026e6f 4040 01 0168 00")


def test_nobody_speaks_for_another_node() -> None:
    assert connect().node_info.path == ()
    with pytest.raises(EncodeError, match="empty path"):
        connect(HEARD)
    with pytest.raises(EncodeError, match="empty path"):
        ConnectResponse(Mode.DATA, Direction.UNIDIRECTIONAL, HEARD)
    assert ConnectResponse(Mode.DATA, Direction.UNIDIRECTIONAL, SELF).evidence is NO_EVIDENCE


def test_a_refusal_says_why() -> None:
    with pytest.raises(EncodeError, match="code other than 0"):
        ConnectRefused(0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"versions": ()}, "0 items are outside 1..8"),
        ({"versions": (2, 1)}, "must strictly ascend"),
        ({"versions": tuple(range(9))}, "9 items are outside 1..8"),
        ({"features": (1, 1)}, "must strictly ascend"),
        ({"schemes": ()}, "0 items are outside 1..16"),
        ({"challenge": bytes(31)}, "31 bytes where exactly 32 belong"),
    ],
)
def test_what_connect_cannot_say(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(EncodeError, match=words):
        write(CONNECT, connect(**changes))


def test_credentials_are_bounded() -> None:
    with pytest.raises(MalformedError, match="length 8193 is over the limit of 8192"):
        read(handshake.EVIDENCE, bytes.fromhex("02 6001"))
    with pytest.raises(MalformedError, match="length 1025 is over the limit of 1024"):
        read(handshake.EVIDENCE, bytes.fromhex("02 00 4401"))
