"""The ``laps`` command: publish, subscribe and look around from a shell.

The commands need the extra ``cli`` (typer and rich); ``laps token`` also needs ``tokens`` (cwt).
This package imports neither, so that :func:`main` can say what is missing.
"""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command; without the extra ``cli`` exit with one line that names the remedy."""
    try:
        from laps_sdk.cli.commands import app  # noqa: PLC0415 - needs an extra
    except ModuleNotFoundError as error:
        if error.name != "typer":
            raise
        sys.exit('laps needs typer and rich: pip install -e "packages/laps-sdk[cli]"')
    app()
