"""``laps-relay version``."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

import typer

__all__ = ["show_version"]

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
