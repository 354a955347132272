"""The numbers of ``laps-2``: what each one means is in docs/spec/laps-2.md, which a test compares.

Three kinds of registry, because a number that a receiver does not know must have a rule:

======================= ========================================================================
message types           even: must be understood, else the session ends; odd: may be ignored
parameters              unknown ones are always ignored; odd ones go along when an entry is
                        re-advertised (end to end), even ones stay behind (hop by hop)
closed enumerations     (mode, direction, relay type, ...) an unknown value is malformed; a new
                        value needs a new feature, and is sent only to who accepted the feature
open enumerations       (features, schemes, reason codes, payload formats) any number is legal
======================= ========================================================================
"""

from __future__ import annotations

from enum import IntEnum, IntFlag, unique
from typing import Final

__all__ = [
    "ALPN",
    "VERSION_2_0",
    "AnnounceKind",
    "AuthScheme",
    "Bases",
    "DataKind",
    "Direction",
    "Feature",
    "HashScheme",
    "LoadClass",
    "MessageType",
    "Mode",
    "ParameterId",
    "PayloadFormat",
    "RelayType",
    "SnsRefusal",
    "SubscribeCode",
]

ALPN: Final = "laps-2"
"""The ALPN token of this protocol; all its minor versions share it."""

VERSION_2_0: Final = 0x0200
"""The protocol version that this package speaks: major 2, minor 0."""


@unique
class MessageType(IntEnum):
    """Control message types; odd ones may be ignored by who does not know them."""

    PROBE = 0x01
    CONNECT = 0x02
    PROBE_RESPONSE = 0x03
    CHALLENGE = 0x04
    PROOF = 0x06
    CONNECT_RESPONSE = 0x08
    CONNECT_REFUSED = 0x0A
    CONTROL_LATCH = 0x0C
    KEEPALIVE = 0x0E
    NODE_ADVERTISE = 0x10
    NODE_WITHDRAW = 0x12
    ANNOUNCE_ADVERTISE = 0x14
    ANNOUNCE_WITHDRAW = 0x16
    SUBSCRIBE_ADVERTISE = 0x18
    SUBSCRIBE_WITHDRAW = 0x1A
    SUBSCRIBE_RESPONSE = 0x1C
    SYNC_REQUEST = 0x1E
    SYNC_BEGIN = 0x20
    SYNC_END = 0x22
    SNS_ADVERTISE = 0x24
    SNS_UPDATE = 0x26
    SNS_WITHDRAW = 0x28
    SNS_REFUSED = 0x2A
    DRAIN = 0x2C
    FETCH_REQUEST = 0x2E
    FETCH_RESPONSE = 0x30
    FETCH_CANCEL = 0x32
    STAY = 0x34


@unique
class ParameterId(IntEnum):
    """Parameters; odd ones are end to end, even ones hop by hop."""

    FULL_NAME_DIGEST = 0x01
    NODE_CREDENTIAL = 0x05
    SCOPE = 0x07
    UNKNOWN_SNS_MS = 0x02
    UNKNOWN_SNS_BYTES = 0x04
    MAX_MESSAGE_SIZE = 0x06
    HOLD_MS = 0x08
    MAX_SNS_TARGETS = 0x0A
    MAX_SNS_SETS = 0x0C
    MAX_NODES = 0x0E
    MAX_ANNOUNCES = 0x10
    MAX_SUBSCRIBES = 0x12
    HASH_SCHEME = 0x14
    HASH_CHECK = 0x16
    BATCH_MS = 0x18
    EXPECTED_NODE = 0x1A
    IMPLEMENTATION = 0x1C


# Closed enumerations


@unique
class Mode(IntEnum):
    """What a peering session carries (seed 000, Peering Modes)."""

    CONTROL = 0
    DATA = 1
    BOTH = 2

    @property
    def control(self) -> bool:
        """Whether information bases are exchanged."""
        return self is not Mode.DATA

    @property
    def data(self) -> bool:
        """Whether objects are carried."""
        return self is not Mode.CONTROL

    def allows(self, other: Mode) -> bool:
        """Whether an answer of ``other`` is this mode or a part of it."""
        return other is self or self is Mode.BOTH


@unique
class Direction(IntEnum):
    """Which way data goes; control always goes both ways (seed 000, Data Peering)."""

    UNIDIRECTIONAL = 0
    """From the dialler to the listener only."""
    BIDIRECTIONAL = 1
    """Both ways over the one connection: NAT and firewalls."""


