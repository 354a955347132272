"""The numbers and the fixed limits of ``laps-2``.

docs/spec/laps-2.md defines both; a test compares the two. Each registry has a rule for numbers that
a receiver does not know:

======================= ========================================================================
message types           even: must be understood, else the session ends; odd: may be ignored
parameters              unknown ones are always ignored; odd ones are kept when an entry is
                        re-advertised (end to end), even ones are removed (hop by hop)
closed enumerations     (mode, direction, relay type, ...) an unknown value is malformed; a new
                        value needs a new feature, and is sent only to peers that accepted it
open enumerations       (features, schemes, reason codes, payload formats) any number is legal
======================= ========================================================================

The fixed limits bound the memory that a peer can occupy: a decoder checks a limit before it
allocates memory. Limits that each relay sets for itself are
:class:`~laps_wire.peering.laps2.handshake.Settings`.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag, unique
from typing import Final

__all__ = [
    "ALPN",
    "AUTH_CHALLENGE_BYTES",
    "DATA_HEADER_BYTES",
    "FINGERPRINT_BYTES",
    "MAX_BATCH",
    "MAX_CONTACTS",
    "MAX_CONTACT_BYTES",
    "MAX_CREDENTIAL_BYTES",
    "MAX_DATA_HEADER_BYTES",
    "MAX_FEATURES",
    "MAX_GROUPS",
    "MAX_HOPS",
    "MAX_LABELS",
    "MAX_LABEL_KEY_BYTES",
    "MAX_LABEL_VALUE_BYTES",
    "MAX_MESSAGE_BYTES",
    "MAX_PADDING_BYTES",
    "MAX_PARAMETERS",
    "MAX_PARAMETER_BYTES",
    "MAX_REACHABLE",
    "MAX_REASON_BYTES",
    "MAX_REGION_BYTES",
    "MAX_SCHEMES",
    "MAX_SCOPE_BYTES",
    "MAX_SIGNATURE_BYTES",
    "MAX_SUBSCRIBE_DATA_BYTES",
    "MAX_TARGETS",
    "MAX_TUPLE_ELEMENTS",
    "MAX_VERSIONS",
    "MIN_MESSAGE_BYTES",
    "SPKI_HASH_BYTES",
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
    """Control message types; a receiver may ignore odd types that it does not know."""

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
    POSITION = 0x36
    RESUME = 0x38
    RESUME_RESPONSE = 0x3A


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
        """Return whether ``other`` is this mode or a part of it."""
        return other is self or self is Mode.BOTH


@unique
class Direction(IntEnum):
    """Which way data goes; control always goes both ways (seed 000, Data Peering)."""

    UNIDIRECTIONAL = 0
    """From the dialler to the listener only."""
    BIDIRECTIONAL = 1
    """Both ways over one connection, for peers behind a NAT or a firewall."""


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
    """A coarse measure of a node's load, by which path selection orders nodes."""

    NORMAL = 0
    BUSY = 1
    """The node keeps its present traffic; other nodes are preferred for new traffic."""
    OVERLOADED = 2
    """The node is chosen only if no other path reaches the target."""
    DRAINING = 3
    """The node is about to stop; it gets no new traffic."""


@unique
class AnnounceKind(IntEnum):
    """What an announce is for; the same values as bit 0 of the C++ relay's flags."""

    TRACK = 0
    """PUBLISH: one track; the announce has a hash of the track name."""
    NAMESPACE = 1
    """PUBLISH_NAMESPACE: every track below the tuple."""


@unique
class DataKind(IntEnum):
    """What follows a data header; the upper four bits of the header's second byte."""

    STREAM = 1
    DATAGRAM = 2


class Bases(IntFlag):
    """Which information a synchronisation is about."""

    NODES = 0x1
    ANNOUNCES = 0x2
    SUBSCRIBES = 0x4
    SNS = 0x8
    ALL = 0xF


# Open enumerations: the fields are plain integers; these are the defined values


@unique
class Feature(IntEnum):
    """Optional parts of the protocol; a feature is in use if both sides listed it."""

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
    """FETCH_REQUEST is answered or forwarded."""
    STAYS = 8
    """STAY is understood, which revokes DRAIN."""
    REPAIR = 9
    """POSITION is sent, and RESUME is answered or forwarded."""


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
    """Credential: the name of a key that both sides have; signature: HMAC-SHA256 with that key."""
    CERTIFICATE = 4
    """Credential: DER certificates, each behind its u24 length; signature by the leaf's key."""
    STUB_KEY = 5
    """As SHARED_KEY, with a key of Stubs: only a Stub may dial with it."""


