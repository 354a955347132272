"""Sessions that come and go: what each of them adds to the parts of a relay, and takes away again.

::

    PeerUp    --> a guest? it has the session for itself
              --> Links, PeerPlane (data), Nib and FloodTables (control), control servers, Prober
    PeerDown  --> out of all of them; everything that was learned through it goes
    others    --> :mod:`laps_relay.network.told`
"""

from __future__ import annotations

from typing import Final

from laps_relay.network import events
from laps_relay.network.nodes.location import estimate, nearest
from laps_relay.network.nodes.plausibility import declared
from laps_relay.network.parts import Due, ForeignPeerWire
from laps_relay.network.steering.steering import LinkState
from laps_relay.network.told import PROBES, NetworkTold
from laps_relay.peer_forwarding.forwarding import HoldData
from laps_sdk.peering.events import (
    NodeIdConflict,
    NodeUnproved,
    PeerDown,
    PeerEvent,
    PeerRefused,
    PeerUp,
)
from laps_wire.errors import RemoteError
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import CloseCode
from laps_wire.peering.laps2 import Feature, RelayType
from laps_wire.peering.session import Draining, Event, SnsStanding, Staying

__all__ = ["FAULTS", "NetworkSessions"]

FAULTS: Final = frozenset(
    {
        CloseCode.PROTOCOL_VIOLATION,
        CloseCode.UNKNOWN_MESSAGE,
        CloseCode.MESSAGE_TOO_LARGE,
        CloseCode.LIMIT_EXCEEDED,
        CloseCode.SNS_VIOLATION,
        CloseCode.BAD_NODE,
    }
)
"""Codes with which we close because the peer broke the protocol; others are ends like any other."""
PLACE_WAIT: Final = 1.0
"""How long round trips are measured before something is concluded from them, in seconds."""
PLACE_TIME: Final = 60.0
"""How often."""
_OF_SESSIONS: Final = (PeerUp, PeerDown, PeerRefused, NodeIdConflict, NodeUnproved)
"""Events about sessions themselves."""


