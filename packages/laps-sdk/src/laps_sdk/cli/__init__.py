"""The ``laps`` command: publish, subscribe and look around from a shell."""

from __future__ import annotations

from laps_sdk.cli.main import app, main

__all__ = ["app", "main"]
