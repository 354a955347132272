from __future__ import annotations

import importlib.metadata
import logging
import sys

import pytest

from laps_sdk.cli import main
from testkit.laps_command import laps


def test_help_names_every_command_and_the_exit_codes() -> None:
    shown = laps("--help")
    assert shown.exit_code == 0
    for verb in ("pub", "sub", "fetch", "ls", "ping", "bench", "top", "doctor", "token"):
        assert f" {verb} " in shown.stdout
        one = laps(verb, "--help")
        assert one.exit_code == 0
        assert "Usage: " in one.stdout
    assert "3 nothing arrived in time" in " ".join(shown.stdout.split())


def test_version() -> None:
    shown = laps("--version")
    assert shown.stdout == f"laps {importlib.metadata.version('laps-sdk')}\n"


def test_nothing_and_nonsense_are_used_wrongly() -> None:
    assert laps().exit_code == 2
    assert laps("fly").exit_code == 2
    assert laps("sub", "moqt://x").exit_code == 2
    assert "Traceback" not in laps("sub", "moqt://x").output


def test_main_is_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["laps", "--version"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("laps ")


def test_without_typer_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "laps_sdk.cli.commands")
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == (
        'laps needs typer and rich: pip install -e "packages/laps-sdk[cli]"'
    )


def test_another_missing_module_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "laps_sdk.cli.commands", None)
    with pytest.raises(ModuleNotFoundError):
        main()


def test_libraries_do_not_speak_beside_us(monkeypatch: pytest.MonkeyPatch) -> None:
    handlers: list[logging.Handler] = []
    monkeypatch.setattr(logging.getLogger(), "handlers", handlers)
    assert laps("doctor", "--offline").exit_code == 0
    assert laps("doctor", "--offline").exit_code == 0
    assert [type(handler) for handler in handlers] == [logging.NullHandler]
