"""The input and output types of a session: configuration, actions for the transport, and events.

**Actions** are the output of ``poll_transmit``. The session cannot know a QUIC stream ID before the
transport has opened the stream. So the session creates a :class:`StreamRef`, and the shell binds an
ID to it::

    session                                 shell
    OpenStream(ref, unidirectional) ----->  stream_id = quic.open(...)
                                    <-----  session.bind_stream(ref, stream_id)
    SendData(ref, data, fin)        ----->  quic.send(session.stream_id(ref), data, fin)

Streams that the peer opened have a ref that is bound from the start. The transport carries out the
actions of one stream in their order; ``OpenStream`` is always the first of its stream.

**Events** are the output of ``poll_events``. Every event is frozen. It names its request by the
Request ID, which is unique in a session: our IDs have one parity, the peer's the other. Events hold
the received message unchanged, beside the values that the session derived from it::

    the session     SetupReceived  GoawayReceived  RequestsAllowed  PeerBlocked  Terminated
    their request   RequestReceived  UpdateReceived  RequestRefused
    our request     RequestAccepted  RequestRejected  UpdateAccepted  UpdateRejected
                    NamespaceAdvertised  NamespaceWithdrawn  TrackBlocked
    either          PublishEnded  RequestCancelled  RequestGoaway
    data            DataStreamOpened
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from laps_wire.moqt.data.types import StreamKind
from laps_wire.moqt.messages import (
    Fetch,
    FetchOk,
    Goaway,
    Publish,
    PublishDone,
    PublishNamespace,
    PublishOk,
    RequestError,
    RequestOk,
    RequestUpdate,
    Subscribe,
    SubscribeNamespace,
    SubscribeOk,
    SubscribeTracks,
    TrackStatus,
)
from laps_wire.moqt.session.tokens import AuthToken
from laps_wire.moqt.setup import NO_OPTIONS, SetupOptions
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace

__all__ = [
    "Action",
    "CloseSession",
    "DataStreamOpened",
    "Event",
    "GoawayReceived",
    "NamespaceAdvertised",
    "NamespaceWithdrawn",
    "OkMessage",
    "OpenStream",
    "PeerBlocked",
    "PublishEnded",
    "RequestAccepted",
    "RequestCancelled",
    "RequestGoaway",
    "RequestMessage",
    "RequestReceived",
    "RequestRefused",
    "RequestRejected",
    "RequestsAllowed",
    "ResetStream",
    "Role",
    "SendData",
    "SessionConfig",
    "SessionLimits",
    "SetupReceived",
    "StopSending",
    "StreamRef",
    "Terminated",
    "TrackBlocked",
    "Transport",
    "UpdateAccepted",
    "UpdateReceived",
    "UpdateRejected",
]

# Configuration


class Role(Enum):
    """The end of the connection: client or server."""

    CLIENT = 0
    SERVER = 1

    @property
    def first_request_id(self) -> int:
        """0 for clients, 1 for servers; also the parity of their request ids."""
        return self.value

    @property
    def peer(self) -> Role:
        """The other end."""
        return Role.SERVER if self is Role.CLIENT else Role.CLIENT


class Transport(Enum):
    """The transport of the session; only native QUIC has PATH and AUTHORITY in SETUP."""

    QUIC = "QUIC"
    WEBTRANSPORT = "WebTransport"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits:
    """Limits on the memory that a peer can use in a session."""

    max_requests: int = 256
    """Open requests of the peer; draft 16 announces it in MAX_REQUEST_ID."""
    max_updates: int = 16
    """Unanswered updates of one request; one more ends the request."""
    max_namespaces: int = 4096
    """Namespaces that the peer may advertise for one SUBSCRIBE_NAMESPACE of ours."""
    max_early_bytes: int = 64 * 1024
    """Bytes on request streams held until SETUP arrives; a stream above it is reset."""
    max_token_cache: int = 8 * 1024
    """MAX_AUTH_TOKEN_CACHE_SIZE: bytes of registered tokens, 16 for each and its value."""
    max_ended: int = 256
    """Ended requests that are remembered, to recognise late messages about them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionConfig:
    """A session's side, transport and limits."""

    draft: Draft
    role: Role
    transport: Transport = Transport.QUIC
    options: SetupOptions = NO_OPTIONS
    """The options of our SETUP; the session sets MAX_REQUEST_ID, MAX_AUTH_TOKEN_CACHE_SIZE."""
    limits: SessionLimits = SessionLimits()
    extensions: frozenset[int] = frozenset()
    """Draft 16: message parameters that ``options.unknown`` negotiates; kept as raw pairs."""


# Actions for the transport


@dataclass(frozen=True, slots=True)
class StreamRef:
    """A stream as the session names it, before and after it has an id."""

    serial: int
    """A number that is unique among all streams of this session."""


@dataclass(frozen=True, slots=True)
class OpenStream:
    """Open a stream and tell the session its id with ``bind_stream``."""

    stream: StreamRef
    unidirectional: bool


@dataclass(frozen=True, slots=True)
class SendData:
    """Send bytes on a stream, in order and reliably."""

    stream: StreamRef
    data: bytes
    fin: bool = False
    """Whether our half of the stream ends after ``data``."""


@dataclass(frozen=True, slots=True)
class ResetStream:
    """Reset our half of a stream; unsent data can be discarded."""

    stream: StreamRef
    code: int


