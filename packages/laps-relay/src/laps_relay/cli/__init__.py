"""The ``laps-relay`` command.

::

    laps-relay serve                               serve --> laps_relay.server.RelayApp, Workers
               config | version                    config
               dev-cert | stub-key | forget-key    config
               policy check | explain              policy        imported when it is called
               sim run | replay | mutants | plan   sim           imported when it is called

Mistakes of an operator are one line on standard error and exit code 2 (``common``). The entry point
is ``main``; nothing else is imported from outside. docs/reference/cli.md is made from the help.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from laps_relay.cli.config import app as config_app
from laps_relay.cli.config import dev_cert, forget_key, show_version, stub_key
from laps_relay.cli.serve import serve

__all__ = ["app", "main"]


class _Lazy(TyperGroup):
    """A group of commands whose module is imported when one of them is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands."""
        self._load()
        return super().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command by its name."""
        self._load()
        return super().get_command(ctx, cmd_name)

    def _load(self) -> None:
        if not self.commands:
            self.commands = get_group(import_module(f"laps_relay.cli.{self.name}").app).commands


app = typer.Typer(
    name="laps-relay",
    help="A MoQT relay over QUIC and WebTransport.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)
app.command("serve")(serve)
app.command("dev-cert")(dev_cert)
app.command("stub-key")(stub_key)
app.command("forget-key")(forget_key)
app.command("version")(show_version)
app.add_typer(config_app, name="config")
# A relay that serves imports neither of these.
app.add_typer(
    typer.Typer(cls=_Lazy, no_args_is_help=True),
    name="policy",
    help="Check a policy file, or explain what it allows.",
)
app.add_typer(
    typer.Typer(cls=_Lazy, no_args_is_help=True),
    name="sim",
    help="Simulate networks of relays in virtual time, and check their invariants.",
)


def main() -> None:
    """Run the command."""
    app()
