"""Responses of an o-relay, and the session for each of them.

A response goes over the session on which its subscribe was received. When that session has just
ended, another one will bring the subscribe again, or the subscribe is removed soon. Until then the
response is kept.

Relays on the path drop a response to a subscribe that they do not know at that moment, and report
nothing. A subscriber without a response asks again. A subscriber that was accepted does not, so a
response that revokes an acceptance for policy is sent a second time, after all changes have
converged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from laps_relay.network.flood.floods import SubscribeTable
from laps_sdk.timers import Timers
from laps_sdk.upstream.bodies import bounded, bounded_reason, name_in
from laps_wire.hashing import KeyedHasher
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    NO_PARAMETERS,
    ParameterId,
    SubscribeCode,
    SubscribeData,
    SubscribeInfo,
    SubscribeResponse,
)
from laps_wire.peering.laps2.information import NO_DATA, SubscribeIdentity

__all__ = ["ResponseSender"]

_AGAIN: Final = 0.25
"""Seconds between two tries to send a response that has no session."""


class ResponseSender:
    """Sends responses to subscribes; ``len`` is how many wait to be sent, or sent again."""

    __slots__ = ("_hasher", "_local", "_repeat", "_respond", "_subscribes", "_timers", "_unsent")

    def __init__(
        self,
        local: NodeId,
        hasher: KeyedHasher,
        repeat: float,
        *,
        subscribes: SubscribeTable,
        respond: Callable[[float, int, SubscribeResponse], None],
    ) -> None:
        """``repeat``: seconds until a response that must not be lost is sent a second time.

        ``respond`` sends a response over a session: (now, session, response).
        """
        self._local = local
        self._hasher = hasher
        self._repeat = repeat
        self._subscribes = subscribes
        self._respond = respond
        self._unsent: dict[SubscribeIdentity, SubscribeResponse] = {}
        self._timers: Timers[SubscribeIdentity] = Timers()

    def __len__(self) -> int:
        return len(self._unsent)

    def send(
        self,
        now: float,
        entry: SubscribeInfo,
        code: SubscribeCode,
        reason: str,
        data: SubscribeData = NO_DATA,
        *,
        repeat: bool = False,
    ) -> None:
        """Respond to a subscribe; an acceptance carries a digest of the full name.

        With ``repeat`` the response is sent again later, unless another one was sent until then.
        """
        parameters = NO_PARAMETERS
        name = name_in(entry.data)
        if code is SubscribeCode.ACCEPTED and name is not None:
            digest = self._hasher.end_check(name.namespace.fields, name.name)
            parameters = parameters.with_bytes(ParameterId.FULL_NAME_DIGEST, digest)
        response = SubscribeResponse(
            entry.source,
            entry.full_name_hash,
            entry.stamp,
            self._local,
            code,
            bounded_reason(reason),
            0,
            bounded(data),
            parameters,
        )
        self._send(now, response)
        if repeat and response.identity not in self._unsent:
            self._unsent[response.identity] = response
            self._timers.set(response.identity, now + self._repeat)

    def _send(self, now: float, response: SubscribeResponse) -> None:
        """Send a response, or keep it if no session has its subscribe at the moment."""
        identity = response.identity
        self._unsent.pop(identity, None)
        self._timers.cancel(identity)
        session = self._subscribes.heard_on(identity)
        if session is not None:
            self._respond(now, session, response)
        elif self._subscribes.get(identity) is not None:
            self._unsent[identity] = response
            self._timers.set(identity, now + _AGAIN)

    @property
    def clocks(self) -> tuple[Timers[Any], ...]:
        """The timers, for one common deadline."""
        return (self._timers,)

    def poll_timeout(self) -> float | None:
        """Return when :meth:`handle_timeout` must be called; None: never."""
        return self._timers.next()

    def handle_timeout(self, now: float) -> None:
        """Send what had no session, and repeat what must arrive."""
        due: list[SubscribeResponse] = []
        while (identity := self._timers.pop(now)) is not None:
            due.append(self._unsent.pop(identity))
        for response in due:
            entry = self._subscribes.get(response.identity)
            if entry is not None and entry.stamp == response.stamp:
                self._send(now, response)
