"""Sans-IO peering sessions: one class, two dialects.

::

        transport                                            application
    handle_* |   ^ poll_transmit, poll_timeout     commands |   ^ poll_events
             v   |                                          v   |
    +-------------------------------------------------------------------+
    | PeeringSession (session)                                          |
    |   control_streams   which stream carries control messages         |
    |   dialect           bytes <-> messages: laps2 or cpp              |
    |   state, rights     may this message come now, from this side     |
    |   handshake         offers, choices, proofs of laps-2             |
    |   forwarding        subscriber node sets: sns, unknown            |
    |   outbox            what is to be sent, by stream                 |
    +-------------------------------------------------------------------+
    arbitration           which of two connections is the control connection

Everything that other packages need is exported here.

``docs/spec/laps-2.md`` and ``docs/spec/laps-cpp.md`` specify the messages of a session.
``docs/explanation/peering-session.md`` explains how it is built.
"""

from laps_wire.peering.session.arbitration import Arbiter, Claim, Grant, Verdict, grants_control
from laps_wire.peering.session.control_streams import Ending
from laps_wire.peering.session.cpp import CPP_16, CPP_18, CppDialect, to_cpp_node
from laps_wire.peering.session.dialect import HANDSHAKE_SECONDS, Dialect, SessionConfig
from laps_wire.peering.session.events import (
    Agreement,
    AnnouncesAdvertised,
    AnnouncesWithdrawn,
    AuthenticationRequired,
    AuthenticationStep,
    Closed,
    ConnectionClose,
    ControlStreamLost,
    ControlStreamMoved,
    DataDropped,
    Draining,
    Established,
    Event,
    FetchSaid,
    NodesAdvertised,
    NodesWithdrawn,
    ProbeAnswered,
    ProbeReceived,
    Refused,
    SnsAdvertised,
    SnsRefusedByPeer,
    SnsWithdrawn,
    Staying,
    StreamData,
    StreamEnd,
    SubscribeAnswered,
    SubscribesAdvertised,
    SubscribesWithdrawn,
    SyncBegan,
    SyncEnded,
    SyncRequested,
    Transmit,
)
from laps_wire.peering.session.forwarding import ForwardingState
from laps_wire.peering.session.laps2 import LAPS2, Laps2Dialect
from laps_wire.peering.session.rights import Rights
from laps_wire.peering.session.session import PeeringSession
from laps_wire.peering.session.sns import SnsStanding
from laps_wire.peering.session.state import Kind, Role, State
from laps_wire.peering.session.unknown import Drop, Dropped

__all__ = [
    "CPP_16",
    "CPP_18",
    "HANDSHAKE_SECONDS",
    "LAPS2",
    "Agreement",
    "AnnouncesAdvertised",
    "AnnouncesWithdrawn",
    "Arbiter",
    "AuthenticationRequired",
    "AuthenticationStep",
    "Claim",
    "Closed",
    "ConnectionClose",
    "ControlStreamLost",
    "ControlStreamMoved",
    "CppDialect",
    "DataDropped",
    "Dialect",
    "Draining",
    "Drop",
    "Dropped",
    "Ending",
    "Established",
    "Event",
    "FetchSaid",
    "ForwardingState",
    "Grant",
    "Kind",
    "Laps2Dialect",
    "NodesAdvertised",
    "NodesWithdrawn",
    "PeeringSession",
    "ProbeAnswered",
    "ProbeReceived",
    "Refused",
    "Rights",
    "Role",
    "SessionConfig",
    "SnsAdvertised",
    "SnsRefusedByPeer",
    "SnsStanding",
    "SnsWithdrawn",
    "State",
    "Staying",
    "StreamData",
    "StreamEnd",
    "SubscribeAnswered",
    "SubscribesAdvertised",
    "SubscribesWithdrawn",
    "SyncBegan",
    "SyncEnded",
    "SyncRequested",
    "Transmit",
    "Verdict",
    "grants_control",
    "to_cpp_node",
]
