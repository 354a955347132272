"""Options that commands share, and errors as one line with exit code 2."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from laps_relay.config import ConfigError, Loaded, load
from laps_wire.errors import LapsError

__all__ = ["ConfigFile", "StateDir", "load_or_exit", "one_line_errors"]

USAGE: Final = 2

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", help="Configuration file (TOML).", envvar="LAPS_CONFIG", show_envvar=True
    ),
]
StateDir = Annotated[
    Path | None,
    typer.Option(
        "--state-dir",
        help="Directory for keys, certificates and other state; or set LAPS_STATE_DIR.",
    ),
]


@contextmanager
def one_line_errors() -> Generator[None]:
    """Print an error that an operator can correct as one line, and exit with code 2."""
    try:
        yield
    except ConfigError as error:
        for problem in error.problems:
            typer.echo(f"laps-relay: {problem}", err=True)
        raise typer.Exit(USAGE) from None
    except LapsError as error:
        typer.echo(f"laps-relay: {error}", err=True)
        raise typer.Exit(USAGE) from None


def load_or_exit(
    file: Path | None, flags: Mapping[str, tuple[str, object]] | None = None
) -> Loaded:
    """Return the configuration, or exit with code 2."""
    with one_line_errors():
        return load(file, os.environ, flags)
