"""The handshake of ``laps-2``, one side of it: what is offered, chosen, asked for and granted.

::

    offered by the dialler   CONNECT            versions  features  schemes  mode  direction
    chosen by the listener   CHALLENGE          highest   common    common
    asked for                PROOF                                           <=    <=
    granted                  CONNECT_RESPONSE                                <=    <=

Each step can only take away (``<=``): BOTH may become CONTROL or DATA, and bidirectional may become
unidirectional. A step that adds something is a violation. What does not fit together is refused
with the code that says why.
"""

from __future__ import annotations

from typing import Final, TypeVar

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
from laps_wire.peering.laps2 import AuthScheme, Direction, Evidence, Mode, RelayType, Settings
from laps_wire.peering.session.dialect import SessionConfig
from laps_wire.peering.session.events import (
    Agreement,
    AuthenticationRequired,
    AuthenticationStep,
)
from laps_wire.peering.session.rights import check_relay_types
from laps_wire.peering.session.state import Role

__all__ = ["NO_NODE_ID", "Laps2Handshake"]

NO_NODE_ID: Final = NodeId(0)
"""What a Stub has in the place of a node ID."""

_M = TypeVar("_M")


class Laps2Handshake:
    """CONNECT, CHALLENGE, PROOF, CONNECT_RESPONSE: one side of it."""

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
        """The first message."""
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
        """Check the listener's choice, and ask the application for its proof."""
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
        """The proof to send."""
        connect, challenge = _there(self._connect), _there(self._challenge)
        _check_part(connect.mode, connect.direction, mode, direction, StateError, "asked for")
        if evidence.scheme not in challenge.schemes:
            raise StateError(f"the listener does not accept scheme {evidence.scheme}")
        self._proof = laps2.Proof(mode, direction, evidence)
        return self._proof

    def on_response(self, message: laps2.ConnectResponse) -> AuthenticationRequired:
        """Check what the listener granted, and ask the application to verify it."""
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
        """Choose from what the dialler offers."""
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
        """Check what the dialler asks for, and ask the application to verify it."""
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
        """The acceptance to send."""
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
        """What this side has to sign for that evidence."""
        connect, challenge = _there(self._connect), _there(self._challenge)
        if self._config.role is Role.LISTENER:
            return self._listener_transcript(self._answer(mode, direction, evidence))
        proof = laps2.Proof(mode, direction, evidence)
        return laps2.dialler_transcript(connect, challenge, proof, self._config.spki_hash)

    def agreement(self) -> Agreement:
        """What was agreed on."""
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
        """Only Stubs have no node ID: they are part of their parent (docs/spec/laps-2.md, 4.5)."""
        if (node_id == NO_NODE_ID) is not (relay_type is RelayType.STUB):
            raise ProtocolViolation(f"node ID {node_id}: 0 is for Stubs, and all Stubs have it")
        if node_id == self._local.node_id:
            raise NodeIdConflictError(f"the peer has our own node ID {node_id}")

    def _check_listener_scheme(
        self, evidence: Evidence, error: type[NotAuthorizedError | StateError]
    ) -> None:
        """What the dialler can verify, or nothing beyond the TLS certificate."""
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
    """The message that the state machine has seen to be there."""
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
    """Each step of the handshake may only take away."""
    if not mode.allows(part):
        raise error(f"mode {part.name} {what} after {mode.name}")
    if part_direction > direction:
        raise error(f"direction {part_direction.name} {what} after {direction.name}")
