"""Packets in flight of the in-memory backend: acknowledged, lost, and a fixed window. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from laps_sdk.quic.memory.packets import Frame

__all__ = ["WINDOW", "Recovery"]

WINDOW: Final = 64 * 1200
"""The congestion window, which never changes."""
_PROBE: Final = 0.2
"""Seconds without an answer after which all that is in flight counts as lost."""


class _Sent(NamedTuple):
    time: float
    frames: tuple[Frame, ...]
    size: int


class Recovery:
    """What was sent and not yet acknowledged."""

    __slots__ = ("_flying", "_last", "_slowest", "in_flight", "lost", "rtt")

    def __init__(self, now: float) -> None:
        self._flying: dict[int, _Sent] = {}
        self._last = now
        self._slowest = 0.0
        self.in_flight = 0
        self.lost = 0
        self.rtt: float | None = None

    @property
    def room(self) -> int:
        """What may be sent before something is acknowledged."""
        return WINDOW - self.in_flight

    @property
    def timer(self) -> float | None:
        """When :meth:`probe` is due."""
        return self._last + _PROBE if self._flying else None

    def sent(self, number: int, frames: tuple[Frame, ...], size: int, now: float) -> None:
        """A packet that wants to be acknowledged went out."""
        self._flying[number] = _Sent(now, frames, size)
        self.in_flight += size
        self._last = now

    def acknowledged(self, numbers: tuple[int, ...], now: float) -> list[Frame]:
        """Packets arrived; gives the frames of those that turn out to be lost."""
        for number in numbers:
            if number in self._flying:
                sent = self._flying.pop(number)
                self.in_flight -= sent.size
                self.rtt = now - sent.time
                self._slowest = max(self._slowest, self.rtt)
                self._last = now
        # Three later ones have arrived, and it had time to: it is lost (RFC 9002, 6.1).
        before, late = max(numbers) - 3, now - self._slowest
        return self._lose([n for n, s in self._flying.items() if n <= before and s.time <= late])

    def probe(self) -> list[Frame]:
        """Nothing was heard for too long: the frames of all that is in flight."""
        return self._lose(list(self._flying))

    def forget(self) -> None:
        """Begin again: nothing was sent."""
        self._flying.clear()
        self.in_flight = 0

    def _lose(self, numbers: list[int]) -> list[Frame]:
        frames: list[Frame] = []
        for number in numbers:
            sent = self._flying.pop(number)
            self.in_flight -= sent.size
            self.lost += 1
            frames += sent.frames
        return frames
