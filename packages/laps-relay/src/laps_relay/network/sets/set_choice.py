"""Which session each target of an ingress gets, or why it gets none.

A target of a peer's set that is left without a way keeps its place, and the sender is told: it has
another way already, or finds one, and replaces the set. What it sent before is not lost then, also
if that waits for long before a narrow link.

**Only the o-relay looks for another way.** When a node is lost, relays hear of it one after the
other, and what they know of longer ways may be as dead as the way that they had. If each of them
tried those, sets would chase a node that is gone: they are faster than node information, and each
relay would begin anew with every set that it has got by then. So a relay in between gives a target
of a peer's set one way, and then::

    the way is lost, or refused      the sender is told, at once; so it goes back to the o-relay
    it is lost, and all others are   the same, unless it is back within ``_BATCHES``
    forbidden, or there is none
    another is better and no longer  the target moves there, make before break
    another is better and longer     if a relay drains on the way that it has: the target moves
                                     there, too. Otherwise if that way has held for ``_PATIENCE``
                                     more: perhaps nobody has told us yet what is lost

Each set leads to no more than one place while a node is lost, so one try of the o-relay is one
chain of sets. It tries again when it is refused, or told something new of the node.

Steering names the next hop, and sessions lead there. A peer that has refused a target is avoided
for it, as long as steering would still send it there: when the best way goes elsewhere its route
has changed, and the refusal is forgotten. A refusal may also have been a matter of timing: the peer
had withdrawn the target, and has it again, and both messages crossed ours. So it is tried again
after a while, and each time later. An exception is policy: what works elsewhere is not given up for
something that will be refused again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from laps_relay.network.sets.set_records import Block, IngressRecord, Unserved
from laps_relay.network.sets.set_routing import SetRouting
from laps_relay.network.settings import NetworkSettings
from laps_sdk.peering.events import Refusal
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import SnsRefusal
from laps_wire.peering.laps2.limits import MAX_HOPS

__all__ = ["Choice", "Chooser"]

_BATCHES: Final = 2
"""How many batching times a lost route may take to come back before its loss is told upstream.

Node information is batched, refusals are not. Within this time either there is another way, or the
withdrawal of the node is under way to the sender, and says the same."""
_MAX_DOUBLINGS: Final = 16
_LOST: Final = frozenset({SnsRefusal.NOT_ADVERTISED, SnsRefusal.TOO_MANY_HOPS})
"""Refusals that say that a way is not there."""
_PATIENCE: Final = 10
"""How many batching times a way must hold on before a longer one takes its place.

