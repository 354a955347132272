"""A track that others get from us: who, whether a way leads there, and what they were told.

::

    a way leads there, and the publisher has accepted   --> ACCEPTED
    policy forbids every way                            --> POLICY, at once; if the relay can be
                                                            dialled, it has a moment for that
    there is no way now                                 --> UNREACHABLE, after a grace
    there is one again, and it lasts                    --> ACCEPTED

Who gets nothing stays in the list: ways are looked for, and when there is one the data goes there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import Stamp, SubscribeCode, SubscribeData, SubscribeInfo

__all__ = ["DeliveryFailure", "OriginTrack", "PendingResponse"]

_STABLE: Final = 1.0
"""How long a way must last before it is told to who was told that there is none, in seconds.

A relay on the way may refuse it, and be tried again now and then."""


class DeliveryFailure(NamedTuple):
    """Why data does not get to somebody who may have it."""

    code: SubscribeCode
    reason: str
    patience: float = 0.0
    """How long a way may take to come before this is said, in seconds."""


class PendingResponse(NamedTuple):
    """What somebody is to be told."""

    code: SubscribeCode
    reason: str = ""


class OriginTrack:
    """A track that somebody in the network gets from us."""

    __slots__ = ("_failures", "_sent", "_since", "answer", "name", "subscribers", "targets")

    def __init__(self, name: FullTrackName) -> None:
        self.name = name
        self.answer: SubscribeData | None = None
        """The publisher's own answer; None until it has accepted."""
        self.subscribers: dict[NodeId, SubscribeInfo] = {}
        """s-relays."""
        self.targets: frozenset[NodeId] = frozenset()
        self._failures: dict[NodeId, DeliveryFailure] = {}
        self._since: dict[NodeId, float] = {}
        """When a taker last got a way, or lost it; not there: nobody has looked yet."""
        self._sent: dict[NodeId, tuple[Stamp, SubscribeCode]] = {}

    def remove(self, source: NodeId) -> bool:
        """Somebody does not take it any more; whether it did."""
        if self.subscribers.pop(source, None) is None:
            return False
        for each in (self._failures, self._since, self._sent):
            each.pop(source, None)
        return True

    def was_accepted(self, source: NodeId) -> bool:
        """Whether the last that somebody was told is that it gets the track."""
        sent = self._sent.get(source)
        return sent is not None and sent[1] is SubscribeCode.ACCEPTED

    def routed(
        self, now: float, targets: Iterable[NodeId], failures: Mapping[NodeId, DeliveryFailure]
    ) -> None:
        """Ways were looked for: these are all that should get data, and those do not."""
        for source in targets:
            if source not in self.subscribers:
                continue
            failure = failures.get(source)
            if source not in self._since or (failure is None) != (source not in self._failures):
                self._since[source] = now
            if failure is None:
                self._failures.pop(source, None)
            else:
                self._failures[source] = failure

    def next_response(self, now: float, source: NodeId) -> PendingResponse | float | None:
        """What a taker is to be told now, once; or when to ask again; or nothing."""
        since, failure = self._since.get(source), self._failures.get(source)
        if since is None or (failure is None and self.answer is None):
            return None
        stamp, code = self.subscribers[source].stamp, SubscribeCode.ACCEPTED
        sent = self._sent.get(source)
        if failure is None:
            response = PendingResponse(code)
            due = since if sent is None or sent[1] is code else since + _STABLE
        else:
            response = PendingResponse(failure.code, failure.reason)
            due = since + failure.patience
        if sent == (stamp, response.code):
            return None
        if now < due:
            return due
        self._sent[source] = stamp, response.code
        return response
