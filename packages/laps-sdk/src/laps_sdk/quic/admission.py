"""Decides who may begin a connection, before TLS and at little cost.

::

    datagram of no known connection
      |- not an Initial of at least 1200 bytes ----------------> drop
      |- a version other than 1 -------------------------------> Version Negotiation
      |- too many connections, or too many half-open ----------> drop
      |- a valid token of ours for this address
      |     |- its prefix has used up its rate ----------------> drop
      |     '--------------------------------------------------> accept, address validated
      '- no valid token
            |- Retry is always on, many handshakes are half-open,
            |  or the prefix has used up its rate -------------> Retry
            '--------------------------------------------------> accept

A Retry needs no state: its token carries everything, authenticated with a key of the endpoint.
Replies go only to datagrams of 1200 bytes or more and are much shorter, so that the endpoint cannot
amplify traffic (RFC 9000, 8.1).

The module has no clock: time is an argument, and the caller passes the key.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from hashlib import blake2b
from hmac import compare_digest
from ipaddress import ip_address
from typing import Final, NamedTuple

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from laps_sdk.quic.base import Address

__all__ = ["Accept", "Admission", "AdmissionLimits", "Refusal", "Reply"]

VERSION_1: Final = b"\0\0\0\1"
_SHORTEST: Final = 1200
_LONGEST_ID: Final = 20
_MAC: Final = 16
_STAMP: Final = 8
_ID: Final = 8
# The key and nonce that every Retry of version 1 is sealed with (RFC 9001, 5.8).
_RETRY_KEY: Final = bytes.fromhex("be0c690b9f66575a1d766b54e368c84e")
_RETRY_NONCE: Final = bytes.fromhex("461599d35d632bf2239825bb")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionLimits:
    """How many new connections an endpoint admits."""

    max_connections: int = 10_000
    """All connections, half-open ones included."""
    max_half_open: int = 1024
    """Handshakes in progress."""
    retry_above: int = 64
    """Half-open handshakes above which clients must prove their address with a Retry."""
    handshake_timeout: float = 10.0
    """Seconds after which an incomplete handshake is dropped."""
    prefix_rate: float = 200.0
    """New connections per second from one prefix (IPv4 /24, IPv6 /56)."""
    prefix_burst: int = 2000
    """New connections at once from one prefix."""
    max_prefixes: int = 4096
    """Prefixes with a counter; the one that was idle longest is forgotten first."""
    token_lifetime: float = 15.0
    """Seconds in which a client must answer a Retry."""


class Accept(NamedTuple):
    """Accept the connection; the two last ids are set if the client answered a Retry."""

    destination: bytes
    original_destination: bytes | None
    retry_source: bytes | None


class Reply(NamedTuple):
    """Send this datagram and keep no state."""

    datagram: bytes
    is_retry: bool


class Refusal(NamedTuple):
    """Drop the datagram; ``reason`` names the counter."""

    reason: str


class Admission:
    """The admission control of one endpoint."""

    __slots__ = ("_always_retry", "_buckets", "_key", "_limits", "_seal")

    def __init__(self, limits: AdmissionLimits, *, key: bytes, always_retry: bool = False) -> None:
        self._limits = limits
        self._key = key
        self._always_retry = always_retry
        self._buckets: OrderedDict[bytes, tuple[float, float]] = OrderedDict()
        self._seal = AESGCM(_RETRY_KEY)

    def check(
        self, datagram: bytes, address: Address, now: float, *, half_open: int, connections: int
    ) -> Accept | Reply | Refusal:
        """Return what to do with a datagram that belongs to no connection."""
        if len(datagram) < _SHORTEST:
            return Refusal("short")
        if datagram[0] & 0x80 == 0:
            return Refusal("unknown")  # of a connection that is gone
        header = _Header.read(datagram)
        if header is None:
            return Refusal("malformed")
        if header.version != VERSION_1:
            if header.version == b"\0\0\0\0":
                return Refusal("malformed")  # answering an answer would make a loop
            return Reply(_version_negotiation(header), is_retry=False)
        if datagram[0] & 0x70 != 0x40:
            return Refusal("unknown")
        limits = self._limits
        if connections >= limits.max_connections:
            return Refusal("connections")
        if half_open >= limits.max_half_open:
            return Refusal("half-open")
        if header.token:
            original = self._read_token(header, address, now)
            if original is not None:
                if not self._take(address[0], now):
                    return Refusal("rate")
                return Accept(header.destination, original, header.destination)
        if len(header.destination) < _ID:
            return Refusal("malformed")  # (RFC 9000, 7.2)
        if self._always_retry or half_open >= limits.retry_above or not self._take(address[0], now):
            return Reply(self._retry(header, address, now), is_retry=True)
        return Accept(header.destination, None, None)

    # Tokens: when it was made (8 bytes), the client's first destination id, a MAC over these, the
    # address and the id that the client must come back to.

    def _retry(self, header: _Header, address: Address, now: float) -> bytes:
        stamp = int(now * 1000).to_bytes(_STAMP, "big")
        original = header.destination
        # Nothing random is needed: the id has to be ours and hard to guess, not more.
        source = self._mac(b"id", stamp, original, address)[:_ID]
        token = stamp + original + self._mac(source, stamp, original, address)
        to = header.source
        packet = b"".join(
            (b"\xf0", VERSION_1, bytes([len(to)]), to, bytes([len(source)]), source, token)
        )
        pseudo = bytes([len(original)]) + original + packet
        return packet + self._seal.encrypt(_RETRY_NONCE, b"", pseudo)

    def _read_token(self, header: _Header, address: Address, now: float) -> bytes | None:
        """Return the first destination id of the client; None if the token is invalid or old."""
        token = header.token
        if len(token) < _STAMP + _MAC:
            return None
        stamp, original, mac = token[:_STAMP], token[_STAMP:-_MAC], token[-_MAC:]
        if not compare_digest(self._mac(header.destination, stamp, original, address), mac):
            return None
        age = now - int.from_bytes(stamp, "big") / 1000
        return original if age <= self._limits.token_lifetime else None

    def _mac(self, source: bytes, stamp: bytes, original: bytes, address: Address) -> bytes:
        text = b"%d %d %b %b %b" % (
            len(source),
            len(original),
            source,
            original,
            f"{address[0]} {address[1]}".encode(),
        )
        return blake2b(stamp + text, key=self._key, digest_size=_MAC).digest()

    # Rates

    def _take(self, host: str, now: float) -> bool:
        """Use up one connection of the rate of a host's prefix; return whether there was one."""
        limits, buckets = self._limits, self._buckets
        prefix = _prefix(host)
        level, since = buckets.pop(prefix, (float(limits.prefix_burst), now))
        level = min(float(limits.prefix_burst), level + (now - since) * limits.prefix_rate)
        taken = level >= 1.0
        buckets[prefix] = (level - 1.0 if taken else level, now)
        if len(buckets) > limits.max_prefixes:
            buckets.popitem(last=False)
        return taken


