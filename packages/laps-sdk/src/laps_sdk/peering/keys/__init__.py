"""Keys of relays: key files, and proofs of identity (laps-2, 8).

This is the only part of peering that reads files, the wall clock and X.509 certificates::

    files   NetworkKey, NodeKey    read from the state directory, or made at the first start
      |
      v
    ring    PeerKeyRing            signs and verifies for ``Peers`` (``PeerAuthenticator``)

``laps_relay.server`` and ``laps_relay.cli`` import both modules.
"""

from laps_sdk.peering.keys.files import NetworkKey, NodeKey, PeerKeyError
from laps_sdk.peering.keys.ring import NODE_URN, AuthMethod, PeerKeyRing, open_key_ring

__all__ = [
    "NODE_URN",
    "AuthMethod",
    "NetworkKey",
    "NodeKey",
    "PeerKeyError",
    "PeerKeyRing",
    "open_key_ring",
]
