"""What subscriber node sets ask of the relay that they belong to."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Protocol

from laps_relay.network.sets.set_records import Unserved
from laps_relay.network.steering.steering import Assignment
from laps_sdk.peering.events import Refusal
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import SnsRefusal

__all__ = ["SetHost"]


class SetHost(Protocol):
    """Steering and the sessions, as :class:`~laps_relay.network.sets.sets.Sets` sees them.

    The commands of sessions (those with ``sns`` in their name) raise
    :class:`~laps_wire.errors.StateError` where the session can not do it: the peer takes no more
    sets or targets, or the session is about to end.
    """

    # Where to

    def assign(
        self,
        now: float,
        key: int | None,
        targets: frozenset[NodeId],
        scope: str,
        *,
        arrived_on: NodeId | None,
    ) -> Assignment:
        """The best next hop of each target; a key means that the data enters the network here."""

    def detour(
        self,
        target: NodeId,
        scope: str,
        *,
        arrived_on: NodeId | None,
        avoid: frozenset[NodeId],
    ) -> NodeId | Refusal:
        """The next hop of the best way that does not begin with any of those peers."""

    def length(
        self, peer: NodeId, target: NodeId, scope: str, *, arrived_on: NodeId | None
    ) -> int | None:
        """How many relays are on the way to a target that a peer tells.

        None: it tells none, or policy forbids it, or it leads back to ``arrived_on``.
        """

    def drains(
        self, peer: NodeId, target: NodeId, scope: str, *, arrived_on: NodeId | None
    ) -> bool:
        """Whether a relay on the way to a target that a peer tells is about to go away."""

    def relays(self, peer: NodeId, target: NodeId) -> tuple[NodeId, ...]:
        """The relays on the way to a target that a peer tells, the peer first, the target last."""

    def permits(self, scope: str, relays: tuple[NodeId, ...]) -> bool:
        """Whether policy lets data of a class go from here along these relays."""

    def session_to(self, node: NodeId, key: int, used: Container[int] = ()) -> int | None:
        """The session that takes data to a peer; flows are spread over several of them by key.

        If some of them are ``used``, it is one of those.
        """

    def node_of(self, session: int) -> NodeId:
        """The peer at the other end."""

    def may_serve(self, session: int, target: NodeId) -> bool:
        """Whether that peer may send us data for a target: we have advertised it there."""

    def led(
        self,
        now: float,
        key: int,
        wanted: frozenset[NodeId],
        scope: str,
        unserved: Mapping[NodeId, Unserved],
    ) -> None:
        """Ways were looked for, for a track that enters the network here: who gets it, who not."""

    # Sets

    def advertise_sns(
        self, now: float, session: int, targets: Iterable[NodeId], hops: int, scope: str
    ) -> int:
        """Make a set; gives its id."""

    def update_sns(self, now: float, session: int, sns_id: int, targets: Iterable[NodeId]) -> None:
        """Let a set have these targets."""

    def withdraw_sns(self, now: float, session: int, sns_id: int, *, empty: bool = False) -> None:
        """End a set; with ``empty`` its targets leave it first, and with them what waits there."""

    def refuse_sns(
        self, now: float, session: int, sns_id: int, code: SnsRefusal, targets: Iterable[NodeId]
    ) -> None:
        """Tell the sender of a set that these targets get nothing."""
