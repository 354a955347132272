from __future__ import annotations

import pytest
from aioquic.quic.crypto import CryptoPair
from aioquic.quic.packet import QuicProtocolVersion
from aioquic.tls import CipherSuite
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.quic.aioquic.fast.protection import AES_SUITES, Opener, Sealer, short_header


def keys(suite: CipherSuite) -> CryptoPair:
    """Both directions with the same keys, so that one opens what it seals."""
    pair = CryptoPair()
    size = 48 if suite is CipherSuite.AES_256_GCM_SHA384 else 32
    for context in (pair.send, pair.recv):
        context.setup(cipher_suite=suite, secret=b"s" * size, version=QuicProtocolVersion.VERSION_1)
    return pair


@pytest.mark.parametrize("suite", sorted(AES_SUITES))
@given(
    number=st.integers(0, 2**40),
    cid=st.binary(max_size=20),
    first=st.sampled_from([0x41, 0x45, 0x61, 0x65]),
    payloads=st.lists(st.binary(min_size=2, max_size=100), min_size=1, max_size=8),
)
def test_a_burst_is_what_aioquic_makes_one_by_one(
    suite: CipherSuite, number: int, cid: bytes, first: int, payloads: list[bytes]
) -> None:
    pair = keys(suite)
    expected = [
        pair.encrypt_packet(short_header(len(cid)).pack(first, cid, each & 0xFFFF), payload, each)
        for each, payload in enumerate(payloads, number)
    ]
    assert Sealer(pair.send).seal(first, cid, number, payloads) == expected


def test_a_key_update_is_noticed_in_both_directions() -> None:
    pair = keys(CipherSuite.AES_128_GCM_SHA256)
    sealer, opener = Sealer(pair.send), Opener(pair.recv)
    assert sealer.is_for(pair.send)
    assert opener.is_for(pair.recv)
    pair.update_key()
    pair.encrypt_packet(b"\x41\x00\x00", b"payload", 0)
    assert not sealer.is_for(pair.send)
    assert not opener.is_for(pair.recv)


def test_opener_has_the_keys_to_read_a_packet() -> None:
    pair = keys(CipherSuite.AES_128_GCM_SHA256)
    (packet,) = Sealer(pair.send).seal(0x41, b"", 7, [b"payload"])
    opener = Opener(pair.recv)
    mask = opener.mask(packet[5:21])
    header = bytes([packet[0] ^ mask[0] & 0x1F, packet[1] ^ mask[1], packet[2] ^ mask[2]])
    assert header == b"\x41\x00\x07"
    assert opener.decrypt((opener.iv ^ 7).to_bytes(12, "big"), packet[3:], header) == b"payload"


def test_chacha_is_not_ours() -> None:
    assert CipherSuite.CHACHA20_POLY1305_SHA256 not in AES_SUITES
