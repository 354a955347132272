"""How the commands speak: data on stdout, everything else on stderr, faults in one line.

::

    exit code   0 done    1 failed    2 used wrongly    3 nothing came in time
                130 ended by Ctrl-C   143 ended by SIGTERM
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
    "one_line",
    "printable",
    "run",
]

FAILED: Final = 1
USAGE: Final = 2
TIMEOUT: Final = 3

STATUS_EVERY: Final = 0.1
"""Seconds between two status lines: terminals are slow, objects are not."""
_CLEAR: Final = "\r\x1b[K"


class UsageFault(LapsError):  # noqa: N818 - not an error of the program
    """The command line cannot be meant so."""


class NothingCameError(LapsError):
    """Nothing arrived for as long as ``--wait`` allows."""


def printable(text: str) -> str:
    """Words of strangers for a terminal: one line, and nothing in it that moves the cursor."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


class Voice:
    """Where a command's words go."""

    def __init__(self, *, as_json: bool = False, quiet: bool = False) -> None:
        self.as_json = as_json
        self.quiet = quiet
        self.progress = not quiet and not as_json and sys.stderr.isatty()
        """Whether a person looks on."""
        self._status_at: float | None = None

    def record(self, record: Mapping[str, Any]) -> None:
        """One line of JSON, which is UTF-8 whatever the terminal thinks (RFC 8259, 8.1)."""
        self.data(json.dumps(record, ensure_ascii=False).encode(), newline=True)

    def line(self, text: str) -> None:
        """One line of text that is the answer; what strangers wrote in it is made printable."""
        encoding = sys.stdout.encoding or "utf-8"
        self.data(printable(text).encode(encoding, errors="backslashreplace"), newline=True)

    def data(self, payload: bytes, *, newline: bool = False) -> None:
        """Bytes as they came."""
        if self.progress and sys.stdout.isatty():
            self.end_status()
            self.progress = False  # a status line would wipe what stands before it
        sys.stdout.buffer.write(payload + b"\n" if newline else payload)
        sys.stdout.buffer.flush()

    def lines(self, wanted: bool | None) -> bool:
        """Whether objects become lines: as somebody said, or because somebody reads them."""
        return sys.stdout.isatty() if wanted is None else wanted

    def remark(self, text: str) -> None:
        """Something for people, beside the data."""
        if not self.quiet:
            self.end_status()
            typer.echo(printable(text), err=True)

    def status(self, text: str) -> None:
        """A line that the next one overwrites; only on a terminal, and not too often."""
        if not self.progress:
            return
        now = time.monotonic()
        if self._status_at is None or now - self._status_at >= STATUS_EVERY:
            self._status_at = now
            sys.stderr.write(f"{_CLEAR}{text}")
            sys.stderr.flush()

    def end_status(self) -> None:
        """Wipe the status line, if there is one."""
        if self._status_at is not None:
            self._status_at = None
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()


def advice_for(error: LapsError) -> str:
    """What may help when no connection comes about; "" if we do not know."""
    if not isinstance(error, ConnectError):
        return ""
    if "certificate" in str(error):
        return "give --ca-file, or --pin with the SHA-256 that the relay prints"
    return "does the relay run, and is UDP allowed on the way? `laps-relay serve` starts one"


@contextlib.contextmanager
def one_line(command: str) -> Generator[None]:
    """What people can mend gets a line, not a traceback."""
    try:
        yield
    except (UsageFault, TextFormError) as error:
        raise _exit(USAGE, command, str(error)) from None
    except (NothingCameError, RequestTimeoutError) as error:
        raise _exit(TIMEOUT, command, str(error)) from None
    except TimeoutError as error:
        raise _exit(TIMEOUT, command, str(error) or "no answer in time") from None
    except BrokenPipeError:
        # Whoever read us has enough: that is how pipes end. Nothing more can be written, and what
        # is buffered must not raise the same again when the interpreter ends.
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
    """Run a command's work to its end; SIGTERM ends it as Ctrl-C does, in good order."""
    try:
        stopped = asyncio.run(_interruptible(work))
    except KeyboardInterrupt:
        raise typer.Exit(128 + signal.SIGINT) from None
    if stopped:
        raise typer.Exit(128 + signal.SIGTERM)


async def _interruptible(work: Coroutine[Any, Any, None]) -> bool:
    """Whether SIGTERM ended it."""
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
