"""Between the callbacks of the transport and ``async for``: a bounded queue with an end."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from laps_sdk.client.core.window import Verdict, Window, WindowLimits

__all__ = ["Inbox"]

T = TypeVar("T")


class Inbox(Generic[T]):
    """Items of known size, then an end or an error; ``resume`` is called when there is room."""

    __slots__ = ("_error", "_items", "_news", "_over", "_resume", "window")

    def __init__(
        self,
        limits: WindowLimits | None = None,
        resume: Callable[[], None] | None = None,
    ) -> None:
        self.window = Window(limits or WindowLimits())
        self._items: deque[tuple[T, int]] = deque()
        self._resume = resume
        self._news = asyncio.Event()
        self._over = False
        self._error: BaseException | None = None

    def __len__(self) -> int:
        return len(self._items)

    @property
    def over(self) -> bool:
        """Whether nothing more will be put in."""
        return self._over

    def put(self, item: T, size: int) -> bool:
        """Take an item, unless the queue is too full; ``window.paused`` says whether to go on."""
        window = self.window
        while (verdict := window.judge(size)) is Verdict.DROP_OLDEST:
            _, old = self._items.popleft()
            window.give(old)
            window.drop(old)
        if verdict is Verdict.DROP_NEWEST:
            window.drop(size)
            return False
        window.take(size)
        self._items.append((item, size))
        self._news.set()
        return True

    def end(self, error: BaseException | None = None) -> None:
        """Nothing more follows what is in the queue; an error is raised behind it."""
        if not self._over:
            self._over = True
            self._error = error
            self._news.set()

    async def get(self) -> T:
        """The next item; ``StopAsyncIteration`` or the error at the end.

        Cancelling it loses nothing.
        """
        while not self._items:
            if self._over:
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        item, size = self._items.popleft()
        if self.window.give(size) and self._resume is not None:
            self._resume()
        return item
