"""What the interests of an Edge need from the relay around them."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from laps_relay.network.flood.floods import AnnounceTable, SubscribeTable
from laps_relay.policy.interface import Policy
from laps_sdk.upstream.interfaces import Answer
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    AnnounceInfo,
    AnnounceKind,
    NodeSelf,
    Stamp,
    SubscribeCode,
    SubscribeData,
    SubscribeResponse,
)

__all__ = ["Denial", "InterestsHost"]


class Denial(NamedTuple):
    """Something of our own clients that cannot even be begun; nothing was kept of it."""

    code: SubscribeCode
    reason: str


class InterestsHost(Protocol):
    """The relay around :class:`~laps_relay.network.subscriptions.interests.Interests`."""

    # What it has

    @property
    def announces(self) -> AnnounceTable:
        """All announces; our own are put into it and taken out of it here."""

    @property
    def subscribes(self) -> SubscribeTable:
        """All subscribes; as above."""

    @property
    def policy(self) -> Policy:
        """The policy of the moment."""

    def stamp(self) -> Stamp:
        """The next stamp of our own: one counter for everything that we originate."""

    def node(self, node: NodeId) -> NodeSelf | None:
        """What a node says of itself, our own too; None if the NIB does not have it."""

    def reaches(self, node: NodeId) -> bool:
        """Whether policy leaves any way to a node, also one over which we cannot send."""

    def replicas(self, key: int) -> tuple[NodeId, ...]:
        """The control servers that hold our subscribe for a key; none: subscribes are flooded."""

    # What it does

    def respond(self, now: float, session: int, response: SubscribeResponse) -> None:
        """Send a response over a session, at once."""

    def targets_changed(self, now: float, key: int) -> None:
        """``Interests.targets(key)`` may give something else now."""

    def refused(self, now: float, key: int, source: NodeId, code: int, reason: str) -> None:
        """For the log: a subscribe of a node (our own too) was refused."""

    # The local side (as ``LocalSide``; the feed of a pull is made by the relay)

    def pull(self, now: float, key: int, name: FullTrackName, data: SubscribeData) -> None:
        """Somebody in the network wants a track that was announced here."""

    def pull_again(self, now: float, key: int, name: FullTrackName, data: SubscribeData) -> None:
        """One more wants what is pulled already, or one of them wants something else of it."""

    def release(self, now: float, key: int) -> None:
        """Nobody does any more."""

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
        """What became of a want."""

    def discovered(self, now: float, entry: AnnounceInfo) -> None:
        """Somebody else announced a name; said once for a name, however many announce it."""

    def vanished(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """Nobody else announces it any more."""
