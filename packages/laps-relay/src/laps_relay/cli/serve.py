"""``laps-relay serve``: run a relay until it is stopped."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer

from laps_relay.cli.common import ConfigFile, StateDir, load_or_exit, one_line_errors
from laps_relay.config import Loaded, load
from laps_relay.server import RelayApp, StartError
from laps_relay.server.workers import Worker, Workers
from laps_relay.telemetry.logs import configure
from laps_wire.peering.laps2 import RelayType

__all__ = [
    "THRESHOLDS",
    "Sockets",
    "announce",
    "facts",
    "inherited",
    "notify",
    "rare_collections",
    "serve",
    "take_sockets",
]


def serve(
    *,
    file: ConfigFile = None,
    state_dir: StateDir = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on for clients.")] = None,
    port: Annotated[int | None, typer.Option(help="UDP port for clients; 0: any free one.")] = None,
    transport: Annotated[str | None, typer.Option(help="QUIC library: aioquic or qh3.")] = None,
    certificate: Annotated[
        Path | None, typer.Option(help="Certificate chain (PEM file, leaf first).")
    ] = None,
    private_key: Annotated[
        Path | None, typer.Option(help="Private key of the certificate (PEM file).")
    ] = None,
    admin_host: Annotated[
        str | None, typer.Option(help="Address to listen on for the admin.")
    ] = None,
    admin_port: Annotated[
        int | None, typer.Option(help="TCP port of the admin; 0: any free one.")
    ] = None,
    admin: Annotated[bool | None, typer.Option(help="Serve the admin pages and API.")] = None,
    auth_key: Annotated[
        list[Path] | None,
        typer.Option(help="Key file for tokens: requests need a valid token. May be repeated."),
    ] = None,
    relay_type: Annotated[
        str | None, typer.Option("--type", help="Type of the relay: edge, via, stub or control.")
    ] = None,
    peer: Annotated[
        list[str] | None,
        typer.Option(
            help="Relay to peer with, host:port. A suffix /control, /data or /one-way limits what"
            " the connection carries. May be repeated."
        ),
    ] = None,
    peer_port: Annotated[
        int | None, typer.Option(help="UDP port for peers; 0: any free one. Turns peering on.")
    ] = None,
    node_id: Annotated[str | None, typer.Option(help="Node id of the relay, high:low.")] = None,
    region: Annotated[
        str | None, typer.Option(help="Name of the region that the relay is in.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Number of Edge processes that share the port for clients.")
    ] = None,
    policy: Annotated[Path | None, typer.Option(help="Policy file (TOML).")] = None,
    log_level: Annotated[
        str | None, typer.Option(help="Lowest level to log: debug, info, warning or error.")
    ] = None,
    log_format: Annotated[
        str | None, typer.Option(help="Format of the log: auto, json or console.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print where the relay listens as one line of JSON.")
    ] = False,
    as_worker: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Run a relay; without options alone, on loopback, with a development certificate.

    With --peer-port or --peer the relay is a member of a network.

    SIGHUP reloads the configuration. SIGTERM and SIGINT drain the relay and end it; a second one
    ends it at once.
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
        "network.workers": ("--workers", workers),
        "observe.log_level": ("--log-level", log_level),
        "observe.log_format": ("--log-format", log_format),
    }
    loaded = load_or_exit(file, flags)
    with one_line_errors():
        if port and not loaded.config.network.takes_clients:
            raise StartError(
                f"--port {port}: a relay of type {loaded.config.network.type} takes no clients;"
                " peers connect to --peer-port"
            )
        worker = None if as_worker is None else Worker.parse(as_worker)
        if worker is not None:
            flags |= worker.flags(loaded.config)
            loaded = load_or_exit(file, flags)
        elif loaded.config.network.workers > 1:
            raise typer.Exit(asyncio.run(_serve_workers(loaded, as_json=as_json)))
        reread = partial(load, file, os.environ, flags)
        asyncio.run(_serve(loaded, reread, worker, as_json=as_json))


async def _serve_workers(loaded: Loaded, *, as_json: bool) -> int:
    """Run the parent of several processes; each runs this command with one more option."""
    config = loaded.config
    logger = configure(config.observe.log_format, config.observe.log_level)
    sockets = take_sockets(os.environ)
    if sockets.quic is not None:
        raise StartError("workers open the port of clients themselves: hand over no UDP socket")

    def command(worker: Worker) -> list[str]:
        return [sys.executable, *sys.orig_argv[1:], "--as-worker", worker.dump()]

    workers = Workers(config, logger, command, admin_socket=sockets.admin)
    _on_signals(workers.request_stop, workers.reload)
    told = await workers.start()
    announce(
        told,
        development=workers.certificate.development,
        tokens=bool(config.auth.keys),
        as_json=as_json,
    )
    notify("READY=1", os.environ)
    status = await workers.run()
    notify("STOPPING=1", os.environ)
    return status


def _on_signals(stop: Callable[[], object], reload: Callable[[], object]) -> None:
    """Handle signals from the first moment: a stop during the start must be orderly too."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    loop.add_signal_handler(signal.SIGHUP, _reload, reload)


