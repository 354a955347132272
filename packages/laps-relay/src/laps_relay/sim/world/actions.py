"""Carrying out the actions of a scenario: clients, planned changes, faults.

:class:`Restarts` has the relays that follow each other: changes of type, and twins.

:class:`Gauge` reports what transports measure, in networks where loss and queues are a reason for
another path. A server samples each connection and reports to its relay: the round trip, the share
of lost packets, and whether more is sent than gets through. The gauge reports the same from the
loss of the wire and from what waits in the pipe. One long queue is no congestion; several in a row
are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Final

from laps_relay.policy.interface import Policy
from laps_relay.sim.clients.clients import Publication, Style
from laps_relay.sim.clients.ledger import BreakError
from laps_relay.sim.net.network import End
from laps_relay.sim.net.wires import Wire
from laps_relay.sim.scenarios.features import OTHER_TYPE, offered_by
from laps_relay.sim.scenarios.model import Action
from laps_relay.sim.scenarios.policies import Border, SimPolicy
from laps_relay.sim.scenarios.scenario import PLANNED
from laps_relay.sim.world.hostile import Hostile
from laps_relay.sim.world.oracle import (
    CONVERGED,
    connected_without,
    copies,
    exempt,
    forbidden_deliveries,
    sent_to,
    used_via,
)
from laps_relay.sim.world.world import RelayProcess, World
from laps_wire.names import FullTrackName
from laps_wire.peering.laps2 import AnnounceKind, Load, LoadClass, RelayType
from laps_wire.peering.session import Role

__all__ = ["LASTING", "LOOK", "Actions", "Gauge", "Restarts", "loaded", "take"]

LOOK: Final = 0.5
"""Seconds between two samples."""
LASTING: Final = 3
"""Samples in a row that are needed for a change, as in a server."""


class Gauge:
    """Measures all connections."""

    __slots__ = ("_against", "_congested", "_lossy", "_told", "_world")

    def __init__(self, world: World) -> None:
        self._world = world
        self._against: dict[End, int] = {}
        """Samples in a row that contradict the last report."""
        self._congested: dict[End, float] = {}
        """Connections that are reported as congested, and since when."""
        self._told: dict[End, tuple[int, float, bool]] = {}
        self._lossy: dict[tuple[str, str], float] = {}
        """Wires that lose more than the class allows, and since when."""

    def start(self) -> None:
        """Sample from now on."""
        self._world.clock.after(LOOK, self._look)

    def bad(self, sender: str, receiver: str) -> float | None:
        """Since when a wire is not what classes ask for, in one direction; None: it is."""
        if not self._lossy and not self._congested:
            return None
        times = [self._lossy.get((sender, receiver))]
        ends = [end for end in self._world.network.of(sender) if end.pipe.receiver == receiver]
        if ends and all(end in self._congested for end in ends):
            times.append(max(self._congested[end] for end in ends))
        return min((when for when in times if when is not None), default=None)

    def _look(self) -> None:
        world = self._world
        most = world.scenario.max_loss
        for process in world.running():
            for session, end in list(process.ends.items()):
                wire = end.pipe.wire
                place = (process.contact, end.pipe.receiver)
                if most is not None and wire.loss > most:
                    self._lossy.setdefault(place, world.clock.now)
                else:
                    self._lossy.pop(place, None)
                congested = self._is_congested(end)
                told = (wire.srtt_us, wire.loss, congested)
                if self._told.get(end) == told:
                    continue  # the same values again: the relay would ignore them
                self._told[end] = told
                process.call(partial(self._measured, process, session, wire, congested))
        if not world.ending:
            self.start()

    @staticmethod
    def _measured(
        process: RelayProcess, session: int, wire: Wire, congested: bool, now: float
    ) -> None:
        process.core.measured(now, session, wire.srtt_us, wire.loss, congested)

    def _is_congested(self, end: End) -> bool:
        told = end in self._congested
        if bool(end.pipe.backlog.streams) is told:
            self._against.pop(end, None)
            return told
        self._against[end] = self._against.get(end, 0) + 1
        if self._against[end] < LASTING:
            return told
        del self._against[end]
        if told:
            del self._congested[end]
        else:
            self._congested[end] = self._world.clock.now
        return not told


class Restarts:
    """What becomes of relays that follow each other; raises ``BreakError``."""

    __slots__ = ("_world", "ghosts")

    def __init__(self, world: World) -> None:
        self._world = world
        self.ghosts: list[RelayProcess] = []
        """Former lives that still run."""

    def change_type(self, process: RelayProcess) -> None:
        """It has drained: the next life is of the other type."""
        process.crash()
        kind = OTHER_TYPE[process.spec.relay_type]
        process.spec = replace(process.spec, relay_type=kind)
        self._world.note(process.contact, "is from now on", kind.name)
        process.links += tuple(
            other.contact
            for other in self._world.processes.values()
            if other.spec.relay_type is RelayType.CONTROL
        )
        process.start()

    def twin(
        self, former: RelayProcess, lasts: float, come: Callable[[RelayProcess], None]
    ) -> None:
        """Another process takes the contact over; ``come`` brings the clients there."""
        world = self._world
        world.note(former.contact, "has a twin")
        asked = former.clients.asked()
        former.clients.gone()
        former.clients.forget()
        self.ghosts.append(former)
        for end in list(former.ends.values()):
            if end.role is Role.LISTENER:
                # What others dialled reaches the new process, which knows nothing of it.
                world.network.vanish(end)
                world.clock.after(world.scenario.idle, former.lost, end, 0, "idle timeout")
        twin = RelayProcess(world, former.spec, former.links)
        twin.life, twin.known_keys, twin.asked = former.life, former.known_keys, asked
        world.take_over(twin)
        world.network.add_host(twin)
        come(twin)
        world.clock.after(lasts, self._end, former)

    def _end(self, former: RelayProcess) -> None:
        """End the former process of a twin."""
        self.ghosts.remove(former)
        if former.running:
            former.crash()

    # Rules

    def look(self) -> None:
        """Check that no relay has sessions with two lives of a node."""
        for ghost in self.ghosts:
            twin = self._world.processes[ghost.contact]
            for process in self._world.running():
                ours = process.tables.sessions(ghost.spec.node_id)
                lives = {
                    end.other.host: None
                    for session in ours
                    if (end := process.ends.get(session)) is not None and end.open
                }
                if ghost in lives and twin in lives:
                    raise BreakError(
                        "twin",
                        f"{process.contact} has sessions with {ghost.contact} of life {twin.life} "
                        f"and of life {ghost.life}",
                        self._world.clock.now,
                    )

    def at_rest(self) -> None:
        """Check that every relay knows the type of every other one."""
        real = {process.spec.node_id: process.spec.relay_type for process in self._world.running()}
        for process in self._world.running():
            for node, kind in process.tables.types():
                if real.get(node, kind) is not kind:
                    raise BreakError(
                        "type",
                        f"{process.contact} takes {node} for {kind.name}, it is {real[node].name}",
                        self._world.clock.now,
                    )


DATAGRAM_PADDING: Final = 1000
SLOW: Final = 0.1
"""Of what one publisher sends, a slow receiver takes this part."""
AWAY: Final = 3.0
"""For so many seconds at most a relay is away that has drained."""
ENDLESS: Final = 0.3
"""The part of all publishers whose tracks are one stream each, without an end."""
TALK: Final = 0.15
"""Seconds between two objects of theirs."""
WORSE_LOSS: Final = 0.2
WORSE_RATE: Final = 0.6
"""The same, of a link that becomes too narrow."""


class Actions:
    """What can be done to a world."""

    __slots__ = (
        "_interests",
        "_lengths",
        "_publications",
        "_world",
        "done",
        "gauge",
        "hostiles",
        "last",
        "restarts",
        "taken_back",
    )

    def __init__(self, world: World) -> None:
        self._world = world
        self.gauge = Gauge(world)
        if world.scenario.gauged:
            self.gauge.start()
        world.ledger.copies = partial(copies, world)
        self._lengths = world.rng.of("endless streams")
        self._publications: dict[str, list[tuple[str, Publication]]] = {}
        """By track: where, and what."""
        self._interests: dict[tuple[str, str], None] = {}
        """Which relay's clients want which track: they come back after a restart."""
        self.done = 0
        self.last = 0.0
        """When something was done, or was over."""
        self.taken_back = 0
        """Relays that began to drain and stay."""
        self.hostiles: list[Hostile] = []
        self.restarts = Restarts(world)

    def plan(self) -> None:
        """Put all actions of the scenario on the clock."""
        for action in self._world.scenario.actions:
            self._world.clock.at(action.when, self.do, action)

    def do(self, action: Action) -> None:
        """Do it."""
        self.done += 1
        self.last = self._world.clock.now
        self._world.note("action:", action.verb, *action.who, action.text, f"{action.value:g}")
        perform: Callable[[Action], None] = getattr(self, f"_{action.verb}")
        perform(action)
        if action.verb in (*PLANNED, "retype", "undrain", "forbid_used"):
            self.bar()

    def bar(self) -> None:
        """Compute which deliveries policy forbids now; they are not expected."""
        world = self._world
        world.ledger.bar(world.clock.now, forbidden_deliveries(world))

    @property
    def interests(self) -> list[tuple[str, str]]:
        """(contact, track) of everything that is wanted."""
        return list(self._interests)

    @property
    def publications(self) -> dict[str, list[tuple[str, Publication]]]:
        """By track: where, and what."""
        return self._publications

    # Clients

    def _publish(self, action: Action) -> None:
        self._publish_as(action, AnnounceKind.TRACK, self._world.scenario.style)

    def _publish_namespace(self, action: Action) -> None:
        self._publish_as(action, AnnounceKind.NAMESPACE, self._world.scenario.style)

    def _publish_datagrams(self, action: Action) -> None:
        style = self._world.scenario.style
        style = style._replace(datagrams=True, padding=min(style.padding, DATAGRAM_PADDING))
        self._publish_as(action, AnnounceKind.TRACK, style)

    def _publish_as(self, action: Action, kind: AnnounceKind, style: Style) -> None:
        contact = action.who[0]
        _, name = self._world.track(action.text)
        if kind is AnnounceKind.NAMESPACE:
            name = FullTrackName(name.namespace, b"")
        others = self._publications.setdefault(action.text, [])
        manners = self._world.scenario.manners
        priority, ttl_ms = manners[list(self._publications).index(action.text) % len(manners)]
        style = style._replace(priority=priority, ttl_ms=ttl_ms)
        if self._lengths.random() < ENDLESS and self._may_be_endless(action.text, style):
            style = style._replace(endless=True, period=TALK)
        publication = Publication(kind, name, action.text, style, len(others))
        others.append((contact, publication))
        process = self._world.processes[contact]
        if process.running:
            process.clients.publish(publication)

    def _may_be_endless(self, track: str, style: Style) -> bool:
        """Whether a track may be one stream: not if another publisher has later groups.

        A subscriber that joins a track gets no object of an earlier group than the largest.
        """
        publishers = [
            action
            for action in self._world.scenario.actions
            if action.verb.startswith("publish") and action.text == track
        ]
        return len(publishers) < 2 and not (style.datagrams or style.padding)

    def _unpublish(self, action: Action) -> None:
        for contact, publication in self._publications.get(action.text, ()):
            process = self._world.processes[contact]
            if process.running:
                process.clients.unpublish(publication)

    def _republish(self, action: Action) -> None:
        for contact, publication in self._publications.get(action.text, ()):
            process = self._world.processes[contact]
            if process.running and publication not in process.clients.publications:
                process.clients.publish(publication)

    def _subscribe(self, action: Action) -> None:
        contact = action.who[0]
        if any(contact == place for place, _ in self._publications.get(action.text, ())):
            return  # a relay's own clients need no network
        self._interests[contact, action.text] = None
        process = self._world.processes[contact]
        if process.running:
            process.clients.subscribe(*self._world.track(action.text))

    def _unsubscribe(self, action: Action) -> None:
        contact = action.who[0]
        if self._interests.pop((contact, action.text), self) is self:
            return
        process = self._world.processes[contact]
        if process.running:
            process.clients.unsubscribe(self._world.track(action.text)[0])

    def unsubscribe_all(self) -> None:
        """All subscribers go."""
        for contact, track in list(self._interests):
            self._unsubscribe(Action(0.0, "unsubscribe", (contact,), text=track))

    def unpublish_all(self) -> None:
        """All publishers go."""
        for track in self._publications:
            self._unpublish(Action(0.0, "unpublish", (), text=track))

    # Planned changes

    def _insert(self, action: Action) -> None:
        self._narrowed(2.0)
        self._world.processes[action.who[0]].start()

    def _drain(self, action: Action) -> None:
        """Drain a relay, and start it again in its next life."""
        process = self._world.processes[action.who[0]]
        if not process.running or process.draining:
            return
        self._narrowed(action.value + 4.0)
        self._world.disturbed()
        if not connected_without(self._world, process):
            # No path avoids this relay, so losses are permitted.
            self._exempt(action)
        life = process.life
        away = min(action.value / 2, AWAY)
        process.leave(
            action.value / 2, lambda: self._world.clock.after(away, self._drained, action, life)
        )

    _retype = _drain

    def _undrain(self, action: Action) -> None:
        """Drain a relay and cancel the drain; nothing may be lost if the relay still runs then."""
        process = self._world.processes[action.who[0]]
        if not process.running or process.draining:
            return
        self._narrowed(action.value + 4.0)
        self._world.disturbed()
        process.leave(action.value, lambda: self._gone_after_all(action, process.life))
        self._world.clock.after(float(action.text), self._take_back, process, process.life)

    def _gone_after_all(self, action: Action, life: int) -> None:
        """Restart a relay whose drain ended before it was cancelled, as after any other drain."""
        process = self._world.processes[action.who[0]]
        self._world.disturbed()
        if not connected_without(self._world, process):
            self._exempt(action)
        self._world.clock.after(AWAY, self._drained, action, life)

    def _take_back(self, process: RelayProcess, life: int) -> None:
        if process.running and process.life == life and process.leaving:
            process.stay()
            self.taken_back += 1
            self.last = self._world.clock.now
            self._world.disturbed()
            self.bar()

    def _drained(self, action: Action, life: int) -> None:
        process = self._world.processes[action.who[0]]
        if process.running and process.life == life:
            if action.verb == "retype":
                self.restarts.change_type(process)
            else:
                process.crash()
                process.start()
            self.last = self._world.clock.now

    def _slower(self, action: Action) -> None:
        """A link's delay changes, and both ends measure it."""
        wire = self._world.network.wire(*action.who)
        if wire is None:
            return
        self._narrowed(3.0)
        wire.delay = round(wire.delay * float(action.text), 6)
        self._world.measured_again = True
        self._world.disturbed()
        for ends in self._world.network.between(*action.who):
            for end in ends:
                process = self._world.processes[end.host.contact]
                if process.running and end.session in process.ends:
                    process.call(
                        lambda now, process=process, end=end: process.core.measured(  # type: ignore[misc]
                            now, end.session, wire.srtt_us, 0.0
                        )
                    )

    def _policy(self, action: Action) -> None:
        """Another policy is loaded, everywhere at once."""
        world = self._world
        if not action.who:
            return
        world.policy, scope = loaded(world, action)
        world.policy_since = world.clock.now
        world.disturbed()
        # Policy goes before delivery: until others have found ways around it, data waits.
        self._narrowed(1.0, (scope,))
        for process in (*world.running(), *self.restarts.ghosts):
            process.call(partial(take, process, world.policy_of(process)))

    def _narrowed(self, seconds: float, scopes: Collection[str] | None = None) -> None:
        """Excuse a change where policy leaves few paths: a class may have none for a while.

        Neighbours advertise their best path only, which may be forbidden for a class.
        """
        world = self._world
        now = world.clock.now
        if scopes is None:
            scopes = world.policy.narrowed
        pairs = (
            None
            if "" in scopes
            else frozenset(
                product(world.places("publish", scopes), world.places("subscribe", scopes))
            )
        )
        if scopes:
            world.ledger.exempt(now, now + seconds + CONVERGED, pairs)

    # Planned changes of the Via in use

    def _used(self, action: Action) -> RelayProcess | None:
        """The Via through which an o-relay sends a track now."""
        via = used_via(self._world, self._world.processes[action.who[0]], action.text)
        self._world.note("in use:", "no Via" if via is None else via.contact)
        return via

    def _drain_used(self, action: Action) -> None:
        via = self._used(action)
        if via is not None:
            self._drain(action._replace(who=(via.contact,)))

    def _overload_used(self, action: Action) -> None:
        via = self._used(action)
        if via is not None and not via.avoided:
            via.overloaded = True
            self._world.disturbed()
            via.call(lambda now: via.core.set_load(now, Load(LoadClass.OVERLOADED, 990)))
            self._world.clock.after(action.value, self._relieve, via, via.life)

    def _relieve(self, via: RelayProcess, life: int) -> None:
        if via.running and via.life == life:
            via.overloaded = False
            self.last = self._world.clock.now
            self._world.disturbed()
            via.call(lambda now: via.core.set_load(now, Load()))

    def _worsen(self, action: Action) -> None:
        """The link over which most is sent loses packets, or takes less than that, for a while."""
        world = self._world
        origin = world.processes[action.who[0]]
        hops = list(sent_to(world, origin, action.text).values())
        if not hops:
            return
        peer = world.by_node()[max(hops, key=lambda hop: (hops.count(hop), -hop))]
        wire = world.network.wire(origin.contact, peer.contact)
        if wire is None:
            return
        world.note("worse:", origin.contact, peer.contact)
        world.disturbed()
        world.clock.after(action.value, self._better, wire, wire.loss)
        if world.scenario.max_loss is not None:
            world.ledger.lossy = True
            wire.loss = WORSE_LOSS
        else:
            wire.slow[origin.contact] = WORSE_RATE * offered_by(world.scenario.style)

    def _better(self, wire: Wire, loss: float) -> None:
        wire.loss = loss
        wire.slow.clear()
        self.last = self._world.clock.now
        self._world.disturbed()

    def _forbid_used(self, action: Action) -> None:
        via = self._used(action)
        if via is not None:
            self._policy(action._replace(who=(via.contact,), text=f"relay {action.text}"))

    # Faults

    def _exempt(self, action: Action) -> None:
        exempt(self._world, action.who, action.value)

    def _cut(self, action: Action) -> None:
        one, other = action.who
        self._exempt(action)
        self._world.network.block(one, other)
        self._world.network.block(other, one)
        self._world.clock.after(action.value, self._heal, one, other)
        self._world.clock.after(action.value, self._heal, other, one)

    def _half(self, action: Action) -> None:
        one, other = action.who
        self._exempt(action)
        self._world.network.block(one, other)
        self._world.clock.after(action.value, self._heal, one, other)

    def _heal(self, sender: str, receiver: str) -> None:
        self._world.note("healed:", sender, "->", receiver)
        self._world.network.unblock(sender, receiver)

    def _crash(self, action: Action) -> None:
        process = self._world.processes[action.who[0]]
        self._exempt(action)
        if process.running:
            process.crash()
            self._world.clock.after(action.value, self._restart, action)

    def _restart(self, action: Action) -> None:
        """The next life: its clients come back."""
        contact = action.who[0]
        process = self._world.processes[contact]
        if not process.running:
            self._come(process)

    def _come(self, process: RelayProcess) -> None:
        contact = process.contact
        process.start()
        for track, places in self._publications.items():
            for place, publication in places:
                if place == contact:
                    process.clients.publish(publication)
            if (contact, track) in self._interests:
                process.clients.subscribe(*self._world.track(track))
        for place, track in self._interests:
            if place == contact and track not in self._publications:
                process.clients.subscribe(*self._world.track(track))

    def _twin(self, action: Action) -> None:
        """The same relay once more: the new process is the node, the old one does not know."""
        process = self._world.processes[action.who[0]]
        self._exempt(action)
        if process.running and not process.paused:
            self.restarts.twin(process, action.value, self._come)

    def _pause(self, action: Action) -> None:
        process = self._world.processes[action.who[0]]
        self._exempt(action)
        if process.running and not process.paused:
            process.pause()
            self._world.clock.after(action.value, process.resume)

    def _slow(self, action: Action) -> None:
        """A receiver takes a tenth of what one publisher sends, for a while."""
        one, other = action.who
        world = self._world
        wire = world.network.wire(one, other)
        if not world.scenario.offered:
            self._exempt(action)
        if wire is not None:
            wire.slow[one] = SLOW * offered_by(world.scenario.style)
            world.disturbed()
            world.clock.after(action.value, wire.slow.pop, one, None)

    def _hostile(self, action: Action) -> None:
        victim, other = action.who
        near = self._world.neighbours(other)
        if action.verb == "double" and not self._world.holders and victim not in near:
            # Where credentials cover no node ids, only a relay that had a session with a node has
            # its key.
            victim = near[0]
        if action.verb == "liar":
            # Relays that accept its false paths send data to a dead end. The other hostile peers
            # cause no loss.
            now = self._world.clock.now
            self._world.ledger.exempt(
                now, now + action.value + 2 * self._world.scenario.idle + CONVERGED
            )
        hostile = Hostile(self._world, action.verb, len(self.hostiles) + 1, victim, other)
        self.hostiles.append(hostile)
        self._world.clock.after(action.value, hostile.go)

    _double = _hostile
    _liar = _hostile
    _garbage = _hostile
    _reflector = _hostile
    _flood = _hostile


def loaded(world: World, action: Action) -> tuple[SimPolicy, str]:
    """The policy of a run with one more rule, and the class that it is for."""
    form, _, rest = action.text.partition(" ")
    scope, *words = rest.split() or [""]
    policy = world.policy
    if form == "relay":
        nodes = frozenset(map(world.node, action.who))
        return policy.more(scope, nodes=nodes, named=nodes), scope
    if form == "country":
        return policy.more(scope, link=frozenset(map(world.node, action.who))), scope
    (region,) = action.who
    nodes = frozenset(
        process.spec.node_id
        for process in world.processes.values()
        if process.spec.region == region
    )
    if form == "region":
        return policy.more(scope, nodes=nodes, region=region), scope
    if form == "filter":
        side, what, whose = words
        border = Border(side, what, scope, whose, region, nodes)
        return replace(policy, borders=(*policy.borders, border)), scope
    return policy.more(scope, excluded=region), scope


def take(process: RelayProcess, policy: Policy, now: float) -> None:
    """Set another policy at a relay, as a server does (``NetworkPart.set_policy``)."""
    process.core.set_policy(now, policy)
    if process.edge is not None:
        # Subscribers at the publisher's own Edge are not reached by the network's messages.
        process.edge.relay.reauthorize(now)
