"""The inside of a network relay: what follows from what peers say, until nothing follows any more.

::

    Peers.poll_events -> _event -> Nib, FloodTables, Sets, Prober, guests
                                     |
                         _round:     Nib changes      -> FloodTables, Interests, Sets
                                     flooded changes  -> Interests
                                     Interests        -> own entries, answers, targets -> Sets
                                     Steering         -> Sets, dial wishes
                                     PeerPlane        -> Sets (idle ones)
                         _schedule:  differences      -> a flush for each peer, batched

``NetworkRelay`` (:mod:`laps_relay.core.network.relay`) is what shells and the local side call.
"""

from __future__ import annotations

from typing import Final

from laps_relay.core.network import events
from laps_relay.core.network.interfaces import HoldData, Refusal
from laps_relay.core.network.links import Link
from laps_relay.core.network.parts import Due, GuestWire, NetworkParts
from laps_relay.core.network.peers import (
    NodeIdConflict,
    PeerDown,
    PeerEvent,
    PeerRefused,
    PeerUp,
)
from laps_relay.core.network.probing import BadAnswer
from laps_relay.core.network.steering import LinkState
from laps_wire.errors import RemoteError
from laps_wire.nodeid import NodeId
from laps_wire.peering import session as wire
from laps_wire.peering.errors import CloseCode
from laps_wire.peering.laps2 import (
    Bases,
    Feature,
    RelayType,
    SubscribeCode,
    SubscribeInfo,
    SubscribeResponse,
)
from laps_wire.peering.session import SnsStanding

__all__ = ["NetworkCore"]

MAX_ROUNDS: Final = 1_000
"""Rounds of settling in one turn; more can only be a fault of ours, and would hang the relay."""


