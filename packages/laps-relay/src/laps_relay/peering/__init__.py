"""Keys of relays, and how relays prove to each other who they are."""

from laps_relay.peering.keys import NetworkKey, NodeKey, PeerKeyError
from laps_relay.peering.ring import NODE_URN, AuthMethod, PeerKeyRing, open_key_ring

__all__ = [
    "NODE_URN",
    "AuthMethod",
    "NetworkKey",
    "NodeKey",
    "PeerKeyError",
    "PeerKeyRing",
    "open_key_ring",
]
