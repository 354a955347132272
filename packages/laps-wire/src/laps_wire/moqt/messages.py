"""The control messages of drafts 16 and 18: one model for both.

A message that both drafts define has the same meaning in both and is one class here. The encodings
differ: :mod:`laps_wire.moqt.control` has a table for each draft. A field that only one draft has is
optional. Draft 18 puts each request on its own stream, so ``request_id`` is None in its replies.
Encoding fails for a message that the draft cannot express.

::

    both       GOAWAY SUBSCRIBE SUBSCRIBE_OK REQUEST_UPDATE PUBLISH PUBLISH_DONE FETCH FETCH_OK
               TRACK_STATUS PUBLISH_NAMESPACE NAMESPACE NAMESPACE_DONE SUBSCRIBE_NAMESPACE
               REQUEST_OK REQUEST_ERROR
    draft 16   CLIENT_SETUP SERVER_SETUP MAX_REQUEST_ID REQUESTS_BLOCKED UNSUBSCRIBE PUBLISH_OK
               FETCH_CANCEL PUBLISH_NAMESPACE_DONE PUBLISH_NAMESPACE_CANCEL
    draft 18   SETUP SUBSCRIBE_TRACKS PUBLISH_BLOCKED

Error and status codes are plain integers, because a peer may use unregistered codes. The registered
ones are named in :mod:`laps_wire.moqt.codepoints`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from laps_wire.moqt.codepoints import SubscribeOptions
from laps_wire.moqt.keyvalue import KeyValues
from laps_wire.moqt.parameters import NO_PARAMETERS, Parameters
from laps_wire.moqt.setup import NO_OPTIONS, SetupOptions
from laps_wire.moqt.structures import (
    AbsoluteJoiningFetch,
    FetchTarget,
    Location,
    Redirect,
    RelativeJoiningFetch,
    StandaloneFetch,
)
from laps_wire.names import FullTrackName, Namespace

__all__ = [
    "STREAM_COUNT_UNKNOWN",
    "AbsoluteJoiningFetch",
    "ClientSetup",
    "Fetch",
    "FetchCancel",
    "FetchOk",
    "FetchTarget",
    "Goaway",
    "MaxRequestId",
    "Message",
    "NamespaceDone",
    "NamespaceMessage",
    "Publish",
    "PublishBlocked",
    "PublishDone",
    "PublishNamespace",
    "PublishNamespaceCancel",
    "PublishNamespaceDone",
    "PublishOk",
    "RelativeJoiningFetch",
    "RequestError",
    "RequestOk",
    "RequestUpdate",
    "RequestsBlocked",
    "ServerSetup",
    "Setup",
    "StandaloneFetch",
    "Subscribe",
    "SubscribeNamespace",
    "SubscribeOk",
    "SubscribeTracks",
    "TrackStatus",
    "Unsubscribe",
]

STREAM_COUNT_UNKNOWN: Final = 2**62 - 1
"""The stream count of PUBLISH_DONE if the publisher has no count (moq-transport-16, 9.15)."""


# Session


@dataclass(frozen=True, slots=True)
class ClientSetup:
    """CLIENT_SETUP: the client's first message (moq-transport-16, 9.3)."""

    options: SetupOptions = NO_OPTIONS


@dataclass(frozen=True, slots=True)
class ServerSetup:
    """SERVER_SETUP: the server's answer (moq-transport-16, 9.3)."""

    options: SetupOptions = NO_OPTIONS


@dataclass(frozen=True, slots=True)
class Setup:
    """SETUP: the first message that each side sends on its control stream (draft 18, 10.3)."""

    options: SetupOptions = NO_OPTIONS


@dataclass(frozen=True, slots=True)
class Goaway:
    """GOAWAY: asks the peer to move to a new session; in draft 18 also for a single request."""

    new_session_uri: str = ""
    """The URI of the new session; empty means the current URI. Only servers may set it."""
    timeout: int = 0
    """Draft 18: how long the sender waits before it closes, in milliseconds; 0: unspecified."""
    request_id: int | None = None
    """Draft 18, on the control stream only: the first request id that was not processed."""


@dataclass(frozen=True, slots=True)
class MaxRequestId:
    """MAX_REQUEST_ID: raises the limit on the peer's request ids (draft 16)."""

    max_request_id: int
    """The first id that may not be used."""


@dataclass(frozen=True, slots=True)
class RequestsBlocked:
    """REQUESTS_BLOCKED: the sender has a request to make but no request id left (draft 16)."""

    maximum_request_id: int


# Answers to any request


@dataclass(frozen=True, slots=True)
class RequestOk:
    """REQUEST_OK: the request succeeded."""

    request_id: int | None = None
    """The request that this answers, in draft 16."""
    parameters: Parameters = NO_PARAMETERS
    track_properties: KeyValues = ()
    """Draft 18, in answer to TRACK_STATUS only."""


@dataclass(frozen=True, slots=True)
class RequestError:
    """REQUEST_ERROR: the request failed."""

    request_id: int | None
    """The request that this answers, in draft 16."""
    error_code: int
    """A :class:`~laps_wire.moqt.codepoints.RequestErrorCode`, or an unregistered code."""
    retry_interval: int = 0
    """Milliseconds to wait before a retry, plus 1; 0 means that a retry is pointless."""
    reason: str = ""
    redirect: Redirect | None = None
    """Draft 18: present if and only if the code is REDIRECT."""


