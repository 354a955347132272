"""Who a relay is in the network, and what its state directory holds for the next start.

The identity is a set of keys, a node id, and an epoch. The files are replaced as a whole::

    <state directory>/epoch-0000000100000001            1794914931467
    <state directory>/known-keys-0000000100000001.json  {"0.0:0.11": "SHA-256 of its key", ...}
    <state directory>/plans-0000000100000001.json       see plans.py
    <state directory>/reset-key                         64 hexadecimal digits, see port_key

A peer refuses a relay whose epoch is not higher than its last one: it takes the relay for an old
copy of itself (laps-2, 4.1). The time of the start in milliseconds is higher unless the clock was
set back, so the relay stores its last epoch.

With the network's shared key a node id belongs to the key that held it first. The file of known
keys lets that hold after a restart too, as ssh stores known hosts. The node that was away for
longest comes first.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, TypeVar

from laps_relay.config import RelayConfig
from laps_sdk.peering.keys import PeerKeyError, PeerKeyRing, open_key_ring
from laps_sdk.peering.settings import Identity
from laps_wire.errors import LocalError
from laps_wire.hashing import KeyedHasher
from laps_wire.nodeid import NodeId

__all__ = [
    "KEYS_INTERVAL",
    "KeyKeeper",
    "KeyMemory",
    "RelayIdentity",
    "StartError",
    "fresh_context",
    "key_memory",
    "key_ring",
    "name_hasher",
    "next_epoch",
    "node_id_of",
    "port_key",
    "read_state",
    "same_member",
    "worker_node_id",
    "write_state",
]

_MAX_EPOCH: Final = (1 << 62) - 1
KEYS_INTERVAL: Final = 1.0
"""Seconds between two writes of known keys: a handshake alone must not cause one."""
_FINGERPRINT_BYTES: Final = 32
_RESET_KEY: Final = "reset-key"
_RESET_BYTES: Final = 32
_Name = TypeVar("_Name")
_Value = TypeVar("_Value")


class StartError(LocalError, RuntimeError):
    """The relay cannot start; the text says what to change."""


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


def read_state(
    path: Path, read: Callable[[str, Any], tuple[_Name, _Value]], wrong: str
) -> dict[_Name, _Value]:
    """Return the members of a JSON object, each as ``read`` parses it; empty without a file.

    Raises :class:`StartError` with ``wrong``, which says what to do, if the file is damaged.
    """
    try:
        members: Iterable[tuple[str, Any]] = json.loads(path.read_text(encoding="ascii")).items()
        return dict(read(name, value) for name, value in members)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise StartError(f"{path}: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise StartError(f"{path} {wrong}") from None


def write_state(path: Path, text: str) -> str | None:
    """Replace a file, all or nothing; return why that was not possible, or None."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # An unpredictable, unused name, so that nothing is written through a symbolic link.
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        beside = Path(name)
        try:
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(text)
            beside.replace(path)
        except OSError:
            beside.unlink(missing_ok=True)
            raise
    except OSError as error:
        return f"{path}: {error.strerror}"
    return None


def next_epoch(state_dir: Path, node: NodeId, wall_ms: int) -> tuple[int, str | None]:
    """Return the epoch of this start, and why it could not be stored for the next one, or None.

    A file that holds no number is replaced: the clock alone decides then, as at a first start.
    """
    path = state_dir / f"epoch-{int(node):016x}"
    try:
        last = int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        last = 0
    if not 0 <= last < _MAX_EPOCH:
        last = 0
    epoch = max(wall_ms, last + 1)
    return epoch, write_state(path, f"{epoch}\n")


def port_key(state_dir: Path, port: str) -> bytes:
    """Return the key of stateless resets for a port, the same at each start.

    Each port, and each worker at a shared port, has a key of its own. Otherwise one process would
    end connections of another one for whoever sends it a copy of a packet (RFC 9000, 21.11). The
    key is random if the directory cannot be written: then nobody notices a restart at once.
    """
    return blake2b(port.encode(), key=_reset_secret(state_dir / _RESET_KEY)).digest()


