"""The dialect of the C++ LAPS relay: a handshake of two messages without proof, one control stream.

The behaviour of the C++ relay (docs/spec/laps-cpp.md) has these consequences:

- It handles one control message for each received chunk, so each message is sent separately.
- It always answers on stream 0, so the control stream never moves.
- It treats every session as mode both, bidirectional; a listener cannot grant less.
- A set is always sent completely and has no version. Its ID follows the counter of data contexts,
  of which 1 is the control stream's.
- A node type does not determine behaviour: a "stub" floods like an Edge.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from laps_wire.errors import EncodeError, ProtocolViolation, StateError
from laps_wire.peering import cpp
from laps_wire.peering.errors import CloseCode, NodeIdConflictError
from laps_wire.peering.laps2 import (
    NO_EVIDENCE,
    Bases,
    Direction,
    Evidence,
    Location,
    Mode,
    NodeInfo,
    NodeSelf,
    RelayType,
    Settings,
    Stamp,
)
from laps_wire.peering.session import events
from laps_wire.peering.session.dialect import (
    SessionConfig,
    SnsDescription,
    SnsDiff,
    SnsEnd,
    SnsOperation,
    SnsRejection,
    SnsSet,
)
from laps_wire.peering.session.events import (
    Agreement,
    AuthenticationRequired,
    AuthenticationStep,
)
from laps_wire.peering.session.state import Kind, Shape

__all__ = ["CPP_16", "CPP_18", "CppDialect", "CppHandshake", "from_cpp_node", "to_cpp_node"]

_SNS_PRIORITY: Final = 2
"""The priority that the C++ relay writes in every set, and never reads."""
_VERSION: Final = 1
"""The version in the common header."""
_PEER_SETTINGS: Final = Settings(hold_ms=0, max_sns_targets=0xFFFF)
"""The settings of a C++ relay: no hold time, and a 16-bit count of targets."""


def to_cpp_node(info: NodeInfo) -> cpp.NodeInfo:
    """Return node information in the format of the C++ relay, without fields that it lacks."""
    node = info.node
    if node.relay_type is RelayType.CONTROL:
        raise EncodeError("the C++ relay knows no control servers")
    location = node.location or Location(0.0, 0.0)
    return cpp.NodeInfo(
        node_id=node.node_id,
        node_type=cpp.NodeType(node.relay_type),
        contact=(node.contacts[0] if node.contacts else str(node.node_id)).encode(),
        longitude=location.longitude,
        latitude=location.latitude,
        path=tuple(cpp.NodePathItem(item.node_id, item.srtt_us) for item in info.path),
    )


def from_cpp_node(info: cpp.NodeInfo) -> NodeInfo:
    """Return a C++ relay's node information in the format of ``laps-2``, with epoch 0."""
    # The C++ relay sends 0.0, 0.0 if no location is configured, and does not check ranges.
    known = (info.longitude, info.latitude) != (0.0, 0.0)
    sane = abs(info.longitude) <= 180 and abs(info.latitude) <= 90
    return NodeInfo(
        NodeSelf(
            node_id=info.node_id,
            relay_type=RelayType(info.node_type),
            stamp=Stamp(0, 0),
            contacts=(info.contact.decode(errors="backslashreplace"),),
            location=Location(info.longitude, info.latitude) if known and sane else None,
        )
    )


