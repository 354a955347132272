from __future__ import annotations

import io
import sys
import time
from datetime import datetime

import pytest

from laps_analytics.cli import common, main
from laps_analytics.cli.common import progress_printer, session_maker
from laps_analytics.spark.session import SessionSettings


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
        progress_printer(no_progress)("bronze")
    assert said in terminal.getvalue()
    assert bool(terminal.getvalue()) is not no_progress
    assert file.getvalue() == ""


def test_a_server_of_connect_is_not_told_what_it_cannot_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[SessionSettings] = []
    monkeypatch.setattr(common, "check_settings", lambda _: None)
    monkeypatch.setattr(common, "spark_session", asked.append)
    session_maker(None, "sc://192.0.2.1", "4g")()
    session_maker("spark://192.0.2.1:7077", None, "4g")()
    there, here = asked
    assert (there.remote, there.options) == ("sc://192.0.2.1", {})
    assert here.options == {"spark.ui.showConsoleProgress": "false"}


def test_times_are_utc_wherever_a_command_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Kolkata")
        time.tzset()
        patch.setattr(sys, "argv", ["laps-analytics", "version"])
        with pytest.raises(SystemExit):
            main()
        # As PySpark makes a time that it collects.
        assert datetime.fromtimestamp(0) == datetime(1970, 1, 1)  # noqa: DTZ001, DTZ006
    time.tzset()
    assert "pyspark" in capsys.readouterr().out
