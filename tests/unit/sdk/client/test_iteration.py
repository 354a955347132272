"""What applications iterate over begins once, and ends however it is left."""

from __future__ import annotations

import asyncio

import pytest

from laps_sdk.client.core.subscribe_options import WindowLimits
from laps_sdk.client.iteration import ItemIterator, ReceiveQueue

pytestmark = pytest.mark.anyio


class Numbers(ItemIterator[int]):
    """Gives out what it is told to, and notes what is asked of it."""

    def __init__(self, *numbers: int, fault: Exception | None = None) -> None:
        super().__init__(ReceiveQueue())
        self.numbers = numbers
        self.fault = fault
        self.asked: list[str] = []

    async def _begin(self) -> None:
        self.asked.append("begin")
        for number in self.numbers:
            self._queue.put(number, 1)
        if self.fault is not None:
            raise self.fault
        self._queue.end()

    def _finish(self) -> None:
        self.asked.append("finish")
        self._queue.end()


async def test_the_loop_begins_what_nobody_entered() -> None:
    numbers = Numbers(1, 2)
    assert not numbers.asked
    assert [number async for number in numbers] == [1, 2]
    assert numbers.asked == ["begin"]


async def test_entered_it_begins_once_and_finishes_at_the_end() -> None:
    async with Numbers(1) as numbers:
        assert [number async for number in numbers] == [1]
        assert numbers.asked == ["begin"]
    assert numbers.asked == ["begin", "finish"]


async def test_a_fault_at_the_beginning_finishes_it_and_is_told() -> None:
    numbers = Numbers(1, fault=ValueError("nobody there"))
    with pytest.raises(ValueError, match="nobody there"):
        await anext(numbers)
    assert numbers.asked == ["begin", "finish"]
    assert [number async for number in numbers] == [1]  # what came before can be taken


async def test_closed_before_its_beginning_it_never_begins() -> None:
    numbers = Numbers(1)
    await numbers.close()
    assert [number async for number in numbers] == []
    assert numbers.asked == ["finish"]


async def test_items_then_the_end() -> None:
    inbox: ReceiveQueue[str] = ReceiveQueue()
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
    inbox: ReceiveQueue[str] = ReceiveQueue()
    inbox.put("a", 1)
    inbox.end(ValueError("mine"))
    assert await inbox.get() == "a"
    with pytest.raises(ValueError, match="mine"):
        await inbox.get()


async def test_room_is_told() -> None:
    told: list[int] = []
    inbox: ReceiveQueue[int] = ReceiveQueue(
        WindowLimits(max_objects=2, hard_factor=2), lambda: told.append(1)
    )
    assert [inbox.put(index, 1) for index in range(5)] == [True] * 4 + [False]
    assert inbox.window.paused
    assert [await inbox.get() for _ in range(4)] == [0, 1, 2, 3]
    assert told == [1]
    assert inbox.window.dropped == 1


async def test_what_is_taken_from_a_full_queue_is_told() -> None:
    told: list[str] = []
    inbox: ReceiveQueue[int] = ReceiveQueue(
        WindowLimits(max_objects=4),
        resume=lambda: told.append("room"),
        taken=lambda: told.append("taken"),
    )
    for number in range(3):
        inbox.put(number, 1)
        await inbox.get()
    for number in range(4):
        inbox.put(number, 1)
    assert told == []
    for _ in range(4):
        await inbox.get()
    assert told == ["taken", "room"]


async def test_a_cancelled_get_loses_nothing() -> None:
    inbox: ReceiveQueue[str] = ReceiveQueue()
    waiting = asyncio.create_task(inbox.get())
    await asyncio.sleep(0)
    inbox.put("a", 1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await inbox.get() == "a"
