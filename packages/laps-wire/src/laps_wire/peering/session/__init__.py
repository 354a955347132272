"""Sans-IO peering sessions: one class, two dialects.

::

        transport                                            application
    handle_* |   ^ poll_transmit, poll_timeout     commands |   ^ poll_events
             v   |                                          v   |
    +-------------------------------------------------------------------+
    | PeeringSession (session)                                          |
    |   control_streams   the control stream, and what is sent on it    |
    |   dialect           bytes <-> messages, handshake: laps2 or cpp   |
    |   state             which message is allowed: states and rights   |
    |   forwarding        subscriber node sets, data before its set     |
    +-------------------------------------------------------------------+
    arbitration           which of two connections is the control connection

Everything that other packages need is exported here.

``docs/spec/laps-2.md`` and ``docs/spec/laps-cpp.md`` specify the messages of a session.
``docs/explanation/peering-session.md`` explains how it is built.
"""

from laps_wire.peering.session.arbitration import Arbiter, Claim, Grant, Verdict, grants_control
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
    Drop,
    Dropped,
    Ending,
    Established,
    Event,
    FetchReceived,
    NodesAdvertised,
    NodesWithdrawn,
    ProbeAnswered,
    ProbeReceived,
    Refused,
    RepairReceived,
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
from laps_wire.peering.session.forwarding import ForwardingState, SnsStanding
from laps_wire.peering.session.laps2 import LAPS2, Laps2Dialect
from laps_wire.peering.session.session import PeeringSession
from laps_wire.peering.session.state import Kind, Rights, Role, State

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
    "FetchReceived",
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
    "RepairReceived",
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