@unique
class HashScheme(IntEnum):
    """How names are hashed into 64 bits; both sides must use the same scheme."""

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
    """Policy permits no data path to the s-relay."""
    ENDED = 8
    """The subscribe was accepted, and the publisher has ended it since."""
    LOST = 9
    """The subscribe was accepted, and the publisher was lost since; it may come back."""
    MALFORMED = 10
    """The subscribe was accepted, and the track has proved malformed since."""


@unique
class SnsRefusal(IntEnum):
    """Why targets of a subscriber node set, or the whole of it, are not served."""

    NOT_ADVERTISED = 1
    """The target was never advertised to this peer, or was withdrawn."""
    TOO_MANY_TARGETS = 2
    TOO_MANY_SETS = 3
    TOO_MANY_HOPS = 4
    """The chain of sets is longer than 16 hops, which indicates a loop."""
    UNKNOWN_SET = 5
    """Data arrived, but its set was not advertised within the buffer time."""
    POLICY = 6
    MOVED = 7
    """No refusal: the path to these targets has changed since their streams began."""


@unique
class PayloadFormat(IntEnum):
    """The format of the bytes after a data header."""

    OPAQUE = 0
    QUICR = 1
    MOQT_16 = 16
    MOQT_18 = 18


# Fixed limits: framing

MIN_MESSAGE_BYTES: Final = 65_536
"""The body size that every relay accepts: the limit in the handshake, and the default after it."""
MAX_MESSAGE_BYTES: Final = 1_048_576
"""The largest body that a relay may offer to accept."""
MAX_PARAMETERS: Final = 64
"""The most parameters in one list."""
MAX_PARAMETER_BYTES: Final = 4_096
"""The longest value of one parameter."""

# Handshake

MAX_VERSIONS: Final = 8
"""The most protocol versions that a dialler offers."""
MAX_FEATURES: Final = 64
"""The most features in one offer."""
MAX_SCHEMES: Final = 16
"""The most authentication schemes in one offer."""
AUTH_CHALLENGE_BYTES: Final = 32
"""The size of a challenge: random bytes, used once, from the side that verifies the proof."""
SPKI_HASH_BYTES: Final = 32
"""SHA-256 over the DER SubjectPublicKeyInfo of the listener's certificate."""
MAX_CREDENTIAL_BYTES: Final = 8_192
"""The longest credential: room for a token with a certificate in it."""
MAX_SIGNATURE_BYTES: Final = 1_024
"""The longest signature or MAC: room for RSA-8192."""
MAX_REASON_BYTES: Final = 1_024
"""The longest reason phrase; it is for display only."""

# Node information

MAX_CONTACTS: Final = 8
"""The most contacts of one node."""
MAX_CONTACT_BYTES: Final = 255
"""The longest contact: a DNS name is at most 253 bytes, and a port may follow."""
MAX_REGION_BYTES: Final = 64
"""The longest region name."""
MAX_HOPS: Final = 16
"""The most node path items, and the deepest chain of subscriber node sets."""
MAX_REACHABLE: Final = 256
"""The most entries in one node's reachability list."""
MAX_LABELS: Final = 32
"""The most policy labels on one entry."""
MAX_LABEL_KEY_BYTES: Final = 64
"""The longest key of a label."""
MAX_LABEL_VALUE_BYTES: Final = 255
"""The longest value of a label."""
FINGERPRINT_BYTES: Final = 32
"""SHA-256 over the DER SubjectPublicKeyInfo of the key that a node ID is bound to."""

# Announces and subscribes

MAX_TUPLE_ELEMENTS: Final = 32
"""The most elements of a namespace tuple (moq-transport-16, 2.4.1)."""
MAX_SUBSCRIBE_DATA_BYTES: Final = 16_384
"""The longest body of a SUBSCRIBE or SUBSCRIBE_OK in a message."""
MAX_BATCH: Final = 1_024
"""The most entries, or SNS IDs, in one message."""
MAX_GROUPS: Final = 4_096
"""The most groups in one run of a POSITION or RESUME."""

# Subscriber node sets and data

MAX_TARGETS: Final = 4_096
"""The most node IDs in one set of a message; larger sets need updates."""
MAX_SCOPE_BYTES: Final = 64
"""The longest name of a class of service."""
DATA_HEADER_BYTES: Final = 24
"""The size of a data header without extensions."""
MAX_DATA_HEADER_BYTES: Final = 255
"""The size of the longest data header: its length is one byte."""

# The rest

MAX_PADDING_BYTES: Final = 4_096
"""The longest padding of a probe."""
