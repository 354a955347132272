"""Subscribes that our export rules keep from everybody who could serve them (laps-2, 5.3).

::

    a subscribe --> peers that lead to somebody who announced it, or that hold it for others
                      |
                      all of them may not hear of it --> POLICY to whoever gave it to us, or to our
                      |                                  own clients; once for each stamp
                      one may, or there is none      --> nothing: it is answered elsewhere

Without this its subscriber would wait until it is told that nobody is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from laps_relay.policy.interface import Policy
from laps_sdk.peering.events import Refusal
from laps_wire.peering.laps2 import NodeSelf, Stamp, SubscribeInfo
from laps_wire.peering.laps2.information import SubscribeIdentity

__all__ = ["Withheld"]


class Withheld:
    """What was said of which subscribe."""

    __slots__ = ("_filters", "_peers", "_said", "again")

    def __init__(self, peers: Callable[[SubscribeInfo], Iterable[tuple[NodeSelf, bool]]]) -> None:
        """``peers`` gives all that hear of a subscribe if policy lets them, and who leads on."""
        self._peers = peers
        self._filters = False
        """Whether policy keeps anything from anybody, as far as was seen."""
        self._said: dict[SubscribeIdentity, Stamp] = {}
        self.again = False
        """Whether everything must be judged again: policy, or whom we could tell, has changed."""

    def __len__(self) -> int:
        return len(self._said)

    def moved(self) -> None:
        """Ways are gone: fewer peers may lead to those who could serve a subscribe."""
        self.again |= self._filters

    def judge(self, policy: Policy, entry: SubscribeInfo) -> Refusal | None:
        """Why nobody who could serve a subscribe hears of it, if that was not said yet."""
        found: Refusal | None = None
        heard = False
        for peer, leads in self._peers(entry):
            refusal = policy.export_subscribe(entry, peer)
            self._filters |= refusal is not None
            if leads and refusal is None:
                heard = True
            elif leads:
                found = found or refusal
        identity = entry.source, entry.full_name_hash
        if found is None or heard:
            self._said.pop(identity, None)
            return None
        if self._said.get(identity) == entry.stamp:
            return None
        self._said[identity] = entry.stamp
        return found

    def forget(self, identity: SubscribeIdentity) -> None:
        """A subscribe is gone."""
        self._said.pop(identity, None)