class _Header(NamedTuple):
    """The part of a long header that all versions share (RFC 8999, 5.1), and an Initial's token."""

    version: bytes
    destination: bytes
    source: bytes
    token: bytes

    @classmethod
    def read(cls, datagram: bytes) -> _Header | None:
        """Parse a datagram of at least 1200 bytes; return None if it has no long header."""
        version = datagram[1:5]
        at = 6 + datagram[5]
        destination = datagram[6:at]
        end = at + 1 + datagram[at]
        source = datagram[at + 1 : end]
        if version != VERSION_1:
            return cls(version, destination, source, b"")
        if len(destination) > _LONGEST_ID or len(source) > _LONGEST_ID:
            return None
        size = 1 << (datagram[end] >> 6)
        length = int.from_bytes(datagram[end : end + size], "big") & ((1 << (8 * size - 2)) - 1)
        token = datagram[end + size : end + size + length]
        if len(token) < length:
            return None
        return cls(version, destination, source, token)


def _version_negotiation(header: _Header) -> bytes:
    to, source = header.source, header.destination
    return b"".join(
        (
            b"\xc0\0\0\0\0",
            bytes([len(to)]),
            to,
            bytes([len(source)]),
            source,
            VERSION_1,
            b"\x1a\x2a\x3a\x4a",  # reserved: clients must not rely on the list (RFC 9000, 6.3)
        )
    )


def _prefix(host: str) -> bytes:
    try:
        address = ip_address(host)
    except ValueError:
        return host.encode()  # names occur on in-memory networks only
    return address.packed[:3] if address.version == 4 else address.packed[:7]
