"""When to try again: delays that double up to a cap, each shortened by a random share.

::

    attempt    0     1     2     3     4   ...
    longest   0.25  0.5   1.0   2.0   4.0  ... cap
    delay     longest * (1 - spread * jitter)

The jitter is an argument, so that a test can say what chance says. It keeps the clients of a relay
that was restarted from coming back all at once.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Backoff"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """A schedule of delays, in seconds."""

    first: float = 0.25
    """The longest first delay."""
    factor: float = 2.0
    cap: float = 30.0
    """No delay is longer."""
    spread: float = 0.5
    """The largest share that jitter takes off, 0 to 1."""

    def __post_init__(self) -> None:
        if not (0 < self.first <= self.cap and self.factor >= 1 and 0 <= self.spread <= 1):
            raise ValueError(
                f"{self}: wants 0 < first <= cap, factor >= 1 and a spread from 0 to 1"
            )

    def delay(self, attempt: int, jitter: float) -> float:
        """How long to wait before try number ``attempt`` (from 0); ``jitter`` is from 0 to 1."""
        longest = self.first
        for _ in range(attempt):
            longest *= self.factor
            if longest >= self.cap:
                longest = self.cap
                break
        return longest * (1 - self.spread * jitter)
