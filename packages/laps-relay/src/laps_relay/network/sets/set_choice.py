"""The session of each target of an ingress, or the reason for none.

A target of a peer's set that loses its path keeps its session, and the sender is informed: it has
another path already, or finds one, and replaces the set. So what it sent before is not lost, also
if that waits for long before a slow link.

**Only the o-relay looks for another path.** When a node is lost, relays learn of it one after the
other, and longer paths that they know may be lost, too. If each relay tried those, sets would chase
a removed node: they are faster than node information, and each relay would start again with every
set that it has received by then. So a relay in between gives a target of a peer's set one path, and
then::

    the path is lost, or refused     the sender is informed at once; so it goes back to the o-relay
    it is lost, and all others are   the same, unless it is back within ``_BATCHES``
    forbidden, or there is none
    another is better and no longer  the target moves there, make before break
    another is better and longer     if a relay drains on the current path, the target moves, too.
                                     Otherwise only if the better path lasts for ``_PATIENCE``:
                                     a withdrawal may not have arrived yet

Each set leads to at most one place while a node is lost, so one try of the o-relay is one chain of
sets. The o-relay tries again when it is refused, or receives new information about the node.

Steering names the next hop, and sessions lead there. A peer that has refused a target is avoided
for it, as long as steering would still choose that peer. When the best path goes elsewhere the
route has changed, and the refusal is forgotten.

A refusal may also have been a matter of timing: the peer had withdrawn the target, has it again,
and both messages crossed ours. So the peer is tried again after a while, and each time later.
Policy is an exception: a path that works is not given up for one that will be refused again.
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
"""How many batching times a lost route may take to come back before the sender is informed.

Node information is batched, refusals are not. Within this time either another path appears, or the
withdrawal of the node is under way to the sender, with the same meaning."""
_MAX_DOUBLINGS: Final = 16
_LOST: Final = frozenset({SnsRefusal.NOT_ADVERTISED, SnsRefusal.TOO_MANY_HOPS})
"""Refusals that mean that a path does not exist."""
_PATIENCE: Final = 10
"""How many batching times a longer path must last before it replaces the current one.

A refusal from where the current path is lost arrives earlier: it is not batched."""


class Choice(NamedTuple):
    """For some targets of an ingress: a session, or the reason for none."""

    homes: dict[NodeId, int]
    """Also of targets that keep a session although they have no path."""
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
        """Return a session for each of these targets, which are in ascending order."""
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
        """Avoid a peer for a target for a while, after a refusal."""
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
        """Let peers be tried again that had lost a target and may have another path now."""
        blocks = record.blocks.get(target, {})
        for peer in list(blocks):
            block = blocks[peer]
            if block.code in _LOST and block.length != self._length(record, peer, target):
                blocks[peer] = block._replace(active=False)

    def relays(self, target: NodeId, session: int) -> tuple[NodeId, ...]:
        """Return the relays on the path to a target over a session; () if none is advertised."""
        return self._routing.relays(self._routing.node_of(session), target)

    def may_stay(self, scope: str, relays: tuple[NodeId, ...]) -> bool:
        """Return whether policy permits streams to go on along a path, advertised or not."""
        return bool(relays) and self._routing.permits(scope, relays)

    def expire(self, now: float, record: IngressRecord) -> list[NodeId]:
        """Let what has waited long enough be tried: peers that refused, and longer paths.

        Return the targets to choose again, some perhaps twice.
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
                # The best path avoids the peers that refused: the route has changed.
                record.blocks.pop(target, None)
            self._place(now, record, target, hop, choice)

    def steady(
        self, now: float, record: IngressRecord, target: NodeId, hop: NodeId
    ) -> NodeId | Refusal:
        """Return what a relay in between does if ``hop`` is best: go there, stay, or give up."""
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
        """Return another next hop, or a refusal; a peer's refusal goes before "no path"."""
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
            # Steering does not return this; the check guards against a loop.
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
        """Return whether a target with only forbidden paths had one that may be back soon.

        Neither policy nor the peer took that path away: it is lost, as when the node restarts. If
        it comes back before the sender was informed of its loss, the sender is not informed of its
        return either, and would avoid this relay for good: policy is not tried again.
        """
        taken = record.taken.get(target)
        return taken is not None and taken.peer not in record.avoided(target)

    def _length(self, record: IngressRecord, peer: NodeId, target: NodeId) -> int | None:
        return self._routing.length(peer, target, record.scope, arrived_on=record.arrived_on)

    def _drains(self, record: IngressRecord, peer: NodeId, target: NodeId) -> bool:
        return self._routing.drains(peer, target, record.scope, arrived_on=record.arrived_on)

    def _session_to(self, hop: NodeId, record: IngressRecord) -> int | None:
        """Return one of the sessions to a peer, the same for all targets of an ingress.

        Only some targets of a peer's set are chosen at a time, and sessions come and go in between.
        So later targets follow the others: in two sets the data would cross the link twice.
        """
        used = () if record.is_feed else record.current
        return self._routing.session_to(hop, record.spread, used)

    def _keep(self, record: IngressRecord, target: NodeId, choice: Choice) -> None:
        """Let a target of a peer's set keep its session, unless that very peer has refused it."""
        session = record.home.get(target)
        if record.is_feed or session is None:
            return
        avoid = record.avoided(target)
        if not avoid or self._routing.node_of(session) not in avoid:
            choice.homes[target] = session
