"""A real Edge relay in a thread of its own, for tests of programs that run a loop themselves.

::

    with edge_thread() as edge:
        done = edge.start(publish_something(edge))      # in the relay's loop, meanwhile:
        CliRunner().invoke(app, ["sub", edge.url(), "demo", "x", "--ca-file", edge.ca_file])
        done.result(LIMIT)
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future
from contextlib import AsyncExitStack, contextmanager
from typing import Any, TypeVar

import laps_sdk
from testkit.edge_task import Edge, edge_relay
from testkit.moqt_server import eventually

__all__ = ["LIMIT", "EdgeThread", "LoopThread", "edge_thread", "loop_thread"]

LIMIT = 60.0
"""Seconds for anything that is waited for, the start of another process included."""

T = TypeVar("T")


class LoopThread:
    """A loop that runs in a thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin something there."""

        async def limited() -> T:
            async with asyncio.timeout(LIMIT):
                return await work

        return asyncio.run_coroutine_threadsafe(limited(), self._loop)

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something there, and wait for it."""
        return self.start(work).result(2 * LIMIT)


class EdgeThread(LoopThread):
    """A relay in such a loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, edge: Edge) -> None:
        super().__init__(loop)
        self._edge = edge
        self.url = edge.url
        self.ca_file = edge.ca_file

    async def until(self, condition: Callable[[Edge], bool]) -> None:
        """Wait, in the loop, until this holds of the relay."""
        await eventually(lambda: condition(self._edge))

    def client(self) -> laps_sdk.Session:
        """A session to be entered in the loop."""
        return laps_sdk.connect(self.url(), ca_file=self.ca_file, timeout=LIMIT)


@contextmanager
def loop_thread() -> Generator[asyncio.AbstractEventLoop]:
    """A loop that runs in a thread until the block ends."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="loop of a test")
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(LIMIT)
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


@contextmanager
def edge_thread(**options: Any) -> Generator[EdgeThread]:
    """Start a relay in a thread, stop it behind the block; options are those of ``edge_relay``."""
    with loop_thread() as loop:
        runner = LoopThread(loop)
        stack = AsyncExitStack()
        edge = runner.do(stack.enter_async_context(edge_relay(**options)))
        try:
            yield EdgeThread(loop, edge)
        finally:
            runner.do(stack.aclose())
