"""Answers to subscribes on their way back, hop by hop (laps-2, 5.3), and again after a move (4.6).

::

    s-relay  <----  relay  <----  relay  <----  o-relay
             over the session on which each of them heard the subscribe with that stamp
"""

from __future__ import annotations

from typing import TypeAlias

from laps_relay.network.flood.floods import SubscribeTable
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import SubscribeResponse
from laps_wire.peering.laps2.information import SubscribeIdentity

__all__ = ["MAX_RECENT", "RecentResponses", "way_back"]

MAX_RECENT = 1_024
"""Responses that are remembered for one session."""

_Question: TypeAlias = "tuple[SubscribeIdentity, NodeId]"


def way_back(table: SubscribeTable, session: int, response: SubscribeResponse) -> int | None:
    """The session over which a response that came on ``session`` goes on; None: it is dropped.

    It is dropped if the subscribe is not known, or is known with another stamp.
    """
    entry = table.get(response.identity)
    if entry is None or entry.stamp != response.stamp:
        return None
    back = table.heard_on(response.identity)
    return None if back == session else back


class RecentResponses:
    """What was sent to each session lately: a move of its control stream may have lost it.

    Of what one relay answered to one subscribe the last is kept: who got the others, too, must not
    be told once more what is over.
    """

    __slots__ = ("_hold", "_sent")

    def __init__(self, hold: float) -> None:
        """``hold`` in seconds; 0: without an end."""
        self._hold = hold
        self._sent: dict[int, dict[_Question, tuple[float, SubscribeResponse]]] = {}

    def sent(self, now: float, session: int, response: SubscribeResponse) -> None:
        """A response was sent."""
        sent = self._sent.setdefault(session, {})
        question = response.identity, response.responder
        sent.pop(question, None)
        sent[question] = now, response
        self._trim(now, sent)

    def again(self, now: float, session: int) -> list[SubscribeResponse]:
        """Those of the last hold time, in the order in which they were sent."""
        sent = self._sent.get(session)
        if sent is None:
            return []
        self._trim(now, sent)
        return [response for _, response in sent.values()]

    def forget(self, session: int) -> None:
        """The session has ended."""
        self._sent.pop(session, None)

    def _trim(self, now: float, sent: dict[_Question, tuple[float, SubscribeResponse]]) -> None:
        while sent:
            first = next(iter(sent))
            old = self._hold and sent[first][0] < now - self._hold
            if not old and len(sent) <= MAX_RECENT:
                break
            del sent[first]
