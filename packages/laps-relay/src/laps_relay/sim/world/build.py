"""The real core in a simulated process: a ``NetworkRelay``, or the ``StubRelay`` of a Stub."""

from __future__ import annotations

from dataclasses import replace

from laps_relay.network.relay import NetworkRelay
from laps_relay.sim.clients.direct import DirectClients
from laps_relay.sim.clients.tracks import HASHER
from laps_relay.sim.core import RelayCore, SimStub, Tables
from laps_relay.sim.net.keys import SimAuthenticator, fingerprint_of
from laps_relay.sim.world.tables import RelayTables, StubTables
from laps_relay.sim.world.world import RelayProcess, World
from laps_sdk.peering.dialler import Contact
from laps_sdk.peering.settings import Identity
from laps_wire.hashing import KeyedHasher
from laps_wire.peering.laps2 import Mode, RelayType

__all__ = ["network_relay"]


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