@dataclass(frozen=True, slots=True)
class RequestUpdate:
    """REQUEST_UPDATE: changes parameters of a request; absent parameters keep their values."""

    request_id: int
    """The id of the update itself, which is a request too."""
    existing_request_id: int | None = None
    """Draft 16: the request to change. Draft 18 changes the request of the stream."""
    parameters: Parameters = NO_PARAMETERS


# Subscriptions


@dataclass(frozen=True, slots=True)
class Subscribe:
    """SUBSCRIBE: requests the objects that are published in a track from now on."""

    request_id: int
    track: FullTrackName
    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class SubscribeOk:
    """SUBSCRIBE_OK: the publisher accepts the subscription."""

    request_id: int | None
    """The SUBSCRIBE that this answers, in draft 16."""
    track_alias: int
    """The number that identifies the track in data streams and datagrams."""
    parameters: Parameters = NO_PARAMETERS
    track_properties: KeyValues = ()
    """The publisher's properties of the track; draft 16 calls them track extensions."""


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """UNSUBSCRIBE: ends a subscription (draft 16; draft 18 resets the stream)."""

    request_id: int


@dataclass(frozen=True, slots=True)
class Publish:
    """PUBLISH: the publisher offers a track, and may start to send it at once."""

    request_id: int
    track: FullTrackName
    track_alias: int
    parameters: Parameters = NO_PARAMETERS
    track_properties: KeyValues = ()
    """The publisher's properties of the track; draft 16 calls them track extensions."""


@dataclass(frozen=True, slots=True)
class PublishOk:
    """PUBLISH_OK: the subscriber accepts the track (draft 16; draft 18 uses REQUEST_OK)."""

    request_id: int
    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class PublishDone:
    """PUBLISH_DONE: the publisher sends nothing more for a subscription."""

    request_id: int | None
    """The subscription that ends, in draft 16."""
    status_code: int
    """See :data:`~laps_wire.moqt.codepoints.PUBLISH_DONE_CODES`; the drafts differ."""
    stream_count: int
    """How many data streams were opened, or :data:`STREAM_COUNT_UNKNOWN`."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class TrackStatus:
    """TRACK_STATUS: asks for the state of a track without subscribing to it."""

    request_id: int
    track: FullTrackName
    parameters: Parameters = NO_PARAMETERS


# Fetch


@dataclass(frozen=True, slots=True)
class Fetch:
    """FETCH: requests a range of objects that were published before."""

    request_id: int
    target: FetchTarget
    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class FetchOk:
    """FETCH_OK: the fetch succeeds; states where its range ends."""

    request_id: int | None
    """The FETCH that this answers, in draft 16."""
    end_of_track: bool
    """Whether the end location is the end of the track."""
    end_location: Location
    """The end of the range, in the same notation as in FETCH."""
    parameters: Parameters = NO_PARAMETERS
    track_properties: KeyValues = ()
    """The publisher's properties of the track; draft 16 calls them track extensions."""


@dataclass(frozen=True, slots=True)
class FetchCancel:
    """FETCH_CANCEL: ends a fetch (draft 16; draft 18 resets the stream)."""

    request_id: int


# Namespaces


@dataclass(frozen=True, slots=True)
class PublishNamespace:
    """PUBLISH_NAMESPACE: the sender has tracks in this namespace."""

    request_id: int
    namespace: Namespace
    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class PublishNamespaceDone:
    """PUBLISH_NAMESPACE_DONE: the sender no longer has tracks in the namespace (draft 16)."""

    request_id: int


@dataclass(frozen=True, slots=True)
class PublishNamespaceCancel:
    """PUBLISH_NAMESPACE_CANCEL: the subscriber revokes its acceptance of a namespace (draft 16)."""

    request_id: int
    error_code: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class SubscribeNamespace:
    """SUBSCRIBE_NAMESPACE: asks for the namespaces that begin with a prefix."""

    request_id: int
    prefix: Namespace
    options: SubscribeOptions = SubscribeOptions.NAMESPACE
    """Draft 16: which messages to send: NAMESPACE, PUBLISH or both. Draft 18 sends NAMESPACE only,
    and has :class:`SubscribeTracks` for PUBLISH."""
    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class SubscribeTracks:
    """SUBSCRIBE_TRACKS: asks for a PUBLISH for each track below a prefix (draft 18)."""

    request_id: int
    prefix: Namespace
    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class NamespaceMessage:
    """NAMESPACE: a namespace that matches a SUBSCRIBE_NAMESPACE."""

    suffix: Namespace
    """The namespace without the prefix of the subscription."""


@dataclass(frozen=True, slots=True)
class NamespaceDone:
    """NAMESPACE_DONE: a namespace that matched is no longer published."""

    suffix: Namespace
    """The namespace without the prefix of the subscription."""


@dataclass(frozen=True, slots=True)
class PublishBlocked:
    """PUBLISH_BLOCKED: a track matches a SUBSCRIBE_TRACKS but cannot be published now."""

    track: FullTrackName
    """The track; its namespace is given without the prefix of the subscription."""


Message: TypeAlias = (
    ClientSetup
    | ServerSetup
    | Setup
    | Goaway
    | MaxRequestId
    | RequestsBlocked
    | RequestOk
    | RequestError
    | RequestUpdate
    | Subscribe
    | SubscribeOk
    | Unsubscribe
    | Publish
    | PublishOk
    | PublishDone
    | TrackStatus
    | Fetch
    | FetchOk
    | FetchCancel
    | PublishNamespace
    | PublishNamespaceDone
    | PublishNamespaceCancel
    | SubscribeNamespace
    | SubscribeTracks
    | NamespaceMessage
    | NamespaceDone
    | PublishBlocked
)
"""Any control message of either draft."""
