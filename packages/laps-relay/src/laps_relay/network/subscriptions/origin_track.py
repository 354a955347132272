"""A track of a local publisher: its subscribers, whether each has a path, and the response to each.

::

    there is a path, and the publisher has accepted     --> ACCEPTED
    policy forbids every path                           --> POLICY, at once; later if the relay can
                                                            be dialled
    there is no path now                                --> UNREACHABLE, after a grace
    there is a path again, and it is stable             --> ACCEPTED

A subscriber without data stays in the list: steering looks for paths, and data goes there once
there is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import Stamp, SubscribeCode, SubscribeData, SubscribeInfo

__all__ = ["DeliveryFailure", "OriginTrack", "PendingResponse"]

_STABLE: Final = 1.0
"""Seconds that a path must last before a subscriber that was refused gets ACCEPTED.

A relay on the path may refuse it, and be tried again at intervals."""


class DeliveryFailure(NamedTuple):
    """Why an allowed subscriber gets no data."""

    code: SubscribeCode
    reason: str
    patience: float = 0.0
    """Seconds that a path may take to appear before the failure is reported."""


class PendingResponse(NamedTuple):
    """A response that is due to a subscriber."""

    code: SubscribeCode
    reason: str = ""


class OriginTrack:
    """A track of a local publisher that other relays subscribe to."""

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
        """When a subscriber last got or lost its path; absent: not routed yet."""
        self._sent: dict[NodeId, tuple[Stamp, SubscribeCode]] = {}

    def remove(self, source: NodeId) -> bool:
        """Remove a subscriber; return whether it was one."""
        if self.subscribers.pop(source, None) is None:
            return False
        for each in (self._failures, self._since, self._sent):
            each.pop(source, None)
        return True

    def was_accepted(self, source: NodeId) -> bool:
        """Return whether the last response to a subscriber was ACCEPTED."""
        sent = self._sent.get(source)
        return sent is not None and sent[1] is SubscribeCode.ACCEPTED

    def routed(
        self, now: float, targets: Iterable[NodeId], failures: Mapping[NodeId, DeliveryFailure]
    ) -> None:
        """Record the outcome of routing: all targets, and those without data."""
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
        """Return the response that is due to a subscriber now, each one once.

        A number is the time at which to ask again. None: no response is due.
        """
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
