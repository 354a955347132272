"""What whoever runs a relay orders: its peers, what it says of itself, policy, plan, its end.

An order is in force when the call returns, for what is there already and for what comes: another
policy ends what it forbids, and lets in what the former one kept out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from laps_relay.network import events
from laps_relay.network.parts import Due
from laps_relay.network.steering.plans import Plan
from laps_relay.network.tables import NetworkTables
from laps_relay.policy.interface import Policy
from laps_sdk.peering.dialler import Contact
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import CloseCode
from laps_wire.peering.laps2 import Load, LoadClass

__all__ = ["NetworkOrders"]

PARTING: Final = 10.0
"""How long a connection that is not configured any more may last, in seconds."""
STAY_WAIT: Final = 2.0
"""So long after a drain was taken back all that it moved has arrived, in seconds."""


class NetworkOrders(NetworkTables):
    """The orders; :class:`~laps_relay.network.relay.NetworkRelay` has everything else."""

    __slots__ = ()

    def set_contacts(
        self, now: float, contacts: Iterable[Contact], *, seconds: float = PARTING
    ) -> None:
        """The relays to be connected with, for ever.

        Connections with others that are used end when all that they carry has found another way,
        and after ``seconds`` at the latest.
        """
        before = self._dialler.poll_unwanted()
        self._dialler.set_contacts(now, contacts)
        for session in self._dialler.poll_unwanted():
            if session not in before:
                self._part(now, session, seconds)
        self._settle(now)

    def set_own_contacts(self, now: float, contacts: tuple[str, ...]) -> None:
        """How others reach us, once that is known."""
        if self._own.set_contacts(contacts):
            self._nib.set_self(now, self._own.info)
            self._settle(now)

    def set_own_label(self, now: float, name: str, value: str) -> None:
        """What else others should know of us; nothing with an empty value."""
        if self._own.set_label(name, value):
            self._nib.set_self(now, self._own.info)
            self._settle(now)

    def set_load(self, now: float, load: Load) -> None:
        """How busy we are; who drains does so to the end."""
        before = self._own.info.node.load.load_class
        if before is not LoadClass.DRAINING and self._own.set_load(load):
            self._nib.set_self(now, self._own.info)
            if load.load_class is not before:
                # An overloaded relay sends one copy towards each region.
                self._steering.look_again()
            self._settle(now)

    def set_policy(self, now: float, policy: Policy) -> None:
        """Another policy is in force from now on; what it forbids ends at once."""
        self._policy = policy
        self._ways.policy = policy
        self._exports.policy = policy
        self._peers.set_policy(now, policy.peer, self.node)
        self._nib.set_policy(now, policy)
        self._steering.set_policy(policy)
        self.announces.reconsider()
        self.subscribes.reconsider()
        self._interests.reconsider(now)
        self._withheld.again = True
        for key in list(self._feeds):
            self._lead(now, key)  # its class may be another one
        self._sets.reroute(now, None, cut=True)
        # What a filter kept out is heard again, and what it keeps out now is not (laps-2, 5.4).
        self._ask(now, lambda _: True)
        self._events.append(events.PolicyChanged())
        self._settle(now)

    def forget_key(self, node: NodeId) -> bool:
        """Let another key have the id of a node that has no session; False: there is nothing."""
        if not self._peers.forget_key(node):
            return False
        self._events.append(events.KeyForgotten(node=node))
        return True

    def set_plan(self, now: float, plan: Plan) -> None:
        """Another plan from now on: a preference, which policy is asked about every time anew."""
        self._steering.set_plan(plan)
        self._settle(now)

    def against_via(self, via: NodeId, region: str, scope: str) -> str | None:
        """What speaks against a Via of a plan now: nobody knows it, or policy; None: nothing does.

        Policy is asked about the way over it to each node of the region that is known, and speaks
        against it if it forbids all of them. If it forbids some, steering leaves those out: a node
        that says it is in a region has no veto on plans.
        """
        info = self._nib.info(via)
        if info is None:
            return "nobody here knows this relay"
        if info.node.load.load_class is LoadClass.DRAINING:
            return "it drains"
        refusals = [
            self._ways.refusal_of(scope, via, node)
            for node in self._nib.nodes()
            if node not in (via, self.node_id)
            and (known := self._nib.info(node)) is not None
            and self._policy.region(known.node) == region
        ]
        if refusals and None not in refusals:
            return next(refusal.reason for refusal in refusals if refusal is not None)
        return None

    def place_of(self, node: NodeId) -> tuple[str, str]:
        """Region and country of a node as policy has them; empty where that is not known."""
        info = self._nib.info(node)
        if info is None:
            return "", ""
        return self._policy.region(info.node), self._policy.country(info.node)

    def drain(
        self, now: float, seconds: float, reason: str = "", alternates: tuple[str, ...] = ()
    ) -> None:
        """Go away: peers move what goes through us, and nothing new comes."""
        self._dialler.stop()
        self._timers.cancel((Due.STAY, 0))
        self.set_load(now, Load(LoadClass.DRAINING, 1000))
        # Before DRAIN: from one who does not go away it is about that connection alone.
        for link in list(self._links.controls()):
            self._flush(now, link.session)
        self._peers.drain(now, seconds, reason, alternates)
        self._settle(now)

    def stay(self, now: float) -> None:
        """Take :meth:`drain` back: sessions live, and new ones are taken at once.

        That we drain is said a moment longer: who is on the move arrives first. A target that turns
        round halfway meets relays that have not heard of both, and that send it back.
        """
        if self._own.info.node.load.load_class is not LoadClass.DRAINING:
            return
        self._dialler.resume()
        self._peers.stay(now)
        if self._timers.when((Due.STAY, 0)) is None:
            self._timers.set((Due.STAY, 0), now + STAY_WAIT)
        self._settle(now)

    def close_all(self, now: float, code: int = CloseCode.NO_ERROR, reason: str = "") -> None:
        """End everything at once."""
        self._dialler.stop()
        self._peers.close_all(now, code, reason)
        self._settle(now)
