"""What is told of subscriber node sets, for telemetry: which targets came and went, in each set.

``Sets`` and the wire know what a set is; only a comparison with what it was says what happened.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from laps_relay.network.events import SetChanged, SetGone
from laps_wire.nodeid import NodeId

__all__ = ["SetLog"]


class _Known(NamedTuple):
    targets: frozenset[NodeId]
    key: int | None


class SetLog:
    """All sets as they were last told, in both directions."""

    __slots__ = ("_sessions",)

    def __init__(self) -> None:
        self._sessions: dict[int, dict[tuple[bool, int], _Known]] = {}

    def changed(
        self,
        session: int,
        sns_id: int,
        targets: Iterable[NodeId],
        *,
        incoming: bool,
        key: int | None = None,
    ) -> SetChanged | None:
        """A set has these targets now; None if that is not news. A set keeps its key."""
        sets = self._sessions.setdefault(session, {})
        before = sets.get((incoming, sns_id))
        after = frozenset(targets)
        had: frozenset[NodeId] = frozenset()
        if before is not None:
            had, key = before
            if had == after:
                return None
        sets[incoming, sns_id] = _Known(after, key)
        return SetChanged(
            session=session,
            sns_id=sns_id,
            incoming=incoming,
            added=tuple(sorted(after - had)),
            removed=tuple(sorted(had - after)),
            members=len(after),
            key=key,
        )

    def gone(self, session: int, sns_id: int, *, incoming: bool) -> SetGone | None:
        """A set is over; None if it was never told."""
        sets = self._sessions.get(session, {})
        known = sets.pop((incoming, sns_id), None)
        if known is None:
            return None
        if not sets:
            del self._sessions[session]
        return SetGone(
            session=session,
            sns_id=sns_id,
            incoming=incoming,
            removed=tuple(sorted(known.targets)),
            key=known.key,
        )

    def session_gone(self, session: int) -> list[SetGone]:
        """A session took its sets with it."""
        ended = (
            self.gone(session, sns_id, incoming=incoming)
            for incoming, sns_id in sorted(self._sessions.get(session, ()))
        )
        return [each for each in ended if each is not None]

    def __len__(self) -> int:
        """How many sets live."""
        return sum(len(sets) for sets in self._sessions.values())
