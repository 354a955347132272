"""The invariants: what must hold while a network runs, and what must hold at rest.

===================  ==========================================================================
while it runs        all routes and the FIB are the oracle's within the bound after each change (in
                     ``convergence``); no forwarding loop lives longer than detection and that
                     each object at most once to a client and over a link; in order; only if wanted
                     policy holds for every relay that an object passes (these: in the ledger)
at rest              every configured link is up; every relay knows exactly the relays there are
                     the next hop to each of them is the oracle's
                     every want is answered as it must be
                     sets: what a relay sends is what the next one serves; disjoint; together they
                     are the subscribers of the o-relay
                     nothing of a hostile peer is left
after withdrawal     all tables are empty; a Via that does not reflect was so before; the relays
                     still know exactly each other
===================  ==========================================================================
"""

from __future__ import annotations

import math
from collections.abc import Set as AbstractSet
from typing import Final

from laps_relay.network.events import SetGone, SubscribeGone
from laps_relay.network.nodes.probing import MAX_PROBES
from laps_relay.sim.checks.convergence import Routes
from laps_relay.sim.checks.drops import Drops
from laps_relay.sim.checks.steering import SteeringChecks
from laps_relay.sim.checks.stubs import StubChecks
from laps_relay.sim.clients.clients import HASHER, Want
from laps_relay.sim.clients.ledger import FLIGHT, BreakError
from laps_relay.sim.core import SetOut
from laps_relay.sim.world.actions import Actions
from laps_relay.sim.world.oracle import Oracle, reached_by, served
from laps_relay.sim.world.world import RelayProcess, World
from laps_sdk.upstream.interfaces import Answer
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import RelayType, SubscribeCode

__all__ = ["Checks"]

LOOP_LIMIT: Final = 1.5
"""Added to the detection time: a loop between relays that know all there is lives shorter."""


