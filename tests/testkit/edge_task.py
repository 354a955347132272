"""A real Edge relay in the test's own loop: real sockets on loopback, or the memory network.

::

    async with edge_relay() as edge:
        async with laps_sdk.connect(edge.url(), ca_file=edge.ca_file) as session:
            ...
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeVar

import laps_sdk
from laps_sdk.edge.authorization import Action, Authorizer, Decision
from laps_sdk.edge.events import RelayEvent
from laps_sdk.edge.relay import EdgeRelay
from laps_sdk.edge.server import EdgeServer, EdgeServerConfig
from laps_sdk.edge.settings import EdgeSettings
from laps_sdk.forwarding.interfaces import CacheLimits
from laps_sdk.forwarding.plane import Plane
from laps_sdk.quic.endpoint import Backend
from laps_sdk.quic.moqt import DRAFTS
from laps_wire.moqt.session import AuthToken
from laps_wire.names import Namespace
from testkit.certs import certificates
from testkit.moqt_server import FAST

__all__ = ["Edge", "OpenAuthorizer", "client", "edge_relay"]

E = TypeVar("E")


class OpenAuthorizer:
    """Everybody may do everything."""

    def authorize(
        self,
        now: float,
        action: Action,
        namespace: Namespace | None,
        name: bytes | None,
        tokens: Sequence[AuthToken],
        session_tokens: Sequence[AuthToken],
    ) -> Decision:
        return Decision(allowed=True)


class Edge:
    """A relay that runs."""

    def __init__(self, server: EdgeServer, ca_file: str) -> None:
        self.server = server
        self.ca_file = ca_file
        self.events: list[RelayEvent] = []
        """Everything that the control plane told so far."""
        server.on_turn = self._turn

    def _turn(self, now: float) -> None:
        self.events += self.server.relay.poll_events()

    @property
    def relay(self) -> EdgeRelay:
        return self.server.relay

    @property
    def plane(self) -> Plane:
        plane = self.server.plane
        assert isinstance(plane, Plane)
        return plane

    @property
    def port(self) -> int:
        return self.server.address[1]

    def url(self, scheme: str = "moqt") -> str:
        """``moqt`` is raw QUIC, ``https`` WebTransport."""
        return f"{scheme}://127.0.0.1:{self.port}"

    def told(self, kind: type[E]) -> list[E]:
        """The events of one kind so far."""
        return [event for event in self.events if isinstance(event, kind)]


def client(edge: Edge, scheme: str = "moqt", **options: Any) -> laps_sdk.Session:
    """A client of the relay that trusts its certificate."""
    return laps_sdk.connect(
        edge.url(scheme), **{"ca_file": edge.ca_file, "backoff": FAST, **options}
    )


@asynccontextmanager
async def edge_relay(
    *,
    drafts: Sequence[str] = DRAFTS,
    backend: Backend = "aioquic",
    settings: EdgeSettings | None = None,
    authorizer: Authorizer | None = None,
    cache: CacheLimits | None = None,
    config: EdgeServerConfig | None = None,
) -> AsyncIterator[Edge]:
    """Start a relay on a free port, stop it behind the block."""
    tls = certificates().other_server  # like the one that a relay makes for itself
    plane = Plane(cache or CacheLimits())
    relay = EdgeRelay(plane, authorizer or OpenAuthorizer(), settings or EdgeSettings())
    base = config or EdgeServerConfig()
    server = EdgeServer(
        replace(
            base,
            backend=backend,
            drafts=tuple(drafts),
            engine=replace(base.engine, tls=tls),
        ),
        relay,
        plane,
    )
    await server.start()
    try:
        yield Edge(server, str(tls.certificate))
    finally:
        await server.stop()