async def _serve(
    loaded: Loaded, reread: Callable[[], Loaded], worker: Worker | None, *, as_json: bool
) -> None:
    observe = loaded.config.observe
    logger = configure(observe.log_format, observe.log_level)
    sockets = take_sockets(os.environ) if worker is None else inherited(worker)
    app = RelayApp(
        loaded,
        logger if worker is None else logger.bind(worker=worker.index),
        reread=reread,
        quic_socket=sockets.quic,
        admin_socket=sockets.admin,
        peer_socket=sockets.peers,
        hidden=worker is not None and worker.index > 0 and not worker.local,
    )
    _on_signals(app.request_stop, app.reload)
    if worker is not None:
        # Nothing is ever written to it: it ends with the parent.
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), _orphaned, app)
    await app.start()
    try:
        announce(
            facts(app),
            development=app.certificate.development,
            tokens=not app.authorizer.open,
            as_json=as_json or worker is not None,
        )
        notify("READY=1", os.environ)
        with rare_collections():
            await app.run()
        notify("STOPPING=1", os.environ)
    finally:
        await app.stop(drain=True)


def _orphaned(app: RelayApp) -> None:
    asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
    app.request_stop()


def _reload(reload: Callable[[], object]) -> None:
    notify("RELOADING=1", os.environ)
    try:
        reload()
    finally:
        # Whatever happened: the relay goes on, with the old configuration or the new one.
        notify("READY=1", os.environ)


def facts(app: RelayApp) -> dict[str, Any]:
    """Return where a relay listens."""
    told: dict[str, Any] = {
        "url": app.url,
        "certificate_sha256": app.certificate.sha256,
        "admin": app.admin_url,
        "pid": os.getpid(),
    }
    if app.network is not None:
        told |= {
            "node": str(app.network.relay.node_id),
            "type": app.network.relay_type.name.lower(),
        }
        if app.network.relay_type is not RelayType.STUB:  # a Stub dials, and is not dialled
            told["peers"] = app.network.contact
    return told


def announce(told: Mapping[str, Any], *, development: bool, tokens: bool, as_json: bool) -> None:
    """Print where a relay listens: one line for programs, several for people."""
    if as_json:
        typer.echo(json.dumps(told))
        sys.stdout.flush()
        return
    if "node" in told:
        typer.echo(f"node         {told['node']} ({told['type']})")
    if "peers" in told:
        typer.echo(f"peers        {told['peers']}")
    if "workers" in told:
        typer.echo(f"workers      {len(told['workers'])}")
    url, digest = told["url"], told["certificate_sha256"]
    if url:
        typer.echo(f"relay        {url}")
    typer.echo(f"certificate  sha256 {digest}")
    if told["admin"] is not None:
        typer.echo(f"admin        {told['admin']}/")
    if url:
        how = f" --pin {digest}" if development else ""
        how += " --token-file FILE" if tokens else ""
        typer.echo(f"try          laps sub {url} demo clock{how}")
        typer.echo(f"with         laps pub {url} demo clock -m hello --wait-subscriber 20{how}")
    sys.stdout.flush()


_FIRST_FD: Final = 3


class Sockets(NamedTuple):
    """Sockets that another process opened for the relay."""

    quic: socket.socket | None = None
    admin: socket.socket | None = None
    peers: socket.socket | None = None


def inherited(worker: Worker) -> Sockets:
    """Return the sockets that a parent opened for its worker."""
    client, peers = socket.socket(fileno=worker.client_fd), socket.socket(fileno=worker.peer_fd)
    admin = None if worker.admin_fd is None else socket.socket(fileno=worker.admin_fd)
    for sock in (client, peers, admin):
        if sock is not None:
            sock.setblocking(False)
    return Sockets(client, admin, peers)


def notify(state: str, environment: Mapping[str, str]) -> bool:
    """Tell systemd ``READY=1`` and the like; return False if it does not listen."""
    address = environment.get("NOTIFY_SOCKET", "")
    if not address:
        return False
    # A leading "@" stands for the abstract namespace.
    where = "\0" + address[1:] if address.startswith("@") else address
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.sendto(state.encode(), where)
    except OSError:
        return False
    return True


def take_sockets(environment: Mapping[str, str]) -> Sockets:
    """Return the sockets of LISTEN_FDS: UDP for clients, TCP for the admin."""
    if environment.get("LISTEN_PID") != str(os.getpid()):
        return Sockets()
    count = environment.get("LISTEN_FDS", "")
    quic: socket.socket | None = None
    admin: socket.socket | None = None
    for number in range(_FIRST_FD, _FIRST_FD + (int(count) if count.isdecimal() else 0)):
        sock = socket.socket(fileno=number)
        sock.setblocking(False)
        if sock.type == socket.SOCK_DGRAM and quic is None:
            quic = sock
        elif sock.type == socket.SOCK_STREAM and admin is None:
            admin = sock
        else:
            sock.close()
    return Sockets(quic, admin)


THRESHOLDS: Final = (50_000, 20, 50)
"""Allocations before a collection of the youngest generation, and how often older ones follow."""


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collect garbage rarely while the block runs, and never objects that existed before it."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
