"""What happens in a run: a list of actions with their times, drawn from a seed.

::

    0 s      boot            relays start, dial, converge
    1 s      clients         publishers and subscribers come
    6 s      changes         planned ones (nothing may be lost), or faults; clients churn
             heal            all faults are over
             rest            the tables must equal the oracle; every subscription is answered
             proof           groups that every subscriber must get
             withdrawal      all clients leave; every table must be empty again
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Final

from laps_relay.sim.clients.clients import Style
from laps_relay.sim.net.clock import Rng
from laps_relay.sim.scenarios.features import (
    MOST_STUBS,
    NARROW,
    STEERING,
    STUBS,
    with_narrow,
    with_restarts,
    with_steering,
    with_stubs,
    with_teeth,
)
from laps_relay.sim.scenarios.model import FAULTS, SETTINGS, Action, Scenario
from laps_relay.sim.scenarios.policies import with_borders, with_policies
from laps_relay.sim.scenarios.topology import (
    LinkSpec,
    RelaySpec,
    Topology,
    backbone,
    generate,
    light_delay,
    read_topology,
    with_control_servers,
)
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import RelayType

__all__ = ["KINDS", "LARGE", "PLANNED", "REPAIR", "scenario"]

REPAIR: Final = "repair"
KINDS: Final = ("planned", "faults", STEERING, NARROW, "busy", REPAIR)
"""The kinds of runs that can be requested."""
PLANNED: Final = ("insert", "drain", "slower", "policy")

REPAIRED: Final = ("crash", "crash", "cut", "half", "pause", "drain", "insert")
"""Of the kind ``repair``: relays on paths are lost, and nothing may be lost with them."""
_REPAIR_TIME: Final = 5.0
"""Seconds until everything that a lost path took with it has arrived: both ends notice (2 s), a
POSITION names it (0.5 s) twice (1 s), a RESUME is answered."""
NARROWING: Final = ("slow", "slow", "slow", "insert", "slower")
"""And drains, which ``with_narrow`` plans."""


MOST: Final = 30
"""Relays of a run without a given size, with control servers, Stubs and spare relays."""
LARGE: Final = 60
"""Networks with more relays see fewer changes, start at once, and batch for longer."""
LARGE_BATCH: Final = 0.1
"""Seconds for which relays of large networks batch advertisements.

