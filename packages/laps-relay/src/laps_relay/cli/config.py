"""Commands that prepare a relay: configuration, versions, certificate and keys."""

from __future__ import annotations

import json
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

import typer

from laps_relay.cli.common import ConfigFile, StateDir, load_or_exit, one_line_errors
from laps_relay.config import RelayConfig, json_schema, shown
from laps_relay.server import admin_token, auth_settings
from laps_relay.server.certificates import DEV_CERTIFICATE, DEV_KEY, obtain
from laps_relay.server.edge_view import reachable
from laps_sdk.peering.keys.files import NETWORK_KEY, read_network_key
from laps_wire.errors import LapsError
from laps_wire.nodeid import NodeId

__all__ = ["app", "dev_cert", "forget_key", "show_version", "stub_key"]

app = typer.Typer(help="Check, show and describe the configuration.", no_args_is_help=True)


@app.command()
def check(
    file: ConfigFile = None,
    files: Annotated[
        bool, typer.Option("--files", help="Also read the key, token and certificate files.")
    ] = False,
) -> None:
    """Check the configuration; print every mistake with its place and a correction."""
    loaded = load_or_exit(file)
    if files:
        with one_line_errors():
            auth_settings(loaded.config)
            admin_token(loaded.config)
            if loaded.config.tls.certificate is not None:
                obtain(loaded.config.tls, loaded.config.state_dir)
    typer.echo(f"{file or 'the configuration'} is good")


@app.command()
def show(
    file: ConfigFile = None,
    state_dir: StateDir = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print every value and its source; secrets are masked."""
    rows = shown(load_or_exit(file, {"state_dir": ("--state-dir", state_dir)}))
    if as_json:
        items = [{"key": key, "value": value, "source": place} for key, value, place in rows]
        typer.echo(json.dumps(items, indent=1))
        return
    for key, value, place in rows:
        typer.echo(f"{f'{key} = {json.dumps(value)}':58} # {place}")


@app.command()
def schema() -> None:
    """Print the JSON Schema of the configuration file."""
    typer.echo(json.dumps(json_schema(), indent=1))


_PARTS = ("laps-relay", "laps-sdk", "laps-wire", "aioquic", "qh3")


def show_version() -> None:
    """Print the versions of the relay and its libraries."""
    for part in _PARTS:
        try:
            found = version(part)
        except PackageNotFoundError:
            found = "not installed"
        typer.echo(f"{part:12} {found}")
    typer.echo(f"{'python':12} {platform.python_version()}")


# Certificates and keys


def dev_cert(
    *,
    file: ConfigFile = None,
    state_dir: StateDir = None,
    name: Annotated[
        list[str] | None,
        typer.Option("--name", help="Host name or address in the certificate. May be repeated."),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the present certificate if it is still valid.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Make a short-lived certificate for development, and print its SHA-256.

    Browsers accept it through serverCertificateHashes, laps through --pin.
    """
    flags: dict[str, tuple[str, object]] = {
        "state_dir": ("--state-dir", state_dir),
        "tls.dev_names": ("--name", name or None),
    }
    config = load_or_exit(file, flags).config
    with one_line_errors():
        made = obtain(
            config.tls.model_copy(update={"certificate": None, "private_key": None}),
            config.state_dir,
            renew=not keep,
        )
    facts = {
        "certificate": str(config.state_dir / DEV_CERTIFICATE),
        "private_key": str(config.state_dir / DEV_KEY),
        "sha256": made.sha256,
        "expires": made.not_after.isoformat(),
    }
    if as_json:
        typer.echo(json.dumps(facts))
        return
    for label, value in facts.items():
        typer.echo(f"{label:12} {value}")


def stub_key(
    *,
    file: ConfigFile = None,
    state_dir: StateDir = None,
    key_file: Annotated[
        Path | None,
        typer.Option(help="Key file of the network; default: that of the configuration."),
    ] = None,
) -> None:
    """Print the key file for Stubs of this network.

    A Stub needs it as its network.key_file. No other type of relay can join with it, and the
    network's key cannot be derived from it.
    """
    flags: dict[str, tuple[str, object]] = {
        "state_dir": ("--state-dir", state_dir),
        "network.key_file": ("--key-file", key_file),
    }
    config = load_or_exit(file, flags).config
    with one_line_errors():
        try:
            key = read_network_key(config.network.key_file or config.state_dir / NETWORK_KEY)
        except LapsError as error:
            raise LapsError(
                f"{error}; give --key-file, or the --state-dir of a relay of the network"
            ) from None
        typer.echo(key.stub_key().dump())


_TIMEOUT: Final = 10.0
"""Seconds for the admin to answer."""
FAILED: Final = 1


def forget_key(
    node: Annotated[str, typer.Argument(help="Node id, high:low.")],
    *,
    file: ConfigFile = None,
    admin: Annotated[
        str | None,
        typer.Option(
            help="Admin of the relay, http://host:port; default: that of the configuration."
        ),
    ] = None,
) -> None:
    """Tell a running relay to forget the key that holds a node id.

    The next key that claims this node id holds it. Do this at every relay that refuses the node,
    and only if you know why its key has changed.
    """
    config = load_or_exit(file).config
    with one_line_errors():
        wanted, token = NodeId.parse(node), admin_token(config)
    url = f"{admin or _admin_url(config)}/v1/network/nodes/{quote(str(wanted))}/forget-key"
    if not url.startswith(("http://", "https://")):
        raise typer.BadParameter("write http://host:port", param_hint="--admin")
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    request = Request(url, method="POST", headers=headers)  # noqa: S310 - checked above
    try:
        with urlopen(request, timeout=_TIMEOUT):  # noqa: S310 - checked above
            pass
    except HTTPError as error:
        _fail(_detail(error))
    except (URLError, OSError) as error:
        cause = error.reason if isinstance(error, URLError) else error
        reason = cause.strerror if isinstance(cause, OSError) and cause.strerror else cause
        _fail(f"the admin at {url} does not answer: {reason}; start the relay, or give --admin")
    typer.echo(f"the key of node {wanted} is forgotten")


def _admin_url(config: RelayConfig) -> str:
    return f"http://{reachable(config.admin.host)}:{config.admin.port}"


def _detail(error: HTTPError) -> str:
    """Return the reason in the relay's answer, or the HTTP status."""
    try:
        return str(json.loads(error.read())["detail"])
    except (ValueError, KeyError, TypeError):
        return f"the admin refuses: {error}"


def _fail(reason: str) -> None:
    typer.echo(f"laps-relay: {reason}", err=True)
    raise typer.Exit(FAILED)
