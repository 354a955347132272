"""Whom to dial and when, in virtual time."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laps_sdk.peering.dialler import Contact, Dialler
from laps_sdk.peering.events import Dial, PeerDown, PeerRefused, PeerUp
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import CloseCode
from laps_wire.peering.laps2 import (
    Direction,
    Mode,
    NodeInfo,
    NodeSelf,
    RelayType,
    Settings,
    Stamp,
)
from laps_wire.peering.session import Draining, Role, Staying
from testkit.properties import examples

N20, N30, N40 = NodeId(20), NodeId(30), NodeId(40)


class Rig:
    """A dialler, a clock, and what a shell would tell it."""

    def __init__(self, **more: Any) -> None:
        self.now = 100.0
        self.dialler = Dialler(random.Random(1).random, **more)
        self.sessions = 0

    def contacts(self, *contacts: Contact | str) -> None:
        wanted = [Contact(address=each) if isinstance(each, str) else each for each in contacts]
        self.dialler.set_contacts(self.now, wanted)

    def dials(self) -> list[Dial]:
        return self.dialler.poll_dials(self.now)

    def one(self) -> Dial:
        (dial,) = self.dials()
        return dial

    def wait(self) -> float:
        """Let time pass until there is something to dial; gives how long it was."""
        due = self.dialler.poll_timeout()
        assert due is not None
        passed = max(0.0, due - self.now)
        self.now += passed
        return passed

    def made(self, dial: Dial) -> int:
        self.sessions += 1
        self.dialler.made(self.now, dial.number, self.sessions)
        return self.sessions

    def up(self, session: int, node: NodeId, *, control: bool = True) -> None:
        info = NodeInfo(NodeSelf(node, RelayType.EDGE, Stamp(1, 0)))
        event = PeerUp(
            session=session,
            node=info,
            mode=Mode.BOTH if control else Mode.DATA,
            direction=Direction.BIDIRECTIONAL,
            control=control,
            sends_data=True,
            receives_data=True,
            features=frozenset(),
            alpn="laps-2",
            role=Role.DIALLER,
            dial=None,
            settings=Settings(),
        )
        self.dialler.observe(self.now, session, event)

    def arrive(self, node: NodeId, *, control: bool = True) -> int:
        """Somebody else dialled us."""
        self.sessions += 1
        self.up(self.sessions, node, control=control)
        return self.sessions

    def connect(self, node: NodeId, *, control: bool = True) -> int:
        session = self.made(self.one())
        self.up(session, node, control=control)
        return session

    def refused(self, session: int, code: int, **more: Any) -> None:
        event = PeerRefused(session=session, code=code, reason="no", **more)
        self.dialler.observe(self.now, session, event)

    def down(self, session: int, node: NodeId) -> None:
        event = PeerDown(
            session=session, node=node, control=True, code=0, reason="", by_peer=True, dial=None
        )
        self.dialler.observe(self.now, session, event)

    def phases(self) -> list[str]:
        return [row.phase for row in self.dialler.rows()]


# Contacts


def test_a_contact_is_dialled_at_once_and_only_once() -> None:
    rig = Rig()
    rig.contacts("a:1")
    dial = rig.one()
    assert (dial.contact, dial.node, dial.mode, dial.dynamic) == ("a:1", None, Mode.BOTH, False)
    assert dial.direction is Direction.BIDIRECTIONAL
    assert rig.dials() == []
    assert rig.dialler.poll_timeout() is None
    session = rig.made(dial)
    assert rig.phases() == ["greeting"]
    rig.up(session, N20)
    assert rig.phases() == ["up"]
    assert rig.dialler.poll_timeout() is None


def test_a_contact_may_say_who_and_what() -> None:
    rig = Rig()
    rig.contacts(
        Contact(
            address="a", node=N20, mode=Mode.CONTROL, direction=Direction.UNIDIRECTIONAL, parallel=4
        )
    )
    dial = rig.one()
    assert (dial.node, dial.mode, dial.direction) == (N20, Mode.CONTROL, Direction.UNIDIRECTIONAL)
    rig.up(rig.made(dial), N20)
    assert rig.dials() == []  # control alone has no parallel connections


def test_a_contact_may_say_which_protocol() -> None:
    rig = Rig()
    rig.contacts(Contact(address="a:1", alpn="moqt-16"), "b:1")
    assert [(dial.contact, dial.alpn) for dial in rig.dials()] == [("a:1", "moqt-16"), ("b:1", "")]


def test_delays_grow_are_drawn_and_are_capped() -> None:
    rig = Rig()
    rig.contacts("a:1")
    delays = []
    for _ in range(12):
        rig.dialler.failed(rig.now, rig.one().number, "no route")
        delays.append(rig.wait())
    for index, delay in enumerate(delays):
        most = min(30.0, 0.5 * 2**index)
        assert most / 2 <= delay <= most
    assert len(set(delays)) == len(delays)
    reports = rig.dialler.poll_reports()
    assert len(reports) == 12
    assert {(each.contact, each.reason) for each in reports} == {("a:1", "no route")}
    assert reports[-1].retry_at == rig.now
    assert rig.dialler.poll_reports() == []


def test_two_relays_do_not_come_back_together() -> None:
    delays = []
    for seed in (1, 2):
        rig = Rig()
        rig.dialler = Dialler(random.Random(seed).random)
        rig.contacts("a")
        rig.dialler.failed(rig.now, rig.one().number, "")
        delays.append(rig.wait())
    assert delays[0] != delays[1]


def test_a_session_that_lasted_forgives() -> None:
    rig = Rig()
    rig.contacts("a")
    for _ in range(6):
        rig.dialler.failed(rig.now, rig.one().number, "")
        rig.wait()
    session = rig.connect(N20)
    rig.down(session, N20)  # at once: nothing is forgiven
    assert rig.wait() > 10
    session = rig.connect(N20)
    rig.now += 60
    rig.down(session, N20)
    assert rig.wait() <= 0.5
    quiet = [each for each in rig.dialler.poll_reports() if "ended" in each.reason]
    assert not quiet  # that a session ended is told elsewhere


def test_a_connection_that_ends_without_a_word_is_tried_again() -> None:
    rig = Rig()
    rig.contacts("a")
    session = rig.made(rig.one())
    rig.dialler.ended(rig.now, session)
    rig.dialler.ended(rig.now, session)
    assert rig.phases() == ["waiting"]
    assert rig.dialler.poll_reports()[0].reason == "the session ended"


def test_contacts_can_be_replaced() -> None:
    rig = Rig()
    rig.contacts("a", "b", "c")
    dials = {dial.contact: dial for dial in rig.dials()}
    kept = rig.made(dials["a"])
    rig.up(kept, N20)
    gone = rig.made(dials["b"])
    rig.up(gone, N30)
    rig.contacts("a", "d")
    assert rig.dialler.has_unwanted
    assert rig.dialler.poll_unwanted() == [gone]
    late = rig.made(dials["c"])  # was under way
    assert rig.dialler.poll_unwanted() == [gone, late]
    rig.down(gone, N30)
    rig.refused(late, CloseCode.NO_ERROR)
    assert (rig.dialler.has_unwanted, rig.dialler.poll_unwanted()) == (False, [])
    assert [dial.contact for dial in rig.dials()] == ["d"]
    assert [row.contact for row in rig.dialler.rows()] == ["a", "d"]
    rig.dialler.failed(rig.now, dials["c"].number, "late")
    assert rig.dialler.poll_reports() == []


def test_who_stops_dials_nobody() -> None:
    rig = Rig()
    rig.contacts("a")
    rig.dialler.stop()
    assert rig.dialler.poll_timeout() is None
    assert rig.dials() == []


def long_wait(rig: Rig) -> float:
    """A relay was up in its first life, and has been away for several dials since."""
    rig.contacts("a")
    rig.down(rig.connect(N20), N20)
    for _ in range(5):
        rig.wait()
        rig.dialler.failed(rig.now, rig.one().number, "nobody there")
    due = rig.dialler.poll_timeout()
    assert due is not None
    return due - rig.now


def test_who_is_heard_of_in_a_new_life_is_dialled_soon() -> None:
    rig = Rig()
    assert long_wait(rig) > 5.0
    rig.dialler.node_advertised(rig.now, N30, 2)  # somebody else
    rig.dialler.node_advertised(rig.now, N20, 1)  # the old life: not everybody knows yet
    assert rig.wait() > 5.0
    rig.dialler.failed(rig.now, rig.one().number, "nobody there")
    rig.dialler.node_advertised(rig.now, N20, 2)
    assert rig.wait() <= 0.5
    # It is not there after all: once for each life, and what failed before still counts.
    rig.dialler.failed(rig.now, rig.one().number, "nobody there")
    rig.dialler.node_advertised(rig.now, N20, 2)
    assert rig.wait() > 5.0


def test_news_of_a_node_never_makes_anybody_wait_for_longer() -> None:
    rig = Rig()
    due = long_wait(rig)
    rig.now += due
    rig.dialler.node_advertised(rig.now, N20, 2)
    assert rig.wait() == 0.0


@pytest.mark.parametrize(
    ("code", "retry_after"), [(CloseCode.NOT_AUTHORIZED, 0.0), (CloseCode.OVERLOADED, 20.0)]
)
def test_news_of_a_node_changes_nothing_for_who_was_sent_away(
    code: int, retry_after: float
) -> None:
    rig = Rig()
    rig.contacts(Contact(address="a", node=N20))
    rig.refused(rig.made(rig.one()), code, retry_after=retry_after)
    rig.dialler.node_advertised(rig.now, N20, 2)
    assert rig.wait() >= 15.0


# Refusals


@pytest.mark.parametrize(
    "code", [CloseCode.NOT_AUTHORIZED, CloseCode.POLICY, CloseCode.REDUNDANT_CONTROL]
)
def test_what_only_a_person_can_change_is_asked_rarely(code: int) -> None:
    rig = Rig()
    rig.contacts("a")
    rig.refused(rig.made(rig.one()), code)
    assert 15 <= rig.wait() <= 30


def test_other_refusals_are_failures_like_any_other() -> None:
    rig = Rig()
    rig.contacts("a")
    rig.refused(rig.made(rig.one()), CloseCode.OVERLOADED)
    assert rig.wait() <= 0.5


def test_a_peer_says_when_to_come_back() -> None:
    rig = Rig()
    rig.contacts("a")
    rig.refused(rig.made(rig.one()), CloseCode.OVERLOADED, retry_after=77.0)
    assert rig.wait() == 77.0
    rig.refused(rig.made(rig.one()), CloseCode.OVERLOADED, retry_after=1e18)
    assert rig.wait() == 3600.0


def test_a_peer_says_whom_to_dial_instead() -> None:
    rig = Rig()
    rig.contacts(Contact(address="a", node=N20))
    rig.refused(rig.made(rig.one()), CloseCode.DRAINED, redirect=("b", "c"))
    assert rig.wait() <= 0.5
    dial = rig.one()
    assert (dial.contact, dial.node) == ("b", None)
    rig.dialler.failed(rig.now, dial.number, "nobody")
    rig.wait()
    dial = rig.one()
    assert dial.contact == "c"
    session = rig.made(dial)
    rig.up(session, N30)
    rig.now += 100
    rig.down(session, N30)
    rig.wait()
    assert rig.one() == dial._replace(number=dial.number + 1, contact="a", node=N20)


def test_nobody_is_sent_round_in_circles() -> None:
    rig = Rig()
    rig.contacts("a")
    seen = []
    for _ in range(6):
        dial = rig.one()
        seen.append(dial.contact)
        rig.refused(rig.made(dial), CloseCode.DRAINED, redirect=("b",))
        rig.wait()
    assert seen == ["a", "b", "b", "b", "b", "a"]


@pytest.mark.parametrize(("relay_type", "then"), [(RelayType.STUB, "b"), (RelayType.EDGE, "a")])
def test_a_parent_that_drains_says_where_to_go(relay_type: RelayType, then: str) -> None:
    """A Stub goes there; others have more peers, and wait for this one."""
    rig = Rig(relay_type=relay_type)
    rig.contacts("a")
    session = rig.connect(N20)
    rig.dialler.observe(rig.now, session, Draining(deadline=0.0, reason="", alternates=("b", "c")))
    rig.dialler.observe(rig.now, 99, Draining(deadline=0.0, reason="", alternates=("x",)))
    rig.down(session, N20)
    rig.wait()
    assert rig.one().contact == then


def test_a_parent_that_stays_is_dialled_again() -> None:
    rig = Rig(relay_type=RelayType.STUB)
    rig.contacts("a")
    session = rig.connect(N20)
    rig.dialler.observe(rig.now, session, Draining(deadline=0.0, reason="", alternates=("b",)))
    rig.dialler.observe(rig.now, session, Staying())
    rig.dialler.observe(rig.now, 99, Staying())
    rig.down(session, N20)
    rig.wait()
    assert rig.one().contact == "a"


def test_who_does_not_go_away_after_all_dials_again() -> None:
    rig = Rig()
    rig.dialler.stop()
    rig.contacts("a")
    assert rig.dials() == []
    rig.dialler.resume()
    assert rig.one().contact == "a"


def test_ourselves_are_not_dialled_again() -> None:
    rig = Rig(own_contacts=("me:1",))
    rig.contacts("me:1", "alias:1")
    rig.refused(rig.made(rig.one()), CloseCode.NODE_ID_CONFLICT, to_self=True)
    rig.now += 10_000
    assert rig.dials() == []
    reports = rig.dialler.poll_reports()
    assert [(each.contact, each.retry_at) for each in reports] == [
        ("me:1", None),
        ("alias:1", None),
    ]
    assert "ourselves" in reports[0].reason
    assert rig.phases() == ["idle", "idle"]


def test_a_control_server_is_asked_again_for_control_alone() -> None:
    rig = Rig()
    rig.contacts(Contact(address="a", parallel=3))
    rig.refused(rig.made(rig.one()), CloseCode.MODE_REFUSED)
    dial = rig.one()  # at once
    assert dial.mode is Mode.CONTROL
    session = rig.made(dial)
    rig.up(session, N20)
    assert rig.dials() == []
    rig.down(session, N20)
    rig.wait()
    assert rig.one().mode is Mode.BOTH  # it may be another relay now


def test_a_stub_asks_for_nothing_less() -> None:
    rig = Rig(relay_type=RelayType.STUB)
    rig.contacts(Contact(address="a", parallel=3))
    session = rig.made(rig.one())
    rig.refused(session, CloseCode.MODE_REFUSED)
    assert rig.wait() >= 15
    assert rig.one().mode is Mode.BOTH


def test_a_control_server_asks_for_control() -> None:
    rig = Rig(relay_type=RelayType.CONTROL)
    rig.contacts(Contact(address="a", parallel=3))
    dial = rig.one()
    assert dial.mode is Mode.CONTROL
    rig.up(rig.made(dial), N20)
    assert rig.dials() == []


# Parallel connections


def test_parallel_connections_follow_the_first_to_its_node() -> None:
    rig = Rig()
    rig.contacts(Contact(address="a", parallel=3))
    first = rig.connect(N20)
    others = rig.dials()
    assert [(dial.mode, dial.node) for dial in others] == [(Mode.DATA, N20)] * 2
    sessions = [rig.made(dial) for dial in others]
    for session in sessions:
        rig.up(session, N20, control=False)
    rig.down(sessions[0], N20)
    rig.wait()
    assert rig.one().mode is Mode.DATA
    # Without the first one the others are not dialled; those that are there stay.
    rig.down(first, N20)
    rig.down(sessions[1], N20)
    assert sorted(rig.phases()) == ["dialling", "idle", "waiting"]
    rig.wait()
    rig.connect(N30)
    (again,) = rig.dials()
    assert (again.node, again.mode) == (N30, Mode.DATA)


# Wishes


def test_a_demand_is_dialled_as_that_node_and_given_up_when_it_is_over() -> None:
    rig = Rig()
    rig.dialler.add_demand(rig.now, N20, ("a", "b"))
    rig.dialler.add_demand(rig.now, N20, ("a", "b"))
    dial = rig.one()
    assert (dial.contact, dial.node, dial.dynamic) == ("a", N20, True)
    rig.dialler.failed(rig.now, dial.number, "")
    rig.wait()
    dial = rig.one()
    assert dial.contact == "b"
    session = rig.made(dial)
    rig.up(session, N20)
    assert rig.dialler.demanded() == [N20]
    rig.dialler.remove_demand(rig.now, N20)
    rig.dialler.remove_demand(rig.now, N20)
    assert rig.dialler.poll_unwanted() == [session]
    rig.down(session, N20)
    assert rig.dialler.rows() == []
    assert rig.dialler.poll_timeout() is None


def test_a_demand_is_fulfilled_by_whoever_dialled() -> None:
    rig = Rig()
    first = rig.arrive(N20)
    rig.dialler.add_demand(rig.now, N20, ("a",))
    assert rig.dials() == []
    rig.down(first, N20)
    dial = rig.one()
    rig.dialler.failed(rig.now, dial.number, "")
    second = rig.arrive(N20)
    rig.now += 100
    assert rig.dials() == []
    assert rig.phases() == ["idle"]
    third = rig.arrive(N20, control=False)
    rig.down(second, N20)
    assert rig.dials() == []
    rig.down(third, N20)
    assert rig.one().contact == "a"


def test_a_fulfilled_demand_whose_own_session_ends_waits_for_the_others() -> None:
    rig = Rig()
    rig.dialler.add_demand(rig.now, N20, ("a",))
    own = rig.connect(N20)
    other = rig.arrive(N20, control=False)
    rig.down(own, N20)
    rig.now += 100
    assert rig.phases() == ["idle"]
    rig.down(other, N20)
    assert len(rig.dials()) == 1


def test_a_demand_may_get_other_contacts() -> None:
    rig = Rig()
    rig.dialler.add_demand(rig.now, N20, ("a",))
    session = rig.connect(N20)
    rig.dialler.add_demand(rig.now, N20, ("b",))
    assert rig.dialler.poll_unwanted() == []  # what is up is good
    assert rig.dials() == []
    rig.down(session, N20)
    rig.wait()
    dial = rig.one()
    assert dial.contact == "b"
    greeting = rig.made(dial)
    rig.dialler.add_demand(rig.now, N20, ("c",))
    assert rig.dialler.poll_unwanted() == [greeting]
    assert rig.one().contact == "c"


def test_a_demand_that_got_other_contacts_is_given_up_like_any_other() -> None:
    rig = Rig()
    rig.dialler.add_demand(rig.now, N20, ("a",))
    session = rig.connect(N20)
    rig.dialler.add_demand(rig.now, N20, ("b",))
    rig.dialler.remove_demand(rig.now, N20)
    assert rig.dialler.poll_unwanted() == [session]
    rig.down(session, N20)
    assert rig.dialler.rows() == []


def test_contacts_that_lead_elsewhere_are_struck() -> None:
    rig = Rig()
    rig.dialler.add_demand(rig.now, N20, ("a", "b"))
    rig.refused(rig.made(rig.one()), CloseCode.WRONG_NODE)
    rig.wait()
    dial = rig.one()
    assert dial.contact == "b"
    rig.refused(rig.made(dial), CloseCode.WRONG_NODE)
    rig.now += 1000
    assert rig.dials() == []
    assert rig.dialler.poll_reports()[-1].retry_at is None
    session = rig.arrive(N20)
    rig.down(session, N20)
    assert rig.dials() == []


def test_a_demand_without_contacts_is_hopeless() -> None:
    rig = Rig()
    rig.dialler.add_demand(rig.now, N20, ())
    assert rig.dials() == []
    assert rig.dialler.poll_reports()[0].retry_at is None


def test_all_demands_at_once() -> None:
    rig = Rig()
    rig.dialler.set_demands(rig.now, {N30: ("c",), N20: ("b",)})
    assert [dial.contact for dial in rig.dials()] == ["b", "c"]
    rig.dialler.set_demands(rig.now, {N30: ("c",)})
    assert rig.dialler.demanded() == [N30]


def test_control_servers_are_dialled_for_control_unless_they_are_dialled_anyway() -> None:
    rig = Rig()
    rig.dialler.set_contacts(rig.now, [Contact(address="b")])
    rig.dialler.set_demands(rig.now, {N30: ("c",)}, {N20: ("b",), N30: ("c",), N40: ("d",)})
    assert rig.dialler.demanded() == [N30, N40]
    modes = {dial.contact: dial.mode for dial in rig.dials()}
    assert modes == {"b": Mode.BOTH, "c": Mode.BOTH, "d": Mode.CONTROL}
    rig.dialler.set_demands(rig.now, {}, {N40: ()})
    assert rig.dialler.demanded() == []


def test_a_redirect_does_not_change_whom_a_demand_means() -> None:
    rig = Rig()
    rig.dialler.add_demand(rig.now, N20, ("a",))
    rig.refused(rig.made(rig.one()), CloseCode.OVERLOADED, redirect=("b",))
    rig.wait()
    dial = rig.one()
    assert (dial.contact, dial.node) == ("b", N20)


# Control that went


def test_a_lesser_connection_is_renewed_when_control_is_lost() -> None:
    rig = Rig()
    rig.contacts("a")
    theirs = rig.arrive(N20)
    lesser = rig.connect(N20, control=False)
    rig.down(theirs, N20)
    assert rig.wait() >= 1.0
    dial = rig.one()
    assert dial.mode is Mode.BOTH
    assert rig.dialler.poll_unwanted() == []  # data goes on
    better = rig.made(dial)
    rig.up(better, N20)
    assert rig.dialler.poll_unwanted() == [lesser]
    rig.down(lesser, N20)
    assert rig.phases() == ["up"]


def test_if_they_dial_again_in_time_nothing_is_renewed() -> None:
    rig = Rig()
    rig.contacts("a")
    theirs = rig.arrive(N20)
    rig.connect(N20, control=False)
    rig.down(theirs, N20)
    rig.arrive(N20)
    rig.wait()
    assert rig.dials() == []
    assert rig.phases() == ["up"]


def test_control_is_asked_for_again_while_only_the_other_side_believes_in_it() -> None:
    # Half a cut: we have lost the connection, they have not, and deny control on the next one.
    rig = Rig()
    rig.contacts("a")
    rig.down(rig.connect(N20), N20)
    rig.wait()
    lesser = rig.connect(N20, control=False)
    assert rig.wait() >= 1.0
    better = rig.made(rig.one())
    rig.up(better, N20)
    assert rig.dialler.poll_unwanted() == [lesser]
    assert rig.dialler.poll_timeout() is None


def test_a_renewal_that_fails_leaves_what_there_was() -> None:
    rig = Rig()
    rig.contacts("a")
    theirs = rig.arrive(N20)
    lesser = rig.connect(N20, control=False)
    rig.down(theirs, N20)
    rig.wait()
    rig.dialler.failed(rig.now, rig.one().number, "no route")
    assert rig.phases() == ["up"]
    assert rig.dialler.rows()[0].session == lesser
    assert rig.wait() >= 15
    dial = rig.one()
    rig.down(lesser, N20)  # while the next attempt is under way
    assert rig.phases() == ["dialling"]
    rig.dialler.failed(rig.now, dial.number, "no route")
    assert rig.phases() == ["waiting"]


def test_stubs_are_no_nodes() -> None:
    rig = Rig()
    session = rig.arrive(NodeId(0))
    rig.down(session, NodeId(0))
    assert rig.dialler.rows() == []


# Everything together


@settings(max_examples=examples(40))
@given(st.integers(0, 2**32), st.lists(st.integers(0, 9), max_size=60))
def test_in_the_end_everything_is_connected(seed: int, fate: list[int]) -> None:
    """Whatever happens first, a network that works again is connected in bounded time."""
    rig = Rig()
    rig.dialler = Dialler(random.Random(seed).random)
    rig.contacts(Contact(address="a", parallel=2), "b")
    rig.dialler.add_demand(rig.now, N30, ("c", "d"))
    where = {"a": N20, "b": NodeId(40), "c": N30, "d": N30}
    live: dict[int, NodeId] = {}
    fates = iter(fate)

    def act(dial: Dial, what: int) -> None:
        if what < 3:
            rig.dialler.failed(rig.now, dial.number, "no")
            return
        session = rig.made(dial)
        if what < 5:
            rig.refused(session, (CloseCode.OVERLOADED, CloseCode.POLICY)[what - 3])
            return
        node = where[dial.contact]
        rig.up(session, node, control=dial.mode.control)
        live[session] = node
        if what < 7:
            rig.down(session, live.pop(session))

    numbers: set[int] = set()
    for _ in range(400):
        for session in rig.dialler.poll_unwanted():
            rig.down(session, live.pop(session, N20))
        for dial in rig.dials():
            assert dial.number not in numbers
            numbers.add(dial.number)
            act(dial, next(fates, 9))
        if rig.dialler.poll_timeout() is None:
            break
        rig.wait()
    assert sorted(rig.phases()) == ["up", "up", "up", "up"]
    assert sorted(live.values()) == [20, 20, 30, 40]
