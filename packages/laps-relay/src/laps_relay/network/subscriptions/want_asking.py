"""What an s-relay asks the network for: its subscribe for one wanted track, and who could serve it.

A subscribe that nobody answers is asked again with a new stamp, each time after twice the patience.
Whatever else makes us ask again (clients come back, or want something else of the track) begins
with the first patience, and waits for a pause: clients cannot make the network busy by asking.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from laps_relay.network.flood.floods import SubscribeTable
from laps_relay.network.settings import NetworkSettings
from laps_relay.network.subscriptions.discovery import Discovery
from laps_relay.network.subscriptions.want_records import PAUSE, Due, Want, WantTimers
from laps_relay.policy.facts import scope_of
from laps_sdk.peering.settings import Identity
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import Stamp, SubscribeCode, SubscribeInfo, SubscribeWithdrawal

__all__ = ["Asking"]

_ASKING: Final = (
    Due.LINGER,
    Due.RETRY,
    Due.VERDICT,
    Due.REFRESH,
    Due.DOUBT,
    Due.BACK,
)
"""What waits only as long as a track is advertised."""


class Asking:
    """Our own subscribes, one for a track."""

    __slots__ = (
        "_discovery",
        "_identity",
        "_replicas",
        "_scope",
        "_settings",
        "_stamp",
        "_subscribes",
        "_timers",
    )

    def __init__(
        self,
        identity: Identity,
        settings: NetworkSettings,
        discovery: Discovery,
        timers: WantTimers,
        *,
        subscribes: SubscribeTable,
        stamp: Callable[[], Stamp],
        replicas: Callable[[int], tuple[NodeId, ...]],
    ) -> None:
        self._identity = identity
        self._settings = settings
        self._discovery = discovery
        self._timers = timers
        self._subscribes = subscribes
        self._stamp = stamp
        self._replicas = replicas
        self._scope = scope_of(identity.region)

    # The subscribe

    def anew(self, now: float, want: Want) -> None:
        """Ask, and be as patient as at first."""
        want.patience = self._settings.origin_grace
        self.again(now, want)

    def again(self, now: float, want: Want) -> None:
        """Ask with a new stamp: what was answered to the last one counts no more."""
        want.refusals.clear()
        want.renewed.clear()
        want.asked = now
        want.entry = SubscribeInfo(
            self._identity.node_id,
            self._stamp(),
            want.elements,
            want.name_hash,
            want.key,
            self._scope,
            want.data,
        )
        self._timers.set((Due.RETRY, want.key, None), now + want.patience)
        want.patience *= 2
        self._subscribes.originate(now, want.entry)

    def soon(self, now: float, want: Want) -> None:
        """Ask anew, but not all the time."""
        if now < want.asked + PAUSE:
            want.patience = self._settings.origin_grace
            self._timers.set((Due.RETRY, want.key, None), want.asked + PAUSE)
        else:
            self.anew(now, want)

    def refresh(self, now: float, want: Want) -> None:
        """Clients want something else of the track: say so, at most once in a batching time."""
        if want.entry is None or want.entry.data == want.data:
            return
        if now < want.asked + self._settings.batch:
            self._timers.set((Due.REFRESH, want.key, None), want.asked + self._settings.batch)
        else:
            self.anew(now, want)

    def withdraw(self, now: float, want: Want) -> None:
        """Ask no more."""
        want.entry = None
        for due in _ASKING:
            self._timers.cancel((due, want.key, None))
        withdrawal = SubscribeWithdrawal(self._identity.node_id, self._stamp(), want.key)
        self._subscribes.retract(now, withdrawal)

    # Who could serve it

    def hopeless(self, want: Want) -> bool:
        """Whether everybody who could serve it is known, and there is nobody."""
        return not self._replicas(want.key) and not self._announcers(want)

    def asks(self, want: Want, node: NodeId) -> bool:
        """Whether a node is one of those that could serve it, or that know who does."""
        return node in (*self._announcers(want), *self._replicas(want.key))

    def outstanding(self, want: Want) -> bool:
        """Whether somebody who has not answered yet could still say yes."""
        asked: tuple[NodeId, ...] | list[NodeId] = self._announcers(want)
        if all(no.code is SubscribeCode.NO_PUBLISHER for no in want.refusals.values()):
            # Control servers say only that: whoever they pass it to answers by itself.
            asked = self._replicas(want.key) or asked
        return any(node not in want.refusals for node in asked)

    def _announcers(self, want: Want) -> list[NodeId]:
        return self._discovery.announcers(want.elements, want.name_hash)