class CppHandshake:
    """One side of a handshake of Connect and ConnectResponse."""

    def __init__(self, config: SessionConfig) -> None:
        self._config = config
        self._local = config.node_info.node.node_id
        self._mode = config.mode
        self._peer: NodeInfo | None = None

    def connect(self) -> cpp.Connect:
        """Return the first message."""
        return cpp.Connect(cpp.PeerMode(self._mode), to_cpp_node(self._config.node_info))

    def on_connect(self, message: cpp.Connect) -> AuthenticationRequired:
        """Return a request to verify: there is no challenge."""
        self._mode = Mode(message.mode)
        return self._ask(message.node_info)

    def on_response(self, message: cpp.ConnectResponse) -> AuthenticationRequired:
        """Return a request to verify; a refusal has another kind."""
        if message.node_info is None:
            raise ProtocolViolation("an acceptance without node information")
        return self._ask(message.node_info)

    def respond(self, mode: Mode, direction: Direction, evidence: Evidence) -> cpp.ConnectResponse:
        """Return the acceptance to send."""
        if mode is not self._mode or direction is not Direction.BIDIRECTIONAL:
            raise StateError(
                f"a C++ relay can only be granted what it asked for: {self._mode.name}"
            )
        if evidence != NO_EVIDENCE:
            raise StateError("a C++ relay takes no proof")
        return cpp.ConnectResponse(cpp.ConnectError.NONE, to_cpp_node(self._config.node_info))

    def transcript(self, mode: Mode, direction: Direction, evidence: Evidence) -> bytes:  # noqa: ARG002
        """Return no bytes: the C++ relay has no signatures."""
        return b""

    def on_challenge(self, message: Any) -> AuthenticationRequired:
        """Raise ``ProtocolViolation``: the C++ relay has no such message."""
        raise ProtocolViolation(f"{type(message).__name__} is unknown to the C++ relay")

    on_proof = on_challenge

    def prove(self, mode: Mode, direction: Direction, evidence: Evidence) -> Any:  # noqa: ARG002
        """Raise ``StateError``: the C++ relay has no proofs."""
        raise StateError("a C++ relay asks for no proof")

    def agreement(self) -> Agreement:
        """Return the agreement."""
        if self._peer is None:
            raise StateError("the handshake has not come that far")
        return Agreement(
            mode=self._mode,
            direction=Direction.BIDIRECTIONAL,
            peer=self._peer,
            peer_settings=_PEER_SETTINGS,
            version=_VERSION,
        )

    def _ask(self, peer: cpp.NodeInfo) -> AuthenticationRequired:
        if peer.node_id == self._local:
            raise NodeIdConflictError(f"the peer has our own node ID {self._local}")
        self._peer = from_cpp_node(peer)
        return AuthenticationRequired(
            step=AuthenticationStep.VERIFY,
            peer=peer.node_id,
            peer_info=self._peer,
            mode=self._mode,
            direction=Direction.BIDIRECTIONAL,
            evidence=NO_EVIDENCE,
        )


# Messages

_KINDS: Final[dict[type, Kind]] = {
    cpp.Connect: Kind.CONNECT,
    cpp.ConnectResponse: Kind.RESPONSE,
    cpp.NodeInfoAdvertise: Kind.NODE,
    cpp.NodeInfoWithdrawn: Kind.NODE,
    cpp.AnnounceInfoAdvertised: Kind.ANNOUNCE,
    cpp.AnnounceInfoWithdrawn: Kind.ANNOUNCE,
    cpp.SubscribeInfoAdvertised: Kind.SUBSCRIBE,
    cpp.SubscribeInfoWithdrawn: Kind.SUBSCRIBE,
    cpp.SubscribeNodeSetAdvertised: Kind.SNS,
    cpp.SubscribeNodeSetWithdrawn: Kind.SNS,
    cpp.UnknownMessage: Kind.IGNORED,
}

_EVENTS: Final[dict[type, Callable[[Any], events.Event]]] = {
    cpp.ConnectResponse: lambda m: events.Refused(
        code=_CODES.get(m.error, CloseCode.INTERNAL_ERROR), reason=f"C++ relay error {m.error}"
    ),
    cpp.NodeInfoAdvertise: lambda m: events.NodesAdvertised(nodes=(m.node_info,)),
    cpp.NodeInfoWithdrawn: lambda m: events.NodesWithdrawn(nodes=(m.node_info.node_id,)),
    cpp.AnnounceInfoAdvertised: lambda m: events.AnnouncesAdvertised(announces=(m.info,)),
    cpp.AnnounceInfoWithdrawn: lambda m: events.AnnouncesWithdrawn(announces=(m.info,)),
    cpp.SubscribeInfoAdvertised: lambda m: events.SubscribesAdvertised(subscribes=(m.info,)),
    cpp.SubscribeInfoWithdrawn: lambda m: events.SubscribesWithdrawn(subscribes=(m.info,)),
}

_CODES: Final[dict[int, CloseCode]] = {cpp.ConnectError.NOT_AUTHORIZED: CloseCode.NOT_AUTHORIZED}


