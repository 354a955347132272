"""The load of this relay, advertised so that others choose other paths in time (laps-2, 5.1).

::

    share    0 ------------- 70 % -- 80 % ----- 85 % -- 95 % ------ 100 %
    class    NORMAL ................> BUSY ..............> OVERLOADED
             NORMAL <........ BUSY     BUSY <.... OVERLOADED

The share is that of one core (a relay is one thread), or that of the room for what waits to be
sent, whichever is more. A burst of a second is no load: what counts is an average of about ten
seconds. A class is left later than it is entered, and small steps of the value are not sent: each
change goes through the whole network.
"""

from __future__ import annotations

from math import exp
from typing import Final

from laps_wire.peering.laps2 import Load, LoadClass

__all__ = ["INTERVAL", "LoadMeter", "class_of", "smoothed"]

INTERVAL: Final = 1.0
"""Seconds between two samples."""

_MEMORY: Final = 10.0
"""Seconds in which two thirds of a change arrive in the average."""
_STEP: Final = 50
"""Thousandths; smaller changes are not advertised."""
_BUSY: Final = 0.80
_NOT_BUSY: Final = 0.70
_OVERLOADED: Final = 0.95
_NOT_OVERLOADED: Final = 0.85


def class_of(share: float, before: LoadClass) -> LoadClass:
    """Return the class of a load; ``before`` is the former class (hysteresis)."""
    if share > _OVERLOADED or (before is LoadClass.OVERLOADED and share >= _NOT_OVERLOADED):
        return LoadClass.OVERLOADED
    if share > _BUSY or (before is not LoadClass.NORMAL and share >= _NOT_BUSY):
        return LoadClass.BUSY
    return LoadClass.NORMAL


def smoothed(average: float, share: float, seconds: float) -> float:
    """Return the average after so many seconds with this share."""
    return share + (average - share) * exp(-seconds / _MEMORY)


class LoadMeter:
    """Turns samples into a load."""

    __slots__ = ("_at", "_average", "_busy", "_load")

    def __init__(self) -> None:
        self._at: float | None = None
        self._busy = 0.0
        self._average = 0.0
        self._load = Load()

    def is_due(self, now: float) -> bool:
        """Return whether it is time for a sample."""
        return self._at is None or now >= self._at + INTERVAL

    def sample(self, now: float, busy: float, fill: float) -> Load:
        """Take a sample; return the load to advertise now.

        ``busy`` is the CPU time of the process since its start in seconds, ``fill`` how full the
        queues are, 0 to 1. The first sample begins the first interval.
        """
        since, self._at = self._at, now
        spent, self._busy = busy - self._busy, busy
        if since is None or now <= since:
            return self._load
        seconds = now - since
        share = min(1.0, max(0.0, spent / seconds, fill))
        self._average = smoothed(self._average, share, seconds)
        value = round(self._average * 1000)
        load_class = class_of(self._average, self._load.load_class)
        if load_class is not self._load.load_class or abs(value - self._load.value) >= _STEP:
            self._load = Load(load_class, value)
        return self._load
