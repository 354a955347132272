"""Sending information to a peer: batches that fit its messages, and responses sent again.

Both the network's tables and a Stub's link use these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from laps_wire.errors import EncodeError
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import SubscribeResponse
from laps_wire.peering.laps2.information import SubscribeIdentity

__all__ = ["MAX_RECENT", "ResponseReplay", "send_split"]

MAX_RECENT: Final = 1_024
"""Responses that are remembered for one session."""

_Question: TypeAlias = "tuple[SubscribeIdentity, NodeId]"


def send_split(
    send: Callable[[Any], object],
    make: Callable[[tuple[Any, ...]], Any],
    entries: Sequence[Any],
    most: int,
) -> int:
    """Send entries in as few messages as they fit; how many entries fit in none of them."""
    lost = 0
    todo = [tuple(entries[at : at + most]) for at in range(0, len(entries), most)]
    todo.reverse()
    while todo:
        part = todo.pop()
        try:
            send(make(part))
        except EncodeError:
            if len(part) == 1:
                lost += 1
            else:
                half = len(part) // 2
                todo += (part[half:], part[:half])
    return lost


class ResponseReplay:
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
