"""The real core in a simulated process, and what invariants are checked on.

:func:`network_relay` makes a ``NetworkRelay``, or the ``StubRelay`` of a Stub. :class:`RelayTables`
and :class:`StubTables` let checks see the tables that the relay itself uses, through the public
names of its rooms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from laps_relay.network.relay import NetworkRelay
from laps_relay.peer_forwarding.forwarding import LOCAL, EgressSet
from laps_relay.sim.clients.clients import HASHER
from laps_relay.sim.clients.direct import DirectClients
from laps_relay.sim.core import FibRow, RelayCore, SetOut, SimStub, Tables
from laps_relay.sim.net.shortcuts import SimAuthenticator, fingerprint_of
from laps_relay.sim.world.world import RelayProcess, World
from laps_sdk.peering.dialler import Contact
from laps_sdk.peering.links import Link
from laps_sdk.peering.settings import Identity
from laps_sdk.stub.relay import StubRelay
from laps_wire.hashing import KeyedHasher
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import Mode, NodeInfo, RelayType

__all__ = ["RelayTables", "StubTables", "network_relay"]


def _controls(links: Sequence[Link]) -> bool:
    """Whether one of the connections to a peer is for control; guests are in no table of peers."""
    for link in links:  # noqa: SIM110 - in every look at the network, of every session
        if link.control:
            return True
    return False


class RelayTables:
    """The tables of one life of a relay (``Tables``)."""

    __slots__ = ("_process", "_relay")

    def __init__(self, relay: NetworkRelay, process: RelayProcess) -> None:
        self._relay = relay
        self._process = process

    def nodes(self) -> Sequence[NodeId]:
        """All nodes that it knows, itself left out."""
        return self._relay.nib.nodes()

    def next_hop(self, node: NodeId) -> NodeId | None:
        """Where data for a node goes."""
        return self._relay.nib.next_hop(node)

    def metric(self, node: NodeId) -> tuple[int, int] | None:
        """Hops and cost of the best path."""
        best = self._relay.nib.best(node)
        return None if best is None else (best.hops, best.cost_us)

    def paths(self, node: NodeId) -> Sequence[tuple[NodeId, Sequence[NodeId]]]:
        """Return the paths to a node, the best first: (peer, relays on the path and the node)."""
        return [
            # The last item of a path is the next hop (laps-2, 5.1).
            (way.peer, [*(item.node_id for item in reversed(way.info.path)), node])
            for way in self._relay.nib.candidates(node)
            if way.forwards
        ]

    def adj_out(self) -> Sequence[tuple[NodeId, NodeId, Sequence[NodeId]]]:
        """Return what was advertised: (peer, node, relays on the path)."""
        paths: dict[int, list[NodeId]] = {}  # one object for all peers that a node is advertised to
        found: list[tuple[NodeId, NodeId, Sequence[NodeId]]] = []
        for peer, sent in self._relay.nib.adj_out():
            for node, info in sent.items():
                path = paths.get(id(info))
                if path is None:
                    path = paths[id(info)] = [item.node_id for item in info.path]
                found.append((peer, node, path))
        return found

    def mentioned(self) -> AbstractSet[NodeId]:
        """Return all advertised nodes, and the relays on the paths to them."""
        found: set[NodeId] = set()
        infos: dict[int, NodeInfo] = {}  # one object for all peers that a node is advertised to
        for _, sent in self._relay.nib.adj_out():
            found.update(sent)
            infos.update(zip(map(id, sent.values()), sent.values(), strict=True))
        for info in infos.values():
            found.update([item.node_id for item in info.path])
        return found

    def peers(self) -> Sequence[NodeId]:
        """Nodes with a control session."""
        return sorted(
            [node for node, links in self._relay.links.by_node.items() if _controls(links)]
        )

    def sessions(self, node: NodeId) -> Sequence[int]:
        """Established sessions with a node."""
        return [link.session for link in self._relay.links.of(node) if link.up]

    def types(self) -> Sequence[tuple[NodeId, RelayType]]:
        """All nodes that it knows, itself left out, and what they are."""
        nib = self._relay.nib
        return [
            (node, info.node.relay_type)
            for node in nib.nodes()
            if (info := nib.info(node)) is not None
        ]

    def controlled(self) -> bool:
        """Whether every peer with a session has one for control."""
        return all(map(_controls, self._relay.links.by_node.values()))

    def fib(self) -> Sequence[FibRow]:
        """The FIB, with the sets behind it."""
        relay = self._relay
        found = []
        for row in relay.sets.rows():
            session = row.ingress.session
            outs = tuple(
                SetOut(
                    relay.set_routing.node_of(item.egress.session),
                    self._connection(item.egress.session),
                    item.egress.sns_id,
                    frozenset(item.targets),
                )
                for item in row.egress
                if not item.retired
            )
            found.append(
                FibRow(
                    None if session == LOCAL else relay.set_routing.node_of(session),
                    0 if session == LOCAL else self._connection(session),
                    row.ingress.set_id,
                    row.key,
                    frozenset(row.targets),
                    outs,
                    row.local,
                )
            )
        return found

    def targets(self, connection: int, sns_id: int) -> frozenset[NodeId] | None:
        """Return the targets of a set on a connection, also of a set that only open streams use."""
        for session, end in self._process.ends.items():
            if end.connection == connection:
                return self._relay.sets.egress_targets(EgressSet(session, sns_id))
        return None

    def _connection(self, session: int) -> int:
        end = self._process.ends.get(session)
        return 0 if end is None else end.connection

    def sizes(self) -> Mapping[str, int]:
        """Entries of all tables that must be empty without publishers and subscribers."""
        relay = self._relay
        announces, subscribes = relay.announces.sizes(), relay.subscribes.sizes()
        counters = relay.plane.counters()
        interests = relay.subscriptions.sizes()
        indexed, timers = relay.sets.sizes()
        steered, steered_targets = relay.steering.sizes()
        return {
            "announces": sum(announces),
            "subscribes": sum(subscribes),
            "ingresses": len(relay.sets.rows()),
            "sets": relay.sets.living,
            "indexed targets": indexed,
            "FIB entries": len(relay.plane.entries()),
            "feeds": len(relay.feeds),
            "feeds of the plane": relay.plane.sizes().feeds,
            "held bytes": counters.held_bytes,
            "pulls": interests.origin_tracks,
            "wants": interests.subscribed,
            "steered tracks": steered,
            "steered targets": steered_targets,
            "own announces": interests.announced,
            "subscribes for us": interests.subscribes,
            "answers that wait": interests.responses,
            "responders": interests.responders,
            "discovered names": interests.names,
            "discovered announces": interests.announces,
            "withheld subscribes": len(relay.export_denied),
            "doubted entries": relay.announces.stale() + relay.subscribes.stale(),
            "sets that were told": len(relay.set_routing),
            "timers of sets": timers,
            **self._of_sessions(),
            **self._of_dials(),
            **self._of_metrics(),
        }

    def _of_sessions(self) -> Mapping[str, int]:
        """What is left of data on sessions, in the plane and in the sessions themselves."""
        relay = self._relay
        plane = relay.plane.sizes()
        wires = relay.peers.forwarding_states()
        early = [link.early for link in relay.links.by_session.values() if link.early is not None]
        return {
            "sets of sessions": sum(len(each.sender) + len(each.receiver) for each in wires),
            "data of unknown sets": sum(len(each.unknown) for each in wires),
            "early data": sum(each.pieces() for each in early),
            "streams that come": plane.incoming,
            "streams that go": plane.outgoing,
            "streams that wait": plane.waiting,
            "targets of the plane": plane.targets,
        }

    def _of_dials(self) -> Mapping[str, int]:
        """Count dials without need: for peers on demand, and more than there are contacts."""
        dialler, servers = self._relay.dialler, self._relay.demand.dialled_servers.keys()
        sizes = dialler.sizes()
        return {
            "wishes": len(set(dialler.demanded()) - servers),
            "sessions that nobody wants": sizes.unwanted,
            "dials": sizes.dials,
            "slots without a contact": sizes.orphans,
        }

    def _of_metrics(self) -> Mapping[str, int]:
        """Count metrics that wait to be sent, or of nodes that are gone; at rest there are none."""
        changes, gone = self._relay.nib.damped()
        return {"damped changes": changes, "damped nodes that are gone": gone}

    def subscribe_sources(self) -> Sequence[tuple[NodeId, int]]:
        """(source, key) of all usable subscribes."""
        return [(entry.source, entry.full_name_hash) for entry in self._relay.subscribes.live()]

    def announce_sources(self) -> Sequence[tuple[NodeId, int]]:
        """(source, key) of all usable announces."""
        return [(entry.source, entry.full_name_hash) for entry in self._relay.announces.live()]


class StubTables:
    """The tables of one life of a Stub (``Tables``): it has none but its sessions and dials."""

    __slots__ = ("_relay",)

    def __init__(self, relay: StubRelay) -> None:
        self._relay = relay

    def nodes(self) -> Sequence[NodeId]:
        """No node: a Stub has no node base."""
        return ()

    def next_hop(self, node: NodeId) -> NodeId | None:  # noqa: ARG002 - as of all relays
        """No next hop."""
        return None

    def metric(self, node: NodeId) -> tuple[int, int] | None:  # noqa: ARG002 - as of all relays
        """No path."""
        return None

    def paths(self, node: NodeId) -> Sequence[tuple[NodeId, Sequence[NodeId]]]:  # noqa: ARG002
        """No path."""
        return ()

    def adj_out(self) -> Sequence[tuple[NodeId, NodeId, Sequence[NodeId]]]:
        """Nothing: a Stub advertises no node."""
        return ()

    def mentioned(self) -> AbstractSet[NodeId]:
        """Nothing: a Stub advertises no node."""
        return frozenset()

    def peers(self) -> Sequence[NodeId]:
        """None: parents are no peers of the network."""
        return ()

    def sessions(self, node: NodeId) -> Sequence[int]:  # noqa: ARG002 - as of all relays
        """No session with a peer of the network."""
        return ()

    def types(self) -> Sequence[tuple[NodeId, RelayType]]:
        """No node."""
        return ()

    def controlled(self) -> bool:
        """True: there is no peer."""
        return True

    def fib(self) -> Sequence[FibRow]:
        """No FIB."""
        return ()

    def targets(self, connection: int, sns_id: int) -> frozenset[NodeId] | None:  # noqa: ARG002
        """No set."""
        return None

    def sizes(self) -> Mapping[str, int]:
        """Entries of all tables that must be empty without publishers and subscribers."""
        relay = self._relay
        wires, dials = relay.peers.forwarding_states(), relay.dialler.sizes()
        early = [link.early for link in relay.links.by_session.values() if link.early is not None]
        return {
            "sets of sessions": sum(len(each.sender) + len(each.receiver) for each in wires),
            "data of unknown sets": sum(len(each.unknown) for each in wires),
            "early data": sum(each.pieces() for each in early),
            "wishes": len(relay.dialler.demanded()),
            "sessions that nobody wants": dials.unwanted,
            "dials": dials.dials,
            "slots without a contact": dials.orphans,
        }

    def subscribe_sources(self) -> Sequence[tuple[NodeId, int]]:
        """No subscribe of others."""
        return ()

    def announce_sources(self) -> Sequence[tuple[NodeId, int]]:
        """No announce of others."""
        return ()


def network_relay(
    world: World, process: RelayProcess, hasher: KeyedHasher = HASHER
) -> tuple[RelayCore, Tables]:
    """A ``NetworkRelay`` for the next life of a process (a ``Builder``)."""
    spec = process.spec
    rng = world.rng.of(f"core of {spec.name}, life {process.life}")
    fingerprint = fingerprint_of(spec.name)
    identity = Identity(
        node_id=spec.node_id,
        epoch=process.life,
        contacts=(spec.name,),
        region=spec.region,
        longitude=None if spec.location is None else spec.location[0],
        latitude=None if spec.location is None else spec.location[1],
        fingerprint=fingerprint,
    )
    settings = world.scenario.settings
    authenticator = SimAuthenticator(fingerprint, world.holders)
    policy = world.policy_of(process)
    # Where credentials cover node ids nothing is kept, as by a relay with certificates.
    known_keys = None if world.holders else process.known_keys
    contacts = [
        Contact(address=name, mode=_mode(world, name), parallel=world.scenario.parallel)
        for name in process.links
    ]
    if process.edge is not None and spec.relay_type is RelayType.STUB:
        stub = SimStub(
            identity,
            settings,
            process.edge.make_uplink(rng, process.life),
            hasher=hasher,
            authenticator=authenticator,
            challenge=lambda: rng.randbytes(32),
            random=rng.random,
            may_peer=policy.peer,
            implementation="simulation",
            known_keys=known_keys,
        )
        stub.policy = policy
        process.edge.attach_stub(stub.against)
        stub.set_contacts(world.clock.now, contacts)
        return stub, StubTables(stub)
    reflect = settings.reflect or spec.relay_type is not RelayType.VIA
    relay = NetworkRelay(
        identity,
        replace(settings, relay_type=spec.relay_type, reflect=reflect),
        hasher=hasher,
        authenticator=authenticator,
        challenge=lambda: rng.randbytes(32),
        contexts=lambda: rng.randrange(1, 1 << 32),
        random=rng.random,
        policy=policy,
        implementation="simulation",
        known_keys=known_keys,
    )
    if isinstance(process.clients, DirectClients):
        relay.attach(process.clients, process.clients)
    if process.edge is not None:
        process.edge.attach(relay, rng, process.life)
    relay.set_contacts(world.clock.now, contacts)
    return relay, RelayTables(relay, process)


def _mode(world: World, name: str) -> Mode:
    """A control server carries no data."""
    there = world.processes[name].spec.relay_type
    return Mode.CONTROL if there is RelayType.CONTROL else Mode.BOTH
