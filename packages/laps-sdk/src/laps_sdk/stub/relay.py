"""The Stub relay: sessions with parents, without routing (laps-2, 4.5).

::

    shell                          StubRelay
    connection_opened ----------->  Peers: handshakes, sessions
    control_data, ... ----------->    |  PeerUp, PeerDown, messages of a parent
    data_stream, datagram ------->    v
                                    UplinkParent of a session ---> StubUplink ---> EdgeRelay, Plane
    poll_dials <------------------  Dialler: the configured parents
    poll_dirty, poll_transmit <---  Peers

A Stub has no node base, no floods, no subscriber node sets and no steering: its parents do
that for it. Every public method processes all resulting events before it returns. The relay reads
no clock and does no I/O. It implements :class:`~laps_sdk.peering.port.PeerRelay`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from laps_sdk.forwarding.interfaces import OutStream, PeerEgress
from laps_sdk.peering.dialler import Contact, Dialler, DialRow
from laps_sdk.peering.events import (
    Dial,
    NodeIdConflict,
    NodeUnproved,
    PeerAuthenticator,
    PeerDown,
    PeerEvent,
    PeerFilter,
    PeerRefused,
    PeerUp,
)
from laps_sdk.peering.links import Chunk, ForeignPeerWire, Link, Links, PreHandshakeData
from laps_sdk.peering.peers import Peers
from laps_sdk.peering.reports import (
    FAULTS,
    Dialled,
    KeyForgotten,
    NodeSuspected,
    PeerAdded,
    PeerFaulted,
    PeerGone,
    PeerReport,
    PeerTurnedDown,
)
from laps_sdk.peering.settings import Identity, PeeringSettings
from laps_sdk.stub.stub_uplink import StubUplink
from laps_sdk.timers import earliest
from laps_wire.errors import RemoteError
from laps_wire.hashing import KeyedHasher
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import CloseCode, StreamCode
from laps_wire.peering.laps2 import (
    Label,
    Load,
    LoadClass,
    Location,
    NodeInfo,
    NodeSelf,
    RelayType,
    Stamp,
)
from laps_wire.peering.laps2.handshake import HASH_CHECK_NAME
from laps_wire.peering.session import Draining, Event, Role, Staying, Transmit

__all__ = ["STUB_NODE", "StubRelay"]

STUB_NODE: Final = NodeId(0)
"""The node id of every Stub (laps-2, 4.5)."""
STAY_WAIT: Final = 2.0
"""Seconds after :meth:`StubRelay.stay` until the relay has its normal load class again."""
MAX_ROUNDS: Final = 1_000
"""The most rounds of event handling in one call; a defect must not hang the relay."""


class StubRelay:
    """A Stub, which dials its parents and joins their sessions to its uplink."""

    __slots__ = (
        "_authenticator",
        "_epoch",
        "_events",
        "_hasher",
        "_sequence",
        "_settings",
        "_settling",
        "_stays_at",
        "dialler",
        "info",
        "links",
        "peers",
        "uplink",
    )

    def __init__(
        self,
        identity: Identity,
        settings: PeeringSettings,
        uplink: StubUplink,
        *,
        hasher: KeyedHasher,
        authenticator: PeerAuthenticator,
        challenge: Callable[[], bytes],
        random: Callable[[], float],
        may_peer: PeerFilter,
        implementation: str = "",
        known_keys: Mapping[NodeId, bytes] | None = None,
    ) -> None:
        """Build the relay.

        ``challenge`` returns 32 random bytes; ``known_keys`` are the keys that held node ids before
        the last start.
        """
        self._settings = replace(settings, relay_type=RelayType.STUB)
        self._authenticator = authenticator
        self._hasher = hasher
        self._epoch = identity.epoch
        self._sequence = 1
        self._settling = False
        self._stays_at: float | None = None
        self._events: list[PeerReport] = []
        located = identity.longitude is not None and identity.latitude is not None
        self.info: NodeInfo = authenticator.sign_node(
            NodeSelf(
                STUB_NODE,
                RelayType.STUB,
                Stamp(self._epoch, self._sequence),
                contacts=identity.contacts,
                location=(
                    Location(identity.longitude or 0.0, identity.latitude or 0.0)
                    if located
                    else None
                ),
                region=identity.region,
                labels=tuple(Label(name, value) for name, value in identity.labels),
            )
        )
        """The signed node information that parents receive in the handshake."""
        self.uplink = uplink
        self.links = Links()
        self.peers = Peers(
            identity,
            self._settings,
            authenticator,
            challenge=challenge,
            hash_check=hasher.full_name(*HASH_CHECK_NAME),
            may_peer=may_peer,
            node_info=lambda: self.info,
            implementation=implementation,
            known_keys=known_keys,
        )
        self.dialler = Dialler(random, relay_type=RelayType.STUB, own_contacts=identity.contacts)

    @property
    def node_id(self) -> NodeId:
        """The node id of all Stubs."""
        return STUB_NODE

    def key(self, name: FullTrackName) -> int:
        """Return the full-name hash of a track."""
        return self._hasher.full_name(name.namespace.fields, name.name)

    @property
    def in_transit(self) -> bool:
        """Return False: no data of others goes through a Stub."""
        return False

    @property
    def flight(self) -> float:
        """The seconds that a message to a parent may take, including one retransmission."""
        trips = [link.srtt_us for link in self.links.by_session.values() if link.up]
        return 2e-6 * max(trips) + self._settings.batch if trips else 0.0

    # Connections, from the shell

    def connection_opened(
        self,
        now: float,
        session: int,
        egress: PeerEgress,
        *,
        role: Role,
        alpn: str,
        spki_hash: bytes,
        dial: Dial | None = None,
    ) -> None:
        """Add a connection; ``spki_hash`` is the hash of the listener's TLS key, on both sides."""
        self.links.add(Link(session, egress, alpn, dial, opened=now))
        if dial is not None:
            self.dialler.made(now, dial.number, session)
        self.peers.opened(now, session, role=role, alpn=alpn, spki_hash=spki_hash, dial=dial)
        self._settle(now)

    def control_data(
        self, now: float, session: int, stream_id: int, data: bytes, fin: bool = False
    ) -> None:
        """Take bytes of a bidirectional stream."""
        self.peers.stream_data(now, session, stream_id, data, fin)
        self._settle(now)

    def control_reset(self, now: float, session: int, stream_id: int, code: int = 0) -> None:
        """Handle a reset of the peer's half of a bidirectional stream."""
        self.peers.stream_reset(now, session, stream_id, code)
        self._settle(now)

    def control_stopped(self, now: float, session: int, stream_id: int, code: int = 0) -> None:
        """Handle STOP_SENDING of the peer for our half of a bidirectional stream."""
        self.peers.stop_sending(now, session, stream_id, code)
        self._settle(now)

    def connection_closed(self, now: float, session: int, code: int = 0, reason: str = "") -> None:
        """Remove a closed connection; the shell may use its number again."""
        self.peers.closed(now, session, code, reason)
        self._settle(now)
        self.links.remove(session)

    def measured(
        self, now: float, session: int, srtt_us: int, loss: float = 0.0, congested: bool = False
    ) -> None:
        """Set the transport's measurements of a connection; the shell calls this periodically."""
        link = self.links.get(session)
        if link is None:
            return
        link.srtt_us, link.loss, link.congested = srtt_us, loss, congested
        if link.foreign_peer is not None:
            link.foreign_peer.measured(now, srtt_us)
        self._settle(now)

    # Data, from the shell

    def data_stream(self, now: float, session: int, stream_id: int, data: bytes, fin: bool) -> None:
        """Take a chunk of a unidirectional stream of a parent."""
        link = self.links.get(session)
        if link is None:
            return
        try:
            self._data(now, link, stream_id, data, fin)
        except RemoteError as error:
            self.peers.fail(now, session, error)
            self._settle(now)

    def data_reset(self, now: float, session: int, stream_id: int, code: int) -> None:
        """Handle a parent's reset of a unidirectional stream."""
        link = self.links.get(session)
        if link is None:
            return
        if link.early is not None:
            link.early.forget(stream_id)
        if link.foreign_peer is not None:
            link.foreign_peer.stream_reset(now, stream_id, code)

    def datagram(self, now: float, session: int, data: bytes) -> None:
        """Take a datagram of a parent; drop it before the end of the handshake."""
        link = self.links.get(session)
        if link is None or link.foreign_peer is None:
            return
        try:
            link.foreign_peer.datagram(now, data)
        except RemoteError as error:
            self.peers.fail(now, session, error)
            self._settle(now)

    def out_stream_gone(
        self, now: float, session: int, stream: OutStream, lost: int, *, stopped: bool
    ) -> None:
        """Handle an outgoing data stream that the egress dropped or the parent stopped."""
        link = self.links.get(session)
        if link is not None and link.foreign_peer is not None:
            link.foreign_peer.out_stream_gone(now, stream, lost, stopped=stopped)

    def _data(self, now: float, link: Link, stream_id: int, data: bytes, fin: bool) -> None:
        """Take a chunk of a stream; raise ``RemoteError`` if the parent is at fault."""
        early = link.early
        if link.foreign_peer is None:
            if early is None:
                early = link.early = PreHandshakeData()
            if not early.add(Chunk(stream_id, data, fin)):
                link.egress.stop_sending(stream_id, StreamCode.OVERLOADED)
        elif early is None or not early.refused(stream_id):
            link.foreign_peer.stream_data(now, stream_id, data, fin)

    # Operator commands

    def set_contacts(self, now: float, contacts: Iterable[Contact]) -> None:
        """Set the parents to connect to; close connections to others."""
        self.dialler.set_contacts(now, contacts)
        self._settle(now)

    def set_own_contacts(self, now: float, contacts: tuple[str, ...]) -> None:
        """Set the contacts at which other relays can dial this relay."""
        if contacts != self.info.node.contacts:
            self._say(replace(self.info.node, contacts=contacts))
            self._settle(now)

    def set_load(self, now: float, load: Load) -> None:
        """Set the load of the relay; do nothing while it drains."""
        node = self.info.node
        if node.load.load_class is not LoadClass.DRAINING and load != node.load:
            self._say(replace(node, load=load))
            self._settle(now)

    def set_peer_filter(self, now: float, may_peer: PeerFilter) -> None:
        """Replace the filter of peers; close sessions that the new filter forbids."""
        self.peers.set_policy(now, may_peer, lambda _node: None)
        self._settle(now)

    def forget_key(self, node: NodeId) -> bool:
        """Release the key of a node without a session; return False if there is no such key."""
        if not self.peers.forget_key(node):
            return False
        self._events.append(KeyForgotten(node=node))
        return True

    def drain(
        self, now: float, seconds: float, reason: str = "", alternates: tuple[str, ...] = ()
    ) -> None:
        """Start to drain: inform all parents and stop dialling."""
        self.dialler.stop()
        self._stays_at = None
        self.set_load(now, Load(LoadClass.DRAINING, 1000))
        self.peers.drain(now, seconds, reason, alternates)
        self._settle(now)

    def stay(self, now: float) -> None:
        """Cancel :meth:`drain`: keep the sessions and dial parents again."""
        if self.info.node.load.load_class is not LoadClass.DRAINING:
            return
        self.dialler.resume()
        self.peers.stay(now)
        if self._stays_at is None:
            self._stays_at = now + STAY_WAIT
        self._settle(now)

    def close_all(self, now: float, code: int = CloseCode.NO_ERROR, reason: str = "") -> None:
        """Close all sessions and stop dialling."""
        self.dialler.stop()
        self.peers.close_all(now, code, reason)
        self._settle(now)

    # Polls and time

    def poll_dirty(self) -> list[int]:
        """Return the sessions that may have something to send, and clear that list."""
        return self.peers.poll_dirty()

    def poll_transmit(self, session: int) -> list[Transmit]:
        """Return the commands of a session to the transport, in order."""
        return self.peers.poll_transmit(session)

    def poll_dials(self, now: float) -> list[Dial]:
        """Return the dials to start now."""
        dials = self.dialler.poll_dials(now)
        for dial in dials:
            self._events.append(Dialled(contact=dial.contact, node=dial.node, dynamic=dial.dynamic))
        return dials

    def dial_failed(self, now: float, number: int, reason: str) -> None:
        """Handle a failed dial."""
        self.dialler.failed(now, number, reason)
        self._settle(now)

    def poll_events(self) -> list[PeerReport]:
        """Return the reports for logs and telemetry since the last call."""
        for report in self.dialler.poll_reports():
            self._events.append(
                Dialled(
                    contact=report.contact,
                    node=report.node,
                    dynamic=report.dynamic,
                    failed=report.reason,
                )
            )
        taken, self._events = self._events, []
        return taken

    def poll_known_keys(self) -> dict[NodeId, bytes] | None:
        """Return the keys that hold node ids, if they changed; pass them to the next start."""
        return self.peers.poll_known_keys()

    def poll_timeout(self) -> float | None:
        """Return when to call :meth:`handle_timeout` and :meth:`poll_dials`; None for never."""
        return earliest(self.peers.poll_timeout(), self._stays_at, self.dialler.poll_timeout())

    def handle_timeout(self, now: float) -> None:
        """Run the timers that are due."""
        self.peers.handle_timeout(now)
        self._settle(now)
        if self._stays_at is not None and self._stays_at <= now:
            self._stays_at = None
            self._say(replace(self.info.node, load=Load(LoadClass.NORMAL, 0)))

    def contacts(self) -> list[DialRow]:
        """Return the contacts of parents, with the state of each dial."""
        return self.dialler.rows()

    # Settling

    def _say(self, node: NodeSelf) -> None:
        """Sign new node information for the handshakes that follow."""
        self._sequence += 1
        stamp = Stamp(self._epoch, self._sequence)
        self.info = self._authenticator.sign_node(replace(node, stamp=stamp))

    def _settle(self, now: float) -> None:
        """Handle events until there are none; a nested call returns at once."""
        if self._settling:
            return
        self._settling = True
        try:
            for _ in range(MAX_ROUNDS):
                for session, event in self.peers.poll_events():
                    self._handle_event(now, session, event)
                if self.dialler.has_unwanted:
                    for session in self.dialler.poll_unwanted():
                        self.peers.close(now, session, CloseCode.NO_ERROR, "not needed any more")
                if not self.peers.has_events():
                    break
        finally:
            self._settling = False

    def _handle_event(self, now: float, session: int, event: PeerEvent) -> None:
        match event:
            case PeerUp():
                self._session_up(now, session, event)
            case PeerDown():
                self._session_down(now, session, event)
            case PeerRefused():
                refused = self.links.remove(session)
                self._events.append(
                    PeerTurnedDown(
                        session=session,
                        node=event.node,
                        code=event.code,
                        reason=event.reason,
                        contact="" if refused is None else refused.contact,
                    )
                )
            case NodeIdConflict():
                reason = "another key holds this node id"
                self._events.append(NodeSuspected(node=event.node, peer=event.node, reason=reason))
            case NodeUnproved():
                link = self.links.get(session)
                if link is not None and link.node is not None:
                    self._events.append(
                        NodeSuspected(node=event.node, peer=link.node, reason=event.reason)
                    )
            case _:
                self._message_received(now, session, event)
                return
        self.dialler.observe(now, session, event)

    def _session_up(self, now: float, session: int, up: PeerUp) -> None:
        """Join a parent whose handshake is complete to the uplink."""
        link = self.links.by_session[session]
        node = up.node.node.node_id
        link.info = up.node
        link.control, link.features = up.control, up.features
        link.sends, link.receives = up.sends_data, up.receives_data
        begun, link.opened = link.opened, now
        self._events.append(
            PeerAdded(
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
        wire = ForeignPeerWire(self.peers, session)
        link.foreign_peer = self.uplink.parent(
            now, wire, link.egress, node=node, srtt_us=link.srtt_us
        )
        link.node = node
        try:
            for chunk in () if link.early is None else link.early.take():
                self._data(now, link, *chunk)
        except RemoteError as error:
            self.peers.fail(now, session, error)

    def _session_down(self, now: float, session: int, down: PeerDown) -> None:
        link = self.links.remove(session)
        if down.code in FAULTS and not down.by_peer:
            self._events.append(
                PeerFaulted(session=session, node=down.node, code=down.code, reason=down.reason)
            )
        self._events.append(
            PeerGone(
                session=session,
                node=down.node,
                code=down.code,
                reason=down.reason,
                by_peer=down.by_peer,
            )
        )
        if link is not None and link.foreign_peer is not None:
            link.foreign_peer.closed(now)

    def _message_received(self, now: float, session: int, event: Event) -> None:
        """Pass a parent's message to the uplink."""
        link = self.links.get(session)
        if link is None or link.foreign_peer is None:
            return
        try:
            link.foreign_peer.event(now, event)
        except RemoteError as error:
            self.peers.fail(now, session, error)
        if isinstance(event, (Draining, Staying)):
            self.dialler.observe(now, session, event)
