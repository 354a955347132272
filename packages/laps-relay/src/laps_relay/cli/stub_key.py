"""``laps-relay stub-key``: the key with which Stubs come in, and nobody else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from laps_relay.cli.common import ConfigFile, StateDir, load_or_exit, one_line_errors
from laps_sdk.peering.keys.files import NETWORK_KEY, read_network_key

__all__ = ["stub_key"]


def stub_key(
    *,
    file: ConfigFile = None,
    state_dir: StateDir = None,
    key_file: Annotated[
        Path | None, typer.Option(help="The network's key; none: that of the configuration.")
    ] = None,
) -> None:
    """Print the key file for Stubs of this network.

    A Stub needs it as its network.key_file. It cannot be used to join as another type of relay, and
    the network's key cannot be found from it.
    """
    flags: dict[str, tuple[str, object]] = {
        "state_dir": ("--state-dir", state_dir),
        "network.key_file": ("--key-file", key_file),
    }
    config = load_or_exit(file, flags).config
    with one_line_errors():
        key = read_network_key(config.network.key_file or config.state_dir / NETWORK_KEY)
        typer.echo(key.stub_key().dump())
