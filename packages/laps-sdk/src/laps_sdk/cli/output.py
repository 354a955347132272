"""How the commands speak: data on stdout, everything else on stderr, faults in one line.

::

    exit code   0 done    1 failed    2 used wrongly    3 nothing came in time    130 Ctrl-C
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Coroutine, Generator, Mapping
from typing import Any, Final

import typer

from laps_sdk.api.errors import RequestTimeoutError
from laps_wire.errors import LapsError, TextFormError

__all__ = [
    "FAILED",
    "TIMEOUT",
    "USAGE",
    "NothingCameError",
    "UsageFault",
    "Voice",
    "one_line",
    "run",
]

FAILED: Final = 1
USAGE: Final = 2
TIMEOUT: Final = 3


class UsageFault(LapsError):  # noqa: N818 - not an error of the program
    """The command line cannot be meant so."""


class NothingCameError(LapsError):
    """Nothing arrived for as long as ``--wait`` allows."""


class Voice:
    """Where a command's words go."""

    def __init__(self, *, as_json: bool = False, quiet: bool = False) -> None:
        self.as_json = as_json
        self.quiet = quiet
        self.progress = not quiet and not as_json and sys.stderr.isatty()
        """Whether a person looks on."""

    def record(self, record: Mapping[str, Any]) -> None:
        """One line of JSON."""
        sys.stdout.write(json.dumps(record, ensure_ascii=False) + "\n")
        sys.stdout.flush()

    def line(self, text: str) -> None:
        """One line of text that is the answer."""
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def data(self, payload: bytes, *, newline: bool = False) -> None:
        """Bytes as they came."""
        sys.stdout.buffer.write(payload + b"\n" if newline else payload)
        sys.stdout.buffer.flush()

    def remark(self, text: str) -> None:
        """Something for people, beside the data."""
        if not self.quiet:
            typer.echo(text, err=True)

    def status(self, text: str) -> None:
        """A line that the next one overwrites; only on a terminal."""
        if self.progress:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()

    def end_status(self) -> None:
        """Leave the status line behind."""
        if self.progress:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


@contextlib.contextmanager
def one_line(command: str) -> Generator[None]:
    """What people can mend gets a line, not a traceback."""
    try:
        yield
    except (UsageFault, TextFormError) as error:
        typer.echo(f"laps {command}: {error}", err=True)
        raise typer.Exit(USAGE) from None
    except (NothingCameError, RequestTimeoutError) as error:
        typer.echo(f"laps {command}: {error}", err=True)
        raise typer.Exit(TIMEOUT) from None
    except BrokenPipeError:
        # Whoever read us has enough: that is how pipes end. Nothing more can be written.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        typer.echo(f"laps {command}: {where}{error.strerror or error}", err=True)
        raise typer.Exit(FAILED) from None
    except LapsError as error:
        typer.echo(f"laps {command}: {error}", err=True)
        raise typer.Exit(FAILED) from None


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run a command's work to its end; SIGTERM ends it as Ctrl-C does, in good order."""
    try:
        asyncio.run(_interruptible(work))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


async def _interruptible(work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    stopped = False

    def stop() -> None:
        nonlocal stopped
        stopped = True
        task.cancel()

    with contextlib.suppress(NotImplementedError):  # no signals on this platform's loop
        loop.add_signal_handler(signal.SIGTERM, stop)
    try:
        await task
    except asyncio.CancelledError:
        if not stopped:
            raise
        raise KeyboardInterrupt from None
