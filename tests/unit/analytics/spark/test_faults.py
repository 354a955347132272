from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from laps_analytics.cli import common, main
from laps_analytics.spark.launch import fault_of_workers
from testkit.telemetry_book import lines_of
from testkit.telemetry_lines import network

MISSING = """An exception was thrown from the Python worker:
  File "pyspark/serializers.py", line 483, in loads
    return cloudpickle.loads(obj, encoding=encoding)
ModuleNotFoundError: No module named 'laps_analytics'
 SQLSTATE: 38000"""
NOWHERE = """Job aborted due to stage failure: Task 0 in stage 2.0 failed 1 times, most recent
failure: java.io.IOException: Cannot run program "/opt/nowhere/python": error=2, No such file"""


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (MISSING, "the Python of Spark's workers has no laps_analytics: install laps-analytics"),
        (NOWHERE, "Spark's workers have no /opt/nowhere/python: install laps-analytics there"),
        ("[PYTHON_VERSION_MISMATCH] Python in worker has 3.11", "is of another version: install"),
    ],
)
def test_a_python_that_is_not_the_right_one(text: str, want: str) -> None:
    said = fault_of_workers(text)
    assert said is not None
    assert want in said
    assert "\n" not in said


@pytest.mark.parametrize("text", ["", "[DIVIDE_BY_ZERO] 1/0", 'Cannot run program "chmod"'])
def test_other_faults_are_shown_as_they_are(text: str) -> None:
    assert fault_of_workers(text) is None


@pytest.mark.parametrize(("text", "known"), [(MISSING, True), ("[DIVIDE_BY_ZERO] 1/0", False)])
def test_a_command_says_it_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    text: str,
    known: bool,
) -> None:
    def fails(_: object) -> None:
        raise PySparkException(text)

    source = tmp_path / "a.jsonl"
    source.write_text("\n".join(lines_of(network(seconds=10)["1:1"])) + "\n")
    monkeypatch.setattr(common, "spark_session", fails)
    words = ["laps-analytics", "ingest", str(source), "--lake", str(tmp_path / "lake")]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit if known else PySparkException):
        main()
    said = capsys.readouterr().err.splitlines()
    assert len(said) == known
    # Nothing is lost: it was taken, and the next run goes on.
    assert len(list((tmp_path / "lake" / "_ingest" / "inbox").iterdir())) == 1
