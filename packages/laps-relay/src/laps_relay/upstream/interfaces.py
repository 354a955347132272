"""The border between an Edge's clients and the network above it."""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from laps_relay.peer_forwarding.forwarding import Feed
from laps_wire.names import FullTrackName
from laps_wire.peering.laps2 import AnnounceInfo, AnnounceKind, SubscribeCode, SubscribeData

__all__ = ["Answer", "LocalSide"]


class Answer(Enum):
    """What became of something that our clients want."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    """Nobody serves it, or somebody says no; it may still be accepted later."""
    ENDED = "ended"
    """It was accepted, and the last publisher has ended it or is gone for good."""


class LocalSide(Protocol):
    """This relay's own clients, as the network sees them: a bridge to the Edge, or a simulation.

    The other direction are the methods ``announce``, ``withdraw``, ``want``, ``unwant``,
    ``pulled``, ``pull_refused`` and ``pull_ended`` of ``NetworkRelay``.
    """

    def pull(
        self, now: float, key: int, name: FullTrackName, data: SubscribeData, feed: Feed
    ) -> None:
        """o-relay: somebody in the network wants a track that was announced here.

        Answer with ``pulled`` or ``pull_refused``, at once or later; ``pull_ended`` when its
        publisher ends it. Objects go into the feed.
        """

    def renew(self, now: float, key: int, before: float) -> None:
        """o-relay: go on with streams of a track that are open in new streams of its feed.

        From their next objects on; the old ones end there (laps-2, 7.2). Those that began after
        ``before`` go on as they are.
        """

    def release(self, now: float, key: int) -> None:
        """Nobody in the network wants it any more; its feed is closed."""

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
        """What became of a want of ours; ``data`` is the publisher's own answer, if any."""

    def discovered(self, now: float, entry: AnnounceInfo) -> None:
        """Somebody else announced a name that we may know (``entry.plaintext`` is there)."""

    def vanished(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """Nobody else announces that name any more."""
