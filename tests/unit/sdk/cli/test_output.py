from __future__ import annotations

import asyncio
import io
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from laps_sdk.cli import output
from laps_sdk.cli.output import NothingCameError, UsageFault, Voice, advice_for, one_line, printable
from laps_sdk.errors import ConnectError, RequestTimeoutError
from laps_wire.errors import EncodeError, LapsError, TextFormError


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Console(io.TextIOWrapper):
    """Standard output whose bytes can be read."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self.bytes = io.BytesIO()
        super().__init__(self.bytes, encoding=encoding)


def terminal_of(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Called by the test itself: pytest puts its own stderr in place behind every fixture."""
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    return screen


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (UsageFault("--x: no"), 2, "laps do: --x: no"),
        (TextFormError("bad name"), 2, "laps do: bad name"),
        (NothingCameError("nothing"), 3, "laps do: nothing"),
        (RequestTimeoutError("no answer"), 3, "laps do: no answer"),
        (TimeoutError(), 3, "laps do: no answer in time"),
        (LapsError("it broke"), 1, "laps do: it broke"),
        (EncodeError("too long"), 1, "laps do: too long"),
        (FileNotFoundError(2, "No such file", "x.txt"), 1, "laps do: x.txt: No such file"),
        (PermissionError(13, "Permission denied"), 1, "laps do: Permission denied"),
        (OSError("odd"), 1, "laps do: odd"),
        (LapsError("two\nlines \x1b[31m"), 1, r"laps do: two\nlines \x1b[31m"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_faults_are_one_line(
    error: Exception, code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as ended, one_line("do"):
        raise error
    assert ended.value.exit_code == code
    assert capsys.readouterr() == ("", words + "\n")


def test_faults_of_the_program_are_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError), one_line("do"):
        raise ZeroDivisionError


def test_connections_that_fail_come_with_advice(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit), one_line("do"):
        raise ConnectError("the certificate was refused")
    assert "; give --ca-file, or --pin" in capsys.readouterr().err
    assert "laps-relay serve" in advice_for(ConnectError("no answer in 3 s"))
    assert advice_for(LapsError("a certificate")) == ""


def test_a_pipe_that_nobody_reads_is_a_good_end(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    os.close(read)
    stream = os.fdopen(write, "w")
    monkeypatch.setattr("sys.stdout", stream)
    with pytest.raises(typer.Exit) as ended, one_line("do"):
        Voice().data(b"x" * 10)
    assert ended.value.exit_code == 0
    stream.close()  # its buffer goes to nowhere, and raises no more


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("demo/x t", "demo/x t"),
        ("Gr\u00fc\u00dfe", "Gr\u00fc\u00dfe"),
        ("a\x1b]0;title\x07b", r"a\x1b]0;title\x07b"),
        ("a\r\nb\x9b2J", r"a\r\nb\x9b2J"),
        ("\u202egnp", r"\u202egnp"),
    ],
)
def test_words_of_strangers_are_made_printable(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_json_is_utf8_and_lines_are_what_the_terminal_can_show(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stdout = Console("ascii")
    monkeypatch.setattr("sys.stdout", stdout)
    voice = Voice(as_json=True)
    voice.record({"text": "\u00fc\n"})
    voice.line("\u00fc\x1b")
    voice.data(b"\xff\x00")
    voice.data(b"\xfe", newline=True)
    first, rest = stdout.bytes.getvalue().split(b"\n", 1)
    assert json.loads(first.decode()) == {"text": "\u00fc\n"}
    assert rest == b"\\xfc\\x1b\n\xff\x00\xfe\n"


def test_remarks_and_status_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    now = 100.0
    monkeypatch.setattr("laps_sdk.cli.output.time", SimpleNamespace(monotonic=lambda: now))
    voice = Voice()
    voice.end_status()
    assert terminal.getvalue() == ""
    voice.status("one")
    voice.status("too soon")
    now += 2 * output.STATUS_EVERY
    voice.status("two")
    assert terminal.getvalue() == "\r\x1b[Kone\r\x1b[Ktwo"
    voice.remark("gap\x07")
    assert terminal.getvalue().endswith("two\r\x1b[Kgap\\x07\n")


@pytest.mark.parametrize("options", [{"quiet": True}, {"as_json": True}])
def test_no_status_where_nobody_looks(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, bool]
) -> None:
    terminal = terminal_of(monkeypatch)
    voice = Voice(**options)
    voice.status("one")
    voice.end_status()
    assert terminal.getvalue() == ""
    voice.remark("said")
    assert terminal.getvalue() == ("" if voice.quiet else "said\n")


def test_no_status_over_data_on_the_same_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    stdout = Console()
    monkeypatch.setattr("sys.stdout", stdout)
    voice = Voice()
    assert not voice.lines(None)
    voice.status("0 objects")
    voice.data(b"to a file")
    assert voice.progress
    monkeypatch.setattr(stdout, "isatty", lambda: True)
    voice.data(b"to a person")
    voice.status("2 objects")
    assert terminal.getvalue() == "\r\x1b[K0 objects\r\x1b[K"
    assert stdout.bytes.getvalue() == b"to a fileto a person"
    assert [voice.lines(wanted) for wanted in (None, True, False)] == [True, True, False]


def test_no_status_in_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    Voice().status("one")
    assert capsys.readouterr().err == ""


def ended_by(work: Callable[[], Any]) -> int:
    with pytest.raises(typer.Exit) as ended:
        output.run(work())
    return ended.value.exit_code


def test_run_to_the_end() -> None:
    done = []

    async def work() -> None:
        done.append(1)

    output.run(work())
    assert done == [1]


def test_signals_end_the_work_in_good_order() -> None:
    cleaned = []

    async def killed(number: signal.Signals) -> None:
        try:
            os.kill(os.getpid(), number)
            await asyncio.Event().wait()
        finally:
            cleaned.append(number)

    assert ended_by(lambda: killed(signal.SIGTERM)) == 143
    assert ended_by(lambda: killed(signal.SIGINT)) == 130
    assert cleaned == [signal.SIGTERM, signal.SIGINT]


def test_work_that_cancels_itself_is_a_fault() -> None:
    async def work() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        output.run(work())


def test_elsewhere_than_in_the_main_thread() -> None:
    done = []

    async def work() -> None:
        done.append(1)

    async def main() -> None:
        await asyncio.to_thread(output.run, work())

    asyncio.run(main())
    assert done == [1]


def test_filenames_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit), one_line("do"):
        (tmp_path / "none").read_bytes()
    assert capsys.readouterr().err == f"laps do: {tmp_path / 'none'}: No such file or directory\n"
