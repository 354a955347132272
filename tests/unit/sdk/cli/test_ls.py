from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from laps_sdk.cli.ls import _print
from laps_sdk.cli.output import Voice
from laps_sdk.errors import RequestTimeoutError
from testkit.edge_thread import LIMIT, EdgeThread
from testkit.laps_command import laps, laps_process, next_line

SETTLE = 3.0
"""Seconds: a relay on the same machine has told everything long before."""


@pytest.fixture(scope="module")
def published(edge: EdgeThread) -> Iterator[None]:
    """Two namespaces that are announced, and two tracks that are published."""
    stack = AsyncExitStack()

    async def begin() -> None:
        session = await stack.enter_async_context(edge.client())
        for namespace in ("ls/one", "ls/t\x1bwo"):
            await session.publish(namespace, "t", announce=True)
        await session.publish("pushed/here", "a b")
        await (await session.publish("pushed/here", "c", first=7)).write(b"x", end_of_group=True)
        await edge.until(lambda relay: any(row.largest is not None for row in relay.relay.tracks()))

    edge.do(begin())
    yield
    edge.do(stack.aclose())


@pytest.mark.usefixtures("published")
def test_namespaces(edge: EdgeThread) -> None:
    ended = laps("ls", edge.url(), "ls", "--settle", SETTLE, "--ca-file", edge.ca_file)
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert sorted(ended.stdout.splitlines()) == ["ls/one", "ls/t%1bwo"]


@pytest.mark.usefixtures("published")
def test_tracks_can_be_typed_as_they_are_listed(edge: EdgeThread) -> None:
    ended = laps("ls", edge.url(), "-t", "--settle", SETTLE, "--json", LAPS_CA_FILE=edge.ca_file)
    assert (ended.exit_code, ended.stderr) == (0, "")
    rows = sorted(map(json.loads, ended.stdout.splitlines()), key=lambda row: str(row["track"]))
    assert rows == [
        {"track": "pushed/here a%20b", "event": "added"},
        {"track": "pushed/here c", "event": "added", "largest": [7, 0]},
    ]


def test_nothing_there(edge: EdgeThread) -> None:
    ended = laps("ls", edge.url(), "empty", "--settle", 0.05, LAPS_CA_FILE=edge.ca_file)
    assert (ended.exit_code, ended.stdout, ended.stderr) == (
        0,
        "",
        "no namespaces below empty; --tracks lists published tracks\n",
    )
    quiet = laps("ls", edge.url(), "empty", "--settle", 0.05, "-q", LAPS_CA_FILE=edge.ca_file)
    assert (quiet.exit_code, quiet.output) == (0, "")


@pytest.mark.parametrize(("flag", "shown"), [("--quiet", "follow/me"), ("--tracks", "follow/me t")])
def test_follow(edge: EdgeThread, flag: str, shown: str) -> None:
    session = edge.client()
    edge.do(session.__aenter__())
    try:
        with laps_process(
            "ls", edge.url(), "follow", "--follow", flag, LAPS_CA_FILE=edge.ca_file
        ) as process:
            track = edge.do(session.publish("follow/me", "t", announce=flag == "--quiet"))
            assert next_line(process) == f"+ {shown}\n".encode()
            edge.do(track.end())
            assert next_line(process) == f"- {shown}\n".encode()
            process.send_signal(signal.SIGTERM)
            assert process.wait(LIMIT) == 143
    finally:
        edge.do(session.close())


class Silent:
    """News that end with a fault."""

    async def __anext__(self) -> object:
        raise RequestTimeoutError("SUBSCRIBE_NAMESPACE: no answer")


def test_a_relay_that_does_not_answer_is_no_end_of_the_list() -> None:
    with pytest.raises(RequestTimeoutError):
        asyncio.run(_print(Silent(), Voice(), 30.0))  # type: ignore[arg-type]  # as much as it takes
