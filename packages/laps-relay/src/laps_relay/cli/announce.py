"""What a relay says when it has started: where it listens, and how to try it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

import typer

from laps_relay.server import RelayApp
from laps_wire.peering.laps2 import RelayType

__all__ = ["announce", "facts"]


def facts(app: RelayApp) -> dict[str, Any]:
    """Where a relay listens."""
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
    """Say it: one line for programs, or some for people."""
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
