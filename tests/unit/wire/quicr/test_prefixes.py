"""Prefixes: the relay's tree against the rule of seed 002 taken literally."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from laps_wire.quicr import BITS, PrefixChange, RelayPrefixes, SessionPrefixes, ShortName


def bits(text: str) -> ShortName:
    return ShortName(int(text.ljust(BITS, "0"), 2), len(text))


PREFIXES = st.text(st.sampled_from("01"), max_size=4).map(
    lambda text: bits(text or "0").prefix(len(text))
)


def test_the_specifications_suppression() -> None:
    """Seed 002, Subscriptions: SN/90 and SN/91 wait for as long as SN/80 is there."""
    name = ShortName((1 << BITS) - 1)
    sn80, sn90, sn91 = (name.prefix(length) for length in (80, 90, 91))
    session = SessionPrefixes()
    assert session.add(sn90) == PrefixChange(install=(sn90,))
    assert session.add(sn91) == PrefixChange(covered_by=sn90)
    assert session.add(sn80) == PrefixChange(install=(sn80,), withdraw=(sn90,))
    assert session.active() == (sn80,)
    assert session.remove(sn80) == PrefixChange(install=(sn90,), withdraw=(sn80,))
    assert session.remove(sn91) == PrefixChange(covered_by=sn90)
    assert session.remove(sn91) == PrefixChange(covered_by=sn90)
    assert len(session) == 1


def test_the_least_specific_cover_is_told() -> None:
    session = SessionPrefixes()
    for text in ("1", "1000", "10"):
        session.add(bits(text))
    assert session.add(bits("10001")).covered_by == bits("1")
    assert session.add(bits("10001")) == PrefixChange(covered_by=bits("1"))
    assert session.add(bits("1")) == PrefixChange()
    assert bits("10001") in session
    assert bits("11") not in session


def test_the_specifications_relay_tree() -> None:
    relay: RelayPrefixes[str] = RelayPrefixes()
    one, two = SessionPrefixes(), SessionPrefixes()
    for text in ("10001", "100010101", "100010110", "1001"):
        relay.apply(one.add(bits(text)), "sess-1")
    for text in ("100010101", "100010110", "1001"):
        relay.apply(two.add(bits(text)), "sess-2")
    assert one.active() == (bits("10001"), bits("1001"))
    assert relay._sessions == {
        bits("1001"): {"sess-1": None, "sess-2": None},
        bits("10001"): {"sess-1": None},
        bits("100010101"): {"sess-2": None},
        bits("100010110"): {"sess-2": None},
    }
    full = ShortName(bits("1000101011").value)
    assert set(relay.match(full)) == {"sess-1", "sess-2"}
    assert relay.match(ShortName(bits("100011").value)) == ["sess-1"]
    assert relay.match(ShortName(0)) == []
    assert relay.match(bits("100")) == []


class Recording(RelayPrefixes[str]):
    def __init__(self) -> None:
        super().__init__()
        self.done: list[str] = []

    def install(self, name: ShortName, session: str) -> None:
        self.done.append(f"+{name.length}")
        super().install(name, session)

    def withdraw(self, name: ShortName, session: str) -> None:
        self.done.append(f"-{name.length}")
        super().withdraw(name, session)


@pytest.mark.parametrize(("gapless", "order"), [(True, ["+2", "-1"]), (False, ["-1", "+2"])])
def test_a_session_chooses_between_a_gap_and_a_duplicate(gapless: bool, order: list[str]) -> None:
    relay = Recording()
    relay.apply(PrefixChange((bits("10"),), (bits("1"),)), "s", gapless=gapless)
    assert relay.done == order


def test_withdrawing_what_is_not_there_is_nothing() -> None:
    relay: RelayPrefixes[str] = RelayPrefixes()
    relay.withdraw(bits("1"), "s")
    relay.install(bits("1"), "s")
    relay.withdraw(bits("1"), "other")
    assert relay.match(bits("11")) == ["s"]
    relay.withdraw(bits("1"), "s")
    assert len(relay) == 0
    assert not relay._lengths


class PrefixMachine(RuleBasedStateMachine):
    """Whatever sessions do, the relay's tree gives each object once to who subscribed to it."""

    def __init__(self) -> None:
        super().__init__()
        self.relay: RelayPrefixes[str] = RelayPrefixes()
        self.sessions = {name: SessionPrefixes() for name in "xy"}
        self.wanted: dict[str, set[ShortName]] = {name: set() for name in "xy"}

    @rule(session=st.sampled_from("xy"), name=PREFIXES, gapless=st.booleans())
    def subscribe(self, session: str, name: ShortName, gapless: bool) -> None:
        self.relay.apply(self.sessions[session].add(name), session, gapless=gapless)
        self.wanted[session].add(name)

    @rule(session=st.sampled_from("xy"), name=PREFIXES, gapless=st.booleans())
    def unsubscribe(self, session: str, name: ShortName, gapless: bool) -> None:
        self.relay.apply(self.sessions[session].remove(name), session, gapless=gapless)
        self.wanted[session].discard(name)

    @invariant()
    def objects_reach_their_subscribers_once(self) -> None:
        for value in range(16):
            name = ShortName(value << (BITS - 4))
            expected = {
                session
                for session, prefixes in self.wanted.items()
                if any(prefix.covers(name) for prefix in prefixes)
            }
            found = self.relay.match(name)
            assert sorted(found) == sorted(expected)
            for session in expected:
                covering = [it for it in self.sessions[session].active() if it.covers(name)]
                assert len(covering) == 1

    @invariant()
    def the_tree_holds_the_active_prefixes_and_no_more(self) -> None:
        held = {(name, who) for name, whos in self.relay._sessions.items() for who in whos}
        active = {
            (name, who) for who, session in self.sessions.items() for name in session.active()
        }
        assert held == active
        assert len(self.relay) == len({name for name, _ in active})
        for who, session in self.sessions.items():
            assert len(session) == len(self.wanted[who])
            assert all(name in session for name in self.wanted[who])
            assert session._lengths == Counter(name.length for name in self.wanted[who])
        assert self.relay._lengths == Counter(name.length for name in self.relay._sessions)


TestPrefixes = PrefixMachine.TestCase
