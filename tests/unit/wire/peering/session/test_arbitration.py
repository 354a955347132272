"""One control connection: the table, and a model of both sides under every order of events."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.errors import StateError
from laps_wire.peering.session import Arbiter, Claim, Grant, Verdict, grants_control

Side = Literal[0, 1]
SIDES: tuple[Side, Side] = (0, 1)
IDS = (5, 9)  # side 0 has the lower node id


# The table


@pytest.mark.parametrize(
    ("own", "as_lower", "as_higher"),
    [
        (Claim.NOTHING, True, True),
        (Claim.ASKED, False, True),
        (Claim.HELD, False, False),
    ],
)
def test_table(own: Claim, as_lower: bool, as_higher: bool) -> None:
    assert grants_control(own, local=5, peer=9) is as_lower
    assert grants_control(own, local=9, peer=5) is as_higher


def test_the_table_covers_every_claim() -> None:
    for own in Claim:
        assert isinstance(grants_control(own, local=1, peer=2), bool)


# One side, step by step


def test_first_connection_carries_control_and_the_second_data() -> None:
    listener: Arbiter[str] = Arbiter(9, 5)
    assert listener.answer("c1", ask=True, epoch=1) == Verdict(Grant.CONTROL)
    assert listener.answer("c2", ask=True, epoch=1) == Verdict(Grant.DATA)
    assert listener.held == "c1"
    assert listener.claim is Claim.HELD


def test_established_first_beats_the_lower_id() -> None:
    low: Arbiter[str] = Arbiter(5, 9)
    assert low.answer("dialled by 9", ask=True, epoch=1).grant is Grant.CONTROL
    assert not low.may_ask


def test_tie_the_lower_node_denies_and_the_higher_yields() -> None:
    low: Arbiter[str] = Arbiter(5, 9)
    high: Arbiter[str] = Arbiter(9, 5)
    low.dialled("L", ask=True)
    high.dialled("H", ask=True)
    assert low.answer("H", ask=True, epoch=1).grant is Grant.DATA
    assert high.answer("L", ask=True, epoch=1).grant is Grant.CONTROL
    assert low.answered("L", control=True, epoch=1) == Verdict(Grant.CONTROL)
    assert high.answered("H", control=False, epoch=1) == Verdict(Grant.DATA)
    assert low.held == high.held == "L"


def test_data_connections_never_carry_control() -> None:
    arbiter: Arbiter[int] = Arbiter(5, 9)
    arbiter.dialled(1, ask=False)
    assert arbiter.answered(1, control=False, epoch=0) == Verdict(Grant.DATA)
    assert arbiter.answer(2, ask=False, epoch=0) == Verdict(Grant.DATA)
    assert arbiter.held is None
    assert arbiter.claim is Claim.NOTHING
    assert len(arbiter) == 2


def test_a_grant_that_nobody_asked_for_counts_as_data() -> None:
    arbiter: Arbiter[int] = Arbiter(5, 9)
    arbiter.dialled(1, ask=False)
    assert arbiter.answered(1, control=True, epoch=0) == Verdict(Grant.DATA)
    assert arbiter.held is None


def test_after_the_control_connection_closes_control_may_be_asked_for_again() -> None:
    arbiter: Arbiter[int] = Arbiter(5, 9)
    may_ask = []
    arbiter.dialled(1, ask=True)
    may_ask.append(arbiter.may_ask)
    arbiter.closed(1)
    may_ask.append(arbiter.may_ask)
    assert arbiter.answer(2, ask=True, epoch=0).grant is Grant.CONTROL
    may_ask.append(arbiter.may_ask)
    arbiter.closed(2)
    may_ask.append(arbiter.may_ask)
    assert may_ask == [False, True, False, True]
    arbiter.closed(2)  # a second time is no fault
    assert len(arbiter) == 0


def test_a_grant_supersedes_what_has_ended_at_the_granter() -> None:
    high: Arbiter[str] = Arbiter(9, 5)
    high.dialled("H", ask=True)
    assert high.answer("L", ask=True, epoch=1).grant is Grant.CONTROL
    # L died at the lower node, which granted H instead; its close has not reached us yet.
    assert high.answered("H", control=True, epoch=1) == Verdict(Grant.CONTROL, ("L",))
    assert high.held == "H"
    assert len(high) == 1


def test_a_restarted_peer_supersedes_its_former_life() -> None:
    arbiter: Arbiter[str] = Arbiter(5, 9)
    assert arbiter.answer("old control", ask=True, epoch=7).grant is Grant.CONTROL
    assert arbiter.answer("old data", ask=False, epoch=7).grant is Grant.DATA
    arbiter.dialled("unanswered", ask=False)
    verdict = arbiter.answer("new", ask=True, epoch=8)
    assert verdict == Verdict(Grant.CONTROL, ("old control", "old data"))
    assert arbiter.held == "new"
    assert arbiter.answered("unanswered", control=False, epoch=8) == Verdict(Grant.DATA)


def test_a_restarted_peer_is_seen_in_an_answer_too() -> None:
    arbiter: Arbiter[str] = Arbiter(5, 9)
    assert arbiter.answer("old", ask=True, epoch=7).grant is Grant.CONTROL
    arbiter.dialled("new", ask=False)
    assert arbiter.answered("new", control=False, epoch=8) == Verdict(Grant.DATA, ("old",))
    assert arbiter.may_ask


def test_the_former_life_itself_is_stale() -> None:
    arbiter: Arbiter[str] = Arbiter(5, 9)
    arbiter.dialled("slow", ask=True)
    assert arbiter.answer("new", ask=False, epoch=8).grant is Grant.DATA
    assert arbiter.answer("old", ask=True, epoch=7) == Verdict(Grant.STALE)
    assert arbiter.answered("slow", control=True, epoch=7) == Verdict(Grant.STALE)
    assert arbiter.held is None
    assert arbiter.may_ask
    assert len(arbiter) == 1


def test_misuse_is_a_local_error() -> None:
    arbiter: Arbiter[int] = Arbiter(5, 9)
    arbiter.dialled(1, ask=True)
    with pytest.raises(StateError, match="already known"):
        arbiter.dialled(1, ask=False)
    with pytest.raises(StateError, match="asked elsewhere"):
        arbiter.dialled(2, ask=True)
    with pytest.raises(StateError, match="already known"):
        arbiter.answer(1, ask=True, epoch=0)
    with pytest.raises(StateError, match="not known"):
        arbiter.answered(3, control=True, epoch=0)
    with pytest.raises(StateError, match="its own id"):
        Arbiter(5, 5)
    assert len(arbiter) == 1
    assert arbiter.claim is Claim.ASKED


# Both sides: a small network model. Messages of one connection keep their order, connections do not
# wait for each other, and the end of a connection may swallow what was under way before it.


@dataclass
class Connection:
    dialler: Side
    alive: list[bool] = field(default_factory=lambda: [True, True])
    queues: tuple[list[str], list[str]] = field(default_factory=lambda: ([], []))
    """What is under way to side 0 and to side 1."""


Action = tuple[str, int, int]


@dataclass
class World:
    """Two nodes, their arbiters, and everything that is under way between them."""

    arbiters: tuple[Arbiter[int], Arbiter[int]] = field(
        default_factory=lambda: (Arbiter(IDS[0], IDS[1]), Arbiter(IDS[1], IDS[0]))
    )
    connections: list[Connection] = field(default_factory=list)
    dials: list[int] = field(default_factory=lambda: [0, 0])
    closes: int = 0
    asks: int = 0

    def copy(self) -> World:
        arbiters = []
        for each in self.arbiters:
            twin = copy.copy(each)
            twin._open = dict(each._open)
            arbiters.append(twin)
        connections = [
            Connection(each.dialler, [*each.alive], ([*each.queues[0]], [*each.queues[1]]))
            for each in self.connections
        ]
        return World((arbiters[0], arbiters[1]), connections, [*self.dials], self.closes, self.asks)

    def actions(self, max_dials: int, max_closes: int) -> Iterator[Action]:
        for side in SIDES:
            if self.dials[side] < max_dials:
                yield ("dial", side, 0)
        for index, connection in enumerate(self.connections):
            for side in SIDES:
                if connection.queues[side]:
                    yield ("deliver", index, side)
                if connection.alive[side] and self.closes < max_closes:
                    yield ("close", index, side)
                    yield ("cut", index, side)

    def act(self, action: Action) -> None:
        kind, index, side = action
        if kind == "dial":
            self.dial(0 if index == 0 else 1)
        elif kind == "deliver":
            self.deliver(index, 0 if side == 0 else 1)
        else:
            self.closes += 1
            self.close(index, 0 if side == 0 else 1, lossy=kind == "cut")

    def dial(self, side: Side) -> None:
        key = len(self.connections)
        ask = self.arbiters[side].may_ask
        self.arbiters[side].dialled(key, ask=ask)
        self.connections.append(Connection(side))
        self.connections[key].queues[1 - side].append("ask" if ask else "connect")
        self.dials[side] += 1
        self.asks += ask

    def deliver(self, key: int, side: Side) -> None:
        connection = self.connections[key]
        message = connection.queues[side].pop(0)
        if not connection.alive[side]:
            return
        arbiter = self.arbiters[side]
        if message == "end":
            connection.alive[side] = False
            arbiter.closed(key)
            return
        if message in {"ask", "connect"}:
            verdict = arbiter.answer(key, ask=message == "ask", epoch=1)
            connection.queues[1 - side].append(verdict.grant.value)
        else:
            verdict = arbiter.answered(key, control=message == "control", epoch=1)
        for other in verdict.superseded:
            self.close(other, side, lossy=False)

    def close(self, key: int, side: Side, *, lossy: bool) -> None:
        connection = self.connections[key]
        connection.alive[side] = False
        self.arbiters[side].closed(key)
        if lossy:
            connection.queues[1 - side].clear()
        connection.queues[1 - side].append("end")

    def is_quiet(self) -> bool:
        return not any(queue for each in self.connections for queue in each.queues)

    def key(self) -> object:
        return (
            tuple(
                (each.dialler, tuple(each.alive), *(tuple(queue) for queue in each.queues))
                for each in self.connections
            ),
            tuple((each.held, each.claim) for each in self.arbiters),
            tuple(self.dials),
            self.closes,
        )

    def check(self) -> None:
        in_use = {
            key
            for side in SIDES
            if (key := self.arbiters[side].held) is not None
            and all(self.connections[key].alive)
            and "control" not in self.connections[key].queues[1 - side]
        }
        # A connection counts once both ends can use it; there are never two.
        assert len(in_use) <= 1
        if self.is_quiet():
            low, high = self.arbiters
            assert low.held == high.held
            if self.asks and not self.closes:
                assert low.held is not None
            alive = sum(all(each.alive) for each in self.connections)
            assert len(low) == len(high) == alive


@pytest.mark.parametrize(
    ("max_dials", "max_closes", "at_least"),
    [(2, 0, 400), (1, 2, 400), (2, 1, 4000)],
)
def test_every_order_of_events_gives_one_control_connection(
    max_dials: int, max_closes: int, at_least: int
) -> None:
    seen: set[object] = set()
    stack = [World()]
    seen.add(stack[0].key())
    outcomes: set[tuple[int | None, bool]] = set()
    while stack:
        world = stack.pop()
        world.check()
        if world.is_quiet() and not world.closes and world.arbiters[0].held is not None:
            held = world.arbiters[0].held
            outcomes.add((held, world.connections[held].dialler == 0))
        for action in world.actions(max_dials, max_closes):
            after = world.copy()
            after.act(action)
            if (key := after.key()) not in seen:
                seen.add(key)
                stack.append(after)
    assert len(seen) >= at_least  # the search did search
    # Either side's connection can be the one: first made wins, not only the lower id.
    assert {lower for _, lower in outcomes} == {True, False}


@given(st.randoms(use_true_random=False), st.sampled_from([0, 3]))
def test_long_random_orders_give_one_control_connection(random: Random, closes: int) -> None:
    world = World()
    for _ in range(60):
        choices = list(world.actions(4, closes))
        if not choices:
            break
        world.act(random.choice(choices))
        world.check()
    while not world.is_quiet():
        choices = [each for each in world.actions(0, 0) if each[0] == "deliver"]
        world.act(random.choice(choices))
        world.check()
    # Whatever has happened, a control connection can always be made again.
    for side in SIDES:
        if world.arbiters[side].may_ask:
            world.dial(side)
    while not world.is_quiet():
        world.act(next(each for each in world.actions(0, 0) if each[0] == "deliver"))
    assert world.arbiters[0].held is not None
    world.check()


def test_simultaneous_dialling_always_ends_with_the_lower_nodes_connection() -> None:
    def explore(world: World) -> Iterator[World]:
        choices = [each for each in world.actions(0, 0) if each[0] == "deliver"]
        if not choices:
            yield world
        for action in choices:
            after = world.copy()
            after.act(action)
            yield from explore(after)

    for first, second in ((0, 1), (1, 0)):
        world = World()
        world.act(("dial", first, 0))
        world.act(("dial", second, 0))
        ends = list(explore(world))
        assert len(ends) > 1
        for end in ends:
            held = end.arbiters[0].held
            assert held is not None
            assert held == end.arbiters[1].held
            assert end.connections[held].dialler == 0
