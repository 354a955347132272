"""Our own sets on all sessions: made, changed, retired, ended.

::

    make --> current --> (retire) --> retired --> (SetIdle) --> withdrawn
                 |                        |
                 '--- end: streams reset, targets removed, withdrawn at once; no relay needs
                      the set now, or policy forbids its path
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from laps_relay.network.sets.set_records import IngressRecord, OutSet, SetsCounters
from laps_relay.network.sets.set_routing import SetRouting
from laps_relay.peer_forwarding.forwarding import EgressSet
from laps_relay.peer_forwarding.plane import PeerPlane
from laps_wire.errors import StateError
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import StreamCode

__all__ = ["EgressSets"]


class EgressSets:
    """The sets that this relay has advertised and not withdrawn, on every session."""

    __slots__ = ("_plane", "_routing", "_sessions", "counters")

    def __init__(self, routing: SetRouting, plane: PeerPlane, counters: SetsCounters) -> None:
        self._routing = routing
        self._plane = plane
        self.counters = counters
        self._sessions: dict[int, dict[int, OutSet]] = {}

    def get(self, egress: EgressSet) -> OutSet | None:
        """Return a set, or None if it no longer exists."""
        return self._sessions.get(egress.session, {}).get(egress.sns_id)

    def on(self, session: int) -> int:
        """Return how many sets exist on a session, retired ones too."""
        return len(self._sessions.get(session, ()))

    def __len__(self) -> int:
        """How many sets exist on all sessions."""
        return sum(len(sets) for sets in self._sessions.values())

    def make(
        self, now: float, session: int, targets: frozenset[NodeId], owner: IngressRecord
    ) -> OutSet | None:
        """Advertise a set; return None if the session does not take it."""
        try:
            sns_id = self._routing.advertise_sns(
                now, session, sorted(targets), owner.hops, owner.scope
            )
        except StateError:
            return None
        made = OutSet(EgressSet(session, sns_id), targets, owner)
        self._sessions.setdefault(session, {})[sns_id] = made
        self.counters.made += 1
        return made

    def update(self, now: float, item: OutSet, targets: frozenset[NodeId]) -> bool:
        """Change a set in place; return False if the session does not take the change."""
        if targets == item.targets:
            return True
        try:
            self._routing.update_sns(now, item.egress.session, item.egress.sns_id, sorted(targets))
        except StateError:
            return False
        item.targets = targets
        return True

    def shrink(self, now: float, item: OutSet, targets: frozenset[NodeId]) -> None:
        """Remove targets from a set, even if its session can no longer send."""
        if not self.update(now, item, targets):
            item.targets = targets

    def retire(self, now: float, item: OutSet) -> None:
        """Let no new stream use a set; the plane reports when none is left."""
        item.retired = True
        self._plane.retire(now, item.egress)

    def end(self, now: float, item: OutSet) -> None:
        """Reset the streams of a set and withdraw it: it has no targets, or policy forbids it.

        After a plain withdrawal the peer goes on with what it has, which may wait there for long.
        So the targets are removed first (laps-2, 6.1). The peer's own policy is not enough: a set
        that is older than the class of its data does not name that class.
        """
        self._plane.cut(now, item.egress, StreamCode.NO_SUBSCRIBERS)
        self.withdraw(now, item, empty=True)

    def enforce(self, now: float, permits: Callable[[str, tuple[NodeId, ...]], bool]) -> None:
        """Apply a new policy to streams whose ingress has ended.

        Sets with an ingress are checked together with that.
        """
        orphans = [
            item for sets in self._sessions.values() for item in sets.values() if item.owner is None
        ]
        for item in orphans:
            stay = frozenset(
                node for node in item.targets if permits(item.scope, item.relays.get(node, ()))
            )
            if stay:
                self.shrink(now, item, stay)
            else:
                self.end(now, item)

    def withdraw(self, now: float, item: OutSet, *, empty: bool = False) -> None:
        """Withdraw a set without data under way; with ``empty`` remove its targets first."""
        # A session that is about to end takes its sets with it.
        with suppress(StateError):
            self._routing.withdraw_sns(now, *item.egress, empty=empty)
        self._forget(item)
        sets = self._sessions[item.egress.session]
        del sets[item.egress.sns_id]
        if not sets:
            del self._sessions[item.egress.session]

    def session_gone(self, session: int) -> list[OutSet]:
        """Remove all sets of a session that has ended; return them, the oldest first."""
        gone = list(self._sessions.pop(session, {}).values())
        for item in gone:
            self._forget(item)
        return gone

    def _forget(self, item: OutSet) -> None:
        self.counters.ended += 1
        if item.owner is not None:
            item.owner.retired.pop(item.egress, None)
