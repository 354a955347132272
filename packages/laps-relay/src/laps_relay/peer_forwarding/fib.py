"""The FIB: which ingress goes to which sets. Only this module writes it; the hot path reads it."""

from __future__ import annotations

from collections.abc import Sequence

from laps_relay.peer_forwarding.forwarding import LOCAL, EgressSet, Ingress, SetIdle
from laps_relay.peer_forwarding.state import Entry, Session, State, Target
from laps_sdk.upstream.interfaces import DataSink

__all__ = ["Fib"]


class Fib:
    """The entries of feeds and of sessions, and the sets that they send to."""

    __slots__ = ("_sessions", "_state", "local")

    def __init__(self, state: State, sessions: dict[int, Session]) -> None:
        self._state = state
        self._sessions = sessions
        self.local: dict[int, Entry] = {}
        """The entries of feeds, by feed number."""

    def entries(self) -> list[Entry]:
        """Return all entries."""
        found = list(self.local.values())
        for session in self._sessions.values():
            found += session.entries.values()
        return found

    def get(self, ingress: Ingress) -> Entry | None:
        """Return the entry of an ingress, or None."""
        table = self._table(ingress)
        return None if table is None else table.get(ingress.set_id)

    def __len__(self) -> int:
        """How many entries there are."""
        return len(self.local) + sum(len(each.entries) for each in self._sessions.values())

    def install(
        self, now: float, ingress: Ingress, egress: Sequence[EgressSet], sink: DataSink | None
    ) -> None:
        """Make or replace an entry; do nothing for a session that has ended."""
        table = self._table(ingress)
        if table is None:
            return
        entry = table.get(ingress.set_id)
        if entry is None:
            entry = table[ingress.set_id] = Entry(ingress)
        before = entry.targets
        entry.sink = sink
        entry.egress = tuple(dict.fromkeys(egress))
        found = (self.target(each) for each in entry.egress)
        entry.targets = tuple(target for target in found if target is not None)
        for target in entry.targets:
            target.entries[entry] = None
            if target.retired is not None:
                target.retired = None
                self._state.timers.cancel(target)
        self._leave(now, entry, before)

    def remove(self, now: float, ingress: Ingress) -> None:
        """Remove an entry."""
        table = self._table(ingress)
        entry = None if table is None else table.pop(ingress.set_id, None)
        if entry is not None:
            before, entry.targets = entry.targets, ()
            self._leave(now, entry, before)

    def _table(self, ingress: Ingress) -> dict[int, Entry] | None:
        if ingress.session == LOCAL:
            return self.local
        session = self._sessions.get(ingress.session)
        return None if session is None else session.entries

    def _leave(self, now: float, entry: Entry, before: tuple[Target, ...]) -> None:
        """Release the sets that an entry no longer sends to."""
        for target in before:
            if target not in entry.targets:
                del target.entries[entry]
                if target.retired is None:
                    self._state.rest(now, target)

    # Sets

    def target(self, egress: EgressSet) -> Target | None:
        """Return one of our sets, made if needed; None if its session has ended."""
        session = self._sessions.get(egress.session)
        if session is None:
            return None
        target = session.targets.get(egress.sns_id)
        if target is None:
            target = session.targets[egress.sns_id] = Target(session, egress.sns_id)
        return target

    def retire(self, now: float, egress: EgressSet) -> None:
        """Report a set when it is idle; at once if its session has ended."""
        target = self.target(egress)
        if target is None:
            self._state.notices.append(SetIdle(egress))
            return
        target.retired = now
        if not target.open:
            self._state.rest(now, target)

    def forget(self, now: float, session: Session) -> None:
        """Remove the entries and sets of a session that has ended."""
        for target in session.targets.values():
            self._state.timers.cancel(target)
            target.retired = None
            for entry in target.entries:
                entry.targets = tuple(each for each in entry.targets if each is not target)
            target.entries.clear()
        for entry in session.entries.values():
            before, entry.targets = entry.targets, ()
            self._leave(now, entry, before)
        session.targets.clear()
        session.entries.clear()
