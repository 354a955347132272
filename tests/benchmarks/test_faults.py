"""The fault harness runs real relays, accounts for every object, and leaves no process behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from faults.__main__ import as_json, main, options_for, parser, table
from faults.checker import Outcome, total
from faults.kinds import Load
from faults.run import Result

from testkit.pages import ROOT

LIMIT = 240.0


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "faults", "--tracks", "4", "--rate", "25", *words]


def children() -> set[int]:
    """Return the process ids of all relays and clients of harnesses below this test."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue
        if f"FAULTS_TEST={os.getpid()}".encode() in environment.split(b"\0"):
            found.add(int(entry.name))
    return found


def environment() -> dict[str, str]:
    return {**os.environ, "FAULTS_TEST": str(os.getpid())}


def test_a_drained_via_costs_no_object(tmp_path: Path) -> None:
    written = tmp_path / "faults.json"
    ended = subprocess.run(
        command("--only", "drain-via", "--times", "1", "--no-loss", "--json", str(written)),
        cwd=ROOT / "benchmarks",
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "drain-via" in ended.stdout
    assert "event 1: via-" in ended.stderr
    (row,) = json.loads(written.read_text(encoding="utf-8"))
    assert row["exact"]
    assert row["passed"]
    assert row["total"]["subscriptions"] == len(row["outcomes"]) == 7
    assert row["total"]["published"] == row["total"]["delivered"] > 7 * 25
    assert all(each["published"] == each["delivered"] > 0 for each in row["outcomes"])
    assert not children()


@pytest.mark.parametrize(
    ("number", "when"),
    [(signal.SIGINT, "starting clients"), (signal.SIGTERM, "starting six relays")],
    ids=["ctrl-c", "term"],
)
def test_a_stopped_harness_stops_its_processes(number: signal.Signals, when: str) -> None:
    with subprocess.Popen(
        command("--only", "kill-via"),
        cwd=ROOT / "benchmarks",
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
    ) as harness:
        assert harness.stderr is not None
        for line in harness.stderr:
            if when in line:
                break
        time.sleep(0.5)
        assert len(children()) > 1
        harness.send_signal(number)
        assert harness.wait(LIMIT) == 128 + number
    assert not children()


def result(outcome: Outcome, lateness: float = 0.01) -> Result:
    return Result(
        kind="kill-via",
        load=Load(),
        begin=0.0,
        seconds=10.0,
        events=[],
        total=total([outcome], 0),
        outcomes=[outcome],
        ends=["2 x subscription: end of track"],
        unrecovered=1,
        lateness_p99=lateness,
        lateness_max=lateness,
    )


def test_the_table_says_what_is_wrong() -> None:
    broken = result(Outcome(name="one", track="track", published=9, delivered=7, unreported=2))
    text = table([broken], no_loss=True)
    assert not broken.exact
    for words in ("BROKEN at 1 of 1", "2 objects were lost", "no full recovery after 1 events"):
        assert words in text
    assert "ended early: 2 x subscription: end of track" in text
    assert "TOO SLOW" not in text


def test_the_table_says_when_the_machine_was_too_slow() -> None:
    exact = result(Outcome(name="one", track="track", published=9, delivered=9), lateness=0.7)
    assert exact.exact
    assert "TOO SLOW" in table([exact], no_loss=False)
    (row,) = json.loads(as_json([exact]))
    assert (row["exact"], row["slow"], row["total"]["published"]) == (True, True, 9)


def test_an_early_end_fails_a_run_whose_sum_is_exact() -> None:
    ended = result(Outcome(name="one", track="track", published=9, delivered=9, ended=1))
    assert ended.exact
    assert not ended.passed
    assert "exact, ENDED EARLY" in table([ended], no_loss=False)


def test_a_run_without_objects_is_not_exact() -> None:
    assert not result(Outcome(name="one", track="track")).exact


def test_kinds_with_a_load_of_their_own_keep_it() -> None:
    arguments = parser().parse_args(["--tracks", "4", "--rate", "9", "--set", "network.hold=1s"])
    options = options_for("kill-via", arguments, 0.0)
    assert options.load == Load(tracks=4, subscriptions=7, rate=9.0)
    assert options.settings == {"network.hold": "1s"}
    own = options_for("pause-groups", arguments, 0.0).load
    assert (own.tracks, own.rate * own.size) == (1, 4_000_000)


@pytest.mark.parametrize(
    "words",
    [
        ["--only", "nothing"],
        ["--times", "0"],
        ["--rate", "0"],
        ["--set", "hold"],
        ["--subscriptions", "99"],
    ],
)
def test_a_wrong_argument_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert words[0] in capsys.readouterr().err
