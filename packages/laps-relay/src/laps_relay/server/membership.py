"""Who a relay is in the network: its keys, its node id, its policy, and the ids of its workers."""

from __future__ import annotations

import secrets
from hashlib import blake2b
from pathlib import Path

from laps_relay.config import RelayConfig
from laps_relay.config.policy_file import load_policy
from laps_relay.policy import OPEN_POLICY, RulePolicy
from laps_relay.policy.interface import Policy
from laps_relay.policy.rules import Rules
from laps_relay.policy.words import rules_in_words
from laps_relay.server.parts import StartError
from laps_sdk.peering.keys import PeerKeyError, PeerKeyRing, open_key_ring
from laps_sdk.peering.settings import Identity
from laps_wire.hashing import KeyedHasher
from laps_wire.nodeid import NodeId

__all__ = [
    "fresh_context",
    "identity_of",
    "key_ring",
    "name_hasher",
    "node_id_of",
    "policy_in_words",
    "policy_of",
    "same_member",
    "worker_node_id",
]


def key_ring(config: RelayConfig) -> PeerKeyRing:
    """The keys of a relay; :class:`StartError` says what is wrong with them."""
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
    """How the network hashes names."""
    if keys.network_key is None:
        raise StartError("names are hashed with the network's key: set network.key_file")
    return KeyedHasher(keys.network_key.hash_key())


def node_id_of(config: RelayConfig, keys: PeerKeyRing) -> NodeId:
    """As configured; or made from the key and the port, so that it stays over restarts."""
    if config.network.node_id:
        return NodeId.parse(config.network.node_id)
    if config.network.port == 0:
        return NodeId(secrets.randbits(63) | 1)
    seed = keys.fingerprint + config.network.port.to_bytes(2, "big")
    return NodeId(int.from_bytes(blake2b(seed, digest_size=8).digest(), "big") | 1)


def identity_of(config: RelayConfig, keys: PeerKeyRing, node_id: NodeId, epoch: int) -> Identity:
    """Who the relay is among its peers."""
    network = config.network
    return Identity(
        node_id=node_id,
        epoch=epoch,
        contacts=tuple(network.contacts),
        region=network.region,
        longitude=network.longitude,
        latitude=network.latitude,
        labels=tuple(_label(text) for text in network.labels),
        fingerprint=keys.fingerprint,
    )


def _label(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value


def fresh_context() -> int:
    """A data context: 32 random bits that are not 0."""
    return secrets.randbelow((1 << 32) - 1) + 1


def policy_of(file: Path | None, hasher: KeyedHasher, local: NodeId) -> Policy:
    """The policy of a file; everything is allowed without one."""
    if file is None:
        return OPEN_POLICY
    return RulePolicy(load_policy(file), hasher, local=local)


def policy_in_words(policy: Policy) -> list[str]:
    """Each rule of a policy; nothing for one that allows everything."""
    return rules_in_words(policy.rules if isinstance(policy, RulePolicy) else Rules())


def worker_node_id(first: NodeId, index: int) -> NodeId:
    """The node id of a worker: the first has the relay's own, others are made from it."""
    if index == 0:
        return first
    seed = first.to_bytes(8, "big") + index.to_bytes(2, "big")
    return NodeId(int.from_bytes(blake2b(seed, digest_size=8).digest(), "big") | 1)


def same_member(config: RelayConfig, node_id: NodeId, port: int) -> RelayConfig:
    """The configuration of a relay that comes back: same node id, same port for peers."""
    network = config.network.model_copy(update={"node_id": str(node_id), "port": port})
    return config.model_copy(update={"network": network})
