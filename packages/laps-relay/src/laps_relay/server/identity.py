"""Who a relay is in the network: its keys, its node id, its epoch, and the ids of its workers."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from hashlib import blake2b

from laps_relay.config import RelayConfig
from laps_relay.server.known_keys import KeyMemory, key_memory
from laps_relay.server.parts import StartError
from laps_relay.server.state_file import next_epoch
from laps_sdk.peering.keys import PeerKeyError, PeerKeyRing, open_key_ring
from laps_sdk.peering.settings import Identity
from laps_wire.hashing import KeyedHasher
from laps_wire.nodeid import NodeId

__all__ = [
    "RelayIdentity",
    "fresh_context",
    "key_ring",
    "name_hasher",
    "node_id_of",
    "same_member",
    "worker_node_id",
]


def key_ring(config: RelayConfig) -> PeerKeyRing:
    """Return the keys of a relay. Raises :class:`StartError` if they are not usable."""
    network = config.network
    if network.auth == "none" and not network.is_loopback(config.listen.host):
        raise StartError(
            "network.auth is none: anybody could peer; bind to loopback, or set shared-key"
        )
    try:
        keys = open_key_ring(
            network.auth,
            config.state_dir,
            key_file=network.key_file,
            ca=network.ca,
            node_key_file=network.node_key,
            node_certificate=network.node_certificate,
            pins=network.pinned_keys,
            unproved=network.cpp_nodes,
        )
    except PeerKeyError as error:
        raise StartError(str(error)) from None
    except OSError as error:
        raise StartError(f"{config.state_dir}: {error.strerror}; set state_dir") from None
    if keys.network_key is not None and keys.network_key.for_stubs and network.type != "stub":
        raise StartError(
            f"network.key_file {network.key_file} holds a key for Stubs, and this is a relay of"
            f" type {network.type}: give it the network's key, or set network.type to stub"
        )
    return keys


def name_hasher(keys: PeerKeyRing) -> KeyedHasher:
    """Return the hasher of names that all relays of the network share."""
    if keys.network_key is None:
        raise StartError("names are hashed with the network's key: set network.key_file")
    return KeyedHasher(keys.network_key.hash_key())


def node_id_of(config: RelayConfig, keys: PeerKeyRing) -> NodeId:
    """Return the configured node id, or one from the key and the port, the same at each start.

    Without a node id and a port the id is random.
    """
    if config.network.node_id:
        return NodeId.parse(config.network.node_id)
    if config.network.port == 0:
        return NodeId(secrets.randbits(63) | 1)
    seed = keys.fingerprint + config.network.port.to_bytes(2, "big")
    return NodeId(int.from_bytes(blake2b(seed, digest_size=8).digest(), "big") | 1)


@dataclass(frozen=True, slots=True)
class RelayIdentity:
    """A relay at one start: what peers see of it, and what it stores for its next start."""

    peering: Identity
    keys: PeerKeyRing
    hasher: KeyedHasher
    known_keys: KeyMemory | None
    """Where keys of other nodes are stored; None: they are not."""
    epoch_fault: str | None
    """Why the epoch could not be stored for the next start."""

    @classmethod
    def of(cls, config: RelayConfig, keys: PeerKeyRing) -> RelayIdentity:
        """Return the identity of a relay that starts now; stores its epoch."""
        network = config.network
        node_id = node_id_of(config, keys)
        epoch, fault = int(time.time() * 1000), None
        if network.node_id or network.port:  # else the next start has another node id
            epoch, fault = next_epoch(config.state_dir, node_id, epoch)
        peering = Identity(
            node_id=node_id,
            epoch=epoch,
            contacts=tuple(network.contacts),
            region=network.region,
            longitude=network.longitude,
            latitude=network.latitude,
            labels=tuple(_label(text) for text in network.labels),
            fingerprint=keys.fingerprint,
        )
        return cls(peering, keys, name_hasher(keys), key_memory(config, node_id), fault)

    @property
    def node_id(self) -> NodeId:
        """The relay's own node id; peers of a Stub see another one."""
        return self.peering.node_id

    @property
    def epoch(self) -> int:
        """Higher at each start."""
        return self.peering.epoch


def _label(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value


def fresh_context() -> int:
    """Return a data context: 32 random bits that are not 0."""
    return secrets.randbelow((1 << 32) - 1) + 1


def worker_node_id(first: NodeId, index: int) -> NodeId:
    """Return the node id of a worker: the first has the relay's own, others are derived from it."""
    if index == 0:
        return first
    seed = first.to_bytes(8, "big") + index.to_bytes(2, "big")
    return NodeId(int.from_bytes(blake2b(seed, digest_size=8).digest(), "big") | 1)


def same_member(config: RelayConfig, node_id: NodeId, port: int) -> RelayConfig:
    """Return the configuration of a relay that comes back with the same node id and peer port."""
    network = config.network.model_copy(update={"node_id": str(node_id), "port": port})
    return config.model_copy(update={"network": network})
