"""A bounded memory of what is over, so that late words about it are understood."""

from __future__ import annotations

from typing import Generic, TypeVar

__all__ = ["Recent"]

V = TypeVar("V")


class Recent(Generic[V]):
    """A dictionary that forgets its oldest entry when it is full."""

    __slots__ = ("_entries", "_limit")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: dict[int, V] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: int) -> V | None:
        """What was put under ``key``, if it is remembered."""
        return self._entries.get(key)

    def put(self, key: int, value: V) -> None:
        """Remember ``value``."""
        self._entries.pop(key, None)
        self._entries[key] = value
        if len(self._entries) > self._limit:
            del self._entries[next(iter(self._entries))]
