"""The ``laps`` command for tests: in this process, or as its own for signals, pipes and stdin."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from typer.testing import CliRunner, Result

from laps_sdk.cli.commands import app

__all__ = ["LIMIT", "laps", "laps_process", "next_line", "one_fault"]

LIMIT = 60.0
"""Seconds in which a process must have done what a test waits for."""

PLAIN = {"NO_COLOR": "1", "COLUMNS": "200", "TERM": "dumb", "LAPS_TIMEOUT": f"{LIMIT:g}"}
"""No markup, no wrapping, and patience: what is to take a short time says so itself."""

NOTHING_SET = dict.fromkeys(
    "LAPS_" + name
    for name in "CA_FILE PIN INSECURE TOKEN TOKEN_FILE TRANSPORT DRAFT TIMEOUT ADMIN_TOKEN".split()  # noqa: SIM905
)


def laps(*arguments: object, stdin: bytes | None = None, **environment: str) -> Result:
    """Run it here. Standard streams are replaced for that: one at a time."""
    here = {**NOTHING_SET, "LAPS_STATE_DIR": os.devnull, **PLAIN, **environment}
    return CliRunner().invoke(app, [str(item) for item in arguments], input=stdin, env=here)


@contextmanager
def laps_process(*arguments: object, **environment: str) -> Generator[subprocess.Popen[bytes]]:
    """Run it as a process with pipes; it is gone behind the block."""
    clean = {name: value for name, value in os.environ.items() if name not in NOTHING_SET}
    process = subprocess.Popen(
        [sys.executable, "-c", "from laps_sdk.cli import main; main()", *map(str, arguments)],
        env={**clean, "LAPS_STATE_DIR": os.devnull, **PLAIN, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(LIMIT)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def next_line(process: subprocess.Popen[bytes]) -> bytes:
    """The next line of its stdout; why there is none, if it has ended."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        _, words = process.communicate(timeout=LIMIT)
        raise AssertionError(f"it ended with {process.returncode}: {words.decode()}")
    return line


def one_fault(result: Result, code: int, *words: str | Path) -> None:
    """It ended with this code, one line that has these words, and nothing else."""
    assert result.exit_code == code, (result.exit_code, result.output, result.exception)
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert result.stdout == ""
    assert lines[0].startswith("laps ")
    for word in words:
        assert str(word) in lines[0], lines[0]
