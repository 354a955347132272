"""The Typer application with every command of ``laps``."""

from __future__ import annotations

import importlib.metadata
import logging
from typing import Annotated

import typer

from laps_sdk.cli.bench import bench
from laps_sdk.cli.doctor import doctor, ping
from laps_sdk.cli.ls import ls
from laps_sdk.cli.pub import pub
from laps_sdk.cli.sub import fetch, sub
from laps_sdk.cli.token import app as token_app
from laps_sdk.cli.top import top

__all__ = ["app"]

app = typer.Typer(
    name="laps",
    help="Publish and subscribe to named tracks over QUIC (MoQT).",
    epilog="Exit codes: 0 success, 1 failure, 2 wrong usage, 3 nothing arrived in time, "
    "130 Ctrl-C, 143 SIGTERM.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)
app.command("pub")(pub)
app.command("sub")(sub)
app.command("fetch")(fetch)
app.command("ls")(ls)
app.command("ping")(ping)
app.command("bench")(bench)
app.command("top")(top)
app.command("doctor")(doctor)
app.add_typer(token_app, name="token")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"laps {importlib.metadata.version('laps-sdk')}")
        raise typer.Exit


@app.callback()
def common(
    *,
    version: Annotated[  # noqa: ARG001 - its callback has ended the program
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Publish and subscribe to named tracks over QUIC (MoQT)."""
    # Libraries log errors that they raise as well: print each error once.
    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(logging.NullHandler())
