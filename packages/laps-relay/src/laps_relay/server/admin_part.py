"""The admin of a relay: its pages and API, on a socket of its own."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from ipaddress import ip_address

from laps_relay.admin.app import make_app
from laps_relay.admin.live import LiveFeed
from laps_relay.admin.network_api import NetworkView
from laps_relay.admin.relay_view import EdgeView
from laps_relay.admin.server import AdminServer
from laps_relay.config import RelayConfig
from laps_relay.server.parts import StartError, admin_token

__all__ = ["start_admin"]


async def start_admin(
    config: RelayConfig,
    view: EdgeView,
    network: Callable[[], NetworkView | None],
    sock: socket.socket | None,
    *,
    version: str,
) -> AdminServer | None:
    """Bind it and let it answer; None if there shall be none."""
    admin = config.admin
    if not admin.enabled:
        return None
    token = admin_token(config)
    if token is None and sock is not None:
        _check_loopback(sock)
    feed = LiveFeed(view)
    app = make_app(
        view,
        token=token,
        page_limit=admin.page_limit,
        version=version,
        feed=feed,
        network=network,
    )
    server = AdminServer(app, admin.host, admin.port, feed=feed, sock=sock)
    try:
        await server.start()
    except OSError as error:
        raise StartError(
            f"cannot listen on {admin.host} port {admin.port}/tcp for the admin:"
            # Some texts of the library repeat the address.
            f" {os.strerror(error.errno) if error.errno else error}; choose another one with"
            " --admin-port"
        ) from None
    return server


def _check_loopback(sock: socket.socket) -> None:
    """A socket that was handed over is not where the configuration says: see for ourselves."""
    host = str(sock.getsockname()[0])
    if not ip_address(host).is_loopback:
        raise StartError(
            f"the admin's socket was opened on {host}, which is not loopback, so a token is"
            " needed: set admin.token_file"
        )
