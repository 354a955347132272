"""Answers to subscribes on their way back, hop by hop (laps-2, 5.3).

::

    s-relay  <----  relay  <----  relay  <----  o-relay
             over the session on which each of them heard the subscribe with that stamp

After links have gone, those sessions can lead in a circle until the subscribe is advertised anew.
A response has no hop count, so it would circulate. :class:`ResponseLoopFilter` drops a response
that comes again too soon; the s-relay without an answer asks again with a new stamp. Later the same
response may be a new one: its relay had lost the subscribe for a while, or has restarted.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from laps_relay.network.flood.floods import SubscribeTable
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import Stamp, SubscribeResponse
from laps_wire.peering.laps2.information import SubscribeIdentity

__all__ = [
    "MAX_REMEMBERED",
    "MAX_REPEATS",
    "SOON",
    "ResponseLoopFilter",
    "return_session",
]


def return_session(table: SubscribeTable, session: int, response: SubscribeResponse) -> int | None:
    """The session over which a response that came on ``session`` goes on; None: it is dropped.

    It is dropped if the subscribe is not known, or is known with another stamp.
    """
    entry = table.get(response.identity)
    if entry is None or entry.stamp != response.stamp:
        return None
    back = table.heard_on(response.identity)
    return None if back == session else back


MAX_REMEMBERED: Final = 65_536
"""Answers that are remembered; the oldest are forgotten first."""
MAX_REPEATS: Final = 16
"""How often one relay may answer one subscribe within the time."""
SOON: Final = 1.0
"""An answer that says the same within so many seconds goes round."""

_Key: TypeAlias = "tuple[SubscribeIdentity, Stamp, NodeId, int | None]"


class _Seen(NamedTuple):
    at: float
    code: int
    turns: int


class ResponseLoopFilter:
    """What passed lately."""

    __slots__ = ("_hold", "_seen")

    def __init__(self, hold: float) -> None:
        """``hold``: how long an answer is remembered, in seconds."""
        self._hold = hold
        self._seen: dict[_Key, _Seen] = {}

    def accepts(self, now: float, response: SubscribeResponse, epoch: int | None) -> bool:
        """Whether an answer may pass; ``epoch`` is that of who gave it, as far as we know."""
        key = response.identity, response.stamp, response.responder, epoch
        known = self._seen.get(key)
        turns = 1
        if known is not None and now < known.at + self._hold:
            repeated = known.code == response.code and now < known.at + SOON
            if repeated or known.turns >= MAX_REPEATS:
                return False
            turns = known.turns + 1
        self._seen.pop(key, None)
        self._seen[key] = _Seen(now, response.code, turns)
        self._trim(now)
        return True

    def _trim(self, now: float) -> None:
        while self._seen:
            oldest = next(iter(self._seen))
            if len(self._seen) <= MAX_REMEMBERED and now < self._seen[oldest].at + self._hold:
                break
            del self._seen[oldest]

    def __len__(self) -> int:
        return len(self._seen)
