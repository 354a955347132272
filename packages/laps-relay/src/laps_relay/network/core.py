"""The inside of a network relay: what follows from what peers say, until nothing follows any more.

::

    Peers.poll_events -> _event -> Nib, FloodTables, Sets, Prober, guests
                                     |         (:mod:`.sessions`, :mod:`.told`)
                         _round:     Nib changes      -> FloodTables, Interests, Sets
                                     flooded changes  -> Interests
                                     Interests        -> own entries, answers, targets -> Sets
                                     Steering         -> Sets, dial wishes
                                     PeerPlane        -> Sets (idle ones), the local side
                         _schedule:  differences      -> a flush for each peer that is behind,
                                     if there is news    after the batching time

``NetworkRelay`` (:mod:`laps_relay.network.relay`) is what shells and the local side call.
"""

from __future__ import annotations

from typing import Final

from laps_relay.network import events
from laps_relay.network.flood.floods import Change
from laps_relay.network.nodes.nib import NOTHING
from laps_relay.network.nodes.node_records import Changes
from laps_relay.network.parts import Due
from laps_relay.network.sessions import NetworkSessions
from laps_relay.network.told import FLOODED, PROBES
from laps_relay.peer_forwarding.forwarding import LOCAL, Outdated, SetIdle
from laps_relay.policy.open_policy import OpenPolicy
from laps_sdk.peering.events import Refusal
from laps_sdk.peering.links import Link
from laps_wire.nodeid import NodeId
from laps_wire.peering import session as wire
from laps_wire.peering.errors import CloseCode
from laps_wire.peering.laps2 import AnnounceInfo, Bases, Load, LoadClass, RelayType, SubscribeInfo
from laps_wire.peering.laps2.information import AnnounceIdentity, SubscribeIdentity

__all__ = ["NetworkCore"]

QUIET: Final = frozenset(
    {
        wire.SnsAdvertised,
        wire.SnsWithdrawn,
        wire.SnsRefusedByPeer,
        wire.DataDropped,
        wire.FetchSaid,
    }
)
"""Others of which no other peer must hear by way of the information bases."""
_EDGE: Final = RelayType.EDGE
_LOOK: Final = (Due.LOOK, 0)
MAX_ROUNDS: Final = 1_000
"""Rounds of settling in one turn; more can only be a fault of ours, and would hang the relay."""


