"""Chunks in, whole messages out: the bytes of one stream, each of them copied a few times at most.

::

    feed ──> pending (grows)          data (fixed)            next ──> a message
             "wait for 37 more" ────> [ read │ unread ]  ────>         or None: more is needed
             joined when that         decoded at ``pos``
             many are there

A decoder that runs out of bytes says how many are missing at least. Until they are there nothing is
decoded again, so a message that comes byte by byte costs as much as one that comes whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from laps_wire.errors import IncompleteError

__all__ = ["Assembler"]

M = TypeVar("M")


class Assembler(Generic[M]):
    """The unread bytes of one stream.

    ``decode(data, pos)`` gives ``(message, next pos)`` or raises ``IncompleteError`` or a
    ``RemoteError``. It gets ``bytes`` that never change, so it may hold on to views of them.
    """

    __slots__ = ("_data", "_decode", "_needed", "_pending", "_pos")

    def __init__(self, decode: Callable[[bytes, int], tuple[M, int]]) -> None:
        self._decode = decode
        self._data = b""
        self._pos = 0
        self._pending = bytearray()
        self._needed = 1

    def __len__(self) -> int:
        """How many bytes wait for the rest of their message."""
        return len(self._data) - self._pos + len(self._pending)

    def feed(self, data: bytes) -> None:
        """More bytes came in."""
        if self._needed == 1 and not self._pending and self._pos == len(self._data):
            # Nothing waits, as almost always: what came is read where it is.
            self._data, self._pos, self._needed = bytes(data), 0, 0
        else:
            self._pending += data

    def next(self) -> M | None:
        """The next whole message; ``None`` if more bytes are needed."""
        while True:
            if self._needed:
                if len(self._pending) < self._needed:
                    return None
                self._data = self._data[self._pos :] + bytes(self._pending)
                self._pos = self._needed = 0
                self._pending.clear()
            data, pos = self._data, self._pos
            if pos == len(data):
                self._needed = 1
                continue
            try:
                message, self._pos = self._decode(data, pos)
            except IncompleteError as error:
                self._needed = error.needed
            else:
                return message

    def clear(self) -> None:
        """Forget everything."""
        self._data, self._pos, self._needed = b"", 0, 1
        self._pending.clear()
