"""What applications iterate over begins once, and ends however it is left."""

from __future__ import annotations

import pytest

from laps_sdk.client.inbox import Inbox
from laps_sdk.client.iteration import Taking

pytestmark = pytest.mark.anyio


class Numbers(Taking[int]):
    """Gives out what it is told to, and notes what is asked of it."""

    def __init__(self, *numbers: int, fault: Exception | None = None) -> None:
        super().__init__(Inbox())
        self.numbers = numbers
        self.fault = fault
        self.asked: list[str] = []

    async def _begin(self) -> None:
        self.asked.append("begin")
        for number in self.numbers:
            self._inbox.put(number, 1)
        if self.fault is not None:
            raise self.fault
        self._inbox.end()

    def _finish(self) -> None:
        self.asked.append("finish")
        self._inbox.end()


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


async def test_the_bare_one_says_nothing() -> None:
    bare: Taking[int] = Taking(Inbox())
    with pytest.raises(NotImplementedError):
        await bare._begin()
    with pytest.raises(NotImplementedError):
        bare._finish()
