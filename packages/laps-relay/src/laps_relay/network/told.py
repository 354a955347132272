"""What peers tell: each event of an established session goes to the part that it concerns.

::

    NODE_*             --> Nib                       SNS_*    --> Sets, the log of sets
    ANNOUNCE_*         --> FloodTable, by policy     PROBE_*  --> Prober
    SUBSCRIBE_*        --> FloodTable, by policy     DRAIN    --> Nib: everything moves away
    SUBSCRIBE_RESPONSE --> Interests, or the control server
    FETCH_*            --> Fetches
    SYNC_*             --> the tables that it names

What follows from it is for :mod:`laps_relay.network.core`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from laps_relay.network import events
from laps_relay.network.flood.entries import hide_name
from laps_relay.network.flood.floods import Verdict
from laps_relay.network.nodes.node_records import Fault
from laps_relay.network.nodes.probing import BadAnswer
from laps_relay.network.parts import Due, NetworkParts
from laps_sdk.peering.events import Refusal
from laps_sdk.peering.links import Chunk, Link, PreHandshakeData
from laps_wire.errors import ProtocolViolation, RemoteError
from laps_wire.nodeid import NodeId
from laps_wire.peering import session as wire
from laps_wire.peering.errors import BadNodeError, SnsViolationError, StreamCode
from laps_wire.peering.laps2 import (
    Bases,
    Feature,
    SnsRefusal,
    Stamp,
    SubscribeCode,
    SubscribeInfo,
    SubscribeResponse,
    SyncRequest,
)

__all__ = ["FLOODED", "PROBES", "SYNC_PAUSE", "NetworkTold"]

PROBES: Final = (wire.ProbeReceived, wire.ProbeAnswered)
"""Most events of a network at rest; nothing but an answer follows from them."""
FLOODED: Final = Bases.ANNOUNCES | Bases.SUBSCRIBES
REFILL_TIME: Final = 1.0
"""How long a Via that keeps nothing waits for what others have, in seconds."""

SYNC_PAUSE: Final = 1.0
"""A peer is told everything again at most so often, in seconds."""

_LIES: Final = frozenset({Fault.BAD_PATH, Fault.BAD_NODE})
"""What no honest relay says, because it would not believe it."""
_NO_DATA: Final = "data on a session, or in a direction, that carries none"


class NetworkTold(NetworkParts):
    """Takes what peers tell."""

    __slots__ = ()

    def _told(self, now: float, link: Link, peer: NodeId, event: wire.Event) -> None:
        session = link.session
        match event:  # what comes most often first, but for probes
            case wire.NodesAdvertised():
                for report in self._nib.advertised(now, peer, event.nodes):
                    self._suspect(report.node, report.peer, report.reason)
                    if report.fault is Fault.KEY_CONFLICT and report.node != peer:
                        # Perhaps it alone had told us of that node, and with the other key: then
                        # the node goes now, and it was right with one of both.
                        self._links.disputed.setdefault(report.node, {})[peer] = None
                    if report.fault in _LIES and self._lies.add(now, session):
                        raise BadNodeError(f"again and again: {report.reason}")
                # At once: what it says next may be what it says again.
                self._advertiser.spoken(now, session, peer)
            case wire.NodesWithdrawn():
                self._nib.withdrawn(now, peer, event.nodes)
                self._withheld.moved()
            case wire.AnnouncesAdvertised() | wire.AnnouncesWithdrawn():
                self._announced(now, link, event)
            case wire.SubscribesAdvertised() | wire.SubscribesWithdrawn():
                self._subscribed(now, link, event)
            case wire.SubscribeAnswered():
                self._answered(now, session, event.response)
            case wire.SyncRequested():
                self._sync_asked(now, link, event.bases & ~Bases.SNS)
            case wire.ControlStreamMoved():
                # They are in no base, so no synchronisation brings them back (laps-2, 4.6).
                for response in self._recent.again(now, session):
                    self._send(now, session, response)
            case wire.SyncBegan():
                self._sync(now, link, peer, event.bases, began=True)
            case wire.SyncEnded():
                self._sync(now, link, peer, event.bases, began=False)
            case wire.SnsAdvertised() | wire.SnsWithdrawn() | wire.SnsRefusedByPeer():
                self._set_told(now, session, peer, event)
            case wire.DataDropped():
                self._plane.discard(now, session, [each.item for each in event.dropped])
            case wire.FetchSaid():
                if Feature.FETCHES not in link.features:
                    raise ProtocolViolation("a message of a feature that is not in use")
                self._fetches.received(now, session, event.message)
            case wire.Draining():
                link.leaving = True
                self._events.append(
                    events.PeerLeaving(
                        session=session, node=peer, reason=event.reason, by_peer=True
                    )
                )
                self._nib.set_peer(now, peer, draining=True)
            case wire.Staying():
                if Feature.STAYS not in link.features:
                    raise ProtocolViolation("a message of a feature that is not in use")
                link.leaving = self._peers.is_parted(session)
                self._events.append(events.PeerStays(session=session, node=peer))
                others = any(each.leaving for each in self._links.of(peer))
                self._nib.set_peer(now, peer, draining=others)
            case _:
                pass

    def _announced(
        self, now: float, link: Link, event: wire.AnnouncesAdvertised | wire.AnnouncesWithdrawn
    ) -> None:
        peer = self._exports.peer(link)
        for entry in event.announces:
            if isinstance(event, wire.AnnouncesWithdrawn):
                verdict = self.announces.heard_withdrawal(now, link.session, entry)
            elif peer is None or not self._policy.import_announce(entry, peer):
                named = Feature.PLAINTEXT_NAMES in link.features
                shown = entry if named else hide_name(entry)
                verdict = self.announces.heard(now, link.session, shown)
            else:
                continue
            self._check_ours(link, verdict, entry.stamp)

    def _subscribed(
        self, now: float, link: Link, event: wire.SubscribesAdvertised | wire.SubscribesWithdrawn
    ) -> None:
        peer = self._exports.peer(link)
        for entry in event.subscribes:
            if isinstance(event, wire.SubscribesWithdrawn):
                verdict = self.subscribes.heard_withdrawal(now, link.session, entry)
                self._check_ours(link, verdict, entry.stamp)
                continue
            refusal = None
            if peer is not None:
                refusal = self._policy.import_subscribe(entry, peer)
            if refusal is None:
                verdict = self.subscribes.heard(now, link.session, entry)
                self._check_ours(link, verdict, entry.stamp)
            else:
                # Told at once, instead of waiting for data that will never come (laps-2, 5.3).
                self._refuse(now, link.session, entry, refusal)

    def _check_ours(self, link: Link, verdict: Verdict, stamp: Stamp) -> None:
        """Report what is said in our name with a stamp that we have not given yet."""
        if verdict is Verdict.OWN and link.node is not None and stamp >= self._own.stamp():
            self._suspect(self._own.node_id, link.node, "an entry of ours that we did not make")

    def _refuse(self, now: float, session: int, entry: SubscribeInfo, refusal: Refusal) -> None:
        self.respond(now, session, self._refusal(entry, refusal))

    def _refusal(self, entry: SubscribeInfo, refusal: Refusal) -> SubscribeResponse:
        """The answer of a relay whose policy does not let a subscribe pass."""
        code = SubscribeCode.POLICY
        self._events.append(
            events.SubscribeRefused(
                key=entry.full_name_hash, source=entry.source, code=code, reason=refusal.reason
            )
        )
        return SubscribeResponse(
            entry.source,
            entry.full_name_hash,
            entry.stamp,
            self._own.node_id,
            code,
            refusal.reason,
        )

    def _answered(self, now: float, session: int, response: SubscribeResponse) -> None:
        own = self._own.node_id
        responder = response.responder
        if response.source != own and (
            responder == own or not self._passed.lets(now, response, self._nib.epoch(responder))
        ):
            # It goes round.
            return
        if self._server is None:
            self._interests.response(now, session, response)
        else:
            self._server.response(now, session, response)

    def _sync_asked(self, now: float, link: Link, bases: Bases) -> None:
        """A peer must be told everything: it is new, its control stream has moved, or it asks."""
        first, link.synced = not link.synced, True
        if not self._settings.reflect and bases & FLOODED:
            # Others have what we do not keep. A newcomer hears it as it comes; somebody who heard
            # it before would take it for gone if it were missing between SYNC_BEGIN and SYNC_END.
            if not first:
                self._refill(now, link)
                self._timers.set((Due.RESYNC, link.session), now + REFILL_TIME)
                bases &= ~FLOODED
            elif self._timers.when((Due.REFILL, 0)) is None:
                self._timers.set((Due.REFILL, 0), now + self._settings.batch)
        # All tables for a few bytes: nobody gets that as often as he likes.
        due = link.synced_at
        if due <= now:  # otherwise it is about to be told everything
            due = link.synced_at = now if first else max(now, due + SYNC_PAUSE)
        if due > now:
            link.asked |= bases
        else:
            link.sync |= bases
        self._timers.set((Due.FLUSH, link.session), due)

    def _refill(self, now: float, asked: Link | None = None) -> None:
        """Ask peers for everything; because one of them ``asked`` for it, not all the time.

        Otherwise Vias that keep nothing would ask each other in a circle for ever.
        """
        if asked is None or now >= self._refilled + self._settings.convergence / 2:
            self._refilled = now
            before = now - self._settings.batch
            self._ask(now, lambda link: link is not asked and link.opened < before)

    def _ask(self, now: float, whom: Callable[[Link], bool]) -> None:
        """Let peers tell all announces and subscribes again."""
        for link in list(self._links.controls()):
            if whom(link):
                self._send(now, link.session, SyncRequest(FLOODED))

    def _sync(self, now: float, link: Link, peer: NodeId, bases: Bases, *, began: bool) -> None:
        if Bases.NODES in bases:
            if began:
                self._nib.sync_began(peer)
            else:
                self._nib.sync_ended(now, peer)
        tables = ((Bases.ANNOUNCES, self.announces), (Bases.SUBSCRIBES, self.subscribes))
        for base, table in tables:
            if base in bases:
                if began:
                    table.sync_began(link.session)
                else:
                    table.sync_ended(now, link.session)

    def _set_told(
        self,
        now: float,
        session: int,
        peer: NodeId,
        event: wire.SnsAdvertised | wire.SnsWithdrawn | wire.SnsRefusedByPeer,
    ) -> None:
        match event:
            case wire.SnsAdvertised():
                self._set_changed(session, event.sns_id, event.targets, incoming=True)
                self._sets.advertised(now, session, event)
                self._check_targets(now, session, peer, event.targets)
            case wire.SnsWithdrawn():
                gone = self._set_log.gone(session, event.sns_id, incoming=True)
                if gone is not None:
                    self._events.append(gone)
                self._sets.withdrawn(now, session, event)
            case wire.SnsRefusedByPeer():
                self._sets.refused(now, session, event)

    def _check_targets(
        self, now: float, session: int, peer: NodeId, targets: Iterable[NodeId]
    ) -> None:
        """They are refused one by one; a peer that names strangers all the time has to go."""
        for target in targets:
            if target != self._own.node_id and not self._nib.may_believe(now, peer, target):
                if self._lies.add(now, session):
                    raise SnsViolationError(f"again and again: {target} was not advertised to it")
                return

    def refuse_sns(
        self, now: float, session: int, sns_id: int, code: SnsRefusal, targets: Iterable[NodeId]
    ) -> None:
        """Tell the sender of a set that these targets get nothing."""
        chosen = tuple(targets)
        super().refuse_sns(now, session, sns_id, code, chosen)
        self._events.append(
            events.SetRefused(
                session=session,
                node=self.node_of(session),
                sns_id=sns_id,
                code=code,
                targets=len(chosen),
            )
        )

    def _probed(
        self, now: float, session: int, event: wire.ProbeReceived | wire.ProbeAnswered
    ) -> None:
        if isinstance(event, wire.ProbeReceived):
            self._peers.send(now, session, self._prober.answer(event.probe))
            return
        learned = self._prober.answered(now, session, event.response)
        if type(learned) is BadAnswer:
            self._suspect(learned.target, learned.peer, learned.reason)

    # Data

    def _data(self, now: float, link: Link, stream_id: int, data: bytes, fin: bool) -> None:
        """A chunk of a stream; raises ``RemoteError`` for a peer's fault."""
        early = link.early
        if not link.up:
            if early is None:
                early = link.early = PreHandshakeData()
            if not early.add(Chunk(stream_id, data, fin)):
                link.egress.stop_sending(stream_id, StreamCode.OVERLOADED)
        elif early is not None and early.refused(stream_id):
            pass
        elif link.guest is not None:
            link.guest.stream_data(now, stream_id, data, fin)
        elif link.receives:
            self._plane.stream_data(now, link.session, stream_id, data, fin)
        else:
            raise ProtocolViolation(_NO_DATA)

    def _datagram(self, now: float, link: Link, data: bytes) -> None:
        """An object; raises like :meth:`_data`. One that comes too early is lost, as some are."""
        if link.guest is not None:
            link.guest.datagram(now, data)
        elif link.receives:
            self._plane.datagram(now, link.session, data)
        elif link.up:
            raise ProtocolViolation(_NO_DATA)

    def _late_data(self, now: float, link: Link) -> None:
        """The handshake is over: take what was faster."""
        for chunk in () if link.early is None else link.early.take():
            self._data(now, link, *chunk)

    # Faults

    def _suspect(self, node: NodeId, peer: NodeId, reason: str) -> None:
        self._events.append(events.NodeSuspected(node=node, peer=peer, reason=reason))
        if node != peer and self._nib.info(node) is not None:
            self._links.disputed.setdefault(node, {})[peer] = None

    def _ask_again(self, now: float, node: NodeId) -> None:
        """A node is gone: whoever was not believed about it may have been right."""
        for peer in self._links.disputed.pop(node, ()):
            link = self._links.control(peer)
            if link is not None:
                self._send(now, link.session, SyncRequest(Bases.NODES))

    def _fault(self, now: float, link: Link, error: RemoteError) -> None:
        """Close a session; that it was a fault is told with its end, like those it sees itself."""
        self._peers.fail(now, link.session, error)
