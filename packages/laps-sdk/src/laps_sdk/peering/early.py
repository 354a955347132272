"""Data that comes before the handshake is over: streams of a connection overtake each other.

The side that sends the last message of the handshake may send data right behind it. What arrives
first waits here, up to a limit; streams that do not fit are stopped as a whole, because the rest of
a stream without its header means nothing.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["EARLY_BYTES", "Chunk", "EarlyData"]

EARLY_BYTES: Final = 65_536
"""For one connection: whoever is there has proved nothing yet."""
_CHUNK_COST: Final = 256
"""What a chunk counts besides its bytes: empty ones need memory, too."""


class Chunk(NamedTuple):
    """A piece of a stream."""

    stream_id: int
    data: bytes
    fin: bool


class EarlyData:
    """What waits on one connection."""

    __slots__ = ("_chunks", "_refused", "_size")

    def __init__(self) -> None:
        self._chunks: list[Chunk] = []
        self._refused: set[int] = set()
        self._size = 0

    def add(self, chunk: Chunk) -> bool:
        """Keep a piece; False if its stream must be stopped, which is said once."""
        if chunk.stream_id in self._refused:
            return True
        self._size += len(chunk.data) + _CHUNK_COST
        if self._size <= EARLY_BYTES:
            self._chunks.append(chunk)
            return True
        self._refused.add(chunk.stream_id)
        self.forget(chunk.stream_id)
        return False

    def forget(self, stream_id: int) -> None:
        """A stream was abandoned."""
        self._chunks = [each for each in self._chunks if each.stream_id != stream_id]

    def refused(self, stream_id: int) -> bool:
        """Whether a stream was stopped: what still comes of it is nothing."""
        return stream_id in self._refused

    def take(self) -> list[Chunk]:
        """All pieces, in order; the handshake is over."""
        taken, self._chunks = self._chunks, []
        return taken
