"""What a scenario may have besides its first clients: narrow links, Vias, Stubs, restarts.

**Narrow links** take less than is offered. Half of the links have a bandwidth, different in each
direction. Some take a part of what one publisher sends, some all of it, and some twenty times what
all publishers send. Objects are large, queues are small, tracks differ in priority, and some have a
ttl. :mod:`laps_relay.sim.checks.drops` decides what may be missing then.

**Steering**: networks in which a Via is beneficial, and what happens to the Via in use::

      us                     eu
      o ====== ocean ======> e1 ---.
      | '===== ocean ======> e2 ---+-- x1, x2, x3: Vias, near all of them; o has a link with none
      o2 '==== ocean ======> e3 ---'   of them, or with one

Three to five copies cross the ocean, and two are allowed: o dials a Via, and one copy is left. Then
so many subscribers leave that no Via is beneficial, and come back. The Via in use drains, is
overloaded, or is forbidden. None of that is a fault: nothing may be lost. Other Edges stand behind
those of the picture, so that there are 12 to 16 relays; some subscribe to what o2 publishes.

**Stubs**, their parents, and what happens to both::

    s1 ---- e1 ---- relays of the network        e1, e2: Edges without clients of their own, so
       '--- e2 ----                              that only Stubs notice when one leaves

Everything is drawn from a generator of its own, and happens beside or after the other actions. The
same seed without Stubs has the same other actions.

**Restarts**: relays that come back with another type, or beside their own former life.

A *change of type* is planned. A relay without clients drains, leaves the network, and comes back as
a Via if it was an Edge, or as an Edge if it was a Via. Node ID and contact stay. Nothing may be
lost, and in the end all relays must know the new type.

A *drain that is taken back* is planned as well: a Via begins to leave, and stays. Nothing may be
lost, and in the end it is used as before.

A *twin* is a fault: a relay is started a second time, with the same key and contact, while the
first process still runs. Connections that others dialled end, because their packets go to the new
process. Connections that the first process dialled live on. The new process has a higher boot
epoch, so it is the node from now on. The first process dials again and again, and is refused. The
clients move to the new process. ::

    former life  ==== sessions that it dialled ====> x   superseded by the same node's
        ^                                                higher epoch
        |  contact
    twin         ---- dials the same relays ------->
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Final

from laps_relay.network.settings import NetworkSettings
from laps_relay.sim.clients.clients import Style
from laps_relay.sim.clients.ledger import OBJECT
from laps_relay.sim.net.clock import Rng
from laps_relay.sim.scenarios.model import Action, Scenario
from laps_relay.sim.scenarios.topology import LinkSpec, RelaySpec, Topology, light_delay
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import RelayType
from laps_wire.peering.laps2.codepoints import DATA_HEADER_BYTES

__all__ = [
    "MOST_STUBS",
    "NARROW",
    "OTHER_TYPE",
    "STEERING",
    "STUBS",
    "offered_by",
    "settling",
    "with_narrow",
    "with_restarts",
    "with_steering",
    "with_stubs",
    "with_teeth",
]

NARROW: Final = "narrow"
"""The kind of these scenarios."""
FLIGHT: Final = 8.0
"""Seconds of an object through full queues."""
DRAIN: Final = 6.0
"""Seconds that a Via has until it ends with whatever still waits."""
_PARTS: Final = (0.5, 0.9, 1.5, 3.0)
"""What narrow links take, in parts of what one publisher sends."""
_AMPLE: Final = 20.0


def offered_by(style: Style) -> float:
    """Bytes a second that one publisher sends."""
    group = DATA_HEADER_BYTES + style.objects * (OBJECT.size + style.padding)
    return group / style.period


def with_narrow(made: Scenario, draw: random.Random) -> Scenario:
    """The same with narrow links and much to send."""
    style = made.style._replace(padding=draw.choice((1000, 2000, 4000)))
    one = offered_by(style)
    publishers = sum(action.verb.startswith("publish") for action in made.actions)

    def rate() -> float:
        if draw.random() < 0.25:
            return round(_AMPLE * one * publishers)
        return round(draw.choice(_PARTS) * one)

    def narrowed(link: LinkSpec) -> LinkSpec:
        if draw.random() < 0.5:
            return link
        return replace(link, bandwidth=rate(), bandwidth_back=rate())

    ttls = draw.choice(((0, 300), (300, 0), (300, 300)))
    priorities = draw.sample((16, 96, 128, 200), 3)
    return replace(
        _with_drain(made, Rng(made.seed).of("drain")),
        topology=replace(made.topology, links=tuple(map(narrowed, made.topology.links))),
        on_bytes=False,  # how many bytes of news come at once is not the question here
        style=style,
        manners=tuple((each, ttls[at % 2]) for at, each in enumerate(priorities)),
        queue=draw.choice((8, 16, 32)) * 1024,
        offered=one * publishers,
        flight=FLIGHT,
    )


def _with_drain(made: Scenario, draw: random.Random) -> Scenario:
    """A Via leaves in most of these networks; what waits at it takes its time."""
    vias = [relay.name for relay in made.topology.relays if relay.relay_type is RelayType.VIA]
    when = round(draw.uniform(6.0, max(7.0, made.healed)), 3)
    if not vias or draw.random() < 0.3:
        return made
    action = Action(when, "drain", (draw.choice(vias),), 2 * DRAIN)
    return replace(
        made,
        actions=tuple(sorted((*made.actions, action), key=lambda each: each.when)),
        healed=max(made.healed, when + action.value),
    )


def with_teeth(made: Scenario, draw: random.Random) -> Scenario:
    """Where receivers are slow among other faults: so much is sent that they notice."""
    if not any(action.verb == "slow" for action in made.actions):
        return made
    return replace(made, style=made.style._replace(padding=draw.choice((1000, 2000))), queue=8192)


STEERING: Final = "steering"
"""The kind of these scenarios."""

_PLACES: Final = {"us": (-75.0, 40.0), "eu": (9.0, 48.0)}
MAX_LOSS: Final = 0.05
"""The loss that is allowed for a link, where loss is a reason for another path."""
WORSE_PADDING: Final = 1000
"""Bytes of an object where a queue is that reason."""
_TRACKS: Final = 3
_VIA_DRAIN: Final = 6.0
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
    topology, edges, vias = _steering_network(draw)
    settings = replace(
        made.settings,
        max_fanout=2,
        dynamic_peering=True,
        via_hold=0.7,
        dynamic_idle=1.5,
        probe_interval=draw.choice((3.0, 8.0)),
    )
    clients = _steered_clients(draw, edges)
    topology, more = _with_bystanders(topology, edges, rng.of("bystanders"))
    clients += more
    changes, healed = _via_changes(draw, edges, 3.0 + settling(settings), settling(settings))
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


def _steering_network(draw: random.Random) -> tuple[Topology, list[str], list[str]]:
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


def _steered_clients(draw: random.Random, edges: list[str]) -> list[Action]:
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


def _via_changes(
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
        lasts = {"drain_used": _VIA_DRAIN, "overload_used": settled + 1.0}.get(phase, 0.0)
        actions.append(Action(when, phase, ("o",), lasts, "t0"))
        if draw.random() < 0.5:
            place = draw.choice(edges)
            back = draw.choice((0.2, 1.3))
            actions.append(Action(when + 0.3, "unsubscribe", (place,), text="t0"))
            actions.append(Action(when + 0.3 + back, "subscribe", (place,), text="t0"))
        when += lasts + settled + 1.0
    return actions, when


STUBS: Final = "+stubs"
"""Behind the name of a topology: with Stubs."""

MOST_STUBS: Final = 5
"""Relays that come with them, the two Edges too."""
_PARENT_DRAIN: Final = 5.0
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
        _stub_relay(f"stub-{number}", 0x5, number, RelayType.STUB)
        for number in range(1, draw.randint(1, 3) + 1)
    ]
    links = []
    for number in (1, 2):
        near = draw.sample(relays, min(2, len(relays)))
        parent = _stub_relay(f"e{number}", 0x3, number, RelayType.EDGE, near[0])
        parents.append(parent)
        links += [_stub_link(parent, other, draw) for other in near]
        links += [LinkSpec(a=parent.name, b=server.name, delay=0.01) for server in servers]
    home = draw.choice(edges)
    alone = next(relay for relay in relays if relay.name == home)
    for number, stub in enumerate(stubs):
        # The last one of three has a parent with clients, and no other.
        links += [_stub_link(stub, other, draw) for other in ([alone] if number == 2 else parents)]
    names = [stub.name for stub in stubs]
    actions, healed = _parent_changes(draw, names, made.healed + 1.0, kind)
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
                (*before, *_stub_clients(draw, names, edges), *actions),
                key=lambda action: action.when,
            )
        ),
        healed=healed,
        # A check searches the bytes between other relays for contacts of Stubs.
        on_bytes=True,
    )


def _stub_relay(
    name: str, block: int, number: int, relay_type: RelayType, near: RelaySpec | None = None
) -> RelaySpec:
    return RelaySpec(
        name=name,
        node_id=NodeId(0x64_0000_0000_0000 + (block << 32) + number),
        relay_type=relay_type,
        region="" if near is None else near.region,
        location=None if near is None else near.location,
    )


def _stub_link(one: RelaySpec, other: RelaySpec, draw: random.Random) -> LinkSpec:
    delay = round(draw.uniform(0.005, 0.03), 4)
    if one.location is not None and other.location is not None:
        delay = light_delay(one.location, other.location)
    return LinkSpec(a=one.name, b=other.name, delay=delay)


def _stub_clients(draw: random.Random, stubs: list[str], edges: list[str]) -> list[Action]:
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


def _parent_changes(
    draw: random.Random, stubs: list[str], start: float, kind: str
) -> tuple[list[Action], float]:
    """What happens to Stubs and their parents, one after the other; and when it is over."""
    actions: list[Action] = []
    when = start
    if kind != "faults":
        for parent in draw.sample(("e1", "e2"), 2):
            actions.append(Action(when, "drain", (parent,), _PARENT_DRAIN))
            when += _PARENT_DRAIN + 4.0
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


RETYPED: Final = 0.35
"""Of the seeds with planned changes, in which a relay changes its type."""
TWINNED: Final = 0.3
"""Of the seeds with faults, in which a relay has a twin."""
LEAVING: Final = 4.0
"""Seconds until a relay is back that changes its type; it may drain for half of them."""
PAUSE: Final = 3.0
"""Seconds after the last change: who changes a type waits until the network is whole."""
WAVERING: Final = 0.5
"""Of the seeds with planned changes, in which a relay begins to drain and then stays."""
WAVERS: Final = 4.0
"""Seconds that it would have for that."""
BESIDE: Final = 5.0
"""Seconds for which a former life runs beside its twin."""
OTHER_TYPE: Final = {RelayType.EDGE: RelayType.VIA, RelayType.VIA: RelayType.EDGE}


def with_restarts(made: Scenario, rng: Rng, kind: str) -> Scenario:
    """The same with a change of type, or with a twin, in some seeds."""
    if kind == "faults":
        draw = rng.of("twin")
        when = round(draw.uniform(6.0, max(7.0, made.healed)), 3)
        who = draw.choice(made.topology.relays).name
        if draw.random() < TWINNED:
            return _with(made, Action(when, "twin", (who,), BESIDE))
        return made
    draw = rng.of("type")
    clients = {
        action.who[0]
        for action in made.actions
        if action.verb.startswith(("publish", "subscribe")) and action.who
    }
    # Where control servers are, a Via that becomes an Edge is connected with them; an Edge that
    # becomes a Via would have to leave them.
    servers = any(relay.relay_type is RelayType.CONTROL for relay in made.topology.relays)
    kinds = (RelayType.VIA,) if servers else tuple(OTHER_TYPE)
    idle = [
        relay
        for relay in made.topology.relays
        if relay.relay_type in kinds and relay.name not in clients
    ]
    if draw.random() < RETYPED and idle:
        who = draw.choice(idle).name
        made = _with(made, Action(made.healed + PAUSE, "retype", (who,), LEAVING))
    return _with_doubts(made, rng.of("doubts"))


def _with_doubts(made: Scenario, draw: random.Random) -> Scenario:
    """A Via begins to drain, and an operator takes that back at some moment before its end."""
    vias = [each.name for each in made.topology.relays if each.relay_type is RelayType.VIA]
    if not vias or draw.random() >= WAVERING:
        return made
    # At once; when peers have just received the drain; while they move data; afterwards.
    thinks = draw.choice((0.0, 0.02, 0.1, 0.3, 0.8, 2.0))
    when = made.healed + PAUSE
    return _with(made, Action(when, "undrain", (draw.choice(vias),), WAVERS, str(thinks)))


def _with(made: Scenario, action: Action) -> Scenario:
    return replace(
        made,
        actions=tuple(sorted((*made.actions, action), key=lambda each: each.when)),
        healed=max(made.healed, action.when + action.value),
    )
