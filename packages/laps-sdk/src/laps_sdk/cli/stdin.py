"""Reads standard input in an event loop: pipes, files and terminals.

A thread reads, because files and some devices cannot be polled. It is a daemon thread, so that a
command can exit while the thread waits for input.

::

    os.read ---> thread ---> loop ---> lines() or chunks() ---> objects
            one piece at a time; the next is read when this one is consumed
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import AsyncIterable, AsyncIterator
from typing import BinaryIO, Final

__all__ = ["Stdin", "chunks", "lines"]

PIECE: Final = 65536


class Stdin:
    """Iterates over the bytes of standard input."""

    def __init__(self) -> None:
        buffer = sys.stdin.buffer
        # The raw file: a thread that waits in a buffered file holds its lock, and the interpreter
        # could not exit.
        self._source: BinaryIO = getattr(buffer, "raw", buffer)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield pieces until the end."""
        while piece := await self._piece():
            yield piece

    async def _piece(self) -> bytes:
        loop = asyncio.get_running_loop()
        result: asyncio.Future[bytes] = loop.create_future()

        def settle(piece: bytes, error: OSError | None) -> None:
            if result.cancelled():
                return
            if error is None:
                result.set_result(piece)
            else:
                result.set_exception(error)

        def read() -> None:
            piece, error = b"", None
            try:
                piece = self._source.read(PIECE) or b""
            except OSError as fault:
                error = fault
            with contextlib.suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(settle, piece, error)

        threading.Thread(target=read, name="laps stdin", daemon=True).start()
        return await result


async def lines(source: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Yield lines without their line ends, and the rest after the last one."""
    rest: list[bytes] = []
    async for piece in source:
        first, *others = piece.split(b"\n")
        rest.append(first)
        for other in others:
            yield b"".join(rest).removesuffix(b"\r")
            rest = [other]
    last = b"".join(rest)
    if last:
        yield last


async def chunks(source: AsyncIterable[bytes], size: int) -> AsyncIterator[bytes]:
    """Yield pieces of ``size`` bytes; the last one may be shorter."""
    held = bytearray()
    async for piece in source:
        held += piece
        whole = len(held) - len(held) % size
        for at in range(0, whole, size):
            yield bytes(held[at : at + size])
        del held[:whole]
    if held:
        yield bytes(held)
