"""The keys of other nodes, stored over a restart, as ssh stores known hosts.

With the network's shared key a node id belongs to the key that held it first (laps-2, 4.1). The
file lets that hold after a restart too. There is one file for each node in the state directory; the
node that was away for longest comes first::

    <state directory>/known-keys-0000000100000001.json
    {"0.0:0.11": "SHA-256 of its public key", ...}
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from laps_relay.config import RelayConfig
from laps_relay.server.state_file import read_state, write_state
from laps_wire.nodeid import NodeId

__all__ = ["INTERVAL", "KeyKeeper", "KeyMemory", "key_memory"]

INTERVAL: Final = 1.0
"""Seconds between two writes: a handshake alone must not cause one."""
_SIZE: Final = 32
"""Bytes of a fingerprint."""


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
    if len(key) != _SIZE:
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
        """Store changed keys, at most once in :data:`INTERVAL`; called in every turn."""
        if self._memory is not None and now >= self._next and self.write():
            self._next = now + INTERVAL

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
