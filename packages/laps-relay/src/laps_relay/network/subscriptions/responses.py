"""Responses to subscribes on their path back, hop by hop (laps-2, 5.3).

::

    s-relay  <----  relay  <----  relay  <----  o-relay
             over the session on which each of them received the subscribe with that stamp

After links have gone, those sessions can form a circle until the subscribe is advertised again. A
response has no hop count, so it would circulate. :class:`ResponseLoopFilter` drops a response that
comes again too soon; the s-relay without a response asks again with a new stamp. Later the same
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
    """Return the session over which a response that came on ``session`` goes on.

    None: drop it, because the subscribe is unknown or has another stamp.
    """
    entry = table.get(response.identity)
    if entry is None or entry.stamp != response.stamp:
        return None
    back = table.heard_on(response.identity)
    return None if back == session else back


MAX_REMEMBERED: Final = 65_536
"""Responses that are remembered; the oldest are forgotten first."""
MAX_REPEATS: Final = 16
"""How often one relay may respond to one subscribe within the hold time."""
SOON: Final = 1.0
"""An equal response within so many seconds circulates."""

_Key: TypeAlias = "tuple[SubscribeIdentity, Stamp, NodeId, int | None]"


class _Seen(NamedTuple):
    at: float
    code: int
    turns: int


class ResponseLoopFilter:
    """Remembers recent responses, to drop those that circulate."""

    __slots__ = ("_hold", "_seen")

    def __init__(self, hold: float) -> None:
        """``hold``: seconds for which a response is remembered."""
        self._hold = hold
        self._seen: dict[_Key, _Seen] = {}

    def accepts(self, now: float, response: SubscribeResponse, epoch: int | None) -> bool:
        """Return whether a response may pass; ``epoch`` is that of the responder, if known."""
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
