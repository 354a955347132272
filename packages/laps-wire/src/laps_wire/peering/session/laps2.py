"""The ``laps-2`` dialect: its handshake, and its messages as a session sees them.

The handshake offers, chooses, asks for and grants::

    offered by the dialler   CONNECT            versions  features  schemes  mode  direction
    chosen by the listener   CHALLENGE          highest   common    common
    asked for                PROOF                                           <=    <=
    granted                  CONNECT_RESPONSE                                <=    <=

Each step can only narrow the previous one (``<=``): BOTH may become CONTROL or DATA, and
bidirectional may become unidirectional. A step that adds something is a violation. An offer without
a common choice is refused with the code of the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from laps_wire.errors import EncodeError, ProtocolViolation, StateError
from laps_wire.nodeid import NodeId
from laps_wire.peering import laps2
from laps_wire.peering.errors import (
    HashMismatchError,
    ModeRefusedError,
    NodeIdConflictError,
    NotAuthorizedError,
    VersionMismatchError,
    WrongNodeError,
)
from laps_wire.peering.laps2 import (
    AuthScheme,
    Bases,
    Direction,
    Evidence,
    Mode,
    RelayType,
    Settings,
)
from laps_wire.peering.laps2.forwarding import FIRST_SNS_ID
from laps_wire.peering.session import events
from laps_wire.peering.session.dialect import (
    SessionConfig,
    SnsChange,
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
from laps_wire.peering.session.state import Kind, Role, Shape, check_relay_types

__all__ = ["LAPS2", "NO_NODE_ID", "Laps2Dialect", "Laps2Handshake"]

# The handshake

NO_NODE_ID: Final = NodeId(0)
"""The node ID of every Stub."""

_M = TypeVar("_M")


class Laps2Handshake:
    """One side of a handshake of CONNECT, CHALLENGE, PROOF and CONNECT_RESPONSE."""

    def __init__(self, config: SessionConfig) -> None:
        self._config = config
        self._local = config.node_info.node
        if (self._local.node_id == NO_NODE_ID) is not (self._local.relay_type is RelayType.STUB):
            raise EncodeError("node ID 0 is for Stubs, and all Stubs have it")
        self._connect: laps2.Connect | None = None
        self._challenge: laps2.Challenge | None = None
        self._proof: laps2.Proof | None = None
        self._response: laps2.ConnectResponse | None = None
        self._peer_settings = Settings()

    # The dialler

    def connect(self) -> laps2.Connect:
        """Return CONNECT."""
        config = self._config
        self._connect = laps2.Connect(
            versions=config.versions,
            features=config.features,
            mode=config.mode,
            direction=config.direction,
            challenge=config.challenge,
            schemes=config.schemes,
            node_info=config.node_info,
            parameters=config.settings.to_parameters(),
        )
        return self._connect

    def on_challenge(self, message: laps2.Challenge) -> AuthenticationRequired:
        """Check the listener's choice, and return a request to sign."""
        connect = _there(self._connect)
        self._check_peer_id(message.node_id)
        expected = self._config.settings.expected_node
        if expected is not None and message.node_id != expected:
            raise WrongNodeError(f"reached node {message.node_id} instead of the one expected")
        if message.version not in connect.versions:
            raise ProtocolViolation(f"CHALLENGE chose version {message.version:#x}: not offered")
        if not set(message.features) <= set(connect.features):
            raise ProtocolViolation("CHALLENGE has features that CONNECT does not have")
        if not set(message.schemes) <= set(connect.schemes):
            raise ProtocolViolation("CHALLENGE has schemes that CONNECT does not have")
        self._challenge = message
        return AuthenticationRequired(
            step=AuthenticationStep.SIGN,
            peer=message.node_id,
            peer_info=None,
            mode=connect.mode,
            direction=connect.direction,
            schemes=message.schemes,
        )

    def prove(self, mode: Mode, direction: Direction, evidence: Evidence) -> laps2.Proof:
        """Return PROOF."""
        connect, challenge = _there(self._connect), _there(self._challenge)
        _check_part(connect.mode, connect.direction, mode, direction, StateError, "asked for")
        if evidence.scheme not in challenge.schemes:
            raise StateError(f"the listener does not accept scheme {evidence.scheme}")
        self._proof = laps2.Proof(mode, direction, evidence)
        return self._proof

    def on_response(self, message: laps2.ConnectResponse) -> AuthenticationRequired:
        """Check what the listener granted, and return a request to verify."""
        challenge, proof = _there(self._challenge), _there(self._proof)
        if message.node_info.node.node_id != challenge.node_id:
            raise ProtocolViolation("CONNECT_RESPONSE and CHALLENGE have different node IDs")
        _check_part(
            proof.mode,
            proof.direction,
            message.mode,
            message.direction,
            ProtocolViolation,
            "granted",
        )
        self._check_listener_scheme(message.evidence, NotAuthorizedError)
        self._check_types(message.node_info.node.relay_type, message.mode, message.direction)
        self._take_settings(Settings.from_parameters(message.parameters))
        self._response = message
        return AuthenticationRequired(
            step=AuthenticationStep.VERIFY,
            peer=challenge.node_id,
            peer_info=message.node_info,
            mode=message.mode,
            direction=message.direction,
            evidence=message.evidence,
            transcript=self._listener_transcript(message),
            features=frozenset(challenge.features),
        )

    # The listener

    def on_connect(self, message: laps2.Connect) -> laps2.Challenge:
        """Choose from the dialler's offer, and return CHALLENGE."""
        config, node = self._config, message.node_info.node
        self._check_peer_id(node.node_id, node.relay_type)
        settings = Settings.from_parameters(message.parameters)
        if settings.expected_node not in (None, self._local.node_id):
            raise WrongNodeError(f"this is node {self._local.node_id}, not the one expected")
        versions = set(message.versions) & set(config.versions)
        if not versions:
            raise VersionMismatchError("no protocol version in common")
        schemes = set(message.schemes) & set(config.schemes)
        if not schemes:
            raise NotAuthorizedError("no authentication scheme in common")
        mode = message.mode
        if mode is Mode.BOTH and RelayType.CONTROL in (node.relay_type, self._local.relay_type):
            mode = Mode.CONTROL  # the most that the two can have; PROOF may still ask for it
        self._check_types(node.relay_type, mode, message.direction)
        self._take_settings(settings)
        self._connect = message
        self._challenge = laps2.Challenge(
            version=max(versions),
            features=tuple(sorted(set(message.features) & set(config.features))),
            node_id=self._local.node_id,
            challenge=config.challenge,
            schemes=tuple(sorted(schemes)),
        )
        return self._challenge

    def on_proof(self, message: laps2.Proof) -> AuthenticationRequired:
        """Check what the dialler asks for, and return a request to verify."""
        connect, challenge = _there(self._connect), _there(self._challenge)
        _check_part(
            connect.mode,
            connect.direction,
            message.mode,
            message.direction,
            ProtocolViolation,
            "asked for",
        )
        if message.evidence.scheme not in challenge.schemes:
            raise NotAuthorizedError(f"scheme {message.evidence.scheme} was not accepted")
        self._check_types(connect.node_info.node.relay_type, message.mode, message.direction)
        self._proof = message
        return AuthenticationRequired(
            step=AuthenticationStep.VERIFY,
            peer=connect.node_info.node.node_id,
            peer_info=connect.node_info,
            mode=message.mode,
            direction=message.direction,
            evidence=message.evidence,
            transcript=laps2.dialler_transcript(
                connect, challenge, message, self._config.spki_hash
            ),
            features=frozenset(challenge.features),
        )

    def respond(
        self, mode: Mode, direction: Direction, evidence: Evidence
    ) -> laps2.ConnectResponse:
        """Return CONNECT_RESPONSE."""
        proof = _there(self._proof)
        _check_part(proof.mode, proof.direction, mode, direction, StateError, "granted")
        self._check_listener_scheme(evidence, StateError)
        try:
            self._check_types(_there(self._connect).node_info.node.relay_type, mode, direction)
        except ModeRefusedError as error:
            raise StateError(str(error)) from None
        self._response = self._answer(mode, direction, evidence)
        return self._response

    def _answer(
        self, mode: Mode, direction: Direction, evidence: Evidence
    ) -> laps2.ConnectResponse:
        config = self._config
        return laps2.ConnectResponse(
            mode, direction, config.node_info, evidence, config.settings.to_parameters()
        )

    # Both

    def transcript(self, mode: Mode, direction: Direction, evidence: Evidence) -> bytes:
        """Return the bytes that this side signs for ``evidence``."""
        connect, challenge = _there(self._connect), _there(self._challenge)
        if self._config.role is Role.LISTENER:
            return self._listener_transcript(self._answer(mode, direction, evidence))
        proof = laps2.Proof(mode, direction, evidence)
        return laps2.dialler_transcript(connect, challenge, proof, self._config.spki_hash)

    def agreement(self) -> Agreement:
        """Return the agreement."""
        challenge, response = _there(self._challenge), _there(self._response)
        listener = self._config.role is Role.LISTENER
        return Agreement(
            mode=response.mode,
            direction=response.direction,
            peer=_there(self._connect).node_info if listener else response.node_info,
            peer_settings=self._peer_settings,
            version=challenge.version,
            features=frozenset(challenge.features),
            hold_seconds=self._config.settings.hold_with(self._peer_settings) / 1000,
        )

    def _listener_transcript(self, response: laps2.ConnectResponse) -> bytes:
        connect, challenge = _there(self._connect), _there(self._challenge)
        return laps2.listener_transcript(connect, challenge, response, self._config.spki_hash)

    def _check_peer_id(self, node_id: NodeId, relay_type: RelayType | None = None) -> None:
        """Check that the peer has node ID 0 if and only if it is a Stub, and not the own ID.

        A Stub is part of its parent (docs/spec/laps-2.md, 4.5).
        """
        if (node_id == NO_NODE_ID) is not (relay_type is RelayType.STUB):
            raise ProtocolViolation(f"node ID {node_id}: 0 is for Stubs, and all Stubs have it")
        if node_id == self._local.node_id:
            raise NodeIdConflictError(f"the peer has our own node ID {node_id}")

    def _check_listener_scheme(
        self, evidence: Evidence, error: type[NotAuthorizedError | StateError]
    ) -> None:
        """Raise ``error`` unless the dialler offered the scheme, or it is NONE or TLS."""
        offered = _there(self._connect).schemes
        if evidence.scheme not in (*offered, AuthScheme.NONE, AuthScheme.TLS):
            raise error(f"the listener's scheme {evidence.scheme} was not offered")

    def _check_types(self, peer: RelayType, mode: Mode, direction: Direction) -> None:
        listener = self._config.role is Role.LISTENER
        check_relay_types(
            dialler=peer if listener else self._local.relay_type,
            listener=self._local.relay_type if listener else peer,
            mode=mode,
            direction=direction,
        )

    def _take_settings(self, settings: Settings) -> None:
        own = self._config.settings
        if settings.hash_scheme != own.hash_scheme:
            raise HashMismatchError(
                f"names are hashed with scheme {settings.hash_scheme}, here with {own.hash_scheme}"
            )
        if None not in (settings.hash_check, own.hash_check) and (
            settings.hash_check != own.hash_check
        ):
            raise HashMismatchError("names are hashed with another key")
        self._peer_settings = settings


