"""Name hashes: the C++ relay's family, and the keyed family of ``laps-2``.

A relay routes by 64-bit hashes of names. Two families exist because two networks do::

    C++ relay (ALPN moqt-16, moqt-18)         laps-2
    ---------------------------------         ------
    namespace  CityHash64 of the fields       element    BLAKE2b-64, keyed, one for each field
               joined without separators      name       BLAKE2b-64, keyed
    name       CityHash64                     full name  BLAKE2b-64, keyed, of an injective
    full name  combine(namespace, name),                 encoding of fields and name
               62 bits (draft 16) or 64       end check  BLAKE2b-128, keyed, of the same
    node ID    MurmurHash64A of the
               endpoint's name

The C++ family is for interoperation only. It has no key, its collisions can be made at will, and
joining fields without separators makes ``(ab, c)`` and ``(a, bc)`` one namespace. Whoever relies on
it compares the full names as well. The keyed family is what we use among ourselves: without the
network's key nobody can choose two names that collide.

Everything here is a pure function of its arguments; nothing is cached. Arguments are plain bytes,
so that every other module may stand above this one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

from laps_wire.errors import EncodeError

__all__ = [
    "DRAFT16_BITS",
    "DRAFT18_BITS",
    "END_CHECK_BYTES",
    "MAX_KEY_BYTES",
    "MIN_KEY_BYTES",
    "KeyedHasher",
    "TrackHashes",
    "city64",
    "combine",
    "endpoint_node_id",
    "field_hash",
    "murmur64a",
    "track_hashes",
]

_M64: Final = 0xFFFF_FFFF_FFFF_FFFF

# MurmurHash64A, as libstdc++'s std::hash<std::string> uses it

_MURMUR_MULTIPLIER: Final = 0xC6A4_A793_5BD1_E995
_LIBSTDCXX_SEED: Final = 0xC70F_6907


def murmur64a(data: bytes, seed: int = _LIBSTDCXX_SEED) -> int:
    """MurmurHash64A over little-endian words; the default seed is libstdc++'s."""
    mul = _MURMUR_MULTIPLIER
    value = seed ^ (len(data) * mul & _M64)
    whole = len(data) & ~7
    for start in range(0, whole, 8):
        word = int.from_bytes(data[start : start + 8], "little") * mul & _M64
        value = (value ^ (word ^ word >> 47) * mul & _M64) * mul & _M64
    if whole < len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * mul & _M64
    value = (value ^ value >> 47) * mul & _M64
    return value ^ value >> 47


def endpoint_node_id(endpoint_id: str) -> int:
    """The node ID that a C++ relay gives itself: ``std::hash`` of its ``-e`` option's text."""
    return murmur64a(endpoint_id.encode())


# CityHash64 1.1; the C++ relay swaps the bytes of every load, and of nothing else

_K0: Final = 0xC3A5_C85C_97CB_3127
_K1: Final = 0xB492_B66F_BE98_F273
_K2: Final = 0x9AE1_6A3B_2F90_404F
_K_MUL: Final = 0x9DDF_EA08_EB38_2D69

ByteOrder = Literal["little", "big"]


def city64(data: bytes, order: ByteOrder = "big") -> int:
    """CityHash64 with loads in ``order``: ``big`` is the C++ relay's, ``little`` is stock City.

    The order is the only difference between the two, and it makes all the values differ from
    length 4 on.
    """
    size = len(data)
    if size <= 16:
        return _city_to_16(data, size, order)
    if size <= 32:
        return _city_to_32(data, size, order)
    if size <= 64:
        return _city_to_64(data, size, order)
    return _city_long(data, size, order)


def _load(data: bytes, at: int, order: ByteOrder) -> int:
    return int.from_bytes(data[at : at + 8], order)


def _rotate(value: int, shift: int) -> int:
    """Rotate right; the value may have grown past 64 bits by additions."""
    value &= _M64
    return (value >> shift | value << (64 - shift)) & _M64


def _swap(value: int) -> int:
    """Turn the byte order around: a step of the algorithm itself, in either byte order."""
    return int.from_bytes((value & _M64).to_bytes(8, "big"), "little")


def _mix(left: int, right: int, mul: int = _K_MUL) -> int:
    """City's HashLen16: 128 bits into 64."""
    right &= _M64
    a = ((left & _M64) ^ right) * mul & _M64
    b = (right ^ a ^ a >> 47) * mul & _M64
    return (b ^ b >> 47) * mul & _M64


