"""What fetches need from the relay around them, and from its own clients."""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeAlias

from laps_relay.peer_forwarding.forwarding import NetworkFeed
from laps_relay.policy.interface import Policy
from laps_sdk.upstream.interfaces import FetchRefusal
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    FetchCancel,
    FetchRequest,
    FetchResponse,
    NodeSelf,
    Stamp,
    SubscribeCode,
    SubscribeInfo,
)

__all__ = [
    "FetchHost",
    "FetchMessage",
    "TrackHashes",
    "entry_of",
]

FetchMessage: TypeAlias = FetchRequest | FetchResponse | FetchCancel

_NEVER = Stamp(0, 0)


class TrackHashes(NamedTuple):
    """A track as relays know it."""

    elements: tuple[int, ...]
    name: int
    key: int


def entry_of(request: FetchRequest) -> SubscribeInfo:
    """A FETCH as policy sees it: like a subscribe of the same source for the same track."""
    return SubscribeInfo(
        request.source,
        _NEVER,
        request.element_hashes,
        request.name_hash,
        request.full_name_hash,
        request.scope,
        request.data,
    )


class FetchHost(Protocol):
    """The relay around :class:`~laps_relay.network.fetch.fetches.Fetches`."""

    @property
    def policy(self) -> Policy:
        """The policy of the moment."""

    def node(self, node: NodeId) -> NodeSelf | None:
        """What a node says of itself, our own too; None if the NIB does not have it."""

    def peer(self, session: int) -> NodeSelf | None:
        """The same of the peer at the other end of a session."""

    def ways(self, node: NodeId) -> list[int]:
        """The sessions with peers that pass fetches on and lead to a node, the best first."""

    def send(self, now: float, session: int, message: FetchMessage) -> bool:
        """Send a message; whether there was somebody to send it to."""

    def holders(self, track: TrackHashes) -> list[NodeId]:
        """Other nodes that may have the objects of a track, the nearest first."""

    def announcers(self, request: FetchRequest) -> list[NodeId] | None:
        """A control server: the Edges that announced it; None if we are none."""

    def draw(self) -> int:
        """32 random bits that are not 0."""

    def open_feed(
        self, now: float, request: FetchRequest, name: FullTrackName
    ) -> NetworkFeed | None:
        """Make a feed for the answer, to its source; None if no way leads there."""

    def close_feed(self, now: float, feed: NetworkFeed, *, cut: bool) -> None:
        """Nothing more goes into it; with ``cut`` what is under way is reset."""


NO_FETCHES = FetchRefusal(SubscribeCode.NO_PUBLISHER, "there are no clients here")
"""The answer of a relay without clients."""
