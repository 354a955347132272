"""The timers of the relay itself; each room has its own."""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

from laps_sdk.timers import Timers

__all__ = ["Due", "RelayTimers"]


class Due(Enum):
    """What a timer is for. Its key is (kind, session), with session 0 if it is for all."""

    __hash__ = object.__hash__  # asked after every event; the one of Enum hashes the name

    LOOK = "differences for all peers that are behind"
    FLUSH = "everything for a peer that must be told again"
    REFILL = "what others have, for peers that are new at a Via that keeps nothing"
    RESYNC = "announces and subscribes for a peer, once others have told them again"
    REACH = "whom we reach ourselves"
    PLACE = "where we seem to stand"
    IDLE = "a connection that was dialled on demand and has no use"
    STAY = "our load, when all have moved who heard that we go away"
    APART = "an Edge that had time for its sessions with control servers"


RelayTimers: TypeAlias = "Timers[tuple[Due, int]]"
