"""Requests that a session rejects by itself, because the draft says that it must.

The application never sees these as requests; it gets a ``RequestRefused`` event for its log.

::

    DUPLICATE_SUBSCRIPTION      a second subscription to a track with the same roles  (16: 5.1)
    PREFIX_OVERLAP              a prefix that overlaps with one already subscribed    (16: 9.25)
    INVALID_JOINING_REQUEST_ID  a joining FETCH without its subscription              (16: 9.16.2)
    INVALID_RANGE               an end before the start; draft 18: joining a subscription
                                whose Forward State is 0                             (18: 10.12.2)
    GOING_AWAY                  any request behind our GOAWAY, draft 18               (18: 10.4)
    DOES_NOT_EXIST              reserved namespaces, draft 18                         (18: 3.2.1)
    EXCESSIVE_LOAD              more open requests than we lend memory for, draft 18; in draft 16
                                MAX_REQUEST_ID keeps the peer from it

What must close the session instead is raised: DUPLICATE_TRACK_ALIAS, and in draft 16 joining a
subscription with a filter other than Largest Object.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from laps_wire.errors import ProtocolViolation
from laps_wire.moqt.codepoints import FilterType, RequestErrorCode
from laps_wire.moqt.errors import DuplicateTrackAlias
from laps_wire.moqt.messages import (
    AbsoluteJoiningFetch,
    Fetch,
    FetchOk,
    FetchTarget,
    Publish,
    PublishNamespace,
    RelativeJoiningFetch,
    StandaloneFetch,
    Subscribe,
)
from laps_wire.moqt.session.events import RequestMessage
from laps_wire.moqt.session.state import Kind, State
from laps_wire.moqt.session.tables import KINDS, Requests, prefix_of, track_of
from laps_wire.moqt.structures import Location
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace

__all__ = [
    "SESSION_NAMESPACE",
    "Refusal",
    "check_alias",
    "check_fetch_ok",
    "is_reserved",
    "namespace_of",
    "overlap",
    "refusal",
]

SESSION_NAMESPACE = b".session"
"""The first field of session-level tracks, which no extension of ours defines (18: 3.2.2)."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is rejected."""

    code: RequestErrorCode
    reason: str


_Answer: TypeAlias = Refusal | None


def refusal(
    message: RequestMessage, requests: Requests, draft: Draft, *, max_requests: int, leaving: bool
) -> Refusal | None:
    """The reason to reject ``message``, which is not in ``requests`` yet, or None."""
    if draft is Draft.D18:
        if leaving:
            return Refusal(RequestErrorCode.GOING_AWAY, "GOAWAY was sent")
        if requests.theirs >= max_requests:
            return Refusal(RequestErrorCode.EXCESSIVE_LOAD, f"{max_requests} requests are open")
        if is_reserved(namespace_of(message)):
            return Refusal(RequestErrorCode.DOES_NOT_EXIST, "a reserved namespace")
    if isinstance(message, Subscribe):
        return _subscribe(message, requests)
    if isinstance(message, Publish):
        return _publish(message, requests)
    if isinstance(message, Fetch):
        return _fetch(message.target, requests, draft)
    prefix = prefix_of(message)
    if prefix is None:
        return None
    return overlap(KINDS[type(message)], prefix, requests)


def _subscribe(message: Subscribe, requests: Requests) -> _Answer:
    for other in requests.subscriptions(message.track, we_publish=True):
        return Refusal(
            RequestErrorCode.DUPLICATE_SUBSCRIPTION, f"request {other.id} is for this track"
        )
    return None


def _publish(message: Publish, requests: Requests) -> _Answer:
    check_alias(message.track_alias, message.track, requests)
    for other in requests.subscriptions(message.track, we_publish=False):
        # Our own SUBSCRIBE may cross a PUBLISH: then the application chooses between them.
        if other.kind is Kind.PUBLISH or other.state is not State.PENDING:
            return Refusal(
                RequestErrorCode.DUPLICATE_SUBSCRIPTION, f"request {other.id} is for this track"
            )
    return None


def _fetch(target: FetchTarget, requests: Requests, draft: Draft) -> _Answer:
    if isinstance(target, StandaloneFetch):
        if _ends_before(target.end, target.start):
            return Refusal(RequestErrorCode.INVALID_RANGE, "the end is before the start")
        return None
    joined = requests.get(target.joining_request_id)
    if (
        joined is None
        or not joined.is_subscription
        or not joined.we_publish
        or not (
            joined.state is State.ESTABLISHED
            or (joined.state is State.PENDING and joined.kind is Kind.SUBSCRIBE)
        )
    ):
        return Refusal(
            RequestErrorCode.INVALID_JOINING_REQUEST_ID,
            f"request {target.joining_request_id} is not a subscription that can be joined",
        )
    if draft is Draft.D18:
        if not joined.forward:
            return Refusal(RequestErrorCode.INVALID_RANGE, "the subscription's Forward State is 0")
    elif joined.filter is not None and joined.filter.type is not FilterType.LARGEST_OBJECT:
        # A subscription without a filter has no such value to be wrong: it can be joined.
        raise ProtocolViolation(
            f"a joining FETCH for request {joined.id} with filter {joined.filter.type.name}"
        )
    return None


def overlap(kind: Kind, prefix: Namespace, requests: Requests, but: int = -1) -> _Answer:
    """PREFIX_OVERLAP if the peer has another subscription of ``kind`` than ``but`` there."""
    other = requests.overlapping(kind, prefix, requests.get(but))
    if other is None:
        return None
    return Refusal(RequestErrorCode.PREFIX_OVERLAP, f"request {other.id} has such a prefix")


def check_alias(track_alias: int, track: FullTrackName | None, requests: Requests) -> None:
    """DuplicateTrackAlias if the peer already uses the alias for another track."""
    other = requests.alias_holder(track_alias, track, we_publish=False)
    if other is not None:
        raise DuplicateTrackAlias(f"track alias {track_alias} belongs to request {other.id}")


def check_fetch_ok(target: FetchTarget, message: FetchOk) -> None:
    """A FETCH_OK must not end before its FETCH starts (moq-transport-16, 9.17)."""
    if isinstance(target, RelativeJoiningFetch):
        return  # only the publisher knows where it starts
    if isinstance(target, AbsoluteJoiningFetch):
        start = Location(target.joining_start, 0)
    else:
        start = target.start
    if _ends_before(message.end_location, start):
        raise ProtocolViolation(f"FETCH_OK ends at {message.end_location}, before {start}")


def _ends_before(end: Location, start: Location) -> bool:
    """Whether an end as FETCH writes it (object 0 is the whole group) is before ``start``."""
    if end.object == 0:
        return end.group < start.group
    return end < start


def namespace_of(message: RequestMessage) -> Namespace | None:
    """The namespace or prefix that a request names."""
    track = track_of(message)
    if track is not None:
        return track.namespace
    if isinstance(message, PublishNamespace):
        return message.namespace
    return prefix_of(message)


def is_reserved(namespace: Namespace | None) -> bool:
    """Whether requests for this namespace must be rejected (moq-transport-18, 3.2.1, 3.2.2).

    ``.`` is never used. ``.session`` belongs to extensions, of which we have none. Others that
    begin with a period are for the application to judge.
    """
    return (
        namespace is not None
        and bool(namespace.fields)
        and namespace.fields[0] in (b".", SESSION_NAMESPACE)
    )
