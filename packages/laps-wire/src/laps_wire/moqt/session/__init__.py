"""MoQT sessions without I/O: both roles, drafts 16 and 18, one API.

:class:`Session` is one end of a session. Bytes and commands go in; events and actions come out::

       application                                        transport
    commands |   ^ events                     receive_* |   ^ actions
             v   |                                      v   |
    +--------------------------------------------------------------+
    | Session (session)       commands, getters, polls             |
    |    |            Inbound (session)  bytes -> messages         |
    |    |               |                                         |
    |    |            Shape16, Shape18 (shapes)  message <-> stream|
    |    v               v                                         |
    |  Core (core)            rules of both drafts, ends           |
    |    tables               streams, requests, rejected requests |
    |    state                transition tables, request IDs       |
    |    tokens               authorization tokens                 |
    |    events               configuration, actions, events       |
    +--------------------------------------------------------------+

Everything that other packages need is exported here: :class:`Session` with its
:class:`SessionConfig`, the actions, the events, :class:`Kind` and :class:`State`. A session whose
two ends are in one process needs no bytes: it is built from :class:`Request`, :class:`Requests`,
:class:`Signal` and :func:`refusal`.

The package implements moq-transport-16, sections 3, 5 and 9, and moq-transport-18, sections 3, 5
and 10. ``docs/explanation/moqt-session.md`` explains it; ``docs/spec/moqt.md`` lists our choices.
"""

from __future__ import annotations

from laps_wire.moqt.session.events import (
    Action,
    CloseSession,
    DataStreamOpened,
    Event,
    GoawayReceived,
    NamespaceAdvertised,
    NamespaceWithdrawn,
    OkMessage,
    OpenStream,
    PeerBlocked,
    PublishEnded,
    RequestAccepted,
    RequestCancelled,
    RequestGoaway,
    RequestMessage,
    RequestReceived,
    RequestRefused,
    RequestRejected,
    RequestsAllowed,
    ResetStream,
    Role,
    SendData,
    SessionConfig,
    SessionLimits,
    SetupReceived,
    StopSending,
    StreamRef,
    Terminated,
    TrackBlocked,
    Transport,
    UpdateAccepted,
    UpdateReceived,
    UpdateRejected,
)
from laps_wire.moqt.session.session import Session
from laps_wire.moqt.session.state import Kind, RequestsBlockedError, Signal, State
from laps_wire.moqt.session.tables import Request, Requests, is_reserved, namespace_of, refusal
from laps_wire.moqt.session.tokens import AuthToken, TokenCache

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
    "OkMessage",
    "OpenStream",
    "PeerBlocked",
    "PublishEnded",
    "Request",
    "RequestAccepted",
    "RequestCancelled",
    "RequestGoaway",
    "RequestMessage",
    "RequestReceived",
    "RequestRefused",
    "RequestRejected",
    "Requests",
    "RequestsAllowed",
    "RequestsBlockedError",
    "ResetStream",
    "Role",
    "SendData",
    "Session",
    "SessionConfig",
    "SessionLimits",
    "SetupReceived",
    "Signal",
    "State",
    "StopSending",
    "StreamRef",
    "Terminated",
    "TokenCache",
    "TrackBlocked",
    "Transport",
    "UpdateAccepted",
    "UpdateReceived",
    "UpdateRejected",
    "is_reserved",
    "namespace_of",
    "refusal",
]