@unique
class RelayType(IntEnum):
    """What a relay is (seed 000, Relay Types); the first three are the C++ relay's numbers."""

    VIA = 0
    EDGE = 1
    STUB = 2
    CONTROL = 3
    """A control server: information bases only, never in a data path."""


@unique
class LoadClass(IntEnum):
    """How loaded a node is, coarsely: the class is what selection orders by."""

    NORMAL = 0
    BUSY = 1
    """Takes what it has; others are preferred for more."""
    OVERLOADED = 2
    """Chosen only if nothing else reaches the target."""
    DRAINING = 3
    """Going away; nothing new goes through it."""


@unique
class AnnounceKind(IntEnum):
    """What was announced; the C++ relay's flag bit 0."""

    TRACK = 0
    """PUBLISH: one track, so the name has a hash too."""
    NAMESPACE = 1
    """PUBLISH_NAMESPACE: every track below the tuple."""


@unique
class DataKind(IntEnum):
    """What a data header stands in front of; the upper four bits of its second byte."""

    STREAM = 1
    DATAGRAM = 2


class Bases(IntFlag):
    """Which information a synchronisation is about."""

    NODES = 0x1
    ANNOUNCES = 0x2
    SUBSCRIBES = 0x4
    SNS = 0x8
    ALL = 0xF


# Open enumerations: the fields are plain integers, these are the numbers with a meaning


@unique
class Feature(IntEnum):
    """Optional parts of the protocol; in use if both sides named them."""

    DATAGRAMS = 1
    """Objects in QUIC datagrams."""
    PROBES = 2
    """PROBE is answered."""
    SIGNED_NODES = 4
    """Node information without a valid signature is not accepted."""
    PLAINTEXT_NAMES = 5
    """Announces may carry names beside their hashes."""
    SHARDED_SUBSCRIBES = 6
    """The listener is a control server with a shard: only subscribes of its shard go to it."""
    FETCHES = 7
    """FETCH_REQUEST is answered, or passed on."""
    STAYS = 8
    """STAY is understood: DRAIN can be taken back."""


@unique
class AuthScheme(IntEnum):
    """How a proof is made; the cryptography is outside this package."""

    NONE = 0
    """No proof: empty credential, empty signature. For networks that are closed by other means."""
    TLS = 1
    """The certificate of the TLS handshake is the proof; credential and signature are empty."""
    CWT_SIGNATURE = 2
    """Credential: a CWT with a ``cnf`` key; signature by that key."""
    SHARED_KEY = 3
    """Credential: the name of a key that both know; HMAC-SHA256 with it."""
    CERTIFICATE = 4
    """Credential: DER certificates, each behind its u24 length; signature by the leaf's key."""
    STUB_KEY = 5
    """As SHARED_KEY, with a key that Stubs have: nobody but a Stub may dial with it."""


@unique
class HashScheme(IntEnum):
    """How names are hashed into 64 bits; both sides must do it alike."""

    CITY64 = 0
    """The C++ relay's unkeyed hash: for experiments only."""
    BLAKE2B_64 = 1
    """Keyed BLAKE2b, 8 bytes, with the network's key."""


@unique
class SubscribeCode(IntEnum):
    """The answer to a subscribe or to a FETCH."""

    ACCEPTED = 0
    POLICY = 1
    """Excluded by administrative policy, such as a region."""
    UNAUTHORIZED = 2
    NO_PUBLISHER = 3
    PUBLISHER_REFUSED = 4
    """The publisher's own error is in the response data."""
    HASH_COLLISION = 5
    """Another track of the origin has the same hash."""
    LIMIT = 6
    UNREACHABLE = 7
    """No data path to the s-relay that policy allows."""
    ENDED = 8
    """It was accepted, and the publisher has ended it."""


@unique
class SnsRefusal(IntEnum):
    """Why targets of a subscriber node set, or the whole of it, are not served."""

    NOT_ADVERTISED = 1
    """Never advertised to this peer, or not any more."""
    TOO_MANY_TARGETS = 2
    TOO_MANY_SETS = 3
    TOO_MANY_HOPS = 4
    """The chain of sets is deeper than 16: a loop."""
    UNKNOWN_SET = 5
    """Data came, the set did not, and the buffer time is over."""
    POLICY = 6
    MOVED = 7
    """Nothing is refused: these targets are served another way than when streams began."""


@unique
class PayloadFormat(IntEnum):
    """What the bytes behind a data header are."""

    OPAQUE = 0
    QUICR = 1
    MOQT_16 = 16
    MOQT_18 = 18
