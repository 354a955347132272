"""Who hears of what where filters stop announces and subscribes: asked of the map.

An entry goes from relay to relay, and each asks its filters twice: may it come in from that peer,
may it go out to that one. So who hears of it is found by a walk from its source. It shares no code
with the tables and the filters that it judges.
"""

from __future__ import annotations

from laps_relay.sim.clients.ledger import BreakError
from laps_relay.sim.clients.tracks import HASHER
from laps_relay.sim.world.paths import told
from laps_relay.sim.world.world import RelayProcess, World
from laps_sdk.upstream.interfaces import Answer
from laps_wire.nodeid import NodeId

__all__ = ["check_borders"]


def check_borders(world: World) -> None:
    """At rest: relays have exactly the entries of filtered classes that they may hear of.

    Where a relay is no transit for anything, some do not know the source of an entry, and an entry
    of somebody unknown is of no use: then they have not more than they may.
    """
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
                heard = told(world, what, scope, source.spec.node_id)
                for process in world.running():
                    _check(world, process, source, (what, scope), keys, heard, must=must and known)


def _check(
    world: World,
    process: RelayProcess,
    source: RelayProcess,
    entry: tuple[str, str],
    keys: set[int],
    heard: set[NodeId],
    *,
    must: bool,
) -> None:
    """``must``: it is said for sure; of what is refused or lingers nothing is expected."""
    node, tables = source.spec.node_id, process.tables
    what, scope = entry
    rows = tables.announce_sources() if what == "announce" else tables.subscribe_sources()
    has = any(each == node and key in keys for each, key in rows)
    may = process.spec.node_id in heard
    if has and not may:
        raise BreakError(
            "filter",
            f"{process.contact} has the {what} of {source.contact} for {scope}, which no filter "
            "lets come there",
            world.clock.now,
        )
    if must and may and not has:
        raise BreakError(
            "filter",
            f"{process.contact} lacks the {what} of {source.contact} for {scope}, which filters "
            "let come there",
            world.clock.now,
        )
