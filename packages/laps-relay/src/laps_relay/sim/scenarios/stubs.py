"""Stubs in a scenario: what comes with them, and what happens to them.

::

    s1 ---- e1 ---- relays of the network        e1, e2: Edges without clients of their own, so
       '--- e2 ----                              that only Stubs notice when one leaves

Everything is drawn from a generator of its own, and happens beside or after the other actions. The
same seed without Stubs has the same other actions.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Final

from laps_relay.sim.net.clock import Rng
from laps_relay.sim.scenarios.model import Action, Scenario
from laps_relay.sim.scenarios.topology import LinkSpec, RelaySpec, light_delay
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import RelayType

__all__ = ["MOST_STUBS", "STUBS", "with_stubs"]

STUBS: Final = "+stubs"
"""Behind the name of a topology: with Stubs."""

MOST_STUBS: Final = 5
"""Relays that come with them, the two Edges too."""
_DRAIN: Final = 5.0
"""How long a parent takes that drains and comes back."""
_POLICY: Final = 3.0
"""How long another policy takes."""


def with_stubs(made: Scenario, rng: Rng, kind: str) -> Scenario:
    """The same with one to three Stubs, two Edges for them, and what happens to them."""
    draw = rng.of("stubs")
    relays = [relay for relay in made.topology.relays if relay.relay_type is not RelayType.CONTROL]
    servers = [relay for relay in made.topology.relays if relay.relay_type is RelayType.CONTROL]
    edges = [relay.name for relay in relays if relay.relay_type is RelayType.EDGE]
    parents: list[RelaySpec] = []
    stubs = [
        _relay(f"stub-{number}", 0x5, number, RelayType.STUB)
        for number in range(1, draw.randint(1, 3) + 1)
    ]
    links = []
    for number in (1, 2):
        near = draw.sample(relays, min(2, len(relays)))
        parent = _relay(f"e{number}", 0x3, number, RelayType.EDGE, near[0])
        parents.append(parent)
        links += [_link(parent, other, draw) for other in near]
        links += [LinkSpec(a=parent.name, b=server.name, delay=0.01) for server in servers]
    home = draw.choice(edges)
    alone = next(relay for relay in relays if relay.name == home)
    for number, stub in enumerate(stubs):
        # The last one of three has a parent with clients, and no other.
        links += [_link(stub, other, draw) for other in ([alone] if number == 2 else parents)]
    names = [stub.name for stub in stubs]
    actions, healed = _changes(draw, names, made.healed + 1.0, kind)
    # Another policy comes last: a class that may not pass a relay may have no other way, or none
    # that neighbours tell, when a parent goes.
    last = [action for action in made.actions if action.verb == "policy"]
    before = [action for action in made.actions if action.verb != "policy"]
    if last:
        actions += [action._replace(when=healed) for action in last]
        healed += _POLICY
    return replace(
        made,
        topology=replace(
            made.topology,
            name=f"{made.topology.name}+{len(stubs)} stubs",
            relays=(*made.topology.relays, *parents, *stubs),
            links=(*made.topology.links, *links),
        ),
        actions=tuple(
            sorted(
                (*before, *_clients(draw, names, edges), *actions), key=lambda action: action.when
            )
        ),
        healed=healed,
        # A check searches the bytes between other relays for contacts of Stubs.
        on_bytes=True,
    )


def _relay(
    name: str, block: int, number: int, relay_type: RelayType, near: RelaySpec | None = None
) -> RelaySpec:
    return RelaySpec(
        name=name,
        node_id=NodeId(0x64_0000_0000_0000 + (block << 32) + number),
        relay_type=relay_type,
        region="" if near is None else near.region,
        location=None if near is None else near.location,
    )


def _link(one: RelaySpec, other: RelaySpec, draw: random.Random) -> LinkSpec:
    delay = round(draw.uniform(0.005, 0.03), 4)
    if one.location is not None and other.location is not None:
        delay = light_delay(one.location, other.location)
    return LinkSpec(a=one.name, b=other.name, delay=delay)


def _clients(draw: random.Random, stubs: list[str], edges: list[str]) -> list[Action]:
    """Publishers and subscribers at the Stubs, and others of what they publish."""
    actions = []
    for number, stub in enumerate(stubs):
        track = f"s{number}"
        verb = draw.choice(("publish", "publish_namespace", "publish_datagrams"))
        actions.append(Action(draw.uniform(0.5, 3.0), verb, (stub,), text=track))
        others = [*draw.sample(edges, min(2, len(edges))), *stubs, "e1"]
        actions += [
            Action(draw.uniform(1.0, 4.0), "subscribe", (place,), text=track)
            for place in others
            if place != stub and (place != "e1" or draw.random() < 0.3)
        ]
        actions.append(Action(draw.uniform(0.5, 4.0), "subscribe", (stub,), text="t0"))
        gone = draw.uniform(4.0, 6.0)
        actions.append(Action(draw.uniform(1.0, 3.0), "subscribe", (stub,), text="t1"))
        actions.append(Action(gone, "unsubscribe", (stub,), text="t1"))
        if draw.random() < 0.5:
            actions.append(Action(gone + 1.0, "subscribe", (stub,), text="t1"))
    # The Edge e1 may go away, so it has no clients.
    return [action for action in actions if action.who != ("e1",)]


def _changes(
    draw: random.Random, stubs: list[str], start: float, kind: str
) -> tuple[list[Action], float]:
    """What happens to Stubs and their parents, one after the other; and when it is over."""
    actions: list[Action] = []
    when = start
    if kind != "faults":
        for parent in draw.sample(("e1", "e2"), 2):
            actions.append(Action(when, "drain", (parent,), _DRAIN))
            when += _DRAIN + 4.0
        return actions, when
    for _ in range(2):
        verb = draw.choice(("crash", "cut", "pause", "half"))
        parent = draw.choice(("e1", "e2"))
        stub = draw.choice(stubs[:2])
        lasts = draw.choice((0.5, 1.5, 3.0))
        if verb in ("cut", "half"):
            who: tuple[str, ...] = (stub, parent) if draw.random() < 0.5 else (parent, stub)
        else:
            who = (draw.choice((parent, parent, stub)),)
        actions.append(Action(when, verb, who, lasts))
        when += lasts + 1.0
    return actions, when
