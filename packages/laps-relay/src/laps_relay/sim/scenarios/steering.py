"""Networks in which a Via is beneficial: their shape, and what happens to the Via in use.

::

      us                     eu
      o ====== ocean ======> e1 ---.
      | '===== ocean ======> e2 ---+-- x1, x2, x3: Vias, near all of them; o has a link with none
      o2 '==== ocean ======> e3 ---'   of them, or with one

Three to five copies cross the ocean, and two are allowed: o dials a Via, and one copy is left. Then
so many subscribers leave that no Via is beneficial, and come back. The Via in use drains, is
overloaded, or is forbidden. None of that is a fault: nothing may be lost. Other Edges stand behind
those of the picture, so that there are 12 to 16 relays; some subscribe to what o2 publishes.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Final

from laps_relay.network.settings import NetworkSettings
from laps_relay.sim.clients.publications import Style
from laps_relay.sim.net.clock import Rng
from laps_relay.sim.scenarios.model import Action, Scenario
from laps_relay.sim.scenarios.narrow import offered_by
from laps_relay.sim.scenarios.topology import LinkSpec, RelaySpec, Topology, light_delay
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import RelayType

__all__ = ["STEERING", "settling", "with_steering"]

STEERING: Final = "steering"
"""The kind of these scenarios."""

_PLACES: Final = {"us": (-75.0, 40.0), "eu": (9.0, 48.0)}
MAX_LOSS: Final = 0.05
"""The loss that is allowed for a link, where loss is a reason for another path."""
WORSE_PADDING: Final = 1000
"""Bytes of an object where a queue is that reason."""
_TRACKS: Final = 3
_DRAIN: Final = 6.0
"""How long a Via takes that drains and comes back; for the first half of it, it still forwards."""


def settling(settings: NetworkSettings) -> float:
    """Return the time after the last action by which steering has done everything.

    A subscriber leaves after a delay, a Via is dialled, and then it must be beneficial for a while.
    After a failed dial others get their turn.
    """
    return settings.unsubscribe_delay + 3 * settings.via_hold + settings.dynamic_idle + 1.0


def with_steering(made: Scenario, rng: Rng) -> Scenario:
    """The same seed with a network in which Vias are injected."""
    draw = rng.of(STEERING)
    topology, edges, vias = _network(draw)
    settings = replace(
        made.settings,
        max_fanout=2,
        dynamic_peering=True,
        via_hold=0.7,
        dynamic_idle=1.5,
        probe_interval=draw.choice((3.0, 8.0)),
    )
    clients = _clients(draw, edges)
    topology, more = _with_bystanders(topology, edges, rng.of("bystanders"))
    clients += more
    changes, healed = _changes(draw, edges, 3.0 + settling(settings), settling(settings))
    policies = any(action.verb == "forbid_used" for action in changes)
    made, worse, healed = _with_causes(made, rng.of("causes"), healed, settling(settings))
    changes += worse
    on_bytes, parallel = draw.random() < 0.2, draw.choice((1, 2))
    style = Style(
        period=draw.choice((0.5, 0.8)),
        objects=draw.randint(2, 4),
        gap=draw.choice((0.01, 0.08)),
        padding=WORSE_PADDING if worse and made.max_loss is None else 0,
    )
    return replace(
        made,
        topology=replace(topology, name=f"steering-{len(topology.relays) - len(vias)}+{len(vias)}"),
        settings=settings,
        actions=tuple(sorted((*clients, *changes), key=lambda action: action.when)),
        healed=healed,
        exact=False,
        policies=policies,
        rule_engine=policies and made.seed % 2 == 1,
        on_bytes=on_bytes,
        parallel=parallel,
        style=style,
        offered=_TRACKS * offered_by(style) if style.padding else 0.0,
    )


def _with_causes(
    made: Scenario, draw: random.Random, start: float, settled: float
) -> tuple[Scenario, list[Action], float]:
    """In some networks the link in use gets worse: what it loses, or what it takes."""
    cause = draw.choice(("", "loss", "queue"))
    if not cause:
        return made, [], start
    lasts = 2 * settled
    action = Action(start, "worsen", ("o",), lasts, "t0")
    if cause == "loss":
        made = replace(made, gauged=True, max_loss=MAX_LOSS)
    else:
        made = replace(made, gauged=True, queue=16 * 1024, flight=8.0)
    return made, [action], start + lasts + settled + 1.0


def _network(draw: random.Random) -> tuple[Topology, list[str], list[str]]:
    numbers = list(range(1, 20))
    draw.shuffle(numbers)  # the order of node ids is independent of the places
    relays: dict[str, RelaySpec] = {}

    def add(name: str, region: str, relay_type: RelayType = RelayType.EDGE) -> str:
        lon, lat = _PLACES[region]
        relays[name] = RelaySpec(
            name=name,
            node_id=NodeId(0x64_0006_0000_0000 + numbers.pop()),
            relay_type=relay_type,
            region=region,
            location=(round(lon + draw.uniform(-9, 9), 2), round(lat + draw.uniform(-6, 6), 2)),
        )
        return name

    add("o", "us")
    add("o2", "us")
    edges = [add(f"e{number}", "eu") for number in range(1, draw.randint(3, 5) + 1)]
    vias = [add(f"x{number}", "eu", RelayType.VIA) for number in range(1, draw.randint(2, 3) + 1)]
    pairs = [("o2", "o"), *(("o", edge) for edge in edges)]
    for via in vias:
        far = draw.choice(edges) if draw.random() < 0.2 and len(edges) > 3 else ""
        pairs += [(via, edge) for edge in edges if edge != far]
    if draw.random() < 0.5:
        pairs.append(("o", draw.choice(vias)))
    lossy = draw.random() < 0.3
    links = []
    for a, b in pairs:
        one, two = relays[a].location, relays[b].location
        delay = light_delay(one, two) if one is not None and two is not None else 0.01
        jitter = round(draw.choice((0.0, 0.1)) * delay, 6)
        loss = 0.01 if lossy and draw.random() < 0.3 else 0.0
        links.append(LinkSpec(a=a, b=b, delay=delay, jitter=jitter, loss=loss))
    made = Topology(name=STEERING, relays=tuple(relays.values()), links=tuple(links))
    return made, edges, vias


def _with_bystanders(
    topology: Topology, edges: list[str], draw: random.Random
) -> tuple[Topology, list[Action]]:
    """More Edges, behind those that are there; what some of them want."""
    relays, links, actions = list(topology.relays), list(topology.links), []
    behind = {"us": ["o2"], "eu": edges}
    numbers = list(range(1, 20))
    draw.shuffle(numbers)
    for at in range(draw.randint(12, 16) - len(relays)):
        region = draw.choice(("us", "eu"))
        name = draw.choice(behind[region])
        near = next(relay for relay in relays if relay.name == name)
        lon, lat = _PLACES[region]
        place = (round(lon + draw.uniform(-9, 9), 2), round(lat + draw.uniform(-6, 6), 2))
        made = RelaySpec(
            name=f"b{at}",
            node_id=NodeId(0x64_0007_0000_0000 + numbers.pop()),
            region=region,
            location=place,
        )
        relays.append(made)
        if near.location is not None:
            links.append(
                LinkSpec(a=made.name, b=near.name, delay=light_delay(place, near.location))
            )
        if draw.random() < 0.5:
            actions.append(Action(draw.uniform(1.0, 3.0), "subscribe", (made.name,), text="t2"))
    return replace(topology, relays=tuple(relays), links=tuple(links)), actions


def _clients(draw: random.Random, edges: list[str]) -> list[Action]:
    """All Edges of the other region subscribe to one track; others subscribe to less."""
    verbs = ("publish", "publish_namespace", "publish_datagrams")
    actions = [
        Action(0.5, draw.choice(verbs[:2]), ("o",), text="t0"),
        Action(0.6, draw.choice(verbs), ("o",), text="t1"),
        Action(0.7, draw.choice(verbs), ("o2",), text="t2"),
    ]
    wanted = {"t0": edges, "t1": draw.sample(edges, 3), "t2": draw.sample(edges, 2)}
    for track, places in wanted.items():
        actions += [
            Action(draw.uniform(1.0, 3.0), "subscribe", (place,), text=track)
            for place in (*places, *(("o2",) if track == "t0" else ()))
        ]
    return actions


def _changes(
    draw: random.Random, edges: list[str], start: float, settled: float
) -> tuple[list[Action], float]:
    """What happens to the Via in use, each time until everything has settled; and the end."""
    actions: list[Action] = []
    when = start
    phases = ["leave", "drain_used", "overload_used"]
    draw.shuffle(phases)
    if draw.random() < 0.3:
        phases.append("forbid_used")
    for phase in phases:
        if phase == "leave":
            stay = draw.randint(0, 2)
            gone = draw.sample(edges, len(edges) - stay)
            for verb in ("unsubscribe", "subscribe"):
                actions += [
                    Action(when + draw.uniform(0.0, 0.5), verb, (place,), text="t0")
                    for place in gone
                ]
                when += settled + 1.0
            continue
        lasts = {"drain_used": _DRAIN, "overload_used": settled + 1.0}.get(phase, 0.0)
        actions.append(Action(when, phase, ("o",), lasts, "t0"))
        if draw.random() < 0.5:
            place = draw.choice(edges)
            back = draw.choice((0.2, 1.3))
            actions.append(Action(when + 0.3, "unsubscribe", (place,), text="t0"))
            actions.append(Action(when + 0.3 + back, "subscribe", (place,), text="t0"))
        when += lasts + settled + 1.0
    return actions, when