def _there(message: _M | None) -> _M:
    """Return a message that the state machine guarantees; raise if it is absent."""
    if message is None:
        raise StateError("the handshake has not come that far")
    return message


def _check_part(
    mode: Mode,
    direction: Direction,
    part: Mode,
    part_direction: Direction,
    error: type[ProtocolViolation | StateError],
    what: str,
) -> None:
    """Raise ``error`` if a step of the handshake widens mode or direction."""
    if not mode.allows(part):
        raise error(f"mode {part.name} {what} after {mode.name}")
    if part_direction > direction:
        raise error(f"direction {part_direction.name} {what} after {direction.name}")


# The dialect

_KINDS: Final[dict[type, Kind]] = {
    laps2.Connect: Kind.CONNECT,
    laps2.Challenge: Kind.CHALLENGE,
    laps2.Proof: Kind.PROOF,
    laps2.ConnectResponse: Kind.RESPONSE,
    laps2.ConnectRefused: Kind.REFUSED,
    laps2.ControlLatch: Kind.LATCH,
    laps2.Keepalive: Kind.KEEPALIVE,
    laps2.Drain: Kind.DRAIN,
    laps2.Stay: Kind.STAY,
    laps2.NodeAdvertise: Kind.NODE,
    laps2.NodeWithdraw: Kind.NODE,
    laps2.AnnounceAdvertise: Kind.ANNOUNCE,
    laps2.AnnounceWithdraw: Kind.ANNOUNCE,
    laps2.SubscribeAdvertise: Kind.SUBSCRIBE,
    laps2.SubscribeWithdraw: Kind.SUBSCRIBE,
    laps2.SubscribeResponse: Kind.SUBSCRIBE_RESPONSE,
    laps2.SyncRequest: Kind.SYNC_REQUEST,
    laps2.SyncBegin: Kind.SYNC,
    laps2.SyncEnd: Kind.SYNC,
    laps2.SnsAdvertise: Kind.SNS,
    laps2.SnsUpdate: Kind.SNS,
    laps2.SnsWithdraw: Kind.SNS,
    laps2.SnsRefused: Kind.SNS_REFUSED,
    laps2.FetchRequest: Kind.FETCH,
    laps2.FetchResponse: Kind.FETCH,
    laps2.FetchCancel: Kind.FETCH,
    laps2.Position: Kind.REPAIR,
    laps2.Resume: Kind.REPAIR,
    laps2.ResumeResponse: Kind.REPAIR,
    laps2.Probe: Kind.PROBE,
    laps2.ProbeResponse: Kind.PROBE,
    laps2.UnknownMessage: Kind.IGNORED,
}

