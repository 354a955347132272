"""``laps-relay dev-cert``: make a development certificate and print its hash."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from laps_relay.cli.common import ConfigFile, StateDir, load_or_exit, one_line_errors
from laps_relay.server.certificates import DEV_CERTIFICATE, DEV_KEY, obtain

__all__ = ["dev_cert"]


def dev_cert(
    *,
    file: ConfigFile = None,
    state_dir: StateDir = None,
    name: Annotated[
        list[str] | None, typer.Option("--name", help="Host name or address; several are possible.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep one that is still good.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """Make a short-lived certificate for development, and print its SHA-256.

    Browsers take it with serverCertificateHashes, our clients with --pin.
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
