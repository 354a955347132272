"""A relay of the network: what its shell and its own clients call.

::

    shell                          NetworkRelay
    connection_opened ----------->  Peers: handshakes, sessions
    control_data, ... ----------->    |  events
    handle_timeout -------------->    v
                                    Nib, FloodTables, Interests      what is known
                                      |  changes, until there are none
                                      v
                                    Steering, Sets                   who gets data, which way
                                      |  FIB
    data_stream, datagram ------->  PeerPlane                        the hot path
    poll_dirty, poll_transmit <---  Advertiser: differences, batched

Every public method does what it is told, lets everything settle, and returns; nothing is left half
done between two calls. It reads no clock and does no I/O.

What whoever runs the relay orders (contacts, load, policy, plan, its end) is in :mod:`.orders`.
"""

from __future__ import annotations

from laps_relay.network import events
from laps_relay.network.events import NetworkEvent
from laps_relay.network.fetch.fetch_commands import FetchCommands
from laps_sdk.forwarding.interfaces import OutStream, PeerEgress
from laps_sdk.peering.events import Dial
from laps_sdk.peering.foreign_peers import ForeignPeerFactory
from laps_sdk.peering.links import Link
from laps_sdk.timers import earliest, first_of
from laps_sdk.upstream.interfaces import Answer, DataSink, FetchSide, LocalSide
from laps_wire.errors import RemoteError
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    AnnounceKind,
    SubscribeCode,
    SubscribeData,
)
from laps_wire.peering.laps2.information import NO_DATA
from laps_wire.peering.session import Role, Transmit

__all__ = ["NetworkRelay"]


