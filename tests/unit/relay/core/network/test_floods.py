from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from testkit.flood_net import FloodNet

# The tables of a network against what is true: who is connected knows exactly the newest stamps.

NODES = 4
nodes = st.integers(0, NODES - 1)
keys = st.integers(0, 2)


class FloodMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.net = FloodNet(NODES)

    @rule(a=nodes, b=nodes)
    def connect(self, a: int, b: int) -> None:
        self.net.connect(a, b)

    @precondition(lambda self: self.net.links)
    @rule(data=st.data())
    def disconnect(self, data: st.DataObject) -> None:
        self.net.disconnect(data.draw(st.sampled_from(sorted(self.net.links))))

    @precondition(lambda self: self.net.links)
    @rule(data=st.data())
    def move(self, data: st.DataObject) -> None:
        self.net.move(data.draw(st.sampled_from(sorted(self.net.links))))

    @rule(node=nodes)
    def restart(self, node: int) -> None:
        self.net.restart(node)

    @rule(node=nodes, key=keys)
    def want(self, node: int, key: int) -> None:
        self.net.want(node, key)

    @rule(node=nodes, key=keys)
    def unwant(self, node: int, key: int) -> None:
        self.net.unwant(node, key)

    @precondition(lambda self: self.net.links)
    @rule(data=st.data(), messages=st.integers(1, 4))
    def work(self, data: st.DataObject, messages: int) -> None:
        pair = data.draw(st.sampled_from(sorted(self.net.links)))
        there, back = data.draw(st.permutations(pair))
        session = self.net.links[pair]
        self.net.flush(session, there)
        for _ in range(messages):
            self.net.deliver(session, back)

    @rule(node=nodes)
    def learn(self, node: int) -> None:
        self.net.learn(node)

    @rule(seconds=st.sampled_from([0.02, 0.5, 6.0, 31.0]))
    def advance(self, seconds: float) -> None:
        self.net.advance(seconds)

    @rule()
    def rest(self) -> None:
        self.net.settle()
        self.net.check()

    @invariant()
    def nothing_of_a_former_life_is_used(self) -> None:
        for node in self.net.nodes:
            assert all(entry.stamp.epoch >= 1 for entry in node.table.live())

    def teardown(self) -> None:
        net = self.net
        net.settle()
        net.check()
        at_baseline(net)


TestFloods = FloodMachine.TestCase
TestFloods.settings = settings(stateful_step_count=40)


@pytest.mark.parametrize("seed", range(40))
def test_who_is_connected_knows_exactly_the_newest_stamps(seed: int) -> None:
    dice = random.Random(seed)
    net = FloodNet(dice.randint(3, 6))
    everybody = range(len(net.nodes))

    def work() -> None:
        for _ in range(dice.randint(1, 12)):
            if net.links:
                pair = dice.choice(sorted(net.links))
                there, back = dice.sample(pair, 2)
                net.flush(net.links[pair], there)
                for _ in range(dice.randint(0, 5)):
                    net.deliver(net.links[pair], back)

    def rest() -> None:
        net.settle()
        net.check()

    def with_a_link(do: Callable[[tuple[int, int]], None]) -> Callable[[], None]:
        return lambda: do(dice.choice(sorted(net.links))) if net.links else None

    steps: list[tuple[int, Callable[[], None]]] = [
        (5, lambda: net.connect(dice.choice(everybody), dice.choice(everybody))),
        (2, with_a_link(net.disconnect)),
        (1, with_a_link(net.move)),
        (1, lambda: net.restart(dice.choice(everybody))),
        (6, lambda: net.want(dice.choice(everybody), dice.randint(0, 2))),
        (4, lambda: net.unwant(dice.choice(everybody), dice.randint(0, 2))),
        (12, work),
        (6, lambda: net.learn(dice.choice(everybody))),
        (3, lambda: net.advance(dice.choice([0.02, 0.5, 6.0, 12.0, 29.0, 31.0]))),
        (2, rest),
    ]
    weights = [weight for weight, _ in steps]
    for _, step in dice.choices(steps, weights, k=150):
        step()
    rest()
    at_baseline(net)


def at_baseline(net: FloodNet) -> None:
    for index, node in enumerate(net.nodes):
        for key in list(node.own):
            net.unwant(index, key)
    net.settle()
    net.check()
    net.advance(200.0)
    for node in net.nodes:
        assert node.table.sizes() == (0, 0, 0)
        assert node.table.poll_timeout() is None
