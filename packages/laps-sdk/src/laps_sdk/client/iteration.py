"""What an application takes items from: ``async with`` it, ``async for`` over it, or both.

It starts with the first of the two, so that a thing that nobody takes from asks for nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from laps_sdk.client.inbox import Inbox

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

__all__ = ["Taking"]

T = TypeVar("T")


class Taking(Generic[T]):
    """An inbox with a beginning and an end; subclasses say what both mean."""

    __slots__ = ("_inbox", "_started")

    def __init__(self, inbox: Inbox[T]) -> None:
        self._inbox = inbox
        self._started = False

    async def __aenter__(self) -> Self:
        await self._start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        if not self._started:
            await self._start()
        return await self._inbox.get()

    async def _start(self) -> None:
        self._started = True
        try:
            await self._begin()
        except BaseException:
            self._finish()
            raise

    async def close(self) -> None:
        """Nothing more is wanted; what waits in the queue can still be taken."""
        self._started = True
        self._finish()

    async def _begin(self) -> None:
        """Ask for what is to be taken."""
        raise NotImplementedError

    def _finish(self) -> None:
        """Nothing more is wanted."""
        raise NotImplementedError
