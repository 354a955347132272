"""The numbers of the C++ relay's peering protocol, and the two builds that speak it.

The protocol has no name and no version negotiation of its own: it runs under the ALPN of the MoQT
draft that the relay was built for. The messages are the same in both builds. What differs is how
the length of a contact is written, how wide a track's hash is, and the MoQT bytes inside.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from laps_wire.hashing import DRAFT16_BITS, DRAFT18_BITS
from laps_wire.varint import QUIC, VI64, IntegerCoding

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
"""The longest message body we take; the longest legal one, a full node set, has half of that."""

MAX_CONTACT_BYTES: Final = 1024
"""The longest contact (endpoint id) we take; the C++ relay has no limit."""

MAX_PATH_ITEMS: Final = 256
"""The longest node path we take; the C++ relay has no limit."""

MAX_SNS_NODES: Final = 0xFFFF
"""The largest subscriber node set: what its 16-bit count can say."""

MAX_SUBSCRIBE_DATA_BYTES: Final = 0xFFFF
"""The longest MoQT SUBSCRIBE body: what the 16-bit length of MoQT's messages can say."""


@dataclass(frozen=True, slots=True)
class Build:
    """What a C++ relay was built for; found out from the ALPN."""

    alpn: str
    integers: IntegerCoding
    """How a contact's length is written: the same bytes up to 63, then no longer."""
    hash_bits: int
    """How wide a track's full-name hash is."""


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
    """What a connection is for. The C++ relay sends ``BOTH`` and ignores what it receives."""

    CONTROL = 0
    DATA = 1
    BOTH = 2


class NodeType(IntEnum):
    """The part that a relay plays (seed 000, Relay Types)."""

    VIA = 0
    EDGE = 1
    STUB = 2


class ConnectError(IntEnum):
    """Why a Connect was refused; a field may carry others, so it is a plain number there."""

    NONE = 0
    CONNECT_ERROR = 1
    NOT_AUTHORIZED = 2


class DataType(IntEnum):
    """What stands in the type byte of a data header; the others exist, but not on the wire."""

    DATAGRAM = 0
    NEW_STREAM = 2
