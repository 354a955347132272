"""Hashes: against other code, against bytes of a live relay, and what they must tell apart."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.errors import EncodeError
from laps_wire.hashing import (
    DRAFT16_BITS,
    DRAFT18_BITS,
    END_CHECK_BYTES,
    KeyedHasher,
    TrackHashes,
    city64,
    combine,
    endpoint_node_id,
    field_hash,
    murmur64a,
    track_hashes,
)

VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "vectors" / "hashing.json").read_text()
)
FIELDS = st.lists(st.binary(min_size=1, max_size=6), max_size=4).map(tuple)
HASHER = KeyedHasher(bytes(range(16)))


def sample(size: int) -> bytes:
    return bytes((31 * i * i + 7 * i + size) % 256 for i in range(size))


# The C++ relay's


@pytest.mark.parametrize(
    ("size", "big", "little", "murmur"), VECTORS["rows"], ids=lambda value: str(value)[:6]
)
def test_other_implementations_agree(size: int, big: str, little: str, murmur: str) -> None:
    data = sample(size)
    assert f"{city64(data):016x}" == big
    assert f"{city64(data, 'little'):016x}" == little
    assert f"{murmur64a(data):016x}" == murmur


def test_the_vectors_reach_every_branch_and_both_sides_of_each_edge() -> None:
    sizes = {row[0] for row in VECTORS["rows"]}
    assert sizes >= set(range(131)) | {191, 192, 193}


def test_byte_order_counts_from_four_bytes_on() -> None:
    for size, big, little, _ in VECTORS["rows"]:
        assert (big == little) is (size < 4), size


@pytest.mark.parametrize(
    ("data", "value"),
    [(b"events", 0x7D79_DB13_41A4_1C65), (b"demo/room1", 0x88FE_0819_A126_1DA0)],
)
def test_hashes_seen_on_the_wire_of_a_cpp_relay(data: bytes, value: int) -> None:
    assert city64(data) == value


def test_the_node_id_of_a_cpp_relay() -> None:
    assert endpoint_node_id("relay-a") == 0xB97E_0EF0_37B1_7F89


def test_a_node_id_is_over_the_utf8_of_the_endpoint() -> None:
    assert endpoint_node_id("r\xe9") == murmur64a(b"r\xc3\xa9")


def test_murmur_depends_on_its_seed() -> None:
    assert murmur64a(b"", 0) == 0
    assert murmur64a(b"relay-a", 0) != murmur64a(b"relay-a")


def test_a_track_of_a_cpp_relay_in_both_builds() -> None:
    expected = TrackHashes(0x88FE_0819_A126_1DA0, 0x7D79_DB13_41A4_1C65, 0x0707_5022_3DAB_53B6)
    assert track_hashes([b"demo/room1"], b"events") == expected
    assert track_hashes([b"demo/room1"], b"events", DRAFT16_BITS) == expected
    draft18 = track_hashes([b"demo/room1"], b"events", DRAFT18_BITS)
    assert draft18 == TrackHashes(expected.namespace, expected.name, 0xC707_5022_3DAB_53B6)
    assert track_hashes([b"demo/room1"], b"clk").fullname == 0x0656_3237_CFE9_CBB0


def test_combine_by_hand() -> None:
    assert combine(0, 0) == 0x9E37_79B9
    assert combine(0, 8) == 0x9E37_79B9 + 8 + 2
    assert combine(1, 0) == 1 ^ (0x9E37_79B9 + 64)
    assert combine(2**63, 2**64 - 1) == 2**63 ^ ((2**64 - 1 + 0x9E37_79B9 + 2**62 - 1) % 2**64)


@given(FIELDS, st.binary(max_size=90))
def test_cpp_hashes_stay_in_their_widths_and_join_fields(
    fields: tuple[bytes, ...], name: bytes
) -> None:
    narrow, wide = (track_hashes(fields, name, bits) for bits in (DRAFT16_BITS, DRAFT18_BITS))
    assert narrow.fullname == wide.fullname & (2**62 - 1)
    assert wide.fullname < 2**64
    # The weakness that we live with for interoperation: fields are joined without separators.
    assert track_hashes([b"".join(fields)], name) == narrow


@given(st.binary(max_size=200))
def test_hashes_fit_64_bits(data: bytes) -> None:
    for value in (city64(data), city64(data, "little"), murmur64a(data)):
        assert 0 <= value < 2**64


# QuicR


def test_a_field_hash_is_the_beginning_of_an_unkeyed_digest() -> None:
    digest = hashlib.blake2b(b"cam5", digest_size=16, person=b"quicr field\0\0\0\0\0").digest()
    assert field_hash(b"cam5", 128) == int.from_bytes(digest, "big")
    assert field_hash(b"cam5", 14) == field_hash(b"cam5", 128) >> 114
    assert field_hash(b"cam5", 14) == 0x3259
    assert field_hash(b"cam5", 1) in {0, 1}


@pytest.mark.parametrize("bits", [0, 129])
def test_a_field_hash_has_1_to_128_bits(bits: int) -> None:
    with pytest.raises(EncodeError, match=f"{bits} bits asked for"):
        field_hash(b"", bits)


# laps-2


def test_keyed_hashes_as_openssl_gives_them() -> None:
    """``openssl mac -macopt hexkey:00..0f -macopt custom:<person> -macopt size:8 BLAKE2BMAC``."""
    fields = (b"example.net", b"team2")
    assert HASHER.element(b"example.net") == 0xE8DA_6F03_14D4_0D1D
    assert HASHER.name(b"report") == 0x687A_EB3C_88D2_93E3
    # Over 00000002 0000000b "example.net" 00000005 "team2" 00000006 "report"
    assert HASHER.full_name(fields, b"report") == 0x868C_8311_E758_ABA3
    assert HASHER.end_check(fields, b"report").hex() == "9b921f72cfafa18e814b23c202e76327"


def test_elements_are_hashed_one_by_one_in_order() -> None:
    assert HASHER.elements([b"a", b"b"]) == (HASHER.element(b"a"), HASHER.element(b"b"))
    assert HASHER.elements([]) == ()


def test_uses_are_kept_apart() -> None:
    assert HASHER.element(b"x") != HASHER.name(b"x")
    assert HASHER.full_name((), b"x") != HASHER.name(b"x")
    digest = HASHER.end_check((b"a",), b"x")
    assert len(digest) == END_CHECK_BYTES
    assert int.from_bytes(digest[:8], "big") != HASHER.full_name((b"a",), b"x")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (((b"ab", b"c"), b"n"), ((b"a", b"bc"), b"n")),
        (((b"a", b"b"), b""), ((b"a",), b"b")),
        (((), b"a"), ((b"a",), b"")),
        (((b"a",), b"\x00\x00\x00\x01b"), ((b"a", b"b"), b"")),
    ],
)
def test_where_the_parts_end_counts(
    one: tuple[tuple[bytes, ...], bytes], other: tuple[tuple[bytes, ...], bytes]
) -> None:
    assert HASHER.full_name(*one) != HASHER.full_name(*other)
    assert HASHER.end_check(*one) != HASHER.end_check(*other)


@given(FIELDS, st.binary(max_size=4), FIELDS, st.binary(max_size=4))
def test_only_equal_names_hash_equal(
    fields: tuple[bytes, ...], name: bytes, other_fields: tuple[bytes, ...], other_name: bytes
) -> None:
    same = (fields, name) == (other_fields, other_name)
    assert (HASHER.full_name(fields, name) == HASHER.full_name(other_fields, other_name)) is same


def test_the_key_counts_and_is_not_shown() -> None:
    other = KeyedHasher(b"another key, longer than sixteen bytes")
    assert other.element(b"x") != HASHER.element(b"x")
    assert "another" not in repr(other)


@pytest.mark.parametrize("size", [16, 64])
def test_the_edges_of_a_keys_length(size: int) -> None:
    assert KeyedHasher(b"k" * size).name(b"") < 2**64


@pytest.mark.parametrize("size", [0, 15, 65])
def test_a_key_that_is_too_short_or_too_long_is_refused(size: int) -> None:
    with pytest.raises(EncodeError, match=f"{size} bytes, 16 to 64 belong"):
        KeyedHasher(b"k" * size)
