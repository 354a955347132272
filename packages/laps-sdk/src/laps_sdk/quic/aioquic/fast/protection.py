"""Packet protection for many packets at once, with the keys of aioquic's ``CryptoContext``.

The module replaces ``CryptoContext.encrypt_packet`` and ``decrypt_packet``, ``AEAD`` and
``HeaderProtection`` for short headers. aioquic calls AES-ECB once a packet and copies each packet
three times to mask two or three bytes of it. Here one call masks the joined samples of a burst. ECB
has no state between blocks, so block ``i`` of the result is the mask of packet ``i``
(RFC 9001, 5.4.3).

::

    1 byte   0 1 S R R K P P     S spin   K key phase   P length of the packet number - 1
    n bytes  connection id
    2 bytes  packet number, low bits (as aioquic: always two)
    ...      AES-GCM of the payload, 16 bytes of tag; the sample is bytes 2 to 17 of it

The cipher objects are those that aioquic made and uses. A key update replaces
``CryptoContext.aead``, which :meth:`Sealer.is_for` and :meth:`Opener.is_for` detect.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, cast

from aioquic.quic.crypto import CryptoContext
from aioquic.tls import CipherSuite

__all__ = ["AES_SUITES", "TAG_SIZE", "Opener", "Sealer", "short_header"]

AES_SUITES = frozenset({CipherSuite.AES_128_GCM_SHA256, CipherSuite.AES_256_GCM_SHA384})
"""The supported suites. With ChaCha20 a mask needs a nonce per packet, so aioquic handles it."""

TAG_SIZE = 16

_MASKS = struct.Struct(">BH13x")
"""The parts of each 16-byte mask: one byte for the first byte, two for the packet number."""

_HEADERS: dict[int, struct.Struct] = {}


def short_header(cid_length: int) -> struct.Struct:
    """Return first byte, connection id and packet number."""
    found = _HEADERS.get(cid_length)
    if found is None:
        found = _HEADERS[cid_length] = struct.Struct(f">B{cid_length}sH")
    return found


class _Keys:
    """The cipher objects of one direction, from a context whose keys are set."""

    __slots__ = ("_source", "iv", "mask")

    def __init__(self, context: CryptoContext) -> None:
        self._source: object = context.aead
        aead = cast("Any", context.aead)
        self.iv: int = aead._iv
        self.mask: Callable[[bytes], bytes] = cast("Any", context.hp)._encryptor.update

    def is_for(self, context: CryptoContext) -> bool:
        """Return whether the context still has the keys of this object."""
        return self._source is context.aead


class Sealer(_Keys):
    """Protects packets to send."""

    __slots__ = ("_encrypt",)

    def __init__(self, context: CryptoContext) -> None:
        super().__init__(context)
        self._encrypt: Callable[[bytes, bytes, bytes], bytes] = cast(
            "Any", context.aead
        )._aead.encrypt

    def seal(self, first: int, cid: bytes, number: int, payloads: list[bytes]) -> list[bytes]:
        """Return packets ``number``, ``number + 1``, ... for payloads of two bytes or more."""
        pack = short_header(len(cid)).pack
        encrypt = self._encrypt
        iv = self.iv
        sealed = [
            encrypt((iv ^ each).to_bytes(12, "big"), payload, pack(first, cid, each & 0xFFFF))
            for each, payload in enumerate(payloads, number)
        ]
        masks = self.mask(b"".join([packet[2:18] for packet in sealed]))
        return [
            pack(first ^ mask_1 & 0x1F, cid, each & 0xFFFF ^ mask_2) + packet
            for each, (mask_1, mask_2), packet in zip(
                range(number, number + len(sealed)), _MASKS.iter_unpack(masks), sealed, strict=True
            )
        ]


class Opener(_Keys):
    """Opens received packets."""

    __slots__ = ("decrypt",)

    def __init__(self, context: CryptoContext) -> None:
        super().__init__(context)
        self.decrypt: Callable[[bytes, bytes, bytes], bytes] = cast(
            "Any", context.aead
        )._aead.decrypt
