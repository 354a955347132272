"""Puts the commands together."""

from __future__ import annotations

import typer

from laps_sdk.cli.bench import bench
from laps_sdk.cli.doctor import doctor
from laps_sdk.cli.fetch import fetch
from laps_sdk.cli.ls import ls
from laps_sdk.cli.ping import ping
from laps_sdk.cli.pub import pub
from laps_sdk.cli.sub import sub
from laps_sdk.cli.token import app as token_app
from laps_sdk.cli.top import top

__all__ = ["app", "main"]

app = typer.Typer(
    name="laps",
    help="Publish and subscribe to named tracks over QUIC (MoQT).",
    epilog="Exit codes: 0 done, 1 failed, 2 used wrongly, 3 nothing came in time.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)
app.command("pub")(pub)
app.command("sub")(sub)
app.command("fetch")(fetch)
app.command("ls")(ls)
app.command("ping")(ping)
app.command("bench")(bench)
app.command("top")(top)
app.command("doctor")(doctor)
app.add_typer(token_app, name="token")


def main() -> None:
    """Run the command."""
    app()