Every relay gets every other one over each of its links, so the work grows with relays x links. The
batching time decides how many messages that takes, and how many paths are sent only to be replaced.
An operator of such a network would raise it, too.
"""
ON_BYTES: Final = 8
"""Every so many seeds one runs on real bytes."""
STEERED: Final = 6
"""Every so many seeds one is of the kind ``steering``."""
NARROWED: Final = 10
"""Every so many seeds one is of the kind ``narrow``."""
STUBBED: Final = 15
"""Every so many seeds one has Stubs."""
MENDED: Final = 15
"""Every so many seeds one is of the kind ``repair``."""


def scenario(
    seed: int,
    *,
    relays: int | None = None,
    topology: str | None = None,
    kind: str | None = None,
) -> Scenario:
    """The run of a seed; what is given narrows it.

    The kind ``steering`` has networks of its own, and every sixth seed is of it. Otherwise a
    topology is the name of a shape, a TOML file, or a key of ``topohub`` such as
    ``topozoo/Abilene``; with ``+stubs`` behind it, it has Stubs, as every fifteenth seed has
    anyway.
    """
    if kind is not None and kind not in KINDS:
        raise ValueError(f"{kind!r} is no kind of run: {', '.join(KINDS)}")
    has_stubs = topology is not None and topology.endswith(STUBS)
    if topology is not None:
        topology = topology.removesuffix(STUBS)
    rng = Rng(seed)
    free = relays is None and topology is None and kind is None
    if kind == STEERING or (free and seed % STEERED == STEERED - 2):
        bare = Scenario(seed=seed, topology=Topology(name=STEERING, relays=(), links=()))
        return with_steering(bare, rng)
    draw = rng.of("scenario")
    size = round(draw.triangular(12, 30, 12))  # 12 to 30, the smaller ones more often
    shape = draw.choice(("ring", "chord", "tree", "random", "random", "regions"))
    drawn = draw.choice(("planned", "faults", "faults"))
    if relays is not None:
        size = relays
        if relays > 30:
            shape = "dense"
    if shape == "ring" and size > 20:
        shape = "chord"
    servers = draw.choice((0, 0, 0, 0, 2, 3))
    stubbed = has_stubs or (free and seed % STUBBED == 0)
    most = MOST - MOST_STUBS * stubbed
    if relays is None:
        size = min(size, most - servers)
    if free and seed % NARROWED == NARROWED - 3:
        drawn = NARROW
    if free and seed % MENDED == MENDED - 4:
        drawn = REPAIR
    made = _topology(topology or shape, size, rng)
    if servers and relays is None:
        made = with_control_servers(made, servers)
    populated = populate(seed, made, draw, kind or drawn, most)
    if stubbed:
        return with_stubs(populated, rng, kind or drawn)
    if len(made.relays) > LARGE:
        return populated
    return with_borders(with_restarts(populated, rng, kind or drawn), rng, kind or drawn)


def _topology(name: str, size: int, rng: Rng) -> Topology:
    if name.endswith(".toml"):
        return read_topology(Path(name))
    if "/" in name:
        return backbone(name)
    return generate(name, size, rng)


def populate(
    seed: int, topology: Topology, draw: random.Random, kind: str, most: int = MOST
) -> Scenario:
    """Clients and actions for a topology; no relay comes to ``most`` that are there."""
    edges = [relay.name for relay in topology.relays if relay.relay_type is RelayType.EDGE]
    servers = any(relay.relay_type is RelayType.CONTROL for relay in topology.relays)
    actions = _clients(draw, edges)
    made = Scenario(
        seed=seed,
        topology=topology,
        # Without control servers only Vias can send the known entries to new relays.
        settings=replace(
            SETTINGS,
            reflect=not servers,
            batch=LARGE_BATCH if len(topology.relays) > LARGE else SETTINGS.batch,
            hold=1.0 if kind == REPAIR else SETTINGS.hold,
            keepalive=0.25 if kind == REPAIR else SETTINGS.keepalive,
        ),
        repair=_REPAIR_TIME if kind == REPAIR else 0.0,
        on_bytes=seed % ON_BYTES == 0,
        style=Style(
            period=draw.choice((0.5, 0.8, 1.2)),
            objects=draw.randint(2, 4),
            gap=draw.choice((0.01, 0.08, 0.2)),
        ),
    )
    if kind == "busy":
        # Many short streams over bad links: something is always under way when a set changes.
        bad = tuple(replace(link, loss=0.3, jitter=link.delay) for link in topology.links)
        made = replace(
            made,
            topology=replace(topology, links=bad),
            style=Style(period=0.1, objects=3, gap=0.03),
        )
    when = 6.0
    changes: list[Action] = []
    count = draw.randint(3, 5) if len(topology.relays) <= LARGE else 2
    verbs = {"faults": FAULTS, NARROW: NARROWING, REPAIR: REPAIRED}.get(kind, PLANNED)
    for number in range(count):
        verb = draw.choice(verbs)
        if verb == "insert" and len(topology.relays) <= most <= len(topology.relays) + len(
            made.spares
        ):
            verb = "slower"
        if verb == "policy" and number < count - 1:
            # It is the last one: a class that may not pass a relay may have no way that
            # neighbours tell, when the next change comes.
            verb = "slower"
        made, action, lasts = _change(made, draw, verb, when, number)
        changes.append(action)
        if kind == REPAIR:
            when += lasts + _REPAIR_TIME  # one loss at a time: two may take the last path
        else:
            when += lasts if kind != "faults" else draw.choice((0.3, lasts, lasts + 2.0))
    churn = _churn(draw, edges, 5.0, when)
    churn += _behind_backs(draw, actions, changes)
    healed = max([when, *(action.when + action.value for action in changes)])
    made = replace(
        made,
        actions=tuple(sorted((*actions, *changes, *churn), key=lambda action: action.when)),
        healed=healed,
    )
    if kind == NARROW:
        made = with_narrow(made, Rng(seed).of(NARROW))
    elif kind == "faults":
        made = with_teeth(made, Rng(seed).of(NARROW))
    return with_policies(made, Rng(seed).of("policies"), 6.0, when)


def _clients(draw: random.Random, edges: list[str]) -> list[Action]:
    """Publishers and subscribers at the beginning."""
    actions = []
    tracks = draw.randint(2, 4)
    for track in range(tracks):
        places = draw.sample(edges, 2 if draw.random() < 0.2 and len(edges) > 3 else 1)
        for place in places:
            verb = draw.choice(("publish", "publish", "publish_namespace", "publish_datagrams"))
            actions.append(Action(draw.uniform(0.5, 3.0), verb, (place,), text=f"t{track}"))
        others = [edge for edge in edges if edge not in places]
        actions += [
            Action(draw.uniform(0.5, 4.0), "subscribe", (place,), text=f"t{track}")
            for place in draw.sample(others, min(len(others), draw.randint(2, 5)))
        ]
    return actions


def _churn(draw: random.Random, edges: list[str], start: float, end: float) -> list[Action]:
    """Clients that come and go meanwhile."""
    actions = []
    for _ in range(draw.randint(3, 8)):
        place = draw.choice(edges)
        track = f"t{draw.randrange(4)}"
        when = draw.uniform(start, max(start + 1, end))
        actions.append(Action(when, "subscribe", (place,), text=track))
        if draw.random() < 0.8:
            gone = when + draw.choice((0.2, 0.8, 2.0, 4.0))
            actions.append(Action(gone, "unsubscribe", (place,), text=track))
            if draw.random() < 0.4:
                back = gone + draw.choice((0.1, 0.9, 1.5))
                actions.append(Action(back, "subscribe", (place,), text=track))
    if draw.random() < 0.5:
        when = draw.uniform(start, end)
        actions.append(Action(when, "unpublish", (), text="t0"))
        actions.append(Action(when + draw.choice((0.1, 2.5)), "republish", (), text="t0"))
    return actions


def _behind_backs(
    draw: random.Random, clients: list[Action], changes: list[Action]
) -> list[Action]:
    """Let subscribers leave while a relay stands still or is cut off: it has stale entries."""
    subscribes = [action for action in clients if action.verb == "subscribe"]
    actions = []
    for change in changes:
        if change.verb in ("pause", "cut") and change.value >= 1.5:
            others = [action for action in subscribes if action.who[0] not in change.who]
            if others:
                leaves = draw.choice(others)
                actions.append(leaves._replace(when=change.when + 0.2, verb="unsubscribe"))
    return actions


def _change(
    made: Scenario, draw: random.Random, verb: str, when: float, number: int
) -> tuple[Scenario, Action, float]:
    """One planned change or fault, with the time that it lasts."""
    relays, links = made.topology.relays, made.topology.links
    if verb in ("cut", "half", "slow"):
        link = draw.choice(links)
        ends = (link.a, link.b) if draw.random() < 0.5 else (link.b, link.a)
        lasts = draw.choice((0.4, 1.5, 3.0))
        return made, Action(when, verb, ends, lasts), lasts + 1.0
    if verb == "slower":
        link = draw.choice(links)
        factor = draw.choice((0.4, 2.5))
        if made.topology.relay(link.a).location is not None:
            factor = 2.5  # relays reject a path that is faster than light
        return made, Action(when, verb, (link.a, link.b), 0.0, str(factor)), 3.0
    if verb == "insert":
        return (*_insert(made, draw, when, number), 4.0)
    if verb == "drain":
        vias = [relay.name for relay in relays if relay.relay_type is RelayType.VIA]
        if not vias:
            return (*_insert(made, draw, when, number), 4.0)
        return made, Action(when, verb, (draw.choice(vias),), 4.0), 5.0
    if verb == "policy":
        scope = draw.choice(("", "t1"))
        return made, Action(when, verb, text=scope), 3.0  # the rest of it: ``with_policies``
    if verb in ("double", "liar", "garbage", "reflector", "flood"):
        victim = draw.choice(relays).name
        other = draw.choice([relay.name for relay in relays if relay.name != victim])
        return made, Action(when, verb, (victim, other), 2.0), 3.0
    places = relays
    if made.repair:
        # An Edge that is lost takes its log with it.
        places = tuple(each for each in relays if each.relay_type is RelayType.VIA) or relays
    who = draw.choice(places).name
    lasts = draw.choice((0.3, 0.7, 2.0)) if verb == "pause" else draw.choice((0.2, 1.5, 3.0))
    return made, Action(when, verb, (who,), lasts), lasts + 1.0


def _insert(
    made: Scenario, draw: random.Random, when: float, number: int
) -> tuple[Scenario, Action]:
    """Add a Via that makes paths shorter."""
    relays = made.topology.relays
    near = draw.sample(relays, min(len(relays), draw.randint(3, 6)))
    # Among relays with a location the Via needs one too. Otherwise its paths could be faster than
    # light, and relays would reject them.
    beside = next((relay for relay in near if relay.location is not None), near[0])
    place = beside.location
    spare = RelaySpec(
        name=f"v{number}",
        node_id=NodeId(0x64_0009_0000_0000 + number),
        relay_type=RelayType.VIA,
        region=beside.region,
        location=place,
    )
    links = tuple(
        LinkSpec(
            a=spare.name,
            b=other.name,
            delay=light_delay(place, other.location)
            if place is not None and other.location is not None
            else 0.005,
        )
        for other in near
    )
    changed = replace(made, spares=(*made.spares, spare), spare_links=(*made.spare_links, *links))
    return changed, Action(when, "insert", (spare.name,))
