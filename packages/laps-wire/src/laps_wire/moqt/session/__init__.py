"""Sans-IO MoQT sessions: both roles, drafts 16 and 18, under one API."""

from __future__ import annotations

from laps_wire.moqt.session.actions import (
    Action,
    CloseSession,
    OpenStream,
    ResetStream,
    SendData,
    StopSending,
    StreamRef,
)
from laps_wire.moqt.session.config import Role, SessionConfig, SessionLimits, Transport
from laps_wire.moqt.session.events import (
    DataStreamOpened,
    Event,
    GoawayReceived,
    NamespaceAdvertised,
    NamespaceWithdrawn,
    PeerBlocked,
    PublishEnded,
    RequestAccepted,
    RequestCancelled,
    RequestGoaway,
    RequestReceived,
    RequestRefused,
    RequestRejected,
    RequestsAllowed,
    SetupReceived,
    Terminated,
    TrackBlocked,
    UpdateAccepted,
    UpdateReceived,
    UpdateRejected,
)
from laps_wire.moqt.session.ids import RequestsBlockedError
from laps_wire.moqt.session.session import Session
from laps_wire.moqt.session.state import Kind, State
from laps_wire.moqt.session.tokens import AuthToken

__all__ = [
    "Action",
    "AuthToken",
    "CloseSession",
    "DataStreamOpened",
    "Event",
    "GoawayReceived",
    "Kind",
    "NamespaceAdvertised",
    "NamespaceWithdrawn",
    "OpenStream",
    "PeerBlocked",
    "PublishEnded",
    "RequestAccepted",
    "RequestCancelled",
    "RequestGoaway",
    "RequestReceived",
    "RequestRefused",
    "RequestRejected",
    "RequestsAllowed",
    "RequestsBlockedError",
    "ResetStream",
    "Role",
    "SendData",
    "Session",
    "SessionConfig",
    "SessionLimits",
    "SetupReceived",
    "State",
    "StopSending",
    "StreamRef",
    "Terminated",
    "TrackBlocked",
    "Transport",
    "UpdateAccepted",
    "UpdateReceived",
    "UpdateRejected",
]
