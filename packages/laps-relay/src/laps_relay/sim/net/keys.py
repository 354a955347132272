"""The identity of a simulated relay: a fingerprint with a proof, without real cryptography.

The proof is a digest over fingerprint and transcript. It protects against nothing: tests are about
what a relay does with the result of a check.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Final

from laps_sdk.peering.events import Refusal
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import AuthScheme, Evidence, NodeInfo, NodeSelf, NodeSignature

__all__ = ["SimAuthenticator", "fingerprint_of", "proof"]

_SCHEME: Final = int(AuthScheme.CWT_SIGNATURE)


def fingerprint_of(name: str) -> bytes:
    """The key of a relay; another name is another key."""
    return sha256(b"key of " + name.encode()).digest()


def proof(fingerprint: bytes, transcript: bytes) -> bytes:
    """Return the digest that replaces a signature."""
    return sha256(fingerprint + transcript).digest()


class SimAuthenticator:
    """Proves one fingerprint and accepts every fingerprint that has a proof.

    ``holders`` maps node ids to the only credential that covers them, as the subject of a CWT does.
    A node that is not in ``holders`` may use any key.
    """

    __slots__ = ("_fingerprint", "_holders")

    def __init__(self, fingerprint: bytes, holders: Mapping[NodeId, bytes] | None = None) -> None:
        self._fingerprint = fingerprint
        self._holders: Mapping[NodeId, bytes] = holders or {}

    @property
    def schemes(self) -> tuple[int, ...]:
        """One."""
        return (_SCHEME,)

    def sign(
        self, schemes: Sequence[int], transcript: Callable[[Evidence], bytes]
    ) -> Evidence | None:
        """Return the proof of our fingerprint."""
        if _SCHEME not in schemes:
            return None
        bare = Evidence(_SCHEME, self._fingerprint, b"")
        return Evidence(_SCHEME, self._fingerprint, proof(self._fingerprint, transcript(bare)))

    def verify(
        self,
        evidence: Evidence,
        transcript: bytes,
        peer: NodeInfo,
    ) -> bytes | Refusal:
        """Return the fingerprint; refuse a wrong digest, or a node id that another key holds."""
        if evidence.signature != proof(evidence.credential, transcript):
            return Refusal("proof", "the signature is not over what was said")
        node = peer.node.node_id
        if self._holders.get(node, evidence.credential) != evidence.credential:
            return Refusal("credential", f"it does not cover node {node}")
        return evidence.credential

    def sign_node(self, node: NodeSelf) -> NodeInfo:
        """Return the node with our fingerprint and without a signature."""
        return NodeInfo(node, NodeSignature(fingerprint=self._fingerprint))

    def verify_node(self, info: NodeInfo) -> Refusal | None:  # noqa: ARG002
        """Accept every node: simulated nodes are not signed."""
        return None
