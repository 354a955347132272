"""The fixed limits of ``laps-2``, which bound the memory that a peer can occupy.

A decoder checks a limit before it allocates memory. Limits that each relay sets for itself are
:class:`~laps_wire.peering.laps2.settings.Settings`.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "AUTH_CHALLENGE_BYTES",
    "DATA_HEADER_BYTES",
    "FINGERPRINT_BYTES",
    "MAX_BATCH",
    "MAX_CONTACTS",
    "MAX_CONTACT_BYTES",
    "MAX_CREDENTIAL_BYTES",
    "MAX_DATA_HEADER_BYTES",
    "MAX_FEATURES",
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
]

# Framing

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