class Checks:
    """Checks a world; raises :class:`~laps_relay.sim.clients.ledger.BreakError`."""

    __slots__ = (
        "_actions",
        "_ended",
        "_loops",
        "_walked",
        "_world",
        "drops",
        "made",
        "steering",
        "stubs",
    )

    def __init__(self, world: World, actions: Actions) -> None:
        self._world = world
        self._actions = actions
        self._loops: dict[tuple[NodeId, NodeId], float] = {}
        """(node, target) on a loop, and since when."""
        self._walked: set[NodeId] = set()
        """The nodes that ran at the last search for loops."""
        self.drops = Drops(world)
        self.stubs = StubChecks(world)
        self.steering = SteeringChecks(world, actions)
        self.made = 0
        self._ended: dict[tuple[str, int, int], float] = {}
        """When sets of relays on connections were withdrawn."""
        world.watch(self.subscribe_gone, SubscribeGone)
        if world.scenario.offered:
            world.watch(self.set_gone, SetGone)

    def _fail(self, rule: str, text: str) -> BreakError:
        return BreakError(rule, text, self._world.clock.now)

    # While it runs

    def subscribe_gone(self, process: RelayProcess, event: SubscribeGone) -> None:
        """An o-relay loses a subscriber only when that wants it no more, and not at once."""
        world = self._world
        now = world.clock.now
        key = event.entry.full_name_hash
        source = world.by_node().get(event.entry.source)
        if (
            source is None
            or not source.running
            or world.ledger.exempted(now, now, (process.contact, source.contact))
            or not any(key in each.flows for each in process.clients.publications)
            or self._serverless(process, source)
        ):
            return
        want = source.clients.wants.get(key)
        left = source.clients.past.get(key)
        delay = world.scenario.settings.unsubscribe_delay
        # What is refused is asked for as long as it lingers, and not at all after that.
        if (want is not None and want.answer is Answer.ACCEPTED) or (
            left is not None and left.served and now - left.when < delay
        ):
            raise self._fail(
                "unsubscribed", f"{process.contact} lost the subscribe of {source.contact} too soon"
            )

    def _serverless(self, one: RelayProcess, other: RelayProcess) -> bool:
        """Return whether no control server has a session with both relays.

        With two control servers, each end may have lost another one. Then no server can tell one
        end of the subscription of the other, though data has a path.
        """
        servers = [each for each in self._world.running() if each.is_control]
        both = {one.contact, other.contact}
        return bool(servers) and not any(
            both <= {end.other.host.contact for end in server.ends.values() if end.open}
            for server in servers
        )

    def set_gone(self, process: RelayProcess, event: SetGone) -> None:
        """Note when a set ended: the withdrawal may not have reached the peer yet."""
        if not event.incoming and event.session in process.ends:
            connection = process.ends[event.session].connection
            self._ended[process.contact, connection, event.sns_id] = self._world.clock.now

    def loops(self) -> None:
        """Follow every next hop: who comes back to itself, and for how long already."""
        world = self._world
        processes = {
            process.spec.node_id: process for process in world.running() if not process.paused
        }
        targets = {target for _, target in self._loops} | world.rerouted.keys()
        if processes.keys() != self._walked:
            # A relay that starts, stops or resumes opens or closes paths; no route changes then.
            self._walked = set(processes)
            targets = set(processes)
        world.rerouted = {}
        if not targets:
            return
        self.made += 1
        now = world.clock.now
        found: dict[tuple[NodeId, NodeId], float] = {}
        for target in sorted(targets & processes.keys()):
            state: dict[NodeId, int] = {target: 0}  # 0: arrives or ends, 1: on a loop
            for start in processes:
                walk: list[NodeId] = []
                node: NodeId | None = start
                while node is not None and node not in state:
                    state[node] = 2
                    walk.append(node)
                    node = processes[node].tables.next_hop(target)
                    if node is not None and node not in processes:
                        node = None
                end = 0 if node is None else state[node]
                if end == 2:  # in this very walk
                    for on_loop in walk[walk.index(node) :] if node is not None else ():
                        key = (on_loop, target)
                        found[key] = self._loops.get(key, now)
                for each in walk:
                    state[each] = 0 if end == 0 else 1
        self._loops = found
        limit = world.scenario.idle * 2 + LOOP_LIMIT
        for (node, target), since in found.items():
            if now - since > limit:
                raise self._fail(
                    "loop", f"data of {node} for {target} runs in a circle since {since:.3f}"
                )

    # At rest

    def links_up(self) -> str:
        """What is not up yet; empty if everything is."""
        for one, other, _ in self._world.configured():
            if one.is_stub:
                continue
            for near, far in ((one, other), (other, one)):
                if far.spec.node_id not in near.tables.peers():
                    return f"{near.contact} has no session with {far.contact}"
        return self.stubs.links_up()

    def at_rest(self) -> None:
        """Check everything that must hold after the last change has settled."""
        self.made += 1
        world = self._world
        if missing := self.links_up():
            raise self._fail("not connected", missing)
        policy = world.policy
        oracle = Oracle(world.graph(), lambda node: policy.transit("", node))
        self.stubs.at_rest()
        self._actions.restarts.at_rest()
        for process in world.running():
            self._nodes(process, oracle)
        self._hostiles()
        self.borders()
        self._wants(oracle)
        self._feeds(oracle)
        if world.scenario.exact:
            Routes(world, oracle).fib(world.running())
        self._sets()

    def borders(self) -> None:
        """Check at rest that relays have exactly the filtered entries that may come to them.

        Each relay asks its filters twice of an announce or a subscribe: may it come in from that
        peer, may it go out to that one. ``reached_by`` walks from the source of an entry to all
        relays that get it, and shares no code with tables and filters.

        Where a relay is no transit for anything, some relays do not know the source of an entry and
        have no use for it. There, only entries that must not have come are looked for.
        """
        world = self._world
        known = not world.policy.no_transit.get("")
        for scope in sorted({border.scope for border in world.policy.borders}):
            key, name = world.track(scope)
            keys = {key, HASHER.full_name(name.namespace.fields, b"")}
            for source in world.running():
                clients = source.clients
                want = clients.wants.get(key)
                wanted = want is not None and want.answer is Answer.ACCEPTED
                announced = any(each.scope == scope for each in clients.publications)
                for what, must in (("announce", announced), ("subscribe", wanted)):
                    reached = reached_by(world, what, scope, source.spec.node_id)
                    for process in world.running():
                        self._filtered(
                            process, source, (what, scope), keys, reached, must=must and known
                        )

    def _filtered(
        self,
        process: RelayProcess,
        source: RelayProcess,
        entry: tuple[str, str],
        keys: set[int],
        reached: set[NodeId],
        *,
        must: bool,
    ) -> None:
        """Check one relay; ``must``: the source has the entry for certain."""
        node, tables = source.spec.node_id, process.tables
        what, scope = entry
        rows = tables.announce_sources() if what == "announce" else tables.subscribe_sources()
        has = any(each == node and key in keys for each, key in rows)
        may = process.spec.node_id in reached
        if has and not may:
            raise self._fail(
                "filter",
                f"{process.contact} has the {what} of {source.contact} for {scope}, which no "
                "filter lets come there",
            )
        if must and may and not has:
            raise self._fail(
                "filter",
                f"{process.contact} lacks the {what} of {source.contact} for {scope}, which "
                "filters let come there",
            )

    def _nodes(self, process: RelayProcess, oracle: Oracle) -> None:
        own = process.spec.node_id
        if process.spec.relay_type in (RelayType.CONTROL, RelayType.STUB):
            return  # it forwards nothing
        expected = [
            other.spec.node_id
            for other in self._world.running()
            if other is not process
            and other.spec.relay_type not in (RelayType.CONTROL, RelayType.STUB)
            and oracle.reaches(own, other.spec.node_id)
        ]
        known = [node for node in process.tables.nodes() if node != own]
        # A node may be known although policy permits no path to it.
        extra = sorted(set(known) - set(self._sources_running()))
        extra += [node for node in set(known) - set(expected) if process.tables.next_hop(node)]
        lacking = sorted(set(expected) - set(known))
        if extra or lacking:
            raise self._fail(
                "nodes",
                f"{process.contact} knows too much: {list(map(str, extra))}, too little: "
                f"{list(map(str, lacking))}",
            )
        for peer, node, path in process.tables.adj_out():
            if peer == node or peer in path:
                raise self._fail(
                    "horizon", f"{process.contact} told {peer} of {node}, which is through it"
                )
        Routes(self._world, oracle).next_hops(process, expected)

    def _hostiles(self) -> None:
        """Check that peers with another's node id, or with malformed control data, were refused."""
        for hostile in self._actions.hostiles:
            refused = hostile.refused is not None or hostile.excused
            if hostile.met and hostile.must_be_refused and not refused:
                raise self._fail(
                    "hostile", f"{hostile.victim} let {hostile.contact} be: {hostile.habit}"
                )

    def _sources_running(self) -> list[NodeId]:
        return [node for node, process in self._world.by_node().items() if process.running]

    def _publishers(self, track: str) -> list[RelayProcess]:
        found = []
        for contact, publication in self._actions.publications.get(track, ()):
            process = self._world.processes[contact]
            if process.running and publication in process.clients.publications:
                found.append(process)
        return found

    def _wants(self, oracle: Oracle) -> None:
        """Check that each subscriber of a published track is served, and no other one."""
        for contact, track in self._actions.interests:
            process = self._world.processes[contact]
            if not process.running:
                continue
            key = self._world.track(track)[0]
            want = process.clients.wants.get(key)
            publishers = self._publishers(track)
            is_served = any(
                served(self._world, oracle, origin, process, track) for origin in publishers
            )
            answer = None if want is None else want.answer
            # Policy may leave no way for an answer either.
            heard = not publishers or any(self._heard(origin, process) for origin in publishers)
            if (
                publishers
                and heard
                and self._excluded(process, track)
                and not _refused_by_policy(want, hidden=self._hidden(publishers, process, track))
            ):
                raise self._fail("answer", f"{contact} may not have {track}, and was told {answer}")
            if is_served and answer is not Answer.ACCEPTED:
                raise self._fail(
                    "answer", f"{contact} wants {track} and was told {answer}, not accepted"
                )
            if (
                not is_served
                and answer is Answer.ACCEPTED
                and heard
                and not self._answer_lost(publishers, contact)
            ):
                raise self._fail("answer", f"{contact} has {track}, which nobody may give it")

    def _hidden(self, publishers: list[RelayProcess], process: RelayProcess, track: str) -> bool:
        """Return whether the relay cannot learn that policy is the reason.

        Clients of MoQT get reasons of their own. A relay that no announce reaches answers that
        there is no publisher.
        """
        world = self._world
        return world.moqt or (
            bool(world.policy.borders)
            and not any(
                process.spec.node_id in reached_by(world, "announce", track, origin.spec.node_id)
                for origin in publishers
            )
        )

    def _answer_lost(self, publishers: list[RelayProcess], contact: str) -> bool:
        """Return whether faults may have destroyed both refusals that followed from a policy."""
        world = self._world
        since, now = world.policy_since, world.clock.now
        return bool(publishers) and all(
            world.ledger.exempted(since, now, (origin.contact, contact)) for origin in publishers
        )

    def _heard(self, one: RelayProcess, other: RelayProcess) -> bool:
        """Return whether one of two relays has a path to the other."""
        near, far = self._world.place(one), self._world.place(other)
        if near is None or far is None or near is far:
            return True
        return (
            near.tables.next_hop(far.spec.node_id) is not None
            or far.tables.next_hop(near.spec.node_id) is not None
        )

    def _excluded(self, process: RelayProcess, track: str) -> bool:
        place = self._world.place(process)
        return place is not None and not self._world.policy.serves(track, place.spec.region)

    def _feeds(self, oracle: Oracle) -> None:
        """At the o-relay: exactly the subscribers."""
        for track in self._actions.publications:
            key = self._world.track(track)[0]
            expected = [
                (contact, place.spec.node_id)
                for contact, wanted in self._actions.interests
                if wanted == track
                and self._world.processes[contact].running
                and (place := self._world.place(self._world.processes[contact])) is not None
            ]
            for publisher in self._publishers(track):
                origin = self._world.place(publisher)
                if origin is None:
                    continue
                own = origin.spec.node_id
                targets = {
                    node
                    for contact, node in expected
                    if node != own
                    and served(self._world, oracle, origin, self._world.processes[contact], track)
                }
                flows = [flow for flow in origin.tables.fib() if flow.key == key]
                reached = {node for flow in flows for out in flow.egress for node in out.targets}
                if reached != targets:
                    raise self._fail(
                        "subscribers",
                        f"{origin.contact} sends {track} to {sorted(map(str, reached))}, wanted is "
                        f"{sorted(map(str, targets))}",
                    )

    def _sets(self) -> None:
        """What one relay sends is what the next one serves, from the o-relays to the ends."""
        sent: dict[tuple[int, NodeId, int], SetOut] = {}
        flows = {process.spec.node_id: process.tables.fib() for process in self._world.running()}
        for own, of_node in flows.items():
            for flow in of_node:
                seen: set[NodeId] = set()
                peers = [out.peer for out in flow.egress]
                if len(set(peers)) < len(peers):
                    raise self._fail("sets", f"{own} has two sets at one peer: {flow}")
                for out in flow.egress:
                    if out.targets & seen:
                        raise self._fail("sets", f"{own} has a target twice: {flow}")
                    seen |= out.targets
                    sent[out.connection, own, out.sns_id] = out
        for own, of_node in flows.items():
            for flow in of_node:
                if flow.peer is None:
                    continue
                place = (flow.connection, flow.peer, flow.set_id)
                if place not in sent:
                    if self._still_busy(flow.connection, flow.peer, flow.set_id):
                        continue
                    raise self._fail("sets", f"{own} serves a set that nobody sends: {flow}")
                out = sent.pop(place)
                passed = {node for each in flow.egress for node in each.targets}
                if passed != flow.targets - {own}:
                    lacking = sorted(map(str, flow.targets - {own} - passed))
                    raise self._fail("sets", f"{own} does not serve {lacking} of {flow}")
                if out.targets != flow.targets:
                    raise self._fail("sets", f"{own} serves {flow}, sent is {out}")
        for (_, own, _), out in sent.items():
            raise self._fail("sets", f"{own} sends a set that nobody serves: {out}")

    def _still_busy(self, connection: int, peer: NodeId, set_id: int) -> bool:
        """Whether a set that has ended still has data in a queue: on narrow links it may."""
        sender, now = self._world.by_node()[peer], self._world.clock.now
        if not self._world.scenario.offered:
            return False
        ended = self._ended.get((sender.contact, connection, set_id), -math.inf)
        lives = sender.tables.targets(connection, set_id) is not None
        return lives or now - ended < FLIGHT

    def chatter(self, since: float, before: int) -> None:
        """Check that relays at rest send nothing but keep-alives."""
        world = self._world
        if any(
            want.answer is not Answer.ACCEPTED
            for process in world.running()
            for want in process.clients.wants.values()
        ):
            return  # their clients ask again now and then
        if world.scenario.repair:
            return  # a POSITION follows the objects of each track
        settings = world.scenario.settings
        ends = sum(len(process.ends) for process in world.running())
        silence = settings.keepalive
        most = ends * (1 + (world.clock.now - since) / silence)
        # Each session asks how far all other nodes are, and is answered.
        rounds = 1 + (world.clock.now - since) // settings.probe_interval
        if settings.dynamic_peering:
            most += ends * rounds * 2 * min(len(world.processes), MAX_PROBES)
        said = world.control_messages - before
        if said > most:
            raise self._fail("chatter", f"{said} messages at rest, {most:.0f} keep all alive")

    # After withdrawal

    def nobody_listens(self, but: AbstractSet[int] = frozenset()) -> None:
        """Check that no publisher is pulled after all subscribers have left.

        Sets linger at each relay, and are not checked here. ``but`` names the keys of tracks that
        may still be requested.
        """
        for process in self._world.running():
            if process.clients.pulled - but:
                raise self._fail("left over", f"{process.contact} still sends what nobody wants")

    def empty(self) -> None:
        """Every table is back to where it began, and the relays still know each other."""
        self.made += 1
        self.stubs.empty()
        if missing := self.links_up():
            raise self._fail("not connected", missing)
        policy = self._world.policy
        oracle = Oracle(self._world.graph(), lambda node: policy.transit("", node))
        for process in self._world.running():
            self._nodes(process, oracle)
            sizes = process.tables.sizes()
            left = {name: size for name, size in sizes.items() if size}
            if left:
                raise self._fail("left over", f"{process.contact} still has {left}")
            if process.clients.open_streams:
                raise self._fail(
                    "left over", f"{process.contact}: {process.clients.open_streams} open streams"
                )
            if process.clients.discovered_names:
                names = list(process.clients.discovered_names)
                raise self._fail("left over", f"{process.contact} still believes in {names}")

    def vias_forget(self) -> None:
        """A Via that does not reflect keeps no subscription for longer than it takes to settle."""
        if self._world.scenario.settings.reflect:
            return
        for process in self._world.running():
            if process.spec.relay_type is not RelayType.VIA:
                continue
            kept = process.tables.subscribe_sources()
            if kept:
                raise self._fail("via", f"{process.contact} still keeps {len(kept)} subscribes")


def _refused_by_policy(want: Want | None, *, hidden: bool) -> bool:
    """Return whether policy is the reason; ``hidden``: clients of MoQT get reasons of their own."""
    return (
        want is not None
        and want.answer is Answer.REFUSED
        and (hidden or want.code == int(SubscribeCode.POLICY))
    )
