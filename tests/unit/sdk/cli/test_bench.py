from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from laps_sdk.cli import bench as bench_module
from laps_sdk.cli.bench_report import Sample
from laps_sdk.edge.authorization import Action, Decision
from laps_wire.moqt.session import AuthToken
from laps_wire.names import Namespace
from testkit.edge_thread import EdgeThread, edge_thread
from testkit.laps_command import laps, one_fault


def test_figures_for_programs(edge: EdgeThread) -> None:
    ended = laps(
        "bench", edge.url(), "--ca-file", edge.ca_file, "--json",
        "--for", "0.3", "--rate", 100, "--size", 300, "-s", 3, "--per-group", 10,
    )  # fmt: skip
    assert (ended.exit_code, ended.stderr) == (0, "")
    found = json.loads(ended.stdout)
    assert found["subscribers"] == 3
    assert found["size"] == 300
    assert 0 < found["written"] <= 40
    assert found["missing"] == found["written"] * 3 - found["delivered"]
    assert found["delivered"] > 0
    assert found["delay_ms"]["p50"] <= found["delay_ms"]["p99"]


def test_bars_and_a_picture_for_people(edge: EdgeThread, tmp_path: Path) -> None:
    path = tmp_path / "delays.png"
    ended = laps(
        "bench", edge.url(), "--for", "0.2", "--flood", "--size", 100, "-s", 1, "--png", path,
        LAPS_CA_FILE=edge.ca_file,
    )  # fmt: skip
    assert ended.exit_code == 0, ended.output
    first, second, *bars = ended.stdout.splitlines()
    assert " objects of 100 bytes in " in first
    assert second.startswith("delay in ms: p50 ")
    assert any("#" in bar for bar in bars)
    assert ended.stderr == f"wrote {path}\n"
    assert path.read_bytes().startswith(b"\x89PNG")


def test_datagrams_may_be_lost(edge: EdgeThread, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_module, "PATIENCE", 0.0)
    ended = laps(
        "bench", edge.url(), "--for", "0.1", "--rate", 50, "-s", 1, "--size", 50, "--datagrams",
        "--json", LAPS_CA_FILE=edge.ca_file,
    )  # fmt: skip
    assert ended.exit_code == 0, ended.output
    assert json.loads(ended.stdout)["missing"] >= 0


def test_objects_that_do_not_fit(edge: EdgeThread) -> None:
    ended = laps(
        "bench", edge.url(), "--size", 9000, "--datagrams", "-s", 1, LAPS_CA_FILE=edge.ca_file
    )
    one_fault(ended, 1, "laps bench: an object of 9000 bytes")


class NoSubscribers:
    """Publishing is free, subscribing is not."""

    def authorize(
        self,
        now: float,
        action: Action,
        namespace: Namespace | None,
        name: bytes | None,
        tokens: Sequence[AuthToken],
        session_tokens: Sequence[AuthToken],
    ) -> Decision:
        return Decision(allowed=action is not Action.SUBSCRIBE, reason="not for you\x1b[0m")


def test_a_relay_that_says_no() -> None:
    with edge_thread(authorizer=NoSubscribers()) as edge:
        ended = laps("bench", edge.url(), "-s", 1, LAPS_CA_FILE=edge.ca_file)
        one_fault(ended, 1, "laps bench: SUBSCRIBE ", r"not for you\x1b[0m")


def test_a_subscription_that_breaks_ends_the_wait() -> None:
    load = bench_module.Load(size=1, rate=1.0, per_group=1, datagrams=False, seconds=1.0)
    load.written = 5

    async def main() -> None:
        async def broken() -> None:
            return None

        task = asyncio.create_task(broken())
        await asyncio.wait_for(bench_module._settle(load, [Sample()], [task]), timeout=30)

    asyncio.run(main())
