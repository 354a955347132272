"""``laps-relay serve``: run a relay until it is told to stop."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from laps_relay.app import RelayApp
from laps_relay.cli.common import ConfigFile, StateDir, load_or_exit, one_line_errors
from laps_relay.cli.systemd import notify, take_sockets
from laps_relay.config import Loaded, load
from laps_relay.io.collector import rare_collections
from laps_relay.observe.logs import configure

__all__ = ["serve"]


def serve(
    *,
    file: ConfigFile = None,
    state_dir: StateDir = None,
    host: Annotated[str | None, typer.Option(help="Address for clients.")] = None,
    port: Annotated[int | None, typer.Option(help="UDP port for clients; 0: any.")] = None,
    transport: Annotated[str | None, typer.Option(help="QUIC library: aioquic or qh3.")] = None,
    certificate: Annotated[Path | None, typer.Option(help="PEM file, leaf first.")] = None,
    private_key: Annotated[Path | None, typer.Option(help="PEM file.")] = None,
    admin_host: Annotated[str | None, typer.Option(help="Address of the admin.")] = None,
    admin_port: Annotated[int | None, typer.Option(help="TCP port of the admin; 0: any.")] = None,
    admin: Annotated[bool | None, typer.Option(help="Whether there is an admin.")] = None,
    auth_key: Annotated[
        list[Path] | None, typer.Option(help="Key file for tokens: deny by default.")
    ] = None,
    relay_type: Annotated[
        str | None, typer.Option("--type", help="edge, via, stub or control.")
    ] = None,
    peer: Annotated[
        list[str] | None, typer.Option(help="A relay to peer with, host:port; may be repeated.")
    ] = None,
    peer_port: Annotated[
        int | None, typer.Option(help="UDP port for peers; 0: any. Turns peering on.")
    ] = None,
    node_id: Annotated[str | None, typer.Option(help="Node id, high:low.")] = None,
    region: Annotated[str | None, typer.Option(help="Where the relay stands.")] = None,
    policy: Annotated[Path | None, typer.Option(help="Policy file (TOML).")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning, error.")] = None,
    log_format: Annotated[str | None, typer.Option(help="auto, json or console.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Say where it listens in one line of JSON.")
    ] = False,
) -> None:
    """Run a relay. Without arguments: on loopback, alone, with a development certificate.

    With --peer-port or --peer it is one of a network.

    SIGHUP reads the configuration again, SIGTERM and SIGINT drain and end.
    """
    flags: dict[str, tuple[str, object]] = {
        "state_dir": ("--state-dir", state_dir),
        "listen.host": ("--host", host),
        "listen.client_port": ("--port", port),
        "listen.transport": ("--transport", transport),
        "tls.certificate": ("--certificate", certificate),
        "tls.private_key": ("--private-key", private_key),
        "admin.host": ("--admin-host", admin_host),
        "admin.port": ("--admin-port", admin_port),
        "admin.enabled": ("--admin", admin),
        "auth.keys": ("--auth-key", auth_key or None),
        "network.type": ("--type", relay_type),
        "network.peers": ("--peer", peer or None),
        "network.port": ("--peer-port", peer_port),
        "network.enabled": ("--peer-port", True if peer_port is not None else None),
        "network.node_id": ("--node-id", node_id),
        "network.region": ("--region", region),
        "network.policy": ("--policy", policy),
        "observe.log_level": ("--log-level", log_level),
        "observe.log_format": ("--log-format", log_format),
    }
    loaded = load_or_exit(file, flags)
    reread = partial(load, file, os.environ, flags)
    with one_line_errors():
        asyncio.run(_serve(loaded, reread, as_json=as_json))


async def _serve(loaded: Loaded, reread: Callable[[], Loaded], *, as_json: bool) -> None:
    observe = loaded.config.observe
    logger = configure(observe.log_format, observe.log_level)
    sockets = take_sockets(os.environ)
    app = RelayApp(
        loaded,
        logger,
        reread=reread,
        quic_socket=sockets.quic,
        admin_socket=sockets.admin,
    )
    loop = asyncio.get_running_loop()
    # From the first moment: a stop while starting must end in good order too.
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, app.request_stop)
    loop.add_signal_handler(signal.SIGHUP, _reload, app)
    await app.start()
    try:
        _announce(app, as_json=as_json)
        notify("READY=1", os.environ)
        with rare_collections():
            await app.run()
        notify("STOPPING=1", os.environ)
    finally:
        await app.stop(drain=True)


def _reload(app: RelayApp) -> None:
    notify("RELOADING=1", os.environ)
    try:
        app.reload()
    finally:
        # Whatever happened: the relay goes on, with the old configuration or the new one.
        notify("READY=1", os.environ)


def _announce(app: RelayApp, *, as_json: bool) -> None:
    """Where it listens, and how to try it."""
    facts = {
        "url": app.url,
        "certificate_sha256": app.certificate.sha256,
        "admin": app.admin_url,
        "pid": os.getpid(),
    }
    if app.network is not None:
        facts |= {
            "node": str(app.network.relay.node_id),
            "type": app.network.relay_type.name.lower(),
            "peers": app.network.contact,
        }
    if as_json:
        typer.echo(json.dumps(facts))
        sys.stdout.flush()
        return
    if app.network is not None:
        typer.echo(f"node         {facts['node']} ({facts['type']})")
        typer.echo(f"peers        {facts['peers']}")
    if app.url:
        typer.echo(f"relay        {app.url}")
    typer.echo(f"certificate  sha256 {app.certificate.sha256}")
    if app.admin_url is not None:
        typer.echo(f"admin        {app.admin_url}/")
    if app.url:
        how = f" --pin {app.certificate.sha256}" if app.certificate.development else ""
        how += "" if app.authorizer.open else " --token-file FILE"
        typer.echo(f"try          laps sub {app.url} demo clock{how}")
        typer.echo(f"with         laps pub {app.url} demo clock -m hello --wait-subscriber 20{how}")
    sys.stdout.flush()