class NetworkCore(NetworkParts):
    """What joins the parts."""

    __slots__ = ()

    # Settling

    def _settle(self, now: float) -> None:
        """Let everything follow that follows; a call from inside is left to the outer one."""
        if self._settling:
            return
        self._settling = True
        try:
            for _ in range(MAX_ROUNDS):
                if not self._round(now):
                    break
            self._schedule(now)
        finally:
            self._settling = False

    def _round(self, now: float) -> bool:
        moved = False
        for session, event in self._peers.poll_events():
            moved = True
            self._event(now, session, event)
        moved |= self._nodes_changed(now)
        moved |= self._interest_changed(now)
        moved |= self._steered(now)
        for notice in self._plane.poll_notices():
            moved = True
            self._sets.idle(now, notice)
        return moved

    def _schedule(self, now: float) -> None:
        """Collect what peers must be told for the batching time, each by itself."""
        for link in self._links.controls():
            key = (Due.FLUSH, link.session)
            if link.sync:
                self._timers.set(key, now)
            elif self._timers.when(key) is None and self._is_behind(now, link):
                self._timers.set(key, now + self._settings.batch)

    def _is_behind(self, now: float, link: Link) -> bool:
        return (
            (link.node is not None and self._nib.pending(now, link.node))
            or self.announces.pending(link.session)
            or self.subscribes.pending(link.session)
        )

    def _flush(self, now: float, session: int) -> None:
        link = self._links.get(session)
        if link is not None and link.control and link.guest is None:
            self._advertiser.flush(now, link, lambda message: self._send(now, session, message))

    # Sessions that come and go

    def _event(self, now: float, session: int, event: PeerEvent) -> None:
        match event:
            case PeerUp():
                self._up(now, session, event)
            case PeerDown():
                self._down(now, session, event)
            case PeerRefused():
                self._links.remove(session)
                self._events.append(
                    events.PeerTurnedDown(
                        session=session, node=event.node, code=event.code, reason=event.reason
                    )
                )
            case NodeIdConflict():
                self._suspect(event.node, event.node, "another key holds this node id")
            case _:
                link = self._links.get(session)
                if link is None or link.node is None:
                    return
                try:
                    if link.guest is not None:
                        link.guest.event(now, event)
                    else:
                        self._told(now, link, link.node, event)
                except RemoteError as error:
                    self._fault(now, link, error)
        self._dialler.observe(now, session, event)

    def _suspect(self, node: NodeId, peer: NodeId, reason: str) -> None:
        self._events.append(events.NodeSuspected(node=node, peer=peer, reason=reason))

    def _fault(self, now: float, link: Link, error: RemoteError) -> None:
        self._events.append(
            events.PeerFaulted(
                session=link.session, node=link.node, code=error.code, reason=str(error)
            )
        )
        self._peers.fail(now, link.session, error)

    def _up(self, now: float, session: int, up: PeerUp) -> None:
        link = self._links.by_session[session]
        node = up.node.node.node_id
        link.info = up.node
        link.control, link.features = up.control, up.features
        link.sends, link.receives = up.sends_data, up.receives_data
        link.opened = now
        self._events.append(
            events.PeerAdded(
                session=session,
                node=node,
                relay_type=up.node.node.relay_type,
                mode=up.mode.name.lower(),
                alpn=up.alpn,
                control=up.control,
                dialled=up.dial is not None,
                implementation=up.settings.implementation,
            )
        )
        if self._guests is not None:
            link.guest = self._guests(now, link, up, GuestWire(self._peers, session))
        if link.guest is not None:
            link.node = node
            return
        if RelayType.STUB in (up.node.node.relay_type, self._settings.relay_type):
            self._peers.close(now, session, CloseCode.MODE_REFUSED, "no Stubs here")
            return
        self._links.meet(link, node)
        if link.sends or link.receives:
            self._plane.add_session(session, link.egress, self._holder(session))
        if link.control:
            self.announces.add_session(session, source=node)
            self.subscribes.add_session(session, source=node)
            for report in self._nib.add_peer(
                now,
                node,
                up.node,
                srtt_us=self._links.srtt_us(node),
                forwards=self._links.forwards(node),
                signed=Feature.SIGNED_NODES in up.features,
            ):
                self._suspect(report.node, report.peer, report.reason)
        if link.control and up.node.node.relay_type is RelayType.CONTROL and self._is_sharded:
            self._sharding.add_server(session, node)
            self._reconsider()
        asks = Feature.PROBES in up.features
        self._prober.add_session(now, session, node, srtt_us=link.srtt_us, asks=asks)
        self._adjoin(now, node)

    def _down(self, now: float, session: int, down: PeerDown) -> None:
        link = self._links.remove(session)
        self._timers.cancel((Due.FLUSH, session))
        self._events.append(
            events.PeerGone(
                session=session,
                node=down.node,
                code=down.code,
                reason=down.reason,
                by_peer=down.by_peer,
            )
        )
        if link is None:
            return
        if link.guest is not None:
            link.guest.closed(now)
            return
        if link.node is None:
            return
        self._plane.remove_session(now, session)
        if link.control:
            # Everything that was learned through it goes (seed 000, Connection Establishment).
            self._nib.remove_peer(now, link.node)
            self.announces.remove_session(now, session)
            self.subscribes.remove_session(now, session)
        if self._sharding.remove_server(session):
            self._reconsider()
        self._prober.remove_session(session)
        self._adjoin(now, link.node)
        self._sets.session_gone(now, session)

    @property
    def _is_sharded(self) -> bool:
        """Whether control servers hold our entries: they do not hold each other's."""
        return self._settings.relay_type is RelayType.EDGE

    def _reconsider(self) -> None:
        """What goes to whom is different now."""
        self.announces.reconsider()
        self.subscribes.reconsider()

    def _adjoin(self, now: float, node: NodeId) -> None:
        """Let the NIB and steering know what connects us with a node now."""
        links = self._links.of(node)
        srtt_us = self._links.srtt_us(node)
        neighbour = next((link.info for link in links if link.sends and link.info), None)
        if self._links.control(node) is not None:
            self._nib.remove_neighbour(now, node)
            self._nib.set_peer(now, node, srtt_us=srtt_us, forwards=self._links.forwards(node))
        elif neighbour is not None:
            self._nib.add_neighbour(now, node, neighbour, srtt_us=srtt_us)
        else:
            self._nib.remove_neighbour(now, node)
        state = None
        if links:
            state = LinkState(loss=min(link.loss for link in links), srtt_us=srtt_us)
        self._steering.links(node, state)
        self._reach(now)

    def _reach(self, now: float) -> None:
        """Say whom we reach ourselves, if that is news."""
        if self._own.set_reachable(self._prober.reachable()):
            self._nib.set_self(now, self._own.info)

    def _holder(self, session: int) -> HoldData:
        def hold(now: float, sns_id: int, item: object, size: int) -> SnsStanding:
            standing, dropped = self._peers.wire(session).hold_data(now, sns_id, item, size)
            others = [each.item for each in dropped if each.item is not item]
            if others:
                self._plane.discard(now, session, others)
            return standing

        return hold

    # What peers tell

    def _told(self, now: float, link: Link, peer: NodeId, event: wire.Event) -> None:
        session = link.session
        match event:
            case wire.NodesAdvertised():
                for report in self._nib.advertised(now, peer, event.nodes):
                    self._suspect(report.node, report.peer, report.reason)
            case wire.NodesWithdrawn():
                self._nib.withdrawn(now, peer, event.nodes)
            case wire.AnnouncesAdvertised() | wire.AnnouncesWithdrawn():
                self._announced(now, link, event)
            case wire.SubscribesAdvertised() | wire.SubscribesWithdrawn():
                self._subscribed(now, link, event)
            case wire.SubscribeAnswered():
                self._interests.response(now, session, event.response)
            case wire.SyncRequested():
                link.sync |= event.bases & ~Bases.SNS
            case wire.SyncBegan():
                self._sync(now, link, peer, event.bases, began=True)
            case wire.SyncEnded():
                self._sync(now, link, peer, event.bases, began=False)
            case wire.SnsAdvertised() | wire.SnsWithdrawn() | wire.SnsRefusedByPeer():
                self._set_told(now, session, event)
            case wire.DataDropped():
                self._plane.discard(now, session, [each.item for each in event.dropped])
            case wire.ProbeReceived() | wire.ProbeAnswered():
                self._probed(now, session, event)
            case wire.Draining():
                link.leaving = True
                self._events.append(
                    events.PeerLeaving(
                        session=session, node=peer, reason=event.reason, by_peer=True
                    )
                )
                self._nib.set_peer(now, peer, draining=True)
            case _:
                pass

    def _announced(
        self, now: float, link: Link, event: wire.AnnouncesAdvertised | wire.AnnouncesWithdrawn
    ) -> None:
        for entry in event.announces:
            if isinstance(event, wire.AnnouncesWithdrawn):
                self.announces.heard_withdrawal(now, link.session, entry)
            elif link.info is None or not self._policy.import_announce(entry, link.info.node):
                self.announces.heard(now, link.session, entry)

    def _subscribed(
        self, now: float, link: Link, event: wire.SubscribesAdvertised | wire.SubscribesWithdrawn
    ) -> None:
        for entry in event.subscribes:
            if isinstance(event, wire.SubscribesWithdrawn):
                self.subscribes.heard_withdrawal(now, link.session, entry)
                continue
            refusal = None
            if link.info is not None:
                refusal = self._policy.import_subscribe(entry, link.info.node)
            if refusal is None:
                self.subscribes.heard(now, link.session, entry)
            else:
                # Told at once, instead of waiting for data that will never come (laps-2, 5.3).
                self._refuse(now, link.session, entry, refusal)

    def _refuse(self, now: float, session: int, entry: SubscribeInfo, refusal: Refusal) -> None:
        code = SubscribeCode.POLICY
        self._events.append(
            events.SubscribeRefused(
                key=entry.full_name_hash, source=entry.source, code=code, reason=refusal.reason
            )
        )
        self._send(
            now,
            session,
            SubscribeResponse(
                entry.source,
                entry.full_name_hash,
                entry.stamp,
                self._own.node_id,
                code,
                refusal.reason,
            ),
        )

    def _sync(self, now: float, link: Link, peer: NodeId, bases: Bases, *, began: bool) -> None:
        if bases & Bases.NODES:
            if began:
                self._nib.sync_began(peer)
            else:
                self._nib.sync_ended(now, peer)
        tables = ((Bases.ANNOUNCES, self.announces), (Bases.SUBSCRIBES, self.subscribes))
        for base, table in tables:
            if bases & base:
                if began:
                    table.sync_began(link.session)
                else:
                    table.sync_ended(now, link.session)

    def _set_told(
        self,
        now: float,
        session: int,
        event: wire.SnsAdvertised | wire.SnsWithdrawn | wire.SnsRefusedByPeer,
    ) -> None:
        match event:
            case wire.SnsAdvertised():
                self._events.append(
                    events.SetChanged(
                        session=session,
                        sns_id=event.sns_id,
                        incoming=True,
                        added=event.added,
                        removed=event.removed,
                        members=len(event.targets),
                    )
                )
                self._sets.advertised(now, session, event)
            case wire.SnsWithdrawn():
                self._events.append(
                    events.SetGone(
                        session=session, sns_id=event.sns_id, incoming=True, removed=event.targets
                    )
                )
                self._sets.withdrawn(now, session, event)
            case wire.SnsRefusedByPeer():
                self._sets.refused(now, session, event)

    def _probed(
        self, now: float, session: int, event: wire.ProbeReceived | wire.ProbeAnswered
    ) -> None:
        if isinstance(event, wire.ProbeReceived):
            self._send(now, session, self._prober.answer(event.probe))
            return
        learned = self._prober.answered(now, session, event.response)
        if isinstance(learned, BadAnswer):
            self._suspect(learned.target, learned.peer, learned.reason)

    # What follows

    def _nodes_changed(self, now: float) -> bool:
        changes = self._nib.take_changes()
        for node in changes.nodes:
            epoch = self._nib.epoch(node)
            self.announces.node_changed(now, node, epoch)
            self.subscribes.node_changed(now, node, epoch)
            self._interests.node_changed(now, node)
            info = self._nib.info(node)
            if info is None:
                self._events.append(events.NodeGone(node=node, reason="withdrawn"))
            else:
                best = self._nib.best(node)
                peer = None if best is None else best.peer
                self._events.append(events.NodeAdded(info=info, peer=peer, best=best is not None))
        if changes.nodes:
            self._prober.set_targets(self._nib.nodes())
        if changes.routes:
            for node in changes.routes:
                self._note_route(node)
            self._sets.reroute(now, changes.routes)
        return bool(changes.nodes or changes.routes)

    def _note_route(self, node: NodeId) -> None:
        best = self._nib.best(node)
        peer = None if best is None else best.peer
        if peer == self._next_hops.get(node):
            return
        if peer is None:
            del self._next_hops[node]
        else:
            self._next_hops[node] = peer
        self._events.append(
            events.RouteChanged(
                node=node,
                peer=peer,
                hops=0 if best is None else best.hops,
                cost_us=0 if best is None else best.cost_us,
            )
        )

    def _interest_changed(self, now: float) -> bool:
        announces, subscribes = self.announces.take_changes(), self.subscribes.take_changes()
        for announce in announces:
            if announce.entry is not None:
                heard = self.announces.heard_on(announce.identity)
                self._events.append(events.AnnounceAdded(entry=announce.entry, session=heard))
            elif announce.previous is not None:
                self._events.append(events.AnnounceGone(entry=announce.previous))
        for subscribe in subscribes:
            if subscribe.entry is not None:
                heard = self.subscribes.heard_on(subscribe.identity)
                self._events.append(events.SubscribeAdded(entry=subscribe.entry, session=heard))
            elif subscribe.previous is not None:
                self._events.append(events.SubscribeGone(entry=subscribe.previous))
        if announces:
            self._interests.announces_changed(now, announces)
        if subscribes:
            self._interests.subscribes_changed(now, subscribes)
        return bool(announces or subscribes)

    def _steered(self, now: float) -> bool:
        keys, self._changed_keys = self._changed_keys, {}
        for key in (*keys, *self._steering.reassess(now)):
            self._lead(now, key)
        wishes = tuple(self._steering.wishes(now)) if self._settings.dynamic_peering else ()
        if wishes != self._wishes:
            self._wishes = wishes
            contacts = {
                node: self_part.contacts
                for node in wishes
                if (self_part := self.node(node)) is not None
            }
            self._dialler.set_wishes(now, contacts)
        for session in self._dialler.poll_unwanted():
            if not self._sets.uses(session):
                self._peers.close(now, session, CloseCode.NO_ERROR, "not needed any more")
        return bool(keys)

    def _lead(self, now: float, key: int) -> None:
        """Let a track of ours go to those who want it."""
        feed, name = self._feeds.get(key), self._interests.name(key)
        if feed is not None and name is not None:
            targets = self._interests.targets(key)
            self._sets.set_feed(now, feed.ingress, key, targets, self._policy.scope(name))
