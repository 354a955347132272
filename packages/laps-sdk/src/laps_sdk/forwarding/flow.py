"""The streams that take a subgroup as it comes."""

from __future__ import annotations

from collections.abc import Callable

from laps_sdk.forwarding.receiver import Out

__all__ = ["Flow"]


class Flow:
    """The receivers of one draft that take every byte from now on."""

    __slots__ = ("outs", "timed", "writes")

    def __init__(self) -> None:
        self.outs: list[Out] = []
        self.writes: list[Callable[[bytes, bool], None]] = []
        """What is called for each run: nothing else is done for most receivers."""
        self.timed: list[Out] = []
        """Those that have a delivery timeout."""

    def add(self, out: Out) -> None:
        """One more."""
        self.outs.append(out)
        self.writes.append(out.stream.write)
        if out.receiver.timeout is not None:
            self.timed.append(out)

    def remove(self, out: Out) -> None:
        """One less."""
        index = self.outs.index(out)
        del self.outs[index], self.writes[index]
        if out in self.timed:
            self.timed.remove(out)