class NetworkCore(NetworkSessions):
    """What joins the parts."""

    __slots__ = ()

    # Settling

    def _settle(self, now: float, *, news: bool = True) -> None:
        """Let everything follow that follows; a call from inside is left to the outer one.

        Without ``news`` only what happens meanwhile decides whether peers must be told something.
        """
        self._news |= news
        if self._settling:
            return
        self._settling = True
        try:
            for _ in range(MAX_ROUNDS):
                if not self._round(now):
                    break
        finally:
            self._settling = False
        if self._news:
            self._news = False
            self._schedule(now)

    def _round(self, now: float) -> bool:
        moved = probed = False
        for session, event in self._peers.poll_events():
            if isinstance(event, PROBES):
                probed = True
                self._said(now, session, event)
            else:
                moved = True
                self._news |= type(event) not in QUIET
                self._event(now, session, event)
        if probed and not moved and not self._is_unsettled(now):
            # What probes teach moves nothing; an answer may be too much for a session, though.
            return self._peers.has_events()
        if self._nodes_changed(now) | self._interest_changed(now):
            moved = self._news = True
        moved |= self._steered(now)
        for notice in self._plane.poll_notices():
            moved = True
            if isinstance(notice, SetIdle):
                self._sets.idle(now, notice)
            else:
                self._go_on(now, notice)
        return (moved or probed) and (self._is_unsettled(now) or self._peers.has_events())

    def _is_unsettled(self, now: float) -> bool:
        """Whether one more round would find something in any part; mostly one is all."""
        steering = self._steering
        return bool(
            self._changed_keys
            or self._withheld.again
            or self._nib.has_changes
            or self.announces.has_changes
            or self.subscribes.has_changes
            or steering.is_due(now)
            or self._plane.has_notices
            or self._dialler.has_unwanted
            or (self._settings.dynamic_peering and steering.wishes_due(now))
        )

    def _schedule(self, now: float) -> None:
        """Collect what peers must be told for the batching time, for all of them together."""
        if self._timers.when(_LOOK) is None and (
            self._nib.is_behind(now) or self.announces.is_behind() or self.subscribes.is_behind()
        ):
            self._timers.set(_LOOK, now + self._settings.batch)

    def _due(self, now: float, kind: Due, session: int) -> None:
        """A timer of our own has run out."""
        match kind:
            case Due.LOOK:
                for link in list(self._links.controls()):
                    if self._is_behind(now, link):
                        self._flush(now, link.session)
            case Due.FLUSH:
                link = self._links.by_session[session]
                link.sync, link.asked = link.sync | link.asked, Bases(0)
                self._flush(now, session)
            case Due.REFILL:
                self._refill(now)
            case Due.RESYNC:
                self._links.by_session[session].sync |= FLOODED
                self._flush(now, session)
            case Due.PLACE:
                self._place(now)
            case Due.STAY:
                self._stayed(now)
            case Due.REACH:
                self._reach(now)
            case Due.IDLE:
                self._retire(now, session)
            case Due.APART:
                self._flood_apart(now)

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

    # What follows

    def _nodes_changed(self, now: float) -> bool:
        changes = self._nib.take_changes()
        if changes is not NOTHING:
            self._nodes_moved(now, changes)
        if self._settings.relay_type is _EDGE:
            ours, met = self._sharding.servers, self._links.met
            if changes is not NOTHING or self._servers.may_change(now, ours, met):
                self._servers.changed(now, changes.nodes, ours, met)
                self._flood_apart(now)
        return changes is not NOTHING and bool(changes.nodes or changes.routes)

    def _nodes_moved(self, now: float, changes: Changes) -> None:
        for node in changes.nodes:
            epoch = self._nib.epoch(node)
            self.announces.node_changed(now, node, epoch)
            self.subscribes.node_changed(now, node, epoch)
            if self._server is not None:
                self._server.node_changed(node)
            if self._interests.node_changed(now, node):
                self._moved(now, node)
            info = self._nib.info(node)
            if info is None:
                self._events.append(
                    events.NodeGone(node=node, reason=changes.lost.get(node, "withdrawn"))
                )
                self._fetches.node_gone(now, node)
                self._ask_again(now, node)
            else:
                self._dialler.heard(now, node, info.node.stamp.epoch)
                peer = self._nib.next_hop(node)
                self._events.append(events.NodeAdded(info=info, peer=peer, best=peer is not None))
        if changes.nodes:
            self._prober.set_targets(self._nib.nodes)
        for node in changes.routes:
            self._note_route(node)
        self._interests.ways_changed(now, (*changes.routes, *changes.alternates))
        moved = changes.routes
        if changes.alternates:
            moved = moved + self._sets.astray(changes.alternates, self._nib.next_hop)
            self._steering.ways_changed(changes.alternates)
        if moved:
            self._sets.reroute(now, moved)
        self._steering.nodes_changed()

    def _moved(self, now: float, node: NodeId) -> None:
        """A node says that it is elsewhere, or has other labels: filters may treat it otherwise."""
        link = self._links.control(node)
        if link is None or type(self._policy) is OpenPolicy:
            return
        self._peers.set_policy(now, self._policy.peer, self.node)
        self.announces.reconsider(link.session)
        self.subscribes.reconsider(link.session)
        self._withheld.again = True
        self._ask(now, lambda each: each is link)

    def _flood_apart(self, now: float) -> None:
        """Edges that control servers cannot bring together with us are told entries by us."""
        apart = self._servers.apart(now, lambda node: self._links.control(node) is not None)
        links = (self._links.control(peer) for peer in set(apart.values()))
        sessions = {link.session for link in links if link is not None}
        if self._sharding.set_apart(apart, sessions):
            self._reconsider()
            self._news = True
        timer = (Due.APART, 0)
        if self._servers.due is not None and self._timers.when(timer) is None:
            self._timers.set(timer, self._servers.due)

    def _note_route(self, node: NodeId) -> None:
        """Tell of another way; that it costs more or less is not news for a log."""
        best = self._nib.best(node)
        relays = () if best is None else best.relays
        if relays == self._routes.get(node, ()):
            return
        if best is None:
            del self._routes[node]
        else:
            self._routes[node] = relays
        self._events.append(
            events.RouteChanged(
                node=node,
                peer=None if best is None else best.peer,
                hops=0 if best is None else best.hops,
                cost_us=0 if best is None else best.cost_us,
            )
        )

    def _interest_changed(self, now: float) -> bool:
        announces, subscribes = self.announces.take_changes(), self.subscribes.take_changes()
        if not announces and not subscribes and self._server is None and not self._withheld.again:
            return False
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
                entry = subscribe.previous
                self._events.append(
                    events.SubscribeGone(entry=entry, delayed=self._was_held_back(entry))
                )
        users = self._interests if self._server is None else self._server
        if announces:
            users.announces_changed(now, announces)
        if subscribes:
            users.subscribes_changed(now, subscribes)
        if self._server is not None:
            self._server.settle()
        if announces or subscribes or self._withheld.again:
            self._tell_withheld(now, announces, subscribes)
        return bool(announces or subscribes)

    def _tell_withheld(
        self,
        now: float,
        announces: list[Change[AnnounceIdentity, AnnounceInfo]],
        subscribes: list[Change[SubscribeIdentity, SubscribeInfo]],
    ) -> None:
        """Answer what our export rules keep from all who could, as far as that may be new."""
        everything, self._withheld.again = self._withheld.again, False
        if type(self._policy) is OpenPolicy and not self._withheld:
            return
        waiting = self._interests.waiting if self._server is None else self._server.waiting
        identities: dict[SubscribeIdentity, None] = {}
        for subscribe in subscribes:
            if subscribe.entry is None:
                self._withheld.forget(subscribe.identity)
            identities[subscribe.identity] = None
        if everything:
            found = [(each.source, each.full_name_hash) for each in self.subscribes.live()]
            identities.update(dict.fromkeys(found))
        for announce in announces:
            if announce.entry is not None:
                identities.update(dict.fromkeys(waiting(announce.entry)))
        for identity in identities:
            entry = self.subscribes.get(identity)
            refusal = None if entry is None else self._withheld.judge(self._policy, entry)
            if entry is not None and refusal is not None:
                self._withhold(now, entry, refusal)

    def _withhold(self, now: float, entry: SubscribeInfo, refusal: Refusal) -> None:
        session = self.subscribes.heard_on((entry.source, entry.full_name_hash))
        if entry.source == self._own.node_id:
            self._interests.response(now, LOCAL, self._refusal(entry, refusal))
        elif session is not None:
            self._refuse(now, session, entry, refusal)

    def _was_held_back(self, entry: SubscribeInfo) -> bool:
        """Whether a subscribe that is over was one of ours that nobody wants any more."""
        return (
            entry.source == self._own.node_id
            and self._settings.unsubscribe_delay > 0
            and not self._interests.asks(entry.full_name_hash)
        )

    def _steered(self, now: float) -> bool:
        keys: dict[int, None] = {}
        if self._changed_keys:
            keys, self._changed_keys = self._changed_keys, keys
        again = self._steering.reassess(now)
        if keys or again:
            for key in (*keys, *again):
                self._lead(now, key)
        wishes, servers = self._wishes, self._servers.known
        if self._settings.dynamic_peering and self._steering.wishes_due(now):
            wishes = {
                node: self_part.contacts
                for node in self._steering.wishes(now)
                if (self_part := self.node(node)) is not None
            }
        others = wishes is not self._wishes and wishes != self._wishes
        dialler = self._dialler
        if others or servers != self._dialled_servers:
            self._wishes, self._dialled_servers = wishes, dict(servers)
            dialler.set_wishes(now, wishes, servers)
        if dialler.has_unwanted:
            for session in dialler.poll_unwanted():
                self._spare(now, session)
        return bool(keys)

    def _spare(self, now: float, session: int) -> None:
        """Nobody wishes for a connection: end it, one that served on demand after a while only."""
        timer = (Due.IDLE, session)
        link = self._links.get(session)
        if self._sets.uses(session):
            self._timers.cancel(timer)
        elif link is None or not link.up or link.dial is None or not link.dial.dynamic:
            self._end(now, session)
        elif self._timers.when(timer) is None:
            self._timers.set(timer, now + self._settings.dynamic_idle)

    def _retire(self, now: float, session: int) -> None:
        """It has had no use for that time; somebody may wish for it again, though."""
        link = self._links.get(session)
        if link is None or link.node in self._wishes or link.node in self._dialled_servers:
            return
        if not self._sets.uses(session):
            self._end(now, session)

    def _part(self, now: float, session: int, seconds: float) -> None:
        """Nobody configures a connection any more: both ends move what it carries, then it ends."""
        link = self._links.get(session)
        if link is None or link.node is None or link.guest is not None or link.leaving:
            return
        if self._sets.uses(session):
            reason = "not configured any more"
            link.leaving = True
            self._events.append(
                events.PeerLeaving(session=session, node=link.node, reason=reason, by_peer=False)
            )
            self._nib.set_peer(now, link.node, draining=True)
            self._peers.part(now, session, seconds, reason)

    def _stayed(self, now: float) -> None:
        """Whoever left us has gone: they may come back."""
        self._own.set_load(Load(LoadClass.NORMAL, 0))
        self._nib.set_self(now, self._own.info)
        self._steering.look_again()

    def _end(self, now: float, session: int) -> None:
        self._peers.close(now, session, CloseCode.NO_ERROR, "not needed any more")

    def _go_on(self, now: float, notice: Outdated) -> None:
        """The rest of a track's open streams goes on in new ones, to all who should have it."""
        key = self._sets.renew(now, notice.ingress)
        if key is not None and self._local is not None:
            self._local.renew(now, key, notice.before)

    def _catch_up(self, now: float, key: int) -> None:
        """Our clients want a track again that others still send us.

        Nobody took it meanwhile, and what the Edge does not take it gives up for good.
        """
        for ingress in self._plane.bringing(key):
            self._sets.renew(now, ingress)

    def _lead(self, now: float, key: int) -> None:
        """Let a track of ours go to those who want it."""
        feed, name = self._feeds.get(key), self._interests.name(key)
        if feed is None:
            return
        if name is None:
            # Its publisher has ended it.
            self._close_feed(now, key)
            return
        targets = self._interests.targets(key)
        self._sets.set_feed(now, feed.ingress, key, targets, self._policy.scope(name))