A refusal comes back from where the way is lost in less: it is not batched."""


class Choice(NamedTuple):
    """For some targets of an ingress: a session, or the reason for none."""

    homes: dict[NodeId, int]
    """Also of targets that keep a place although they have no way."""
    hops: dict[int, NodeId]
    """The next hop for which each of the sessions was chosen."""
    unserved: dict[NodeId, Unserved]


class Chooser:
    """Chooses sessions, and keeps the refusals of peers."""

    __slots__ = ("_routing", "_settings")

    def __init__(self, routing: SetRouting, settings: NetworkSettings) -> None:
        self._routing = routing
        self._settings = settings

    def choose(self, now: float, record: IngressRecord, targets: Iterable[NodeId]) -> Choice:
        """Find a session for each of these targets; they are in ascending order."""
        choice = Choice({}, {}, {})
        asked: list[NodeId] = []
        for target in targets:
            if record.hops > MAX_HOPS:
                choice.unserved[target] = Unserved(
                    SnsRefusal.TOO_MANY_HOPS, f"{record.hops - 1} sets lead here", now
                )
            elif not record.is_feed and not self._routing.may_serve(record.ingress.session, target):
                self._keep(record, target, choice)
                choice.unserved[target] = Unserved(
                    SnsRefusal.NOT_ADVERTISED, "not advertised to this peer", now
                )
            else:
                asked.append(target)
        if asked:
            self._steer(now, record, asked, choice)
        return choice

    def block(
        self, now: float, record: IngressRecord, target: NodeId, peer: NodeId, code: int
    ) -> None:
        """A peer does not serve a target: avoid it for a while."""
        blocks = record.blocks.setdefault(target, {})
        known = blocks.get(peer)
        tries = 1 if known is None else known.tries + 1
        wait = self._settings.convergence
        if code == SnsRefusal.NOT_ADVERTISED:
            doublings = min(tries + 1, _MAX_DOUBLINGS)
            wait = min(wait, self._settings.batch * 2**doublings)
        length = self._length(record, peer, target)
        blocks[peer] = Block(code, tries, now + wait, True, length)

    def unblock(self, record: IngressRecord, target: NodeId) -> None:
        """The ways to a target may be others now: who had lost it may have found one."""
        blocks = record.blocks.get(target, {})
        for peer in list(blocks):
            block = blocks[peer]
            if block.code in _LOST and block.length != self._length(record, peer, target):
                blocks[peer] = block._replace(active=False)

    def relays(self, target: NodeId, session: int) -> tuple[NodeId, ...]:
        """Who is on the way to a target by a session; nobody: the peer tells none."""
        return self._routing.relays(self._routing.node_of(session), target)

    def may_stay(self, scope: str, relays: tuple[NodeId, ...]) -> bool:
        """Whether streams may go on along a way that perhaps nobody tells any more."""
        return bool(relays) and self._routing.permits(scope, relays)

    def expire(self, now: float, record: IngressRecord) -> list[NodeId]:
        """Let be tried what has waited long enough: peers that refused, ways that are longer.

        Gives the targets to look at, which may be there twice.
        """
        again = [target for target in sorted(record.waits) if record.waits[target] <= now]
        for target in again:
            del record.waits[target]
            del record.taken[target]
        for target in sorted(record.blocks):
            blocks = record.blocks[target]
            for peer, block in blocks.items():
                if not block.active or block.until > now:
                    continue
                if block.code == SnsRefusal.POLICY and target in record.home:
                    blocks[peer] = block._replace(until=now + self._settings.convergence)
                else:
                    blocks[peer] = block._replace(active=False)
                    again.append(target)
        return again

    def _steer(
        self, now: float, record: IngressRecord, targets: list[NodeId], choice: Choice
    ) -> None:
        assignment = self._routing.assign(
            now, record.key, frozenset(targets), record.scope, arrived_on=record.arrived_on
        )
        for target in targets:
            hop: NodeId | Refusal | None = assignment.next_hop.get(target)
            if hop is None:
                hop = assignment.unreachable.get(target, Refusal("", f"no way to {target}"))
            avoid = record.avoided(target)
            if isinstance(hop, NodeId) and not record.is_feed:
                hop = self.steady(now, record, target, hop)
                if isinstance(hop, Refusal):
                    self._keep(record, target, choice)
                    choice.unserved[target] = Unserved(SnsRefusal.NOT_ADVERTISED, hop.reason, now)
                    continue
            if hop in avoid:
                hop = self._detour(record, target, avoid)
            elif hop not in record.blocks.get(target, ()):
                # The best way is not through a peer that refused: the route has changed.
                record.blocks.pop(target, None)
            self._place(now, record, target, hop, choice)

    def steady(
        self, now: float, record: IngressRecord, target: NodeId, hop: NodeId
    ) -> NodeId | Refusal:
        """What a relay in between does if a next hop is best: go there, stay, or give up."""
        taken = record.taken.get(target)
        if taken is None:
            return hop
        wait = record.waits.pop(target, None)
        block = record.blocks.get(target, {}).get(taken.peer)
        if block is not None and block.active and block.code in _LOST:
            return Refusal("", f"refused by {taken.peer}")
        if hop == taken.peer:
            return hop
        if target not in record.home or self._length(record, taken.peer, target) is None:
            return Refusal("", f"the way to {target} through {taken.peer} is lost")
        length = self._length(record, hop, target)
        if length is None or length <= taken.length or self._drains(record, taken.peer, target):
            return hop
        record.waits[target] = now + _PATIENCE * self._settings.batch if wait is None else wait
        return taken.peer

    def _detour(
        self, record: IngressRecord, target: NodeId, avoid: frozenset[NodeId]
    ) -> NodeId | Refusal:
        """Another way, if there is one; the refusal of a peer says more than having none."""
        hop = self._routing.detour(target, record.scope, arrived_on=record.arrived_on, avoid=avoid)
        if isinstance(hop, NodeId) and hop not in avoid:
            return hop
        codes = {block.code for block in record.blocks[target].values() if block.active}
        rule = "peer" if SnsRefusal.POLICY in codes else ""
        return Refusal(rule, f"refused by {', '.join(str(peer) for peer in sorted(avoid))}")

    def _place(
        self,
        now: float,
        record: IngressRecord,
        target: NodeId,
        hop: NodeId | Refusal,
        choice: Choice,
    ) -> None:
        later = now + _BATCHES * self._settings.batch
        if isinstance(hop, Refusal):
            if hop.rule:
                due = later if self._may_return(record, target) else now
                choice.unserved[target] = Unserved(SnsRefusal.POLICY, hop.reason, due)
                return
            reason = hop.reason
        elif hop == record.arrived_on:
            # Steering does not do this; but a loop would be too expensive to trust in it.
            reason = f"the way leads back to {hop}"
        elif (session := self._session_to(hop, record)) is None:
            reason = f"no session for data to {hop}"
        else:
            choice.homes[target] = session
            choice.hops[session] = hop
            if not record.is_feed:
                record.took(target, hop, self._length(record, hop, target))
            return
        self._keep(record, target, choice)
        choice.unserved[target] = Unserved(SnsRefusal.NOT_ADVERTISED, reason, later)

    def _may_return(self, record: IngressRecord, target: NodeId) -> bool:
        """Whether a target that has only forbidden ways now had one that may be back at once.

        Neither policy nor the peer on that way has taken it away: it is lost, as when the node is
        started again. If it comes back before anybody was told of its loss, nobody is told of that
        either, and the sender would go round us for good: policy is not tried again.
        """
        taken = record.taken.get(target)
        return taken is not None and taken.peer not in record.avoided(target)

    def _length(self, record: IngressRecord, peer: NodeId, target: NodeId) -> int | None:
        return self._routing.length(peer, target, record.scope, arrived_on=record.arrived_on)

    def _drains(self, record: IngressRecord, peer: NodeId, target: NodeId) -> bool:
        return self._routing.drains(peer, target, record.scope, arrived_on=record.arrived_on)

    def _session_to(self, hop: NodeId, record: IngressRecord) -> int | None:
        """One of the sessions to a peer, the same for all targets of an ingress.

        Of a peer's set only some targets are asked for at a time, and sessions come and go between.
        So they follow the others: in two sets the data would cross the link twice.
        """
        used = () if record.is_feed else record.current
        return self._routing.session_to(hop, record.spread, used)

    def _keep(self, record: IngressRecord, target: NodeId, choice: Choice) -> None:
        """Let a target of a peer's set keep its place, unless that very peer has refused it."""
        session = record.home.get(target)
        if record.is_feed or session is None:
            return
        avoid = record.avoided(target)
        if not avoid or self._routing.node_of(session) not in avoid:
            choice.homes[target] = session
