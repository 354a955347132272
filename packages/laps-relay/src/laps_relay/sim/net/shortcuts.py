"""Shortcuts of the simulator: proofs without cryptography, and messages without encoding.

**Identities**: a relay has a fingerprint with a proof. The proof is a digest over fingerprint and
transcript. It protects against nothing: tests are about what a relay does with the result of a
check.

**Messages** are handed over as they are, instead of as bytes. Encoding and decoding is a third of a
run's time and shows nothing that its own tests do not show. Here a message becomes a frame of
twelve bytes with a number, and the receiver of the same process takes the message with that number.
Streams, sessions, their order and their rules stay as they are. What is no such frame is decoded as
always, so peers that mean harm can send what they like. Some seeds run on real bytes.

::

    +-------------------------+------------+------------------+
    | type 0x3f2d (2 or more) | length 8   | number (8 bytes) |
    +-------------------------+------------+------------------+
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, Final, cast

from laps_sdk.peering.events import Refusal
from laps_sdk.peering.peers import DIALECTS
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import ALPN, AuthScheme, Evidence, NodeInfo, NodeSelf, NodeSignature
from laps_wire.peering.session import Dialect, Laps2Dialect

__all__ = ["SharedMessages", "SimAuthenticator", "fingerprint_of", "proof", "shared_messages"]

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


_FRAME: Final = bytes((0x7F, 0x2D, 0x08))
"""An odd type for experiments (laps-2, 3.2), and the length."""
_SIZE: Final = len(_FRAME) + 8
_ANY_SIZE: Final = 1 << 30


class SharedMessages(Laps2Dialect):
    """laps-2 without its bytes."""

    def __init__(self) -> None:
        self._messages: dict[bytes, Any] = {}
        self._number = 0

    def encode(self, message: Any, max_size: int) -> bytes:  # noqa: ARG002 - nothing is large
        """A frame that stands for the message."""
        self._number += 1
        frame = _FRAME + self._number.to_bytes(8, "big")
        self._messages[frame] = message
        return frame

    def decode(self, data: bytes, pos: int, max_size: int) -> tuple[Any, int]:
        """Return the message that a frame stands for, or decode the bytes."""
        message = self._messages.pop(bytes(data[pos : pos + _SIZE]), None)
        if message is None:
            return super().decode(data, pos, max_size)
        return message, pos + _SIZE

    def expand(self, data: bytes) -> bytes:
        """Replace frames in transit by the bytes of the messages that they stand for."""
        parts = []
        pos = 0
        while data.startswith(_FRAME, pos):
            frame = data[pos : pos + _SIZE]
            message = self._messages.get(frame)
            parts.append(frame if message is None else super().encode(message, _ANY_SIZE))
            pos += _SIZE
        return b"".join((*parts, data[pos:])) if parts else data


@contextmanager
def shared_messages(enabled: bool) -> Generator[SharedMessages | None]:
    """Let relays that are made in the block exchange messages as objects."""
    if not enabled:
        yield None
        return
    before = DIALECTS[ALPN]
    dialects = cast("dict[str, Dialect]", DIALECTS)  # a constant outside this module
    shared = SharedMessages()
    dialects[ALPN] = shared
    try:
        yield shared
    finally:
        dialects[ALPN] = before