@dataclass(frozen=True, slots=True)
class CppDialect:
    """The protocol of one of the two builds of the C++ relay."""

    build: cpp.Build
    shape: Shape = Shape.PLAIN
    single_stream: bool = True
    single_messages: bool = True
    checks_types: bool = False
    first_sns_id: int = 2
    ordered_sns: bool = False

    @property
    def alpn(self) -> str:
        """The ALPN of the MoQT draft that the relay was built for."""
        return self.build.alpn

    def handshake(self, config: SessionConfig) -> CppHandshake:
        """Begin a handshake."""
        return CppHandshake(config)

    def decode(self, data: bytes, pos: int, max_size: int) -> tuple[cpp.Incoming, int]:  # noqa: ARG002
        """Return the message at ``pos`` of a stream's bytes; ``cpp.decode`` limits its size."""
        return cpp.decode(data, self.build, pos=pos)

    def encode(self, message: cpp.Incoming, max_size: int) -> bytes:  # noqa: ARG002
        """Return a message as bytes."""
        return cpp.encode(message, self.build)

    def kind(self, message: Any) -> Kind | None:
        """Return the kind of a message; a response with an error is a refusal."""
        if isinstance(message, cpp.ConnectResponse) and message.error != cpp.ConnectError.NONE:
            return Kind.REFUSED
        return _KINDS.get(type(message))

    def event(self, now: float, message: Any) -> events.Event | None:  # noqa: ARG002
        """Return the event for a message that has no other effect."""
        make = _EVENTS.get(type(message))
        return None if make is None else make(message)

    # The session's own messages, most of which the C++ relay does not have

    def refusal(
        self,
        code: int,
        reason: str,  # noqa: ARG002
        retry_after_ms: int,  # noqa: ARG002
        redirect: tuple[str, ...],  # noqa: ARG002
    ) -> cpp.ConnectResponse:
        """Return ConnectResponse with an error; it has no field for the rest."""
        denied = code == CloseCode.NOT_AUTHORIZED
        error = cpp.ConnectError.NOT_AUTHORIZED if denied else cpp.ConnectError.CONNECT_ERROR
        return cpp.ConnectResponse(error, None)

    def keepalive(self) -> None:
        """Return None: QUIC's own keep-alive is used instead."""

    def latch(self, generation: int) -> Any:
        """Raise ``StateError``: the control stream never moves."""
        raise StateError(f"a C++ relay knows no control stream {generation}")

    def generation(self, message: Any) -> None:
        """Return None: the C++ relay has no such message."""

    def drain(self, seconds: float, reason: str, alternates: tuple[str, ...]) -> None:
        """Return None: the C++ relay has no such message."""

    def stay(self) -> None:
        """Return None: the C++ relay has no such message."""

    def sync(self, bases: Bases, *, begin: bool) -> None:
        """Return None: the C++ relay has no such message."""

    # Subscriber node sets

    def read_sns(self, message: Any) -> Sequence[SnsOperation]:
        """Return the operations of a message about sets."""
        if isinstance(message, cpp.SubscribeNodeSetAdvertised):
            return (SnsDescription(message.sns_id, None, message.nodes),)
        return (SnsEnd(message.sns_id),)

    def write_sns(self, steps: Sequence[SnsDiff], now: SnsSet, *, whole: bool) -> list[cpp.Message]:  # noqa: ARG002
        """Return the complete set, also for a change; nothing for a set without targets.

        The C++ relay withdraws a set that has no targets left.
        """
        if not now.ordered:
            return []
        return [cpp.SubscribeNodeSetAdvertised(now.sns_id, _SNS_PRIORITY, now.ordered)]

    def write_sns_end(self, sns_id: int) -> cpp.SubscribeNodeSetWithdrawn:
        """Return the message that ends a set."""
        return cpp.SubscribeNodeSetWithdrawn(sns_id)

    def write_sns_refusal(self, rejection: SnsRejection) -> None:
        """Return None: the C++ relay has no such message, and does not serve the set."""


CPP_16: Final = CppDialect(cpp.DRAFT16)
"""The main branch of the C++ relay."""
CPP_18: Final = CppDialect(cpp.DRAFT18)
"""The draft 18 branch of the C++ relay."""
