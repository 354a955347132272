"""The control messages of drafts 16 and 18: one model for both.

What a message says is the same in both drafts wherever both have it, so it is one class here; how
it is written is a table for each draft in :mod:`laps_wire.moqt.control`. A field that only one
draft has is optional. Draft 18 puts each request on its own stream, so its replies carry no request
id: ``request_id`` is None there, and a message that a draft cannot express does not encode.

::

    both       GOAWAY SUBSCRIBE SUBSCRIBE_OK REQUEST_UPDATE PUBLISH PUBLISH_DONE FETCH FETCH_OK
               TRACK_STATUS PUBLISH_NAMESPACE NAMESPACE NAMESPACE_DONE SUBSCRIBE_NAMESPACE
               REQUEST_OK REQUEST_ERROR
    draft 16   CLIENT_SETUP SERVER_SETUP MAX_REQUEST_ID REQUESTS_BLOCKED UNSUBSCRIBE PUBLISH_OK
               FETCH_CANCEL PUBLISH_NAMESPACE_DONE PUBLISH_NAMESPACE_CANCEL
    draft 18   SETUP SUBSCRIBE_TRACKS PUBLISH_BLOCKED

Error and status codes are plain integers, for a peer may use codes that nobody registered; see
:mod:`laps_wire.moqt.codepoints` for those that have a name.
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
"""PUBLISH_DONE's stream count if the publisher did not count (moq-transport-16, 9.15)."""


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
    """GOAWAY: the sender will leave; in draft 18 also for a single request."""

    new_session_uri: str = ""
    """Where to go; empty is the present URI. Only servers may send one."""
    timeout: int = 0
    """Draft 18: how long the sender waits, in milliseconds; 0 is no certain time."""
    request_id: int | None = None
    """Draft 18, on the control stream only: the first request that was not processed."""


@dataclass(frozen=True, slots=True)
class MaxRequestId:
    """MAX_REQUEST_ID: the peer may make more requests (draft 16)."""

    max_request_id: int
    """The first id that may not be used."""


@dataclass(frozen=True, slots=True)
class RequestsBlocked:
    """REQUESTS_BLOCKED: the sender would make a request, had it an id to use (draft 16)."""

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
    """A :class:`~laps_wire.moqt.codepoints.RequestErrorCode`, or one that nobody registered."""
    retry_interval: int = 0
    """Milliseconds to wait before another try, plus 1; 0 is do not try again."""
    reason: str = ""
    redirect: Redirect | None = None
    """Draft 18, with the code REDIRECT and only then."""


@dataclass(frozen=True, slots=True)
class RequestUpdate:
    """REQUEST_UPDATE: changes the parameters of a request; what is absent stays."""

    request_id: int
    """The update is a request of its own and has its own id."""
    existing_request_id: int | None = None
    """The request to change, in draft 16; in draft 18 it is the one of the stream."""
    parameters: Parameters = NO_PARAMETERS


# Subscriptions


@dataclass(frozen=True, slots=True)
class Subscribe:
    """SUBSCRIBE: send what is published in this track from now on."""

    request_id: int
    track: FullTrackName
    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class SubscribeOk:
    """SUBSCRIBE_OK: the subscription stands."""

    request_id: int | None
    """The SUBSCRIBE that this answers, in draft 16."""
    track_alias: int
    """What stands for the track in data streams and datagrams."""
    parameters: Parameters = NO_PARAMETERS
    track_properties: KeyValues = ()
    """What the publisher says about the track; draft 16 calls them track extensions."""


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """UNSUBSCRIBE: ends a subscription (draft 16; draft 18 resets the stream)."""

    request_id: int


@dataclass(frozen=True, slots=True)
class Publish:
    """PUBLISH: the publisher offers a track, or pushes it."""

    request_id: int
    track: FullTrackName
    track_alias: int
    parameters: Parameters = NO_PARAMETERS
    track_properties: KeyValues = ()
    """What the publisher says about the track; draft 16 calls them track extensions."""


@dataclass(frozen=True, slots=True)
class PublishOk:
    """PUBLISH_OK: the subscriber takes the track (draft 16; draft 18 answers REQUEST_OK)."""

    request_id: int
    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class PublishDone:
    """PUBLISH_DONE: nothing more will come for a subscription."""

    request_id: int | None
    """The subscription that ends, in draft 16."""
    status_code: int
    """See :data:`~laps_wire.moqt.codepoints.PUBLISH_DONE_CODES`; the drafts differ."""
    stream_count: int
    """How many data streams were opened, or :data:`STREAM_COUNT_UNKNOWN`."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class TrackStatus:
    """TRACK_STATUS: asks what a SUBSCRIBE would find."""

    request_id: int
    track: FullTrackName
    parameters: Parameters = NO_PARAMETERS


# Fetch


@dataclass(frozen=True, slots=True)
class Fetch:
    """FETCH: send a range of what was published."""

    request_id: int
    target: FetchTarget
    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class FetchOk:
    """FETCH_OK: the fetch succeeds, and where its range ends."""

    request_id: int | None
    """The FETCH that this answers, in draft 16."""
    end_of_track: bool
    """Whether the end location is the end of the track."""
    end_location: Location
    """The end of the range, written as in FETCH."""
    parameters: Parameters = NO_PARAMETERS
    track_properties: KeyValues = ()
    """What the publisher says about the track; draft 16 calls them track extensions."""


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
    """PUBLISH_NAMESPACE_DONE: no longer (draft 16)."""

    request_id: int


@dataclass(frozen=True, slots=True)
class PublishNamespaceCancel:
    """PUBLISH_NAMESPACE_CANCEL: the subscriber will not subscribe there any more (draft 16)."""

    request_id: int
    error_code: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class SubscribeNamespace:
    """SUBSCRIBE_NAMESPACE: tell which namespaces begin with this prefix."""

    request_id: int
    prefix: Namespace
    options: SubscribeOptions = SubscribeOptions.NAMESPACE
    """Draft 16: NAMESPACE messages, PUBLISH messages or both. Draft 18 has only the first here,
    and :class:`SubscribeTracks` for the second."""
    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class SubscribeTracks:
    """SUBSCRIBE_TRACKS: send a PUBLISH for each track whose namespace begins so (draft 18)."""

    request_id: int
    prefix: Namespace
    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class NamespaceMessage:
    """NAMESPACE: a namespace that matches a SUBSCRIBE_NAMESPACE."""

    suffix: Namespace
    """What follows the prefix of the subscription."""


@dataclass(frozen=True, slots=True)
class NamespaceDone:
    """NAMESPACE_DONE: a namespace that matched is gone."""

    suffix: Namespace
    """What follows the prefix of the subscription."""


@dataclass(frozen=True, slots=True)
class PublishBlocked:
    """PUBLISH_BLOCKED: a track that matches a SUBSCRIBE_TRACKS but can not be published now."""

    track: FullTrackName
    """Its namespace is what follows the prefix of the subscription."""


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
