"""The real core in a simulated process."""

from __future__ import annotations

from dataclasses import replace

from laps_relay.network.relay import NetworkRelay
from laps_relay.sim.clients.tracks import HASHER
from laps_relay.sim.core import RelayCore, Tables
from laps_relay.sim.net.keys import SimAuthenticator, fingerprint_of
from laps_relay.sim.world.tables import RelayTables
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
    reflect = settings.reflect or spec.relay_type is not RelayType.VIA
    relay = NetworkRelay(
        identity,
        replace(settings, relay_type=spec.relay_type, reflect=reflect),
        hasher=hasher,
        authenticator=SimAuthenticator(fingerprint, world.holders),
        challenge=lambda: rng.randbytes(32),
        contexts=lambda: rng.randrange(1, 1 << 32),
        random=rng,
        policy=world.policy_of(process),
        implementation="simulation",
        # Where credentials cover node ids nothing is kept, as by a relay with certificates.
        known_keys=None if world.holders else process.known_keys,
    )
    if process.edge is None:
        relay.attach(process.clients, process.clients)
    else:
        process.edge.attach(relay, rng, process.life)
    relay.set_contacts(
        world.clock.now,
        [
            Contact(address=name, mode=_mode(world, name), parallel=world.scenario.parallel)
            for name in process.links
        ],
    )
    return relay, RelayTables(relay, process)


def _mode(world: World, name: str) -> Mode:
    """A control server carries no data."""
    there = world.processes[name].spec.relay_type
    return Mode.CONTROL if there is RelayType.CONTROL else Mode.BOTH
