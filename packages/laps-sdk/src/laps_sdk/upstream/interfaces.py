"""The protocols between the clients of an Edge and the network above it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, Protocol, TypeAlias

from laps_sdk.forwarding.interfaces import OutStream, Point
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
    "RepairSide",
    "answer_of",
]


class Answer(Enum):
    """The outcome of a subscription of our clients."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    """No relay serves the track, or the publisher refused; a later answer may accept it."""
    ENDED = "ended"
    """The track was accepted; its last publisher has since ended it, left or been lost."""


def answer_of(code: int) -> Answer:
    """Return the outcome that the code of a SUBSCRIBE_RESPONSE stands for."""
    if code == SubscribeCode.ACCEPTED:
        return Answer.ACCEPTED
    over = code in (SubscribeCode.ENDED, SubscribeCode.LOST, SubscribeCode.MALFORMED)
    return Answer.ENDED if over else Answer.REFUSED


FetchHandle: TypeAlias = tuple[NodeId, int]
"""A FETCH of another relay: the id of that node, and the request ID that it chose."""


class FetchRefusal(NamedTuple):
    """The reason why a FETCH is refused."""

    code: int
    reason: str
    data: SubscribeData = NO_DATA


class DataSink(Protocol):
    """Receives data for this relay's own clients; the caller numbers the streams."""

    def stream_opened(
        self, now: float, stream: int, header: DataHeader, data: bytes, fin: bool
    ) -> bool | None:
        """Open a stream of a track; ``data`` is payload only. False rejects the rest."""

    def stream_data(self, now: float, stream: int, data: bytes, fin: bool) -> None:
        """Take the next chunk of a stream."""

    def stream_reset(self, now: float, stream: int, code: int) -> None:
        """Reset a stream: the sender reset it, or its session ended."""

    def datagram(self, now: float, header: DataHeader, payload: bytes) -> None:
        """Take an object that came as a datagram."""


class Feed(Protocol):
    """Sends the objects of one track of this relay's own clients to other relays."""

    def open_stream(
        self,
        now: float,
        *,
        priority: int,
        ttl_ms: int = 0,
        deadline: float | None = None,
        continued: bool = False,
        to: tuple[int, int] | None = None,
    ) -> OutStream:
        """Open a stream to all relays that take the track; without any, discard the data.

        ``continued`` marks a stream that continues an interrupted one (laps-2, 7.2). ``to`` is
        one egress set of the feed, its session and its id: the stream goes only there.
        """

    def send_datagram(self, now: float, payload: bytes, *, priority: int, ttl_ms: int = 0) -> bool:
        """Send an object to all relays that take the track; return whether any can receive it."""


class LocalSide(Protocol):
    """This relay's own clients, as the network sees them: a bridge to the Edge, or a simulation.

    For the other direction see the methods ``announce``, ``withdraw``, ``subscribe``,
    ``unsubscribe``, ``publisher_accepted``, ``publisher_refused`` and ``publisher_ended`` of
    ``NetworkRelay``.
    """

    def serve_track(
        self, now: float, key: int, name: FullTrackName, data: SubscribeData, feed: Feed
    ) -> None:
        """o-relay: serve another relay's subscription to a track that was announced here.

        Answer with ``publisher_accepted`` or ``publisher_refused``, at once or later, and with
        ``publisher_ended`` when the publisher ends the track. Write its objects to the feed.
        """

    def renew(self, now: float, key: int, before: float) -> None:
        """o-relay: continue the open streams of a track in new streams of its feed.

        Each new stream starts at the next object, where the old stream ends (laps-2, 7.2).
        Streams that began after ``before`` stay as they are.
        """

    def release(self, now: float, key: int) -> None:
        """o-relay: stop serving a track: no other relay subscribes to it, its feed is closed."""

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
        """s-relay: take the outcome of a subscription; ``data`` is any answer of the publisher."""

    def announce_added(self, now: float, entry: AnnounceInfo) -> None:
        """Add a name that another relay announced, ``entry.plaintext``."""

    def announce_removed(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """Remove a name that no other relay announces."""


class RepairSide(Protocol):
    """The logs of this relay's own tracks: a bridge to the Edge (laps-2, 6.6)."""

    def positions(self, key: int, since: float) -> list[Point]:
        """o-relay: return the ends of all subgroups of a track that have changed since then."""

    def position_received(
        self, now: float, key: int, points: Sequence[Point], hold: float, *, lost: bool
    ) -> list[Point]:
        """s-relay: return where to resume subgroups that another relay has, and the log has not.

        What may be under way is left out, for ``hold`` seconds, unless a path was just ``lost``.
        """

    def resume_received(
        self, now: float, key: int, points: Sequence[Point], to: tuple[int, int]
    ) -> list[Point]:
        """o-relay: send subgroups again to one egress set of the feed; return what is gone."""

    def points_gone(self, now: float, key: int, points: Sequence[Point]) -> None:
        """s-relay: wait no longer for these subgroups: their objects are gone."""


class FetchSide(Protocol):
    """The FETCHes of this relay's own clients: a bridge to the Edge.

    For the other direction see the methods ``fetch``, ``unfetch``, ``fetch_over``, ``fetched``,
    ``fetch_refused`` and ``fetch_served`` of ``NetworkRelay``.
    """

    def fetch_answered(
        self, now: float, fetch_id: int, code: int, reason: str, data: SubscribeData
    ) -> None:
        """s-relay: take the answer to a FETCH of ours; with code 0, objects follow or have arrived.

        Any other code is final, even after a code 0: there is no stream, and none follows.
        """

    def serve_fetch(
        self, now: float, handle: FetchHandle, name: FullTrackName, data: SubscribeData, feed: Feed
    ) -> None:
        """o-relay: serve a FETCH of another relay; answer with ``fetched`` or ``fetch_refused``.

        Write the stream to the feed; call ``fetch_served`` when the stream has ended.
        """

    def drop_fetch(self, now: float, handle: FetchHandle) -> None:
        """o-relay: drop a FETCH: the other relay cancelled it or is gone."""