_EVENTS: Final[dict[type, Callable[[Any], events.Event]]] = {
    laps2.ConnectRefused: lambda m: events.Refused(
        code=m.code, reason=m.reason, retry_after_ms=m.retry_after_ms, redirect=m.redirect
    ),
    laps2.NodeAdvertise: lambda m: events.NodesAdvertised(nodes=m.nodes),
    laps2.NodeWithdraw: lambda m: events.NodesWithdrawn(nodes=m.nodes),
    laps2.AnnounceAdvertise: lambda m: events.AnnouncesAdvertised(announces=m.announces),
    laps2.AnnounceWithdraw: lambda m: events.AnnouncesWithdrawn(announces=m.announces),
    laps2.SubscribeAdvertise: lambda m: events.SubscribesAdvertised(subscribes=m.subscribes),
    laps2.SubscribeWithdraw: lambda m: events.SubscribesWithdrawn(subscribes=m.subscribes),
    laps2.SubscribeResponse: lambda m: events.SubscribeAnswered(response=m),
    laps2.SyncRequest: lambda m: events.SyncRequested(bases=m.bases),
    laps2.SyncBegin: lambda m: events.SyncBegan(bases=m.bases),
    laps2.SyncEnd: lambda m: events.SyncEnded(bases=m.bases),
    laps2.SnsRefused: lambda m: events.SnsRefusedByPeer(
        sns_id=m.sns_id, version=m.set_version, code=m.code, targets=m.targets
    ),
    laps2.FetchRequest: lambda m: events.FetchReceived(message=m),
    laps2.FetchResponse: lambda m: events.FetchReceived(message=m),
    laps2.FetchCancel: lambda m: events.FetchReceived(message=m),
    laps2.Position: lambda m: events.RepairReceived(message=m),
    laps2.Resume: lambda m: events.RepairReceived(message=m),
    laps2.ResumeResponse: lambda m: events.RepairReceived(message=m),
    laps2.Probe: lambda m: events.ProbeReceived(probe=m),
    laps2.ProbeResponse: lambda m: events.ProbeAnswered(response=m),
}


