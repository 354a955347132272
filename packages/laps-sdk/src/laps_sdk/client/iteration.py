"""Queues between the callbacks of a link and ``async for``.

::

    Link callbacks --put--> ReceiveQueue --get--> ItemIterator (async with, async for)

An :class:`ItemIterator` starts when it is entered or first iterated, so an unused one requests
nothing from the relay.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from laps_sdk.client.core.subscribe_options import Verdict, Window, WindowLimits

if TYPE_CHECKING:
    from typing import Self

__all__ = ["ItemIterator", "ReceiveQueue"]

T = TypeVar("T")


class ReceiveQueue(Generic[T]):
    """A bounded queue of items of known size, then an end or an error.

    ``resume`` is called when a full queue has room again, ``taken`` after each item that leaves a
    full queue before, ``dropped`` with each item that a full queue drops.
    """

    __slots__ = ("_changed", "_dropped", "_error", "_items", "_over", "_resume", "_taken", "window")

    def __init__(
        self,
        limits: WindowLimits | None = None,
        resume: Callable[[], None] | None = None,
        dropped: Callable[[T], None] | None = None,
        taken: Callable[[], None] | None = None,
    ) -> None:
        self._dropped = dropped
        self._taken = taken
        self.window = Window(limits or WindowLimits())
        self._items: deque[tuple[T, int]] = deque()
        self._resume = resume
        self._changed = asyncio.Event()
        self._over = False
        self._error: BaseException | None = None

    def __len__(self) -> int:
        return len(self._items)

    @property
    def over(self) -> bool:
        """Whether nothing more will be put in."""
        return self._over

    def put(self, item: T, size: int, *, credited: bool = False) -> bool:
        """Add an item; False if the queue is too full.

        ``window.paused`` tells the caller whether to pause its source; ``credited`` is explained
        in :meth:`Window.judge`.
        """
        window = self.window
        while (verdict := window.judge(size, credited=credited)) is Verdict.DROP_OLDEST:
            oldest, old = self._items.popleft()
            window.give(old)
            self.drop(oldest, old)
        if verdict is Verdict.DROP_NEWEST:
            self.drop(item, size)
            return False
        window.take(size)
        self._items.append((item, size))
        self._changed.set()
        return True

    def drop(self, item: T, size: int) -> None:
        """Count an item that is dropped, and report it."""
        self.window.drop(size)
        if self._dropped is not None:
            self._dropped(item)

    def end(self, error: BaseException | None = None) -> None:
        """End the queue after its present items; an error is raised after them."""
        if not self._over:
            self._over = True
            self._error = error
            self._changed.set()

    async def get(self) -> T:
        """Return the next item; raises ``StopAsyncIteration`` or the error at the end.

        A cancelled call loses no item.
        """
        while not self._items:
            if self._over:
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        item, size = self._items.popleft()
        window = self.window
        if window.paused:
            changed = self._resume if window.give(size) else self._taken
            if changed is not None:
                changed()
        else:
            window.give(size)
        return item


class ItemIterator(ABC, Generic[T]):
    """An async iterator and context manager over a receive queue.

    Subclasses define how it starts (:meth:`_begin`) and how it ends (:meth:`_finish`). Both are
    called at most once.
    """

    __slots__ = ("_ended", "_queue", "_started")

    def __init__(self, queue: ReceiveQueue[T]) -> None:
        self._queue = queue
        self._started = False
        self._ended = False

    async def __aenter__(self) -> Self:
        await self._start()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        if not self._started:
            await self._start()
        return await self._queue.get()

    async def _start(self) -> None:
        self._started = True
        try:
            await self._begin()
        except BaseException:
            self._end()
            raise

    async def close(self) -> None:
        """Stop receiving. Items that are queued already can still be read."""
        self._started = True
        self._end()

    def _end(self, error: Exception | None = None) -> None:
        """Finish once: the queue ends after its present items, with ``error`` if there is one."""
        if not self._ended:
            self._ended = True
            self._finish()
            self._queue.end(error)

    @abstractmethod
    async def _begin(self) -> None:
        """Send the request to the relay."""

    @abstractmethod
    def _finish(self) -> None:
        """Withdraw the request."""
