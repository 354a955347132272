"""The addresses that clients get when a relay drains, from the tables of the moment."""

from __future__ import annotations

from laps_relay.network.control_server.redirect import (
    Wanted,
    choose,
    client_address,
    holders,
    places,
)
from laps_relay.network.relay import NetworkRelay
from laps_relay.network.views import NodeRow
from laps_sdk.edge.relay import EdgeRelay
from laps_sdk.edge.settings import SessionInfo
from laps_wire.hashing import KeyedHasher
from laps_wire.matching import hashed_subscribe_of
from laps_wire.names import FullTrackName

__all__ = ["Redirects"]


class Redirects:
    """Where each client should go; made for one drain."""

    def __init__(
        self,
        network: NetworkRelay,
        relay: EdgeRelay,
        hasher: KeyedHasher,
        *,
        own_url: str,
        loopback: bool,
    ) -> None:
        self._relay = relay
        self._region = network.info.node.region
        self._places = places(
            (
                (node, _round_trip(row))
                for row in network.tables.nodes()
                if row.node != network.node_id and (node := network.node(row.node)) is not None
            ),
            own_url=own_url,
            loopback=loopback,
        )
        keys: dict[FullTrackName, Wanted] = {}
        self._tracks: dict[int, set[int]] = {}
        for row in relay.subscriptions():
            wanted = keys.get(row.track)
            if wanted is None:
                wanted = keys[row.track] = Wanted(
                    network.key(row.track), hashed_subscribe_of(hasher, row.track)
                )
            self._tracks.setdefault(row.session, set()).add(wanted.key)
        self._holders = holders(keys.values(), network.subscribes.live(), network.announces.live())
        self._clients = {row.session: row.info for row in relay.sessions()}

    def place(self, session: int) -> str:
        """The address for a client; empty if it has to find one itself."""
        keys = sorted(self._tracks.get(session, ()))
        found = choose(keys, self._places, self._holders, region=self._region, session=session)
        client = self._client(session)
        if found is None or client is None:
            return ""
        return client_address(found.url, webtransport=client.webtransport, path=client.path)

    def _client(self, session: int) -> SessionInfo | None:
        """Also one that came while others are leaving."""
        if session not in self._clients:
            self._clients |= {row.session: row.info for row in self._relay.sessions()}
        return self._clients.get(session)


def _round_trip(row: NodeRow) -> int | None:
    """To a relay: as measured, or on the way that data takes."""
    if row.rtt_us is not None:
        return row.rtt_us
    return None if row.next_hop is None else row.cost_us