class Laps2Dialect:
    """The ``laps-2`` protocol (docs/spec/laps-2.md)."""

    alpn = laps2.ALPN
    shape = Shape.PROVED
    single_stream = False
    single_messages = False
    checks_types = True
    first_sns_id = FIRST_SNS_ID
    ordered_sns = True

    def handshake(self, config: SessionConfig) -> Laps2Handshake:
        """Begin a handshake."""
        return Laps2Handshake(config)

    def decode(self, data: bytes, pos: int, max_size: int) -> tuple[laps2.Incoming, int]:
        """Return the message at ``pos`` of a stream's bytes, and the position after it."""
        return laps2.decode(data, pos=pos, max_size=max_size)

    def encode(self, message: laps2.Incoming, max_size: int) -> bytes:
        """Return a message as bytes."""
        return laps2.encode(message, max_size=max_size)

    def kind(self, message: Any) -> Kind | None:
        """Return the kind of a message."""
        return _KINDS.get(type(message))

    def event(self, now: float, message: Any) -> events.Event | None:
        """Return the event for a message that has no other effect."""
        make = _EVENTS.get(type(message))
        if make is not None:
            return make(message)
        if isinstance(message, laps2.Drain):
            return events.Draining(
                deadline=now + message.deadline_ms / 1000,
                reason=message.reason,
                alternates=message.alternates,
            )
        return events.Staying() if isinstance(message, laps2.Stay) else None

    # The session's own messages

    def refusal(
        self, code: int, reason: str, retry_after_ms: int, redirect: tuple[str, ...]
    ) -> laps2.ConnectRefused:
        """Return CONNECT_REFUSED."""
        return laps2.ConnectRefused(code, reason, retry_after_ms, redirect)

    def keepalive(self) -> laps2.Keepalive:
        """Return KEEPALIVE."""
        return laps2.Keepalive()

    def latch(self, generation: int) -> laps2.ControlLatch:
        """Return CONTROL_LATCH."""
        return laps2.ControlLatch(generation)

    def generation(self, message: Any) -> int | None:
        """Return the generation of a CONTROL_LATCH; None for any other message."""
        return message.generation if isinstance(message, laps2.ControlLatch) else None

    def drain(self, seconds: float, reason: str, alternates: tuple[str, ...]) -> laps2.Drain:
        """Return DRAIN."""
        return laps2.Drain(max(0, round(seconds * 1000)), reason, alternates)

    def stay(self) -> laps2.Stay:
        """Return STAY."""
        return laps2.Stay()

    def sync(self, bases: Bases, *, begin: bool) -> laps2.SyncBegin | laps2.SyncEnd:
        """Return SYNC_BEGIN or SYNC_END."""
        return laps2.SyncBegin(bases) if begin else laps2.SyncEnd(bases)

    # Subscriber node sets

    def read_sns(self, message: Any) -> Sequence[SnsOperation]:
        """Return the operations of a message about sets."""
        if isinstance(message, laps2.SnsAdvertise):
            return (
                SnsDescription(
                    message.sns_id,
                    message.set_version,
                    message.targets,
                    message.hops,
                    message.scope,
                ),
            )
        if isinstance(message, laps2.SnsUpdate):
            return (SnsChange(message.sns_id, message.set_version, message.add, message.remove),)
        return tuple(SnsEnd(sns_id) for sns_id in message.sns_ids)

    def write_sns(
        self, steps: Sequence[SnsDiff], now: SnsSet, *, whole: bool
    ) -> list[laps2.Message]:
        """Return the messages that describe or change a set, one for each step."""
        messages: list[laps2.Message] = [
            laps2.SnsUpdate(step.sns_id, step.version, step.added, step.removed) for step in steps
        ]
        if whole:
            first = steps[0]
            messages[0] = laps2.SnsAdvertise(
                first.sns_id,
                first.version,
                now.hops,
                first.added,
                laps2.scope_parameters(now.scope),
            )
        return messages

    def write_sns_end(self, sns_id: int) -> laps2.SnsWithdraw:
        """Return SNS_WITHDRAW."""
        return laps2.SnsWithdraw((sns_id,))

    def write_sns_refusal(self, rejection: SnsRejection) -> laps2.SnsRefused:
        """Return SNS_REFUSED."""
        return laps2.SnsRefused(
            rejection.sns_id, rejection.version, rejection.code, rejection.targets
        )


LAPS2: Final = Laps2Dialect()
"""The dialect of the ALPN ``laps-2``."""
