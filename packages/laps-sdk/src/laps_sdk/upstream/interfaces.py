"""The border between an Edge's clients and the network above it."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, Protocol, TypeAlias

from laps_sdk.forwarding.interfaces import OutStream
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    AnnounceInfo,
    AnnounceKind,
    DataHeader,
    SubscribeCode,
    SubscribeData,
)
from laps_wire.peering.laps2.information import NO_DATA

__all__ = [
    "Answer",
    "DataSink",
    "Feed",
    "FetchHandle",
    "FetchRefusal",
    "FetchSide",
    "LocalSide",
    "answer_of",
]


class Answer(Enum):
    """What became of something that our clients want."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    """Nobody serves it, or somebody says no; it may still be accepted later."""
    ENDED = "ended"
    """It was accepted, and the last publisher has ended it or is gone for good."""


def answer_of(code: int) -> Answer:
    """What a SUBSCRIBE_RESPONSE with this code means for the subscriber."""
    if code == SubscribeCode.ACCEPTED:
        return Answer.ACCEPTED
    return Answer.ENDED if code == SubscribeCode.ENDED else Answer.REFUSED


FetchHandle: TypeAlias = tuple[NodeId, int]
"""A FETCH of another relay: the node that asks, and its request's ID there."""


class FetchRefusal(NamedTuple):
    """Why a FETCH is not answered."""

    code: int
    reason: str
    data: SubscribeData = NO_DATA


class DataSink(Protocol):
    """Where data for this relay's own clients goes; streams are numbered by the plane."""

    def stream_opened(
        self, now: float, stream: int, header: DataHeader, data: bytes, fin: bool
    ) -> bool | None:
        """A stream of a track began; ``data`` is payload only. False: nothing more of it."""

    def stream_data(self, now: float, stream: int, data: bytes, fin: bool) -> None:
        """More of it."""

    def stream_reset(self, now: float, stream: int, code: int) -> None:
        """It was abandoned, or its session ended."""

    def datagram(self, now: float, header: DataHeader, payload: bytes) -> None:
        """An object."""


class Feed(Protocol):
    """Where the objects of one track of this relay's own clients go: other relays."""

    def open_stream(
        self,
        now: float,
        *,
        priority: int,
        ttl_ms: int = 0,
        deadline: float | None = None,
        continued: bool = False,
    ) -> OutStream:
        """Begin a stream to all relays that take the track; without any, data is discarded.

        ``continued``: it goes on with one that was cut, and says so (laps-2, 7.2).
        """

    def send_datagram(self, now: float, payload: bytes, *, priority: int, ttl_ms: int = 0) -> bool:
        """Send an object to all relays that take the track; whether anybody can have it."""


class LocalSide(Protocol):
    """This relay's own clients, as the network sees them: a bridge to the Edge, or a simulation.

    The other direction are the methods ``announce``, ``withdraw``, ``subscribe``, ``unsubscribe``,
    ``publisher_accepted``, ``publisher_refused`` and ``publisher_ended`` of ``NetworkRelay``.
    """

    def serve_track(
        self, now: float, key: int, name: FullTrackName, data: SubscribeData, feed: Feed
    ) -> None:
        """o-relay: another relay subscribes to a track that was announced here.

        Answer with ``publisher_accepted`` or ``publisher_refused``, at once or later, and with
        ``publisher_ended`` when the publisher ends the track. Put its objects into the feed.
        """

    def renew(self, now: float, key: int, before: float) -> None:
        """o-relay: go on with streams of a track that are open in new streams of its feed.

        From their next objects on; the old ones end there (laps-2, 7.2). Those that began after
        ``before`` go on as they are.
        """

    def release(self, now: float, key: int) -> None:
        """o-relay: no other relay subscribes to a track any more; its feed is closed."""

    def answered(
        self,
        now: float,
        key: int,
        answer: Answer,
        *,
        code: SubscribeCode,
        reason: str,
        data: SubscribeData,
    ) -> None:
        """s-relay: the outcome of a subscription; ``data`` is the publisher's answer, if any."""

    def announce_added(self, now: float, entry: AnnounceInfo) -> None:
        """Another relay announced a name; ``entry.plaintext`` has it."""

    def announce_removed(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """No other relay announces a name any more."""


class FetchSide(Protocol):
    """This relay's own clients, as far as fetches go: a bridge to the Edge.

    The other direction are the methods ``fetch``, ``unfetch``, ``fetch_over``, ``fetched``,
    ``fetch_refused`` and ``fetch_served`` of ``NetworkRelay``.
    """

    def fetch_answered(
        self, now: float, fetch_id: int, code: int, reason: str, data: SubscribeData
    ) -> None:
        """s-relay: what becomes of a FETCH of ours; with code 0 objects come, or came already.

        Another code is the last word, also behind a 0: then no stream has come, and none will.
        """

    def serve_fetch(
        self, now: float, handle: FetchHandle, name: FullTrackName, data: SubscribeData, feed: Feed
    ) -> None:
        """o-relay: another relay asks. Answer with ``fetched`` or ``fetch_refused``.

        The stream goes into the feed; ``fetch_served`` when it has ended.
        """

    def drop_fetch(self, now: float, handle: FetchHandle) -> None:
        """It does not want the rest, or is gone."""
