"""Carrying out what a scenario says: clients, planned changes, faults."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from itertools import product
from typing import Final

from laps_relay.sim.checks.steering import sent_to, used_via
from laps_relay.sim.clients.publications import Publication, Style
from laps_relay.sim.net.wires import Wire
from laps_relay.sim.scenarios.narrow import offered_by
from laps_relay.sim.scenarios.policies import loaded, take
from laps_relay.sim.scenarios.restarts import Successions
from laps_relay.sim.scenarios.scenario import PLANNED, Deed
from laps_relay.sim.world.fault_scope import CONVERGED, exempt
from laps_relay.sim.world.hostile import Hostile
from laps_relay.sim.world.paths import connected_without, copies, without_way
from laps_relay.sim.world.process import RelayProcess
from laps_relay.sim.world.world import World
from laps_wire.names import FullTrackName
from laps_wire.peering.laps2 import AnnounceKind, Load, LoadClass

__all__ = ["Deeds"]

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


class Deeds:
    """What can be done to a world."""

    __slots__ = (
        "_interests",
        "_lengths",
        "_publications",
        "_world",
        "done",
        "hostiles",
        "last",
        "successions",
        "taken_back",
    )

    def __init__(self, world: World) -> None:
        self._world = world
        world.ledger.copies = partial(copies, world)
        self._lengths = world.dice.of("endless streams")
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
        self.successions = Successions(world)

    def plan(self) -> None:
        """Put all deeds of the scenario on the clock."""
        for deed in self._world.scenario.deeds:
            self._world.clock.at(deed.when, self.do, deed)

    def do(self, deed: Deed) -> None:
        """Do it."""
        self.done += 1
        self.last = self._world.clock.now
        self._world.note("deed:", deed.verb, *deed.who, deed.text, f"{deed.value:g}")
        action: Callable[[Deed], None] = getattr(self, f"_{deed.verb}")
        action(deed)
        if deed.verb in (*PLANNED, "retype", "undrain", "forbid_used"):
            self.bar()

    def bar(self) -> None:
        """Find out what policy leaves no way for now; nobody asks for that."""
        world = self._world
        world.ledger.bar(world.clock.now, without_way(world))

    @property
    def interests(self) -> list[tuple[str, str]]:
        """(contact, track) of everything that is wanted."""
        return list(self._interests)

    @property
    def publications(self) -> dict[str, list[tuple[str, Publication]]]:
        """By track: where, and what."""
        return self._publications

    # Clients

    def _publish(self, deed: Deed) -> None:
        self._publish_as(deed, AnnounceKind.TRACK, self._world.scenario.style)

    def _publish_namespace(self, deed: Deed) -> None:
        self._publish_as(deed, AnnounceKind.NAMESPACE, self._world.scenario.style)

    def _publish_datagrams(self, deed: Deed) -> None:
        style = self._world.scenario.style
        style = style._replace(datagrams=True, padding=min(style.padding, DATAGRAM_PADDING))
        self._publish_as(deed, AnnounceKind.TRACK, style)

    def _publish_as(self, deed: Deed, kind: AnnounceKind, style: Style) -> None:
        contact = deed.who[0]
        _, name = self._world.track(deed.text)
        if kind is AnnounceKind.NAMESPACE:
            name = FullTrackName(name.namespace, b"")
        others = self._publications.setdefault(deed.text, [])
        manners = self._world.scenario.manners
        priority, ttl_ms = manners[list(self._publications).index(deed.text) % len(manners)]
        style = style._replace(priority=priority, ttl_ms=ttl_ms)
        if self._lengths.random() < ENDLESS and self._may_be_endless(deed.text, style):
            style = style._replace(endless=True, period=TALK)
        publication = Publication(kind, name, deed.text, style, len(others))
        others.append((contact, publication))
        process = self._world.processes[contact]
        if process.running:
            process.clients.publish(publication)

    def _may_be_endless(self, track: str, style: Style) -> bool:
        """Whether a track may be one stream: not if another publisher has later groups.

        Who joins a track gets nothing that is behind its largest group.
        """
        publishers = [
            deed
            for deed in self._world.scenario.deeds
            if deed.verb.startswith("publish") and deed.text == track
        ]
        return len(publishers) < 2 and not (style.datagrams or style.padding)

    def _unpublish(self, deed: Deed) -> None:
        for contact, publication in self._publications.get(deed.text, ()):
            process = self._world.processes[contact]
            if process.running:
                process.clients.unpublish(publication)

    def _republish(self, deed: Deed) -> None:
        for contact, publication in self._publications.get(deed.text, ()):
            process = self._world.processes[contact]
            if process.running and publication not in process.clients.publications:
                process.clients.publish(publication)

    def _subscribe(self, deed: Deed) -> None:
        contact = deed.who[0]
        if any(contact == place for place, _ in self._publications.get(deed.text, ())):
            return  # a relay's own clients need no network
        self._interests[contact, deed.text] = None
        process = self._world.processes[contact]
        if process.running:
            process.clients.subscribe(*self._world.track(deed.text))

    def _unsubscribe(self, deed: Deed) -> None:
        contact = deed.who[0]
        if self._interests.pop((contact, deed.text), self) is self:
            return
        process = self._world.processes[contact]
        if process.running:
            process.clients.unsubscribe(self._world.track(deed.text)[0])

    def unsubscribe_all(self) -> None:
        """All subscribers go."""
        for contact, track in list(self._interests):
            self._unsubscribe(Deed(0.0, "unsubscribe", (contact,), text=track))

    def unpublish_all(self) -> None:
        """All publishers go."""
        for track in self._publications:
            self._unpublish(Deed(0.0, "unpublish", (), text=track))

    # Planned changes

    def _insert(self, deed: Deed) -> None:
        self._narrowed(2.0)
        self._world.processes[deed.who[0]].start()

    def _drain(self, deed: Deed) -> None:
        """Leave in good order, and come back with the next life."""
        process = self._world.processes[deed.who[0]]
        if not process.running or process.draining:
            return
        self._narrowed(deed.value + 4.0)
        self._world.disturbed()
        if not connected_without(self._world, process):
            # Nobody else leads there: what is lost is lost.
            self._exempt(deed)
        life = process.life
        away = min(deed.value / 2, AWAY)
        process.leave(
            deed.value / 2, lambda: self._world.clock.after(away, self._drained, deed, life)
        )

    _retype = _drain

    def _undrain(self, deed: Deed) -> None:
        """Begin to leave, and think better of it: nothing may be lost, if it is still there."""
        process = self._world.processes[deed.who[0]]
        if not process.running or process.draining:
            return
        self._narrowed(deed.value + 4.0)
        self._world.disturbed()
        process.leave(deed.value, lambda: self._gone_after_all(deed, process.life))
        self._world.clock.after(float(deed.text), self._take_back, process, process.life)

    def _gone_after_all(self, deed: Deed, life: int) -> None:
        """It was not needed any more before that: it comes back as from a drain."""
        process = self._world.processes[deed.who[0]]
        self._world.disturbed()
        if not connected_without(self._world, process):
            self._exempt(deed)
        self._world.clock.after(AWAY, self._drained, deed, life)

    def _take_back(self, process: RelayProcess, life: int) -> None:
        if process.running and process.life == life and process.leaving:
            process.stay()
            self.taken_back += 1
            self.last = self._world.clock.now
            self._world.disturbed()
            self.bar()

    def _drained(self, deed: Deed, life: int) -> None:
        process = self._world.processes[deed.who[0]]
        if process.running and process.life == life:
            if deed.verb == "retype":
                self.successions.change_type(process)
            else:
                process.crash()
                process.start()
            self.last = self._world.clock.now

    def _slower(self, deed: Deed) -> None:
        """A link's delay changes, and both ends measure it."""
        wire = self._world.network.wire(*deed.who)
        if wire is None:
            return
        self._narrowed(3.0)
        wire.delay = round(wire.delay * float(deed.text), 6)
        self._world.measured_again = True
        self._world.disturbed()
        for ends in self._world.network.between(*deed.who):
            for end in ends:
                process = self._world.processes[end.host.contact]
                if process.running and end.session in process.ends:
                    process.call(
                        lambda core, now, end=end: core.measured(  # type: ignore[misc]
                            now, end.session, wire.srtt_us, 0.0
                        )
                    )

    def _policy(self, deed: Deed) -> None:
        """Another policy is loaded, everywhere at once."""
        world = self._world
        if not deed.who:
            return
        world.policy, scope = loaded(world, deed)
        world.policy_since = world.clock.now
        world.disturbed()
        # Policy goes before delivery: until others have found ways around it, data waits.
        self._narrowed(1.0, (scope,))
        for process in (*world.running(), *self.successions.ghosts):
            process.call(partial(take, process, world.policy_of(process)))

    def _narrowed(self, seconds: float, scopes: Collection[str] | None = None) -> None:
        """Something changes where policy leaves few ways: a class may have none for a while.

        Neighbours tell their best way only, and a class may have to do without that one.
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

    def _used(self, deed: Deed) -> RelayProcess | None:
        """The Via through which an o-relay sends a track now."""
        via = used_via(self._world, self._world.processes[deed.who[0]], deed.text)
        self._world.note("in use:", "no Via" if via is None else via.contact)
        return via

    def _drain_used(self, deed: Deed) -> None:
        via = self._used(deed)
        if via is not None:
            self._drain(deed._replace(who=(via.contact,)))

    def _overload_used(self, deed: Deed) -> None:
        via = self._used(deed)
        if via is not None and not via.avoided:
            via.overloaded = True
            self._world.disturbed()
            via.call(lambda core, now: core.set_load(now, Load(LoadClass.OVERLOADED, 990)))
            self._world.clock.after(deed.value, self._relieve, via, via.life)

    def _relieve(self, via: RelayProcess, life: int) -> None:
        if via.running and via.life == life:
            via.overloaded = False
            self.last = self._world.clock.now
            self._world.disturbed()
            via.call(lambda core, now: core.set_load(now, Load()))

    def _worsen(self, deed: Deed) -> None:
        """The link over which most is sent loses packets, or takes less than that, for a while."""
        world = self._world
        origin = world.processes[deed.who[0]]
        hops = list(sent_to(world, origin, deed.text).values())
        if not hops:
            return
        peer = world.by_node()[max(hops, key=lambda hop: (hops.count(hop), -hop))]
        wire = world.network.wire(origin.contact, peer.contact)
        if wire is None:
            return
        world.note("worse:", origin.contact, peer.contact)
        world.disturbed()
        world.clock.after(deed.value, self._better, wire, wire.loss)
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

    def _forbid_used(self, deed: Deed) -> None:
        via = self._used(deed)
        if via is not None:
            self._policy(deed._replace(who=(via.contact,), text=f"relay {deed.text}"))

    # Faults

    def _exempt(self, deed: Deed) -> None:
        exempt(self._world, deed.who, deed.value)

    def _cut(self, deed: Deed) -> None:
        one, other = deed.who
        self._exempt(deed)
        self._world.network.block(one, other)
        self._world.network.block(other, one)
        self._world.clock.after(deed.value, self._heal, one, other)
        self._world.clock.after(deed.value, self._heal, other, one)

    def _half(self, deed: Deed) -> None:
        one, other = deed.who
        self._exempt(deed)
        self._world.network.block(one, other)
        self._world.clock.after(deed.value, self._heal, one, other)

    def _heal(self, sender: str, receiver: str) -> None:
        self._world.note("healed:", sender, "->", receiver)
        self._world.network.unblock(sender, receiver)

    def _crash(self, deed: Deed) -> None:
        process = self._world.processes[deed.who[0]]
        self._exempt(deed)
        if process.running:
            process.crash()
            self._world.clock.after(deed.value, self._restart, deed)

    def _restart(self, deed: Deed) -> None:
        """The next life: its clients come back."""
        contact = deed.who[0]
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

    def _twin(self, deed: Deed) -> None:
        """The same relay once more: the new process is the node, the old one does not know."""
        process = self._world.processes[deed.who[0]]
        self._exempt(deed)
        if process.running and not process.paused:
            self.successions.twin(process, deed.value, self._come)

    def _pause(self, deed: Deed) -> None:
        process = self._world.processes[deed.who[0]]
        self._exempt(deed)
        if process.running and not process.paused:
            process.pause()
            self._world.clock.after(deed.value, process.resume)

    def _slow(self, deed: Deed) -> None:
        """A receiver takes a tenth of what one publisher sends, for a while."""
        one, other = deed.who
        world = self._world
        wire = world.network.wire(one, other)
        if not world.scenario.offered:
            self._exempt(deed)
        if wire is not None:
            wire.slow[one] = SLOW * offered_by(world.scenario.style)
            world.disturbed()
            world.clock.after(deed.value, wire.slow.pop, one, None)

    def _hostile(self, deed: Deed) -> None:
        victim, other = deed.who
        near = self._world.neighbours(other)
        if deed.verb == "double" and not self._world.holders and victim not in near:
            # Where credentials cover no node ids, only who has met a node knows its key.
            victim = near[0]
        if deed.verb == "liar":
            # Whoever believes it sends data nowhere. The others do harm to nobody.
            now = self._world.clock.now
            self._world.ledger.exempt(
                now, now + deed.value + 2 * self._world.scenario.idle + CONVERGED
            )
        hostile = Hostile(self._world, deed.verb, len(self.hostiles) + 1, victim, other)
        self.hostiles.append(hostile)
        self._world.clock.after(deed.value, hostile.go)

    _double = _hostile
    _liar = _hostile
    _garbage = _hostile
    _reflector = _hostile
    _flood = _hostile
