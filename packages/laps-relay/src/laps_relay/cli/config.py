"""``laps-relay config``: check, show and describe the configuration."""

from __future__ import annotations

import json
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer

from laps_relay.cli.common import ConfigFile, StateDir, load_or_exit, one_line_errors
from laps_relay.config import json_schema, shown
from laps_relay.server import admin_token, auth_settings
from laps_relay.server.certificates import obtain

__all__ = ["app", "show_version"]

app = typer.Typer(help="Check, show and describe the configuration.", no_args_is_help=True)


@app.command()
def check(
    file: ConfigFile = None,
    files: Annotated[
        bool, typer.Option("--files", help="Also read the files that it names (keys, tokens).")
    ] = False,
) -> None:
    """Say everything that is wrong, with its place and what would be right."""
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
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """Print every value and where it was set; secrets are masked."""
    rows = shown(load_or_exit(file, {"state_dir": ("--state-dir", state_dir)}))
    if as_json:
        items = [{"key": key, "value": value, "source": place} for key, value, place in rows]
        typer.echo(json.dumps(items, indent=1))
        return
    for key, value, place in rows:
        typer.echo(f"{f'{key} = {json.dumps(value)}':58} # {place}")


@app.command()
def schema() -> None:
    """Print the JSON Schema of the file."""
    typer.echo(json.dumps(json_schema(), indent=1))


_PARTS = ("laps-relay", "laps-sdk", "laps-wire", "aioquic", "qh3")


def show_version() -> None:
    """Print the versions of the relay and of what it stands on."""
    for part in _PARTS:
        try:
            found = version(part)
        except PackageNotFoundError:
            found = "not installed"
        typer.echo(f"{part:12} {found}")
    typer.echo(f"{'python':12} {platform.python_version()}")