def _reset_secret(path: Path) -> bytes:
    """Return the secret in a file; make the file if there is none."""
    known = _read_secret(path)
    if known is not None:
        return known
    made = secrets.token_bytes(_RESET_BYTES)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        beside = Path(name)
        try:
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(f"{made.hex()}\n")
            # Of several processes that start at once the first one counts.
            with contextlib.suppress(FileExistsError):
                path.hardlink_to(beside)
        finally:
            beside.unlink(missing_ok=True)
    except OSError:
        return made
    return _read_secret(path) or made


def _read_secret(path: Path) -> bytes | None:
    """Return the secret in a file; None if it is damaged, or if everybody may open it."""
    try:
        with path.open(encoding="ascii") as file:
            open_to_all = os.fstat(file.fileno()).st_mode & stat.S_IRWXO
            secret = bytes.fromhex(file.read())
    except (OSError, ValueError):
        return None
    return secret if len(secret) == _RESET_BYTES and not open_to_all else None


@dataclass(frozen=True, slots=True)
class KeyMemory:
    """A file of keys by node id, which is read once and replaced as a whole."""

    path: Path

    @classmethod
    def of(cls, state_dir: Path, node: NodeId) -> KeyMemory:
        """Return the file of a node."""
        return cls(state_dir / f"known-keys-{int(node):016x}.json")

    def load(self) -> dict[NodeId, bytes]:
        """Return the stored keys. Raises ``StartError`` if the file is damaged."""
        return read_state(
            self.path,
            lambda node, key: (NodeId.parse(node), _fingerprint(key)),
            "is not a record of keys: remove it, and whoever comes first with a node ID holds it"
            " again",
        )

    def save(self, keys: Mapping[NodeId, bytes]) -> str | None:
        """Replace the file, all or nothing; return why that was not possible, or None."""
        plain = {str(node): key.hex() for node, key in keys.items()}
        return write_state(self.path, json.dumps(plain))


def _fingerprint(text: str) -> bytes:
    key = bytes.fromhex(text)
    if len(key) != _FINGERPRINT_BYTES:
        raise ValueError(f"{len(key)} bytes are no fingerprint")
    return key


def key_memory(config: RelayConfig, node: NodeId) -> KeyMemory | None:
    """Return where a relay stores keys of other nodes; None: it stores none.

    A certificate or a pin covers the node id: a key that was replaced there must not be refused
    because of an old file. Without authentication there is no key to store.
    """
    network = config.network
    if network.auth != "shared-key" or not (network.node_id or network.port):
        return None  # in the latter case the next start has another node id
    return KeyMemory.of(config.state_dir, node)


class KeyKeeper:
    """Stores the keys of other nodes when they change; without ``memory`` it does nothing.

    ``poll`` returns all keys if they have changed since its last call. ``warn`` gets the reason if
    they cannot be stored, once for each reason; writing is tried again.
    """

    def __init__(
        self,
        memory: KeyMemory | None,
        poll: Callable[[], Mapping[NodeId, bytes] | None],
        warn: Callable[[str], None],
    ) -> None:
        self._memory = memory
        self._poll = poll
        self._warn = warn
        self._unsaved: Mapping[NodeId, bytes] | None = None
        self._fault: str | None = None
        self._next = float("-inf")

    def look(self, now: float) -> None:
        """Store changed keys, at most once in :data:`KEYS_INTERVAL`.

        Called in every turn of the peer port: keys change in handshakes alone.
        """
        if self._memory is not None and now >= self._next and self.write():
            self._next = now + KEYS_INTERVAL

    def write(self) -> bool:
        """Store changed keys at once; return whether there were any."""
        if self._memory is None:
            return False
        fresh = self._poll()
        if fresh is not None:
            self._unsaved = fresh
        if self._unsaved is None:
            return False
        fault = self._memory.save(self._unsaved)
        if fault is None:
            self._unsaved = None
        elif fault != self._fault:
            self._warn(fault)
        self._fault = fault
        return True
