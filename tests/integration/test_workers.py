"""One relay of several processes: clients are spread over them, and everybody hears everything."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

import laps_sdk
from testkit.http import http_client
from testkit.network_show import Listener
from testkit.network_task import until
from testkit.relay_process import RunningRelay, relay_process

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

LIMIT = 120.0
"""Seconds: processes start slowly on a busy machine."""


def lines(relay: RunningRelay, event: str) -> list[dict[str, Any]]:
    found = []
    *whole, _ = relay.log.read_text(encoding="utf-8").split("\n")
    for line in whole:
        try:
            record = json.loads(line)
        except ValueError:
            raise AssertionError(f"no line of a log: {line!r}") from None
        if record["event"] == event:
            found.append(record)
    return found


def connect(relay: RunningRelay) -> laps_sdk.Session:
    return laps_sdk.connect(relay.url, pin=relay.certificate_sha256, timeout=LIMIT)


async def publish(relay: RunningRelay) -> None:
    async with connect(relay) as session:
        track = await session.publish("net", "numbers")
        number = 0
        while True:
            await track.write(b"%d" % number, end_of_group=True)
            number += 1
            await asyncio.sleep(0.02)


class Ear(Listener):
    """A client that comes to whichever worker the kernel chooses."""

    async def listen(self, relay: RunningRelay) -> None:
        async with connect(relay) as session:
            await self.follow(session)


async def sessions_at_first(relay: RunningRelay) -> int:
    async with http_client(relay.admin) as http:
        answer = await http.get("/v1/sessions")
    return sum(item["session"] > 0 for item in answer.json()["items"])  # 0 is the network


async def spread(
    relay: RunningRelay, group: asyncio.TaskGroup, tasks: list[asyncio.Task[None]]
) -> list[Ear]:
    """Listeners until some are at each of two workers."""
    ears: list[Ear] = []
    for _ in range(40):
        ears.append(Ear())
        tasks.append(group.create_task(ears[-1].listen(relay)))
        await until(lambda: ears[-1].heard)
        first = await sessions_at_first(relay)
        if 0 < first < len(ears):
            return ears
    raise AssertionError("all 40 came to one worker")


async def test_two_workers_are_one_relay() -> None:
    options = {"LAPS_LIMITS__CONNECTION__IDLE_TIMEOUT": "5s"}
    with relay_process("--workers", "2", patience=LIMIT, **options) as relay:
        first, second = relay.told["workers"]
        assert first["node"] != second["node"]
        assert relay.told["node"] == first["node"]
        assert relay.told["pid"] == relay.process.pid
        async with asyncio.timeout(LIMIT), asyncio.TaskGroup() as group:
            tasks = [group.create_task(publish(relay))]
            ears = await spread(relay, group, tasks)
            for each in ears:
                await until(lambda: sum(each.heard.values()) >= 50)  # noqa: B023 - awaited here
            for each in ears:
                *_, each.since = sorted(each.heard)[:25]  # it has joined by then
                before = max(each.heard)
                await until(lambda: not each.missing(before))  # noqa: B023 - awaited here
                assert each.doubled() == []

            # One of them dies: it comes back, and so do its clients.
            os.kill(second["pid"], signal.SIGKILL)
            await until(lambda: lines(relay, "worker started again"))
            (ended,) = lines(relay, "worker ended")
            assert (ended["worker"], ended["status"]) == (1, 128 + signal.SIGKILL)
            (back,) = lines(relay, "worker started again")
            assert back["node"] == second["node"]
            assert back["pid"] != second["pid"]
            latest = max(max(each.heard) for each in ears)
            for each in ears:
                await until(lambda: max(each.heard) > latest + 50)  # noqa: B023 - awaited here
            for task in tasks:
                task.cancel()
        relay.signal(signal.SIGHUP)
        await until(lambda: len(lines(relay, "reloaded")) == 2)
        relay.signal(signal.SIGTERM)
        assert await asyncio.to_thread(relay.ended) == 0
        for pid in (first["pid"], back["pid"]):
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)


async def test_workers_with_a_control_server_hear_everything_too(tmp_path: Path) -> None:
    """The second worker has no session with the server: the first one speaks for it."""
    state = ("--state-dir", str(tmp_path), "--peer-port", "0")
    with (
        relay_process("--type", "control", *state, patience=LIMIT) as control,
        relay_process("--peer", control.peers, *state, patience=LIMIT) as elsewhere,
        relay_process(
            "--workers", "2", "--peer", control.peers, "--peer", elsewhere.peers, *state,
            patience=LIMIT,
        ) as relay,
    ):  # fmt: skip
        async with asyncio.timeout(LIMIT), asyncio.TaskGroup() as group:
            tasks = [group.create_task(publish(elsewhere))]
            ears = await spread(relay, group, tasks)
            for each in ears:
                await until(lambda: sum(each.heard.values()) >= 20)  # noqa: B023 - awaited here
                assert each.doubled() == []
            for task in tasks:
                task.cancel()
