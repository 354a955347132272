"""The numbers of the C++ relay's peering protocol, and its two builds.

The protocol has no ALPN and no version negotiation of its own: it uses the ALPN of the MoQT draft
of the relay's build. The messages are the same in both builds. The builds differ in the coding of
the length of a contact, in the width of a track's hash, and in the MoQT bytes inside.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from laps_wire.buffer import QUIC, VI64, IntegerCoding
from laps_wire.hashing import DRAFT16_BITS, DRAFT18_BITS

__all__ = [
    "DRAFT16",
    "DRAFT18",
    "HEADER_BYTES",
    "MAX_BODY_BYTES",
    "MAX_CONTACT_BYTES",
    "MAX_PATH_ITEMS",
    "MAX_SNS_NODES",
    "MAX_SUBSCRIBE_DATA_BYTES",
    "VERSION",
    "Build",
    "ConnectError",
    "DataType",
    "MessageType",
    "NodeType",
    "PeerMode",
]

VERSION: Final = 1
"""The only version of the common header."""

HEADER_BYTES: Final = 7
"""The size of the common header: version, type and length."""

MAX_BODY_BYTES: Final = 1 << 20
"""The longest message body that is accepted; the longest legal one, a full node set, has half."""

MAX_CONTACT_BYTES: Final = 1024
"""The longest contact (endpoint ID) that is accepted; the C++ relay has no limit."""

MAX_PATH_ITEMS: Final = 256
"""The longest node path that is accepted; the C++ relay has no limit."""

MAX_SNS_NODES: Final = 0xFFFF
"""The largest subscriber node set: the maximum of its 16-bit count."""

MAX_SUBSCRIBE_DATA_BYTES: Final = 0xFFFF
"""The longest MoQT SUBSCRIBE body: the maximum of the 16-bit length of MoQT messages."""


@dataclass(frozen=True, slots=True)
class Build:
    """A build of the C++ relay, determined by the ALPN."""

    alpn: str
    integers: IntegerCoding
    """The coding of a contact's length; both codings agree up to 63."""
    hash_bits: int
    """The width of a track's full-name hash."""


DRAFT16: Final = Build("moqt-16", QUIC, DRAFT16_BITS)
"""The main branch of the C++ relay."""

DRAFT18: Final = Build("moqt-18", VI64, DRAFT18_BITS)
"""The draft 18 branch of the C++ relay."""


class MessageType(IntEnum):
    """The types of control messages. 3, a data object, is reserved and never sent."""

    CONNECT = 1
    CONNECT_RESPONSE = 2
    NODE_INFO_ADVERTISE = 4
    NODE_INFO_WITHDRAWN = 5
    SUBSCRIBE_INFO_ADVERTISED = 6
    SUBSCRIBE_INFO_WITHDRAWN = 7
    ANNOUNCE_INFO_ADVERTISED = 8
    ANNOUNCE_INFO_WITHDRAWN = 9
    SUBSCRIBE_NODE_SET_ADVERTISED = 10
    SUBSCRIBE_NODE_SET_WITHDRAWN = 11


class PeerMode(IntEnum):
    """The mode of a connection. The C++ relay sends ``BOTH`` and ignores the received mode."""

    CONTROL = 0
    DATA = 1
    BOTH = 2


class NodeType(IntEnum):
    """The type of a relay (seed 000, Relay Types)."""

    VIA = 0
    EDGE = 1
    STUB = 2


class ConnectError(IntEnum):
    """Why a Connect was refused; messages have plain integers, because others are allowed."""

    NONE = 0
    CONNECT_ERROR = 1
    NOT_AUTHORIZED = 2


class DataType(IntEnum):
    """The type byte of a data header; other values are not used on the wire."""

    DATAGRAM = 0
    NEW_STREAM = 2