def _city_to_16(data: bytes, size: int, order: ByteOrder) -> int:
    mul = _K2 + size * 2
    if size >= 8:
        a = _load(data, 0, order) + _K2
        b = _load(data, size - 8, order)
        return _mix(_rotate(b, 37) * mul + a, (_rotate(a, 25) + b) * mul, mul)
    if size >= 4:
        first = int.from_bytes(data[:4], order)
        last = int.from_bytes(data[-4:], order)
        return _mix(size + (first << 3), last, mul)
    if size > 0:
        y = data[0] + (data[size >> 1] << 8)
        z = size + (data[-1] << 2)
        value = (y * _K2 ^ z * _K0) & _M64
        return (value ^ value >> 47) * _K2 & _M64
    return _K2


def _city_to_32(data: bytes, size: int, order: ByteOrder) -> int:
    mul = _K2 + size * 2
    a = _load(data, 0, order) * _K1
    b = _load(data, 8, order)
    c = _load(data, size - 8, order) * mul
    d = _load(data, size - 16, order) * _K2
    return _mix(_rotate(a + b, 43) + _rotate(c, 30) + d, a + _rotate(b + _K2, 18) + c, mul)


def _city_to_64(data: bytes, size: int, order: ByteOrder) -> int:
    mul = _K2 + size * 2
    a = _load(data, 0, order) * _K2
    b = _load(data, 8, order)
    c = _load(data, size - 24, order)
    d = _load(data, size - 32, order)
    e = _load(data, 16, order) * _K2
    f = _load(data, 24, order) * 9
    g = _load(data, size - 8, order)
    h = _load(data, size - 16, order) * mul
    u = _rotate(a + g, 43) + (_rotate(b, 30) + c) * 9
    v = ((a + g & _M64) ^ d) + f + 1
    w = _swap((u + v) * mul) + h
    x = _rotate(e + f, 42) + c
    y = (_swap((v + w) * mul) + g) * mul
    z = e + f + c
    top = _swap((x + z) * mul + y) + b
    last = (z + top) * mul + d + h & _M64
    return (last ^ last >> 47) * mul + x & _M64


def _weak(data: bytes, at: int, a: int, b: int, order: ByteOrder) -> tuple[int, int]:
    """City's WeakHashLen32WithSeeds: 32 bytes and two seeds into two words."""
    w = _load(data, at, order)
    x = _load(data, at + 8, order)
    y = _load(data, at + 16, order)
    z = _load(data, at + 24, order)
    a += w
    b = _rotate(b + a + z, 21) + a
    a += x + y
    return (a + z) & _M64, (b + _rotate(a, 44)) & _M64


def _city_long(data: bytes, size: int, order: ByteOrder) -> int:
    # The end goes in first; then every 64 bytes turn 56 bytes of state: v, w, x, y and z.
    x = _load(data, size - 40, order)
    y = _load(data, size - 16, order) + _load(data, size - 56, order)
    z = _mix(_load(data, size - 48, order) + size, _load(data, size - 24, order))
    v0, v1 = _weak(data, size - 64, size, z, order)
    w0, w1 = _weak(data, size - 32, y + _K1, x, order)
    x = x * _K1 + _load(data, 0, order)
    for at in range(0, size - 1 & ~63, 64):
        x = _rotate(x + y + v0 + _load(data, at + 8, order), 37) * _K1 & _M64
        y = _rotate(y + v1 + _load(data, at + 48, order), 42) * _K1
        x ^= w1
        y += v0 + _load(data, at + 40, order)
        z = _rotate(z + w0, 33) * _K1
        v0, v1 = _weak(data, at, v1 * _K1, x + w0, order)
        w0, w1 = _weak(data, at + 32, z + w1, y + _load(data, at + 16, order), order)
        z, x = x, z
    y &= _M64
    return _mix(_mix(v0, w0) + (y ^ y >> 47) * _K1 + z, _mix(v1, w1) + x)


# What the C++ relay makes of a track name

DRAFT16_BITS: Final = 62
"""The width of a full name's hash in the draft 16 build: it must fit a QUIC varint as an alias."""

DRAFT18_BITS: Final = 64
"""The width of a full name's hash in the draft 18 build."""


def combine(seed: int, value: int) -> int:
    """Fold one 64-bit hash into another; not symmetric, so the order counts."""
    return seed ^ (value + 0x9E37_79B9 + (seed << 6) + (value >> 2)) & _M64


@dataclass(frozen=True, slots=True)
class TrackHashes:
    """The three hashes by which the C++ relay knows a track."""

    namespace: int
    """Over all the fields joined; 64 bits in either build."""
    name: int
    """Over the track name; 64 bits in either build."""
    fullname: int
    """Both combined; it is the MoQT track alias as well."""


