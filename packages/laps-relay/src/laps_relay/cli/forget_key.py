"""``laps-relay forget-key``: let a relay that has lost its key come back with another one."""

from __future__ import annotations

import json
from typing import Annotated, Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

import typer

from laps_relay.admin.relay_view import reachable
from laps_relay.cli.common import ConfigFile, load_or_exit, one_line_errors
from laps_relay.config import RelayConfig
from laps_relay.server import admin_token
from laps_wire.nodeid import NodeId

__all__ = ["forget_key"]

_TIMEOUT: Final = 10.0
"""Seconds for the admin to answer."""
FAILED: Final = 1


def forget_key(
    node: Annotated[str, typer.Argument(help="The node id, high:low.")],
    *,
    file: ConfigFile = None,
    admin: Annotated[
        str | None,
        typer.Option(help="Admin of the relay, http://host:port; none: that of the configuration."),
    ] = None,
) -> None:
    """Tell a running relay to forget the key that holds a node id.

    The next key that comes with this node id holds it. Do it at every relay that refuses the node,
    and only if you know why its key is another one.
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
        reason = error.reason if isinstance(error, URLError) else error
        _fail(f"the admin at {url} does not answer: {reason}")
    typer.echo(f"the key of node {wanted} is forgotten")


def _admin_url(config: RelayConfig) -> str:
    return f"http://{reachable(config.admin.host)}:{config.admin.port}"


def _detail(error: HTTPError) -> str:
    """What the relay says, or the status if it says nothing."""
    try:
        return str(json.loads(error.read())["detail"])
    except (ValueError, KeyError, TypeError):
        return f"the admin refuses: {error}"


def _fail(reason: str) -> None:
    typer.echo(f"laps-relay: {reason}", err=True)
    raise typer.Exit(FAILED)
