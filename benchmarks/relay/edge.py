"""Our relay, as ``laps-relay serve`` runs it, without admin pages and logs.

    python -m relay.edge CERTIFICATE KEY BACKEND

Prints the port it listens on.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import cast

from laps_relay.cli.serve import rare_collections
from laps_sdk.edge.authorization import Action, Decision
from laps_sdk.edge.relay import EdgeRelay
from laps_sdk.edge.server import EdgeServer, EdgeServerConfig
from laps_sdk.edge.settings import EdgeSettings
from laps_sdk.forwarding.plane import Plane
from laps_sdk.quic.endpoint import Backend
from laps_sdk.quic.engine import EngineOptions, Tls
from laps_wire.moqt.session import AuthToken
from laps_wire.names import Namespace


class Anybody:
    """Everybody may do everything."""

    def authorize(
        self,
        now: float,  # noqa: ARG002 - the interface, here and below
        action: Action,  # noqa: ARG002
        namespace: Namespace | None,  # noqa: ARG002
        name: bytes | None,  # noqa: ARG002
        tokens: Sequence[AuthToken],  # noqa: ARG002
        session_tokens: Sequence[AuthToken],  # noqa: ARG002
    ) -> Decision:
        """Yes."""
        return Decision(allowed=True)


async def main(certificate: str, key: str, backend: Backend) -> None:
    """Serve until killed."""
    plane = Plane()
    relay = EdgeRelay(plane, Anybody(), EdgeSettings())
    server = EdgeServer(
        EdgeServerConfig(
            backend=backend,
            engine=EngineOptions(tls=Tls(certificate=certificate, private_key=key)),
        ),
        relay,
        plane,
    )
    await server.start()
    print(server.address[1], flush=True)
    with rare_collections():
        await asyncio.Future()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], cast("Backend", sys.argv[3])))
