"""The keys of nodes that a relay has met, kept over a restart, as ssh keeps known hosts.

With the network's shared key a node id belongs to the key that held it first (laps-2, 4.1). Without
this memory a restart would be a new first time, and whoever comes first then could have the id of
another node. A file for each node in the state directory, who was away for longest first::

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
"""Seconds between two times of writing: nobody makes us write for each handshake."""
_SIZE: Final = 32
"""Bytes of a fingerprint."""


@dataclass(frozen=True, slots=True)
class KeyMemory:
    """A file that is read once and replaced as a whole."""

    path: Path

    @classmethod
    def of(cls, state_dir: Path, node: NodeId) -> KeyMemory:
        """That of a node."""
        return cls(state_dir / f"known-keys-{int(node):016x}.json")

    def load(self) -> dict[NodeId, bytes]:
        """What was kept; ``StartError`` if that is not what we wrote."""
        return read_state(
            self.path,
            lambda node, key: (NodeId.parse(node), _fingerprint(key)),
            "is not a record of keys: remove it, and whoever comes first with a node ID holds it"
            " again",
        )

    def save(self, keys: Mapping[NodeId, bytes]) -> str | None:
        """Keep it, all or nothing; why that was not possible."""
        plain = {str(node): key.hex() for node, key in keys.items()}
        return write_state(self.path, json.dumps(plain))


def _fingerprint(text: str) -> bytes:
    key = bytes.fromhex(text)
    if len(key) != _SIZE:
        raise ValueError(f"{len(key)} bytes are no fingerprint")
    return key


def key_memory(config: RelayConfig, node: NodeId) -> KeyMemory | None:
    """Where a relay keeps keys; None: it does not.

    A certificate, or a pin, covers the node id: who gets another one must not be kept out by what
    is remembered. Without any authentication there is nothing to hold on to.
    """
    network = config.network
    if network.auth != "shared-key" or not (network.node_id or network.port):
        return None  # in the latter case the next start has another node id
    return KeyMemory.of(config.state_dir, node)


class KeyKeeper:
    """Writes down what has changed; time is an argument. Without ``memory`` it does nothing.

    ``poll`` gives all keys if they are others than when it was last called; ``warn`` hears why they
    could not be kept, once for each reason. That is tried again.
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
        """Keep what is new, unless something was kept just now; to be called once a second."""
        if self._memory is not None and now >= self._next and self.write():
            self._next = now + INTERVAL

    def write(self) -> bool:
        """Keep what is new at once; whether that was anything."""
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