class NetworkSessions(NetworkTold):
    """Joins sessions with the parts."""

    __slots__ = ()

    def _event(self, now: float, session: int, event: PeerEvent) -> None:
        if isinstance(event, _OF_SESSIONS):
            self._session_event(now, session, event)
        else:  # most of all a peer tells something
            self._said(now, session, event)

    def _session_event(
        self,
        now: float,
        session: int,
        event: PeerUp | PeerDown | PeerRefused | NodeIdConflict | NodeUnproved,
    ) -> None:
        match event:
            case PeerUp():
                self._up(now, session, event)
                self._late(now, session)
            case PeerDown():
                self._down(now, session, event)
            case PeerRefused():
                refused = self._links.remove(session)
                self._events.append(
                    events.PeerTurnedDown(
                        session=session,
                        node=event.node,
                        code=event.code,
                        reason=event.reason,
                        contact="" if refused is None else refused.contact,
                    )
                )
            case NodeIdConflict():
                self._suspect(event.node, event.node, "another key holds this node id")
            case NodeUnproved():
                link = self._links.get(session)
                if link is not None and link.node is not None:
                    # Told, but no fault of the peer's.
                    self._events.append(
                        events.NodeSuspected(node=event.node, peer=link.node, reason=event.reason)
                    )
        self._dialler.observe(now, session, event)

    def _said(self, now: float, session: int, event: Event) -> None:
        """Something that a peer tells."""
        link = self._links.by_session.get(session)
        if link is None or link.node is None:
            return
        try:
            if link.guest is not None:
                link.guest.event(now, event)
            elif isinstance(event, PROBES):
                self._probed(now, session, event)
            else:
                self._told(now, link, link.node, event)
        except RemoteError as error:
            self._fault(now, link, error)
        if isinstance(event, (Draining, Staying)):
            self._dialler.observe(now, session, event)

    def _up(self, now: float, session: int, up: PeerUp) -> None:
        link = self._links.by_session[session]
        node = up.node.node.node_id
        link.info = up.node
        link.control, link.features = up.control, up.features
        link.sends, link.receives = up.sends_data, up.receives_data
        begun, link.opened = link.opened, now
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
                contact=link.contact,
                handshake=now - begun,
            )
        )
        if self._guests is not None:
            link.guest = self._guests(now, link, up, ForeignPeerWire(self._peers, session))
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
            self._withheld.again = True
            takes = up.settings
            self.announces.add_session(session, source=node, room=takes.max_announces)
            self.subscribes.add_session(session, source=node, room=takes.max_subscribes)
            if self._server is not None:
                self._server.add_session(session, node, up.node.node.relay_type)
            for report in self._nib.add_peer(
                now,
                node,
                up.node,
                srtt_us=self._links.srtt_us(node),
                forwards=self._links.forwards(node),
                signed=Feature.SIGNED_NODES in up.features,
                room=up.settings.max_nodes,
            ):
                self._suspect(report.node, report.peer, report.reason)
        if link.control and up.node.node.relay_type is RelayType.CONTROL and self._is_sharded:
            self._sharding.add_server(session, node)
            self._reconsider()
        asks = Feature.PROBES in up.features
        self._prober.add_session(now, session, node, srtt_us=link.srtt_us, asks=asks)
        self._adjoin(now, node)

    def _late(self, now: float, session: int) -> None:
        link = self._links.get(session)
        if link is not None and link.up:
            try:
                self._late_data(now, link)
            except RemoteError as error:
                self._fault(now, link, error)

    def _down(self, now: float, session: int, down: PeerDown) -> None:
        link = self._links.remove(session)
        self._timers.cancel((Due.FLUSH, session))
        self._timers.cancel((Due.IDLE, session))
        self._timers.cancel((Due.RESYNC, session))
        self._recent.forget(session)
        self._lies.forget(session)
        self._fetches.session_gone(session)
        if down.code in FAULTS and not down.by_peer:
            self._events.append(
                events.PeerFaulted(
                    session=session, node=down.node, code=down.code, reason=down.reason
                )
            )
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
        if self._server is not None:
            self._server.remove_session(session)
        if link.control:
            self._withheld.again = True
            # Everything that was learned through it goes (seed 000, Connection Establishment).
            self._nib.remove_peer(now, link.node)
            self.announces.remove_session(now, session)
            self.subscribes.remove_session(now, session)
        if self._sharding.remove_server(session):
            self._reconsider()
        self._prober.remove_session(session)
        if link.leaving:
            others = any(each.leaving for each in self._links.of(link.node))
            self._nib.set_peer(now, link.node, draining=others)
        self._adjoin(now, link.node)
        self._events += self._set_log.session_gone(session)
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
        # What carries control alone says nothing of those that take data there.
        carriers = [link for link in links if link.sends] or links
        if carriers:
            state = LinkState(
                loss=min(link.loss for link in carriers),
                srtt_us=srtt_us,
                congested=all(link.congested for link in carriers),
            )
        self._steering.links(node, state)
        # Sessions that come together are told together: each time costs the network a flood.
        if self._timers.when((Due.REACH, 0)) is None:
            self._timers.set((Due.REACH, 0), now + self._settings.batch)

        if not self._is_placed and self._timers.when((Due.PLACE, 0)) is None:
            self._timers.set((Due.PLACE, 0), max(now + PLACE_WAIT, self._placed + PLACE_TIME))

    @property
    def _is_placed(self) -> bool:
        """Whether there is nothing to be estimated: we are told where we stand, or nobody cares."""
        return not self._settings.light_time or declared(self._own.info.node) is not None

    def _place(self, now: float) -> None:
        """Find out where we stand from round trips to nodes that know it of themselves."""
        self._placed = now
        found = estimate(nearest(self._prober.round_trips(), self._nib))
        if found is not None and self._own.set_estimate(found.location):
            self._nib.set_self(now, self._own.info)

    def _reach(self, now: float) -> None:
        """Say whom we reach ourselves, if that is news."""
        if self._own.set_reachable(self._prober.reachable()):
            self._nib.set_self(now, self._own.info)

    def _holder(self, session: int) -> HoldData:
        def hold(now: float, sns_id: int, item: object, size: int) -> SnsStanding:
            standing, dropped = self._peers.wire(session).hold_data(now, sns_id, item, size)
            # A stream is one item with many chunks, and may have to leave for its own next one.
            self._plane.discard(now, session, [each.item for each in dropped])
            return standing

        return hold
