from __future__ import annotations

import asyncio

import pytest

from laps_sdk.client.core.window import WindowLimits
from laps_sdk.client.inbox import Inbox

pytestmark = pytest.mark.anyio


async def test_items_then_the_end() -> None:
    inbox: Inbox[str] = Inbox()
    waiting = asyncio.create_task(inbox.get())
    await asyncio.sleep(0)
    inbox.put("a", 1)
    inbox.put("b", 1)
    inbox.end()
    inbox.end(ValueError("too late"))
    assert inbox.over
    assert [await waiting, await inbox.get()] == ["a", "b"]
    for _ in range(2):
        with pytest.raises(StopAsyncIteration):
            await inbox.get()


async def test_an_error_stands_behind_the_items() -> None:
    inbox: Inbox[str] = Inbox()
    inbox.put("a", 1)
    inbox.end(ValueError("mine"))
    assert await inbox.get() == "a"
    with pytest.raises(ValueError, match="mine"):
        await inbox.get()


async def test_room_is_told() -> None:
    told: list[int] = []
    inbox: Inbox[int] = Inbox(WindowLimits(max_objects=2, hard_factor=2), lambda: told.append(1))
    assert [inbox.put(index, 1) for index in range(5)] == [True] * 4 + [False]
    assert inbox.window.paused
    assert [await inbox.get() for _ in range(4)] == [0, 1, 2, 3]
    assert told == [1]
    assert inbox.window.dropped == 1


async def test_a_cancelled_get_loses_nothing() -> None:
    inbox: Inbox[str] = Inbox()
    waiting = asyncio.create_task(inbox.get())
    await asyncio.sleep(0)
    inbox.put("a", 1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await inbox.get() == "a"