@dataclass(frozen=True, slots=True)
class StopSending:
    """Ask the peer to reset its half of a stream."""

    stream: StreamRef
    code: int


@dataclass(frozen=True, slots=True)
class CloseSession:
    """Close the connection (CONNECTION_CLOSE or CLOSE_WEBTRANSPORT_SESSION); always the last."""

    code: int
    reason: str


Action: TypeAlias = OpenStream | SendData | ResetStream | StopSending | CloseSession


RequestMessage: TypeAlias = (
    Subscribe
    | Publish
    | Fetch
    | TrackStatus
    | PublishNamespace
    | SubscribeNamespace
    | SubscribeTracks
)
"""A message that starts a request."""

OkMessage: TypeAlias = SubscribeOk | PublishOk | FetchOk | RequestOk
"""A message that accepts a request."""


# The session


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupReceived:
    """The peer's SETUP came: the session is established.

    A server that does not serve this path or authority, or does not trust these tokens, closes the
    session now, with INVALID_PATH, INVALID_AUTHORITY or UNAUTHORIZED.
    """

    options: SetupOptions
    tokens: tuple[AuthToken, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GoawayReceived:
    """The peer will close the session soon: move what matters to another one.

    Start a timer: the peer closes with GOAWAY_TIMEOUT when its patience ends.
    """

    message: Goaway


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestsAllowed:
    """The peer raised MAX_REQUEST_ID: blocked requests can be sent (draft 16)."""

    max_request_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerBlocked:
    """The peer has no request id left (draft 16); the session grants more as requests end."""

    max_request_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminated:
    """The session and all its requests are over. Always the last event."""

    code: int
    """A :class:`~laps_wire.moqt.codepoints.SessionCode`, or an unregistered code."""
    reason: str
    by_peer: bool
    """Whether the peer or the network ended the session; False if this end did."""


# Requests of the peer


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestReceived:
    """The peer sent a request: accept or reject it."""

    request_id: int
    message: RequestMessage
    tokens: tuple[AuthToken, ...] = ()
    """The authorization tokens of the request, with aliases resolved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateReceived:
    """The peer sent REQUEST_UPDATE: accept or reject it by the id of the update."""

    request_id: int
    update_id: int
    message: RequestUpdate
    tokens: tuple[AuthToken, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRefused:
    """The session rejected a request or an update as the draft requires; for logs."""

    request_id: int
    message: RequestMessage | RequestUpdate
    error_code: int
    reason: str


# Requests of ours


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestAccepted:
    """The peer accepted one of our requests."""

    request_id: int
    message: OkMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRejected:
    """The peer rejected one of our requests, which is over."""

    request_id: int
    message: RequestError


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateAccepted:
    """The peer accepted one of our updates."""

    request_id: int
    update_id: int
    message: RequestOk


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateRejected:
    """The peer refused an update of ours; what becomes of the request depends on its kind.

    A subscription will end: as publisher, answer with PUBLISH_DONE and UPDATE_FAILED; as
    subscriber, wait for it. In draft 18 one refusal may stand for several updates: it names the
    oldest, and the others get no answer.
    """

    request_id: int
    update_id: int
    message: RequestError


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceAdvertised:
    """The peer advertised a namespace below the prefix of our SUBSCRIBE_NAMESPACE."""

    request_id: int
    namespace: Namespace
    """The whole namespace: prefix and suffix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceWithdrawn:
    """An advertised namespace was withdrawn, or its SUBSCRIBE_NAMESPACE is over."""

    request_id: int
    namespace: Namespace


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackBlocked:
    """The peer lacks a stream for PUBLISH: send SUBSCRIBE for this track (draft 18)."""

    request_id: int
    track: FullTrackName
    """The whole name, prefix included."""


# Either


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishEnded:
    """The publisher ended a subscription. Objects may still arrive: see ``stream_count``."""

    request_id: int
    message: PublishDone


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCancelled:
    """A request was cancelled: stop serving it and reset its data streams."""

    request_id: int
    code: int | None = None
    """Why, if the peer said so: a stream reset code; in draft 16's PUBLISH_NAMESPACE_CANCEL a
    request error code."""
    reason: str = ""
    by_peer: bool = True
    """False if the session ended the request because of a local limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestGoaway:
    """The peer asks to move this one request elsewhere (draft 18)."""

    request_id: int
    message: Goaway


# Data


@dataclass(frozen=True, slots=True, kw_only=True)
class DataStreamOpened:
    """The peer opened a stream of objects: from here on it belongs to the data plane.

    Give all later bytes, the FIN or the reset of this stream to the data plane directly. It may
    come before the message that explains its track alias, and even before SETUP.
    """

    stream_id: int
    kind: StreamKind
    data: bytes
    """All bytes received so far."""
    fin: bool


Event: TypeAlias = (
    SetupReceived
    | GoawayReceived
    | RequestsAllowed
    | PeerBlocked
    | Terminated
    | RequestReceived
    | UpdateReceived
    | RequestRefused
    | RequestAccepted
    | RequestRejected
    | UpdateAccepted
    | UpdateRejected
    | NamespaceAdvertised
    | NamespaceWithdrawn
    | TrackBlocked
    | PublishEnded
    | RequestCancelled
    | RequestGoaway
    | DataStreamOpened
)