def track_hashes(fields: Iterable[bytes], name: bytes, bits: int = DRAFT16_BITS) -> TrackHashes:
    """Hash a track name as the C++ relay does; ``bits`` says as which of its two builds."""
    namespace_hash = city64(b"".join(fields))
    name_hash = city64(name)
    fullname = combine(combine(0, namespace_hash), name_hash)
    return TrackHashes(namespace_hash, name_hash, fullname & (1 << bits) - 1)


# QuicR


def field_hash(data: bytes, bits: int) -> int:
    """The number of ``bits`` bits, 1 to 128, that stands for a text in a QuicR short name.

    The first ``bits`` bits of BLAKE2b-128 with the personalisation ``quicr field``. There is no
    key: clients that share nothing but a URL must come to the same short name.
    """
    if not 1 <= bits <= 128:
        raise EncodeError(f"field hash: {bits} bits asked for, 1 to 128 can be had")
    digest = hashlib.blake2b(data, digest_size=16, person=b"quicr field").digest()
    return int.from_bytes(digest, "big") >> (128 - bits)


# laps-2

MIN_KEY_BYTES: Final = 16
"""The shortest key of a network: 128 bits, so that it cannot be searched for."""

MAX_KEY_BYTES: Final = 64
"""The longest key of a network: the longest that BLAKE2b takes."""

END_CHECK_BYTES: Final = 16
"""The size of the end check: at 128 bits a collision is not to be expected in any network."""

# One personalisation for each use: a field, a name and a full name with the same bytes differ.
_ELEMENT: Final = b"laps-2 element"
_NAME: Final = b"laps-2 name"
_FULL_NAME: Final = b"laps-2 fullname"
_END_CHECK: Final = b"laps-2 end check"


@dataclass(frozen=True, slots=True)
class KeyedHasher:
    """The hashes of ``laps-2``: BLAKE2b (RFC 7693), keyed with the network's secret.

    ::

        element(f)       = BLAKE2b-64 (key, person "laps-2 element",   f)
        name(n)          = BLAKE2b-64 (key, person "laps-2 name",      n)
        full_name(t, n)  = BLAKE2b-64 (key, person "laps-2 fullname",  encode(t, n))
        end_check(t, n)  = BLAKE2b-128(key, person "laps-2 end check", encode(t, n))

        encode((f0, .. fk-1), n) = u32 k, then u32 length and bytes of f0 .. fk-1, then of n

    Numbers in ``encode`` are big endian, and so is a digest that is read as a number.
    Personalisations are padded with zero bytes to 16. Every part goes in behind its length, so two
    different names never hash the same input (no ``(ab, c)`` against ``(a, bc)``).
    """

    key: bytes = field(repr=False)
    """16 to 64 bytes, shared by all relays of the network; never shown."""

    def __post_init__(self) -> None:
        if not MIN_KEY_BYTES <= len(self.key) <= MAX_KEY_BYTES:
            raise EncodeError(
                f"hash key: {len(self.key)} bytes, {MIN_KEY_BYTES} to {MAX_KEY_BYTES} belong"
            )

    def element(self, field: bytes) -> int:
        """The hash of one namespace field; the same wherever in the namespace it stands."""
        return int.from_bytes(self._digest(_ELEMENT, field, 8), "big")

    def elements(self, fields: Iterable[bytes]) -> tuple[int, ...]:
        """The hash of every field, in order: what announces and subscribes carry."""
        return tuple(map(self.element, fields))

    def name(self, name: bytes) -> int:
        """The hash of a track name."""
        return int.from_bytes(self._digest(_NAME, name, 8), "big")

    def full_name(self, fields: Iterable[bytes], name: bytes) -> int:
        """The hash of namespace and name together: the track in data headers."""
        return int.from_bytes(self._digest(_FULL_NAME, _encode(fields, name), 8), "big")

    def end_check(self, fields: Iterable[bytes], name: bytes) -> bytes:
        """The digest by which both ends see that they mean the same track, of 128 bits."""
        return self._digest(_END_CHECK, _encode(fields, name), END_CHECK_BYTES)

    def _digest(self, person: bytes, data: bytes, size: int) -> bytes:
        return hashlib.blake2b(data, digest_size=size, key=self.key, person=person).digest()


def _encode(fields: Iterable[bytes], name: bytes) -> bytes:
    """Namespace and name as one string of bytes from which both can be read back."""
    parts = (*fields, name)
    out = bytearray((len(parts) - 1).to_bytes(4, "big"))
    for part in parts:
        out += len(part).to_bytes(4, "big")
        out += part
    return bytes(out)
