from __future__ import annotations

import io
import sys

import pytest

from laps_analytics.cli.common import teller


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("no_progress", "said"), [(False, "bronze"), (True, "")])
def test_progress_is_for_terminals(
    monkeypatch: pytest.MonkeyPatch, no_progress: bool, said: str
) -> None:
    terminal, file = Terminal(), io.StringIO()
    for stream in (terminal, file):
        monkeypatch.setattr(sys, "stderr", stream)
        teller(no_progress)("bronze")
    assert said in terminal.getvalue()
    assert bool(terminal.getvalue()) is not no_progress
    assert file.getvalue() == ""
