"""The ``laps-relay`` command."""

from __future__ import annotations

import typer

from laps_relay.cli.config import app as config_app
from laps_relay.cli.config import show_version
from laps_relay.cli.keys import dev_cert, forget_key, stub_key
from laps_relay.cli.policy import app as policy_app
from laps_relay.cli.serve import serve
from laps_relay.cli.sim import app as sim_app

__all__ = ["app", "main"]

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
app.add_typer(sim_app, name="sim")


def main() -> None:
    """Run the command."""
    app()