class NetworkRelay(FetchCommands):
    """See the module."""

    __slots__ = ()

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
        """A connection stands; ``spki_hash`` is of the listener's TLS key, on both sides."""
        self._links.add(Link(session, egress, alpn, dial, opened=now))
        if dial is not None:
            self._dialler.made(now, dial.number, session)
        self._peers.opened(now, session, role=role, alpn=alpn, spki_hash=spki_hash, dial=dial)
        self._settle(now)

    def control_data(
        self, now: float, session: int, stream_id: int, data: bytes, fin: bool = False
    ) -> None:
        """Bytes of a bidirectional stream."""
        self._peers.stream_data(now, session, stream_id, data, fin)
        self._settle(now, news=False)

    def control_reset(self, now: float, session: int, stream_id: int, code: int = 0) -> None:
        """The peer reset its half of a bidirectional stream."""
        self._peers.stream_reset(now, session, stream_id, code)
        self._settle(now)

    def control_stopped(self, now: float, session: int, stream_id: int, code: int = 0) -> None:
        """The peer reads our half of a bidirectional stream no more."""
        self._peers.stop_sending(now, session, stream_id, code)
        self._settle(now)

    def connection_closed(self, now: float, session: int, code: int = 0, reason: str = "") -> None:
        """A connection is gone; its number is free again."""
        self._peers.closed(now, session, code, reason)
        self._settle(now)
        self._links.remove(session)

    def measured(
        self, now: float, session: int, srtt_us: int, loss: float = 0.0, congested: bool = False
    ) -> None:
        """What the transport measures on a connection; the shell says it now and then."""
        link = self._links.get(session)
        if link is None:
            return
        link.srtt_us, link.loss, link.congested = srtt_us, loss, congested
        if link.guest is not None:
            link.guest.measured(now, srtt_us)
        elif link.node is not None:
            self._prober.measured(session, srtt_us)
            self._adjoin(now, link.node)
        self._settle(now)

    def close(self, now: float, session: int, code: int = 0, reason: str = "") -> None:
        """End a session ourselves."""
        self._peers.close(now, session, code, reason)
        self._settle(now)

    # Data, from the shell

    def data_stream(self, now: float, session: int, stream_id: int, data: bytes, fin: bool) -> None:
        """A chunk of a unidirectional stream of a peer."""
        link = self._links.get(session)
        if link is None:
            return
        try:
            self._data(now, link, stream_id, data, fin)
        except RemoteError as error:
            self._fault(now, link, error)
            self._settle(now)

    def data_reset(self, now: float, session: int, stream_id: int, code: int) -> None:
        """The peer abandoned a unidirectional stream."""
        link = self._links.get(session)
        if link is not None and link.early is not None:
            link.early.forget(stream_id)
        if link is not None and link.guest is not None:
            link.guest.stream_reset(now, stream_id, code)
        else:
            self._plane.stream_reset(now, session, stream_id, code)

    def datagram(self, now: float, session: int, data: bytes) -> None:
        """A datagram of a peer."""
        link = self._links.get(session)
        if link is None:
            return
        try:
            self._datagram(now, link, data)
        except RemoteError as error:
            self._fault(now, link, error)
            self._settle(now)

    def out_stream_gone(
        self, now: float, session: int, stream: OutStream, lost: int, *, stopped: bool
    ) -> None:
        """An outgoing data stream was dropped by the egress, or stopped by the peer."""
        link = self._links.get(session)
        if link is not None and link.guest is not None:
            link.guest.out_stream_gone(now, stream, lost, stopped=stopped)
        else:
            self._plane.out_stream_gone(now, session, stream, lost, stopped=stopped)

    # The local side

    def attach(self, local: LocalSide, sink: DataSink, fetches: FetchSide | None = None) -> None:
        """Join our own clients, before any of them comes; ``fetches``: as far as they fetch."""
        self._local = local
        self._plane.attach(sink)
        if fetches is not None:
            self._fetches.attach(fetches)

    def set_guests(self, guests: ForeignPeerFactory) -> None:
        """Who takes sessions that are none of the network's own, before any of them comes."""
        self._guests = guests

    def announce(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """Our clients publish a track, or a namespace (then the track name is empty)."""
        self._interests.announce(now, kind, name)
        self._settle(now)

    def withdraw(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """They do not any more."""
        self._interests.withdraw(now, kind, name)
        self._settle(now)

    def want(self, now: float, name: FullTrackName, data: SubscribeData = NO_DATA) -> None:
        """Our clients want a track; what becomes of it is told with ``answered``."""
        key = self.key(name)
        lapsed = self._interests.has_lapsed(key)
        denial = self._interests.want(now, name, data)
        if lapsed:
            self._catch_up(now, key)
        if denial is not None and self._local is not None:
            self._local.answered(
                now,
                key,
                Answer.REFUSED,
                code=denial.code,
                reason=denial.reason,
                data=NO_DATA,
            )
        self._settle(now)

    def unwant(self, now: float, name: FullTrackName) -> None:
        """They do not any more."""
        self._interests.unwant(now, name)
        self._settle(now)

    def pulled(self, now: float, key: int, data: SubscribeData = NO_DATA) -> None:
        """A publisher here accepted what was pulled."""
        self._interests.pulled(now, key, data)
        self._settle(now)

    def pull_refused(
        self,
        now: float,
        key: int,
        code: SubscribeCode,
        reason: str,
        data: SubscribeData = NO_DATA,
    ) -> None:
        """It refused."""
        self._interests.pull_refused(now, key, code, reason, data)
        self._settle(now)

    def pull_ended(self, now: float, key: int, reason: str) -> None:
        """It ended what it had accepted."""
        self._interests.pull_ended(now, key, reason)
        self._settle(now)

    def against(self, name: FullTrackName) -> str | None:
        """What policy has against a track for our own clients, wherever its publisher is."""
        refusal = self._policy.want(name, self._own.info.node)
        return None if refusal is None else refusal.reason

    def key(self, name: FullTrackName) -> int:
        """The full-name hash of a track."""
        return self._hasher.full_name(name.namespace.fields, name.name)

    # Polls

    def poll_dirty(self) -> list[int]:
        """Sessions that may have something to send; taken once."""
        return self._peers.poll_dirty()

    def poll_transmit(self, session: int) -> list[Transmit]:
        """What a session wants the shell to do, in order."""
        return self._peers.poll_transmit(session)

    def poll_dials(self, now: float) -> list[Dial]:
        """Whom to dial now."""
        dials = self._dialler.poll_dials(now)
        for dial in dials:
            self._events.append(
                events.Dialled(contact=dial.contact, node=dial.node, dynamic=dial.dynamic)
            )
        return dials

    def dial_failed(self, now: float, number: int, reason: str) -> None:
        """A dial has led to nothing."""
        self._dialler.failed(now, number, reason)
        self._settle(now)

    def poll_events(self) -> list[NetworkEvent]:
        """What happened, for logs and telemetry; taken once."""
        for report in self._dialler.poll_reports():
            self._events.append(
                events.Dialled(
                    contact=report.contact,
                    node=report.node,
                    dynamic=report.dynamic,
                    failed=report.reason,
                )
            )
        taken, self._events = self._events, []
        return taken

    def poll_known_keys(self) -> dict[NodeId, bytes] | None:
        """Which keys hold node ids, if that has changed; the next life is to be given them."""
        return self._peers.poll_known_keys()

    def poll_timeout(self) -> float | None:
        """When :meth:`handle_timeout`, or :meth:`poll_dials`, wants to be called."""
        return earliest(
            first_of(self._all_clocks, self._peers.poll_timeout()),
            self._steering.wishes_at,
            self._plane.samples_at,
            self._dialler.poll_timeout(),
        )

    def handle_timeout(self, now: float) -> None:
        """Do what is due."""
        self._peers.handle_timeout(now)
        self._nib.handle_timeout(now)
        first = first_of(self._clocks, self._plane.samples_at)
        if first is not None and first <= now:  # mostly only a session or a flush is due
            self.announces.handle_timeout(now)
            self.subscribes.handle_timeout(now)
            self._interests.handle_timeout(now)
            self._sets.handle_timeout(now)
            self._plane.handle_timeout(now)
            for session, probe in self._prober.handle_timeout(now):
                self._send(now, session, probe)
        self._settle(now)
        follows = self._peers.has_events()
        while (due := self._timers.pop(now)) is not None:
            follows = True
            self._due(now, *due)
        if follows:
            self._settle(now)
