"""Output of the commands: data on stdout, everything else on stderr, errors in one line.

::

    exit code   0 success    1 failure    2 wrong usage    3 nothing arrived in time
                130 ended by Ctrl-C       143 ended by SIGTERM
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Coroutine, Generator, Mapping
from typing import Any, Final

import typer

from laps_sdk.errors import ConnectError, RequestTimeoutError
from laps_wire.errors import LapsError, TextFormError

__all__ = [
    "FAILED",
    "TIMEOUT",
    "USAGE",
    "NothingCameError",
    "UsageFault",
    "Voice",
    "advice_for",
    "counted",
    "install_extra",
    "one_line",
    "printable",
    "run",
]

FAILED: Final = 1
USAGE: Final = 2
TIMEOUT: Final = 3

STATUS_EVERY: Final = 0.1
"""Seconds between two status lines, because terminals are slow."""
_CLEAR: Final = "\r\x1b[K"


class UsageFault(LapsError):  # noqa: N818 - not an error of the program
    """The command line is wrong."""


class NothingCameError(LapsError):
    """Nothing arrived within the time that ``--wait`` allows."""


def printable(text: str) -> str:
    """Return text from elsewhere for a terminal: one line, without control characters."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def counted(number: int, noun: str) -> str:
    """Return a number and its noun: ``1 object``, ``1,200 objects``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


class Voice:
    """Writes the output of one command."""

    def __init__(self, *, as_json: bool = False, quiet: bool = False) -> None:
        self.as_json = as_json
        self.quiet = quiet
        self.progress = not quiet and not as_json and sys.stderr.isatty()
        """Whether to draw a status line."""
        self._status_at: float | None = None

    def record(self, record: Mapping[str, Any]) -> None:
        """Write one line of JSON, always in UTF-8 (RFC 8259, 8.1)."""
        self.data(json.dumps(record, ensure_ascii=False).encode(), newline=True)

    def line(self, text: str) -> None:
        """Write one line of text to stdout, made printable."""
        encoding = sys.stdout.encoding or "utf-8"
        self.data(printable(text).encode(encoding, errors="backslashreplace"), newline=True)

    def data(self, payload: bytes, *, newline: bool = False) -> None:
        """Write bytes to stdout unchanged."""
        if self.progress and sys.stdout.isatty():
            self.end_status()
            self.progress = False  # a status line would overwrite the data
        sys.stdout.buffer.write(payload + b"\n" if newline else payload)
        sys.stdout.buffer.flush()

    def lines(self, wanted: bool | None) -> bool:
        """Whether objects become lines: as the option says, else only on a terminal."""
        return sys.stdout.isatty() if wanted is None else wanted

    def remark(self, text: str) -> None:
        """Write a remark to stderr, unless ``--quiet``."""
        if not self.quiet:
            self.end_status()
            typer.echo(printable(text), err=True)

    def status(self, text: str) -> None:
        """Draw the status line over the previous one; only on a terminal, at a limited rate."""
        if not self.progress:
            return
        now = time.monotonic()
        if self._status_at is None or now - self._status_at >= STATUS_EVERY:
            self._status_at = now
            sys.stderr.write(f"{_CLEAR}{text}")
            sys.stderr.flush()

    def end_status(self) -> None:
        """Clear the status line, if there is one."""
        if self._status_at is not None:
            self._status_at = None
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()


def advice_for(error: LapsError) -> str:
    """Return advice for a failed connection; "" for any other error."""
    if not isinstance(error, ConnectError):
        return ""
    text = str(error)
    if "certificate" in text:
        return "give --ca-file, or --pin with the SHA-256 that the relay prints"
    if "ALPN" in text:
        return "is this the port for clients? `laps-relay serve` prints it after 'relay'"
    if "host has no address" in text:
        return "is the host name spelled right?"
    return "is the relay running, and does the network allow UDP? `laps-relay serve` starts a relay"


def install_extra(extra: str) -> str:
    """Return the command that adds an extra of ``laps-sdk`` in a clone of the repository."""
    return f'pip install -e "packages/laps-sdk[{extra}]"'


@contextlib.contextmanager
def one_line(command: str) -> Generator[None]:
    """Turn expected errors into one line on stderr and an exit code."""
    try:
        yield
    except (UsageFault, TextFormError) as error:
        raise _exit(USAGE, command, str(error)) from None
    except (NothingCameError, RequestTimeoutError) as error:
        raise _exit(TIMEOUT, command, str(error)) from None
    except TimeoutError as error:
        raise _exit(TIMEOUT, command, str(error) or "no answer in time") from None
    except BrokenPipeError:
        # The reader closed the pipe, which is no error. Buffered output must not raise the same
        # again when the interpreter exits.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        raise typer.Exit(0) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise _exit(FAILED, command, f"{where}{error.strerror or error}") from None
    except LapsError as error:
        advice = advice_for(error)
        raise _exit(FAILED, command, f"{error}; {advice}" if advice else str(error)) from None


def _exit(code: int, command: str, words: str) -> typer.Exit:
    typer.echo(f"laps {command}: {printable(words)}", err=True)
    return typer.Exit(code)


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run a command to its end; SIGTERM closes the session first, like Ctrl-C."""
    try:
        stopped = asyncio.run(_interruptible(work))
    except KeyboardInterrupt:
        raise typer.Exit(128 + signal.SIGINT) from None
    if stopped:
        raise typer.Exit(128 + signal.SIGTERM)


async def _interruptible(work: Coroutine[Any, Any, None]) -> bool:
    """Return whether SIGTERM ended the command."""
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    stopped = False

    def stop() -> None:
        nonlocal stopped
        stopped = True
        task.cancel()

    # Not on every platform, and only in the main thread.
    with contextlib.suppress(NotImplementedError, RuntimeError):
        loop.add_signal_handler(signal.SIGTERM, stop)
    try:
        await task
    except asyncio.CancelledError:
        if not stopped:
            raise
    return stopped
