"""The ``laps-relay`` command."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from laps_relay.cli.config import app as config_app
from laps_relay.cli.config import dev_cert, forget_key, show_version, stub_key
from laps_relay.cli.policy import app as policy_app
from laps_relay.cli.serve import serve

__all__ = ["app", "main"]


class _SimCommands(TyperGroup):
    """The commands of ``sim``: a relay that serves does not import the simulator."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands."""
        return self._group().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command by its name."""
        return self._group().get_command(ctx, cmd_name)

    @staticmethod
    def _group() -> TyperGroup:
        from laps_relay.cli.sim import app as sim_app  # noqa: PLC0415 - only for its commands

        return get_group(sim_app)


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
app.add_typer(policy_app, name="policy")
app.add_typer(
    typer.Typer(cls=_SimCommands, no_args_is_help=True),
    name="sim",
    help="Simulate networks of relays in virtual time, and check that everything holds.",
)


def main() -> None:
    """Run the command."""
    app()
