"""The FIB: entries and sets come and go."""

from __future__ import annotations

from laps_relay.peer_forwarding.fib import Fib
from laps_relay.peer_forwarding.forwarding import LOCAL, EgressSet, Ingress, SetIdle
from laps_relay.peer_forwarding.state import Session, State
from testkit.peer_plane import Holder, Peer, Sink

FROM, OTHER = Ingress(1, 7), Ingress(1, 8)


def make() -> tuple[Fib, State, dict[int, Session]]:
    state = State(1.0, 0.5)
    sessions = {number: Session(number, Peer(), Holder()) for number in (1, 2, 3)}
    return Fib(state, sessions), state, sessions


def test_entries_of_sessions_and_feeds() -> None:
    fib, _, sessions = make()
    sink = Sink()
    fib.install(0.0, FROM, [EgressSet(2, 4), EgressSet(3, 4), EgressSet(2, 4)], sink)
    fib.install(0.0, Ingress(LOCAL, 1), [EgressSet(2, 5)], None)
    feed, entry = fib.entries()
    assert len(fib) == 2
    assert entry is sessions[1].entries[7]
    assert feed is fib.local[1]
    assert entry.egress == (EgressSet(2, 4), EgressSet(3, 4))
    assert [target.egress_set for target in entry.targets] == list(entry.egress)
    assert entry.sink is sink
    assert set(sessions[2].targets) == {4, 5}
    fib.remove(0.0, FROM)
    fib.remove(0.0, FROM)
    fib.remove(0.0, Ingress(LOCAL, 1))
    assert fib.entries() == []
    assert entry.targets == ()
    assert sessions[2].targets == sessions[3].targets == {}


def test_an_entry_is_replaced_and_keeps_its_figures() -> None:
    fib, _, sessions = make()
    fib.install(0.0, FROM, [EgressSet(2, 4)], Sink())
    (entry,) = fib.entries()
    entry.streams = 5
    fib.install(0.0, FROM, [EgressSet(3, 1)], None)
    assert fib.entries() == [entry]
    assert entry.streams == 5
    assert entry.sink is None
    assert sessions[2].targets == {}


def test_a_set_that_two_entries_use() -> None:
    fib, _, sessions = make()
    fib.install(0.0, FROM, [EgressSet(2, 4)], None)
    fib.install(0.0, OTHER, [EgressSet(2, 4)], None)
    fib.remove(0.0, FROM)
    assert set(sessions[2].targets) == {4}
    sessions[2].targets[4].open = 1
    fib.remove(0.0, OTHER)
    assert set(sessions[2].targets) == {4}


def test_sessions_that_are_not_there() -> None:
    fib, state, _ = make()
    fib.install(0.0, Ingress(9, 1), [EgressSet(2, 4)], None)
    fib.remove(0.0, Ingress(9, 1))
    assert fib.entries() == []
    fib.install(0.0, FROM, [EgressSet(9, 4), EgressSet(2, 4)], None)
    (entry,) = fib.entries()
    assert entry.egress == (EgressSet(9, 4), EgressSet(2, 4))
    assert [target.egress_set for target in entry.targets] == [EgressSet(2, 4)]
    fib.retire(0.0, EgressSet(9, 4))
    assert state.notices == [SetIdle(EgressSet(9, 4))]


def test_a_set_that_is_retired_and_used_again() -> None:
    fib, state, sessions = make()
    fib.install(0.0, FROM, [EgressSet(2, 4)], None)
    fib.retire(5.0, EgressSet(2, 4))
    assert state.timers.next() == 6.0
    fib.install(5.5, FROM, [], None)
    assert set(sessions[2].targets) == {4}
    assert state.timers.next() == 6.0
    fib.install(5.5, FROM, [EgressSet(2, 4)], None)
    assert state.timers.next() is None
    sessions[2].targets[4].open = 1
    fib.retire(7.0, EgressSet(2, 4))
    assert state.timers.next() is None


def test_a_set_that_was_never_used_is_reported_too() -> None:
    fib, state, sessions = make()
    fib.retire(5.0, EgressSet(2, 4))
    state.handle_timeout(6.0)
    assert state.notices == [SetIdle(EgressSet(2, 4))]
    assert sessions[2].targets == {}


def test_a_session_takes_its_entries_and_sets_with_it() -> None:
    fib, state, sessions = make()
    fib.install(0.0, FROM, [EgressSet(1, 3), EgressSet(2, 4), EgressSet(3, 4)], None)
    fib.install(0.0, Ingress(3, 2), [EgressSet(2, 4), EgressSet(1, 9)], None)
    fib.retire(0.0, EgressSet(2, 4))
    second = sessions.pop(2)
    fib.forget(1.0, second)
    assert second.targets == {}
    assert state.timers.next() is None
    first, third = fib.entries()
    assert [target.egress_set for target in first.targets] == [EgressSet(1, 3), EgressSet(3, 4)]
    assert [target.egress_set for target in third.targets] == [EgressSet(1, 9)]
    gone = sessions.pop(1)
    fib.forget(1.0, gone)
    assert fib.entries() == [third]
    assert third.targets == ()
    assert sessions[3].targets == {}
