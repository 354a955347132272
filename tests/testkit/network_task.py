"""A network of real relays in the test's own loop: real QUIC on loopback, real clients.

::

    async with network(tmp_path) as net:
        via = await net.relay("via")
        left, right = await net.relay("edge", via), await net.relay("edge", via)
        await net.settled()
"""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import laps_sdk
from laps_relay.config import Loaded, RelayConfig
from laps_relay.server import RelayApp
from laps_relay.server.network_part import NetworkPart
from laps_relay.telemetry.logs import configure

__all__ = ["LIMIT", "NetworkTask", "RunningRelay", "network", "until"]

LIMIT = 100.0
"""Seconds that a test may take: far more than it needs, on a machine that does other things."""


async def until(condition: Callable[[], object]) -> None:
    """Wait for something to be so; the test's own limit ends it otherwise."""
    while not condition():  # noqa: ASYNC110 - what is waited for are tables of other tasks
        await asyncio.sleep(0.01)


class RunningRelay:
    """One relay, and what it logged."""

    def __init__(self, app: RelayApp, out: io.StringIO) -> None:
        self.app = app
        self.out = out

    @property
    def network(self) -> NetworkPart:
        """The part in the network; of a Stub tests read only what both parts have."""
        assert self.app.network is not None
        return cast("NetworkPart", self.app.network)

    @property
    def node(self) -> str:
        return str(self.network.relay.node_id)

    def logged(self, words: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.out.getvalue().splitlines()]
        return [line for line in lines if line["event"] == words]

    def connect(self, path: str = "", **options: Any) -> laps_sdk.Session:
        options = {"pin": self.app.certificate.sha256, "timeout": LIMIT, **options}
        return laps_sdk.connect(f"{self.app.url}{path}", **options)

    def next_hop(self, other: RunningRelay) -> str | None:
        """Through whom data goes to another relay."""
        for row in self.network.nodes():
            if str(row.node) == other.node and row.next_hop is not None:
                return str(row.next_hop)
        return None

    def sends_to(self) -> set[str]:
        """The peers to which this relay sends data of its own publishers now."""
        peers = {row.session: str(row.node) for row in self.network.peers()}
        return {
            peers[row.session]
            for row in self.network.relay.tables.sets()
            if not row.incoming and not row.retiring and row.session in peers
        }


class NetworkTask:
    """Relays that run."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.relays: list[RunningRelay] = []

    async def relay(
        self,
        kind: str,
        *peers: RunningRelay | str,
        node: str = "",
        **sections: dict[str, Any],
    ) -> RunningRelay:
        """Start a relay that dials the others, in this loop or by their contacts."""
        network = {
            "enabled": True,
            "type": kind,
            "port": 0,
            "node_id": node or f"{len(self.relays) + 1}:1",
            # A busy machine must not look like a dead relay.
            "hold": "30s",
            "peers": [peer if isinstance(peer, str) else peer.network.contact for peer in peers],
            **sections.pop("network", {}),
        }
        config = RelayConfig.model_validate(
            {
                "state_dir": self.state,
                "network": network,
                **sections,
                "listen": {"client_port": 0, "drain_timeout": "0s", **sections.get("listen", {})},
                "admin": {"enabled": False, **sections.get("admin", {})},
            }
        )
        out = io.StringIO()
        running = RunningRelay(RelayApp(Loaded(config), configure("json", "debug", out)), out)
        await running.app.start()
        self.relays.append(running)
        return running

    async def settled(self) -> None:
        """All relays of the network know a way to each other (Stubs and control servers aside)."""
        members = [
            relay for relay in self.relays if relay.network.relay_type.name in ("EDGE", "VIA")
        ]
        await until(
            lambda: all(
                left is right or left.next_hop(right) is not None
                for left in members
                for right in members
            )
        )

    async def stop(self, relay: RunningRelay, *, drain: bool = False) -> None:
        self.relays.remove(relay)
        await relay.app.stop(drain=drain)


@asynccontextmanager
async def network(state: Path) -> AsyncIterator[NetworkTask]:
    net = NetworkTask(state)
    try:
        async with asyncio.timeout(LIMIT):
            yield net
    finally:
        for relay in reversed(net.relays):
            await relay.app.stop()
