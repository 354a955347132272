"""The ``laps`` command: publish, subscribe and look around from a shell (docs/reference/cli.md).

::

    main -> commands: pub sub fetch ls ping bench top doctor token
                        |
                        |-- options: address, trust, token; Link makes the session
                        |-- output: data to stdout, the rest to stderr, exit codes
                        '-- laps_sdk.client (token: laps_sdk.tokens)

Each command is a function in the module of its name; ``sub`` also holds ``fetch``, ``doctor`` also
``ping``. ``stdin`` reads standard input for ``pub``, ``bench_report`` prints the samples of
``bench``. Nothing else imports this package; its door is :func:`main`.

The commands need the extra ``cli`` (typer and rich); ``laps token`` also needs ``tokens`` (cwt).
This module imports neither, so that :func:`main` can say what is missing.
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
