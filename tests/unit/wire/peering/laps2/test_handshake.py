"""Handshake messages, settings and the bytes that are signed."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import testkit.laps2  # noqa: F401 - registers strategies
from laps_wire.buffer import Writer
from laps_wire.errors import EncodeError, MalformedError
from laps_wire.fields import Layout
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import handshake
from laps_wire.peering.laps2 import handshake as module
from laps_wire.peering.laps2.codepoints import (
    MAX_MESSAGE_BYTES,
    MIN_MESSAGE_BYTES,
    AuthScheme,
    Direction,
    Mode,
    ParameterId,
    RelayType,
)
from laps_wire.peering.laps2.fields import NO_PARAMETERS, Parameters, Stamp
from laps_wire.peering.laps2.handshake import (
    CHALLENGE,
    CONNECT,
    CONNECT_REFUSED,
    HASH_CHECK_NAME,
    NO_EVIDENCE,
    PROOF,
    Challenge,
    Connect,
    ConnectRefused,
    ConnectResponse,
    Evidence,
    Proof,
    Settings,
    dialler_transcript,
    listener_transcript,
    node_transcript,
)
from laps_wire.peering.laps2.information import NODE_SELF, NodeInfo, NodeSelf, NodeSignature
from testkit.fields import check_codec_bytes, check_codec_values, read, write
from testkit.strategies import values_of

TABLES: dict[str, Layout[Any]] = {
    name: value for name, value in vars(handshake).items() if isinstance(value, Layout)
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


# Settings

NUMBERS = module._NUMBERS
u64 = st.integers(0, 2**64 - 1)


# Default, least and greatest value, as the page has them.
EXPECTED = {
    "unknown_sns_ms": (1_000, 0, 60_000),
    "unknown_sns_bytes": (1_048_576, 0, 2**32),
    "max_message_size": (65_536, 65_536, 1_048_576),
    "hold_ms": (15_000, 0, 86_400_000),
    "max_sns_targets": (4_096, 1, 65_536),
    "max_sns_sets": (65_536, 0, 2**32 - 1),
    "max_nodes": (65_536, 0, 2**62 - 1),
    "max_announces": (1_048_576, 0, 2**62 - 1),
    "max_subscribes": (16_777_216, 0, 2**62 - 1),
    "hash_scheme": (1, 0, 2**62 - 1),
    "batch_ms": (20, 0, 10_000),
}


@st.composite
def any_settings(draw: st.DrawFn) -> Settings:
    values: dict[str, Any] = {
        name: draw(st.integers(low, high)) for name, (_, low, high) in NUMBERS.items()
    }
    return Settings(
        **values,
        hash_check=draw(st.none() | u64),
        expected_node=draw(st.none() | u64),
        implementation=draw(st.text(st.characters(codec="utf-8"), max_size=20)),
    )


@given(any_settings())
def test_identity(settings: Settings) -> None:
    assert Settings.from_parameters(settings.to_parameters()) == settings


def test_every_default_and_both_ends() -> None:
    assert set(EXPECTED) == set(NUMBERS)
    for name, (default, low, high) in EXPECTED.items():
        assert getattr(Settings(), name) == default
        assert NUMBERS[name][1:] == (low, high)


def test_defaults_cost_nothing() -> None:
    assert Settings().to_parameters() == NO_PARAMETERS
    assert Settings.from_parameters(NO_PARAMETERS) == Settings()


def test_other_parameters_stay() -> None:
    others = Parameters(((0x3F, b"x"),))
    parameters = Settings(hold_ms=9000).to_parameters(others)
    assert parameters.entries == ((ParameterId.HOLD_MS, b"\x63\x28"), (0x3F, b"x"))
    assert Settings.from_parameters(parameters) == Settings(hold_ms=9000)


def test_bytes_by_hand() -> None:
    parameters = Settings(
        unknown_sns_ms=64, hash_check=1, expected_node=2, implementation="laps"
    ).to_parameters()
    assert parameters.entries == (
        (0x02, b"\x40\x40"),
        (0x16, bytes(7) + b"\x01"),
        (0x1A, bytes(7) + b"\x02"),
        (0x1C, b"laps"),
    )


def test_every_setting_has_its_own_even_parameter() -> None:
    identifiers = [identifier for identifier, _, _ in NUMBERS.values()]
    identifiers += [ParameterId.HASH_CHECK, ParameterId.EXPECTED_NODE, ParameterId.IMPLEMENTATION]
    assert len(set(identifiers)) == len(identifiers) == len(fields(Settings))
    assert all(identifier % 2 == 0 for identifier in identifiers)  # never carried on


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("unknown_sns_ms", 60_001),
        ("unknown_sns_bytes", 2**32 + 1),
        ("max_message_size", MIN_MESSAGE_BYTES - 1),
        ("max_message_size", MAX_MESSAGE_BYTES + 1),
        ("hold_ms", 86_400_001),
        ("max_sns_targets", 0),
        ("max_sns_targets", 65_537),
        ("max_sns_sets", 2**32),
        ("batch_ms", 10_001),
    ],
)
def test_ranges_are_kept_both_ways(name: str, value: int) -> None:
    with pytest.raises(EncodeError, match=f"{name}: {value} is outside"):
        Settings(**{name: value})  # type: ignore[arg-type] # all of these are numbers
    parameters = NO_PARAMETERS.with_number(NUMBERS[name][0], value)
    with pytest.raises(MalformedError, match=f"{name}: {value} is outside"):
        Settings.from_parameters(parameters)


@pytest.mark.parametrize("identifier", [ParameterId.HASH_CHECK, ParameterId.EXPECTED_NODE])
@pytest.mark.parametrize("size", [0, 7, 9])
def test_fixed_sizes(identifier: ParameterId, size: int) -> None:
    with pytest.raises(MalformedError, match=f"{identifier.name}: {size} bytes where 8 belong"):
        Settings.from_parameters(Parameters(((identifier, bytes(size)),)))


def test_a_setting_that_is_no_number() -> None:
    with pytest.raises(MalformedError, match="parameter 0x8: not one varint"):
        Settings.from_parameters(Parameters(((ParameterId.HOLD_MS, b""),)))


@pytest.mark.parametrize("check", [-1, 2**64])
def test_u64_values_that_do_not_fit(check: int) -> None:
    with pytest.raises(EncodeError, match=r"hash_check: .* does not fit 64 bits"):
        Settings(hash_check=check)
    with pytest.raises(EncodeError, match=r"expected_node: .* does not fit 64 bits"):
        Settings(expected_node=check)


def test_an_implementation_name_that_is_not_text() -> None:
    odd = Settings.from_parameters(Parameters(((ParameterId.IMPLEMENTATION, b"\xff"),)))
    assert odd.implementation == "?"


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [(100, 200, 100), (200, 100, 100), (0, 200, 200), (200, 0, 200), (0, 0, 0)],
)
def test_the_lesser_hold_time_counts(one: int, other: int, both: int) -> None:
    assert Settings(hold_ms=one).hold_with(Settings(hold_ms=other)) == both


def test_the_name_that_is_hashed_to_compare_keys() -> None:
    assert HASH_CHECK_NAME == ((b"laps-2",), b"check")


# Transcripts

DIALLER = NodeInfo(NodeSelf(NodeId(0x0101), RelayType.EDGE, Stamp(0x0202, 1)))
LISTENER = NodeInfo(NodeSelf(NodeId(0x0303), RelayType.VIA, Stamp(5, 1)))
TRANSCRIPT_CONNECT = Connect(
    versions=(0x200,),
    features=(1, 4),
    mode=Mode.BOTH,
    direction=Direction.BIDIRECTIONAL,
    challenge=b"\xdd" * 32,
    schemes=(2,),
    node_info=DIALLER,
)
TRANSCRIPT_CHALLENGE = Challenge(0x200, (1, 4), NodeId(0x0303), b"\xcc" * 32, (2,))
EVIDENCE = Evidence(AuthScheme.CWT_SIGNATURE, b"token", b"ignored")
TRANSCRIPT_PROOF = Proof(Mode.BOTH, Direction.BIDIRECTIONAL, EVIDENCE)
RESPONSE = ConnectResponse(Mode.DATA, Direction.UNIDIRECTIONAL, LISTENER, EVIDENCE)
SPKI = b"\xee" * 32


def expected(label: bytes, mode: int, direction: int) -> bytes:
    return (
        bytes([len(label)])
        + label
        + b"\xcc" * 32
        + b"\xdd" * 32
        + bytes.fromhex("0000000000000101 0000000000000202 0000000000000303")
        + b"\xee" * 32
        + bytes.fromhex("0000000000000200")
        + bytes.fromhex("0002 0000000000000001 0000000000000004")
        + bytes([mode, direction])
        + bytes.fromhex("0000000000000002")
        + bytes.fromhex("00000005")
        + b"token"
    )


def test_the_diallers_bytes() -> None:
    transcript = dialler_transcript(
        TRANSCRIPT_CONNECT, TRANSCRIPT_CHALLENGE, TRANSCRIPT_PROOF, SPKI
    )
    assert transcript == expected(b"laps-2 connect proof dialler", 2, 1)
    assert len(transcript) == 1 + 28 + 64 + 24 + 32 + 8 + 18 + 2 + 8 + 9


def test_the_listeners_bytes() -> None:
    transcript = listener_transcript(TRANSCRIPT_CONNECT, TRANSCRIPT_CHALLENGE, RESPONSE, SPKI)
    assert transcript == expected(b"laps-2 connect proof listener", 1, 0)


def changed_node(**changes: Any) -> Connect:
    return replace(TRANSCRIPT_CONNECT, node_info=NodeInfo(replace(DIALLER.node, **changes)))


CHANGES: dict[str, tuple[Connect, Challenge, Proof, bytes]] = {
    "dialler challenge": (
        replace(TRANSCRIPT_CONNECT, challenge=bytes(32)),
        TRANSCRIPT_CHALLENGE,
        TRANSCRIPT_PROOF,
        SPKI,
    ),
    "dialler id": (changed_node(node_id=NodeId(9)), TRANSCRIPT_CHALLENGE, TRANSCRIPT_PROOF, SPKI),
    "dialler epoch": (
        changed_node(stamp=Stamp(9, 1)),
        TRANSCRIPT_CHALLENGE,
        TRANSCRIPT_PROOF,
        SPKI,
    ),
    "listener challenge": (
        TRANSCRIPT_CONNECT,
        replace(TRANSCRIPT_CHALLENGE, challenge=bytes(32)),
        TRANSCRIPT_PROOF,
        SPKI,
    ),
    "listener id": (
        TRANSCRIPT_CONNECT,
        replace(TRANSCRIPT_CHALLENGE, node_id=NodeId(9)),
        TRANSCRIPT_PROOF,
        SPKI,
    ),
    "version": (
        TRANSCRIPT_CONNECT,
        replace(TRANSCRIPT_CHALLENGE, version=0x201),
        TRANSCRIPT_PROOF,
        SPKI,
    ),
    "features": (
        TRANSCRIPT_CONNECT,
        replace(TRANSCRIPT_CHALLENGE, features=(1,)),
        TRANSCRIPT_PROOF,
        SPKI,
    ),
    "mode": (
        TRANSCRIPT_CONNECT,
        TRANSCRIPT_CHALLENGE,
        replace(TRANSCRIPT_PROOF, mode=Mode.DATA),
        SPKI,
    ),
    "direction": (
        TRANSCRIPT_CONNECT,
        TRANSCRIPT_CHALLENGE,
        replace(TRANSCRIPT_PROOF, direction=Direction.UNIDIRECTIONAL),
        SPKI,
    ),
    "scheme": (
        TRANSCRIPT_CONNECT,
        TRANSCRIPT_CHALLENGE,
        replace(TRANSCRIPT_PROOF, evidence=replace(EVIDENCE, scheme=3)),
        SPKI,
    ),
    "credential": (
        TRANSCRIPT_CONNECT,
        TRANSCRIPT_CHALLENGE,
        replace(TRANSCRIPT_PROOF, evidence=replace(EVIDENCE, credential=b"")),
        SPKI,
    ),
    "server key": (TRANSCRIPT_CONNECT, TRANSCRIPT_CHALLENGE, TRANSCRIPT_PROOF, bytes(32)),
}


def test_every_field_counts_and_no_two_inputs_are_alike() -> None:
    seen = {dialler_transcript(*change) for change in CHANGES.values()}
    seen.add(dialler_transcript(TRANSCRIPT_CONNECT, TRANSCRIPT_CHALLENGE, TRANSCRIPT_PROOF, SPKI))
    seen.add(listener_transcript(TRANSCRIPT_CONNECT, TRANSCRIPT_CHALLENGE, RESPONSE, SPKI))
    assert len(seen) == len(CHANGES) + 2


def test_the_signature_itself_does_not_count() -> None:
    unsigned = replace(TRANSCRIPT_PROOF, evidence=replace(EVIDENCE, signature=b""))
    assert dialler_transcript(
        TRANSCRIPT_CONNECT, TRANSCRIPT_CHALLENGE, unsigned, SPKI
    ) == dialler_transcript(TRANSCRIPT_CONNECT, TRANSCRIPT_CHALLENGE, TRANSCRIPT_PROOF, SPKI)


def test_a_key_hash_of_the_wrong_size_is_refused() -> None:
    with pytest.raises(EncodeError, match="spki hash: 20 bytes where exactly 32 belong"):
        dialler_transcript(TRANSCRIPT_CONNECT, TRANSCRIPT_CHALLENGE, TRANSCRIPT_PROOF, bytes(20))


def test_the_bytes_of_a_node() -> None:
    writer = Writer()
    NODE_SELF.write(writer, DIALLER.node, "node")
    inner = writer.getvalue()
    unsigned = node_transcript(DIALLER.node, NodeSignature())
    assert unsigned == (
        b"\x10laps-2 node self" + bytes(8) + b"\x00" + len(inner).to_bytes(4, "big") + inner
    )
    fingerprint = bytes(range(32))
    signed = node_transcript(DIALLER.node, NodeSignature(2, fingerprint, b"ignored"))
    assert signed == (
        b"\x10laps-2 node self"
        + bytes.fromhex("0000000000000002 20")
        + fingerprint
        + len(inner).to_bytes(4, "big")
        + inner
    )


def test_what_a_relay_on_the_way_adds_does_not_count() -> None:
    heard = DIALLER.passed_on(NodeId(7), 1000)
    assert node_transcript(heard.node, heard.signature) == node_transcript(
        DIALLER.node, DIALLER.signature
    )
