"""Decides which relays to dial and when: contacts for ever, demanded nodes while they are demanded.

::

    Contact (configured)      one slot for control and data, ``parallel - 1`` more for data alone
    demand (node, contacts)   one slot, while no other session with that node is up

                 poll_dials             made              up
      WAITING ──────────────> DIALLING ───────> GREETING ─────> UP ──┐
         ^                       │ failed          │ refused         │ ended
         └────── a delay ────────┴─────────────────┴─────────────────┘
      IDLE: nothing to do (another session meets the demand), or no contact is left

Delays grow from a quarter of a second to half a minute. Each is drawn at random from its upper
half, so that relays that lost the same peer do not return at the same time. A node that is
advertised with a newer epoch is dialled soon, whatever the delay. The dialler follows a peer's
redirect or retry time within limits. It never dials a contact again that led to this relay itself.

A connection for control and data may get data only, because another connection has control. If that
connection ends, the slot dials again after a moment. It closes the lesser connection once the new
one is up, so that data continues meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, unique
from types import MappingProxyType
from typing import Final, NamedTuple

from laps_sdk.peering.events import Dial, PeerDown, PeerEvent, PeerRefused, PeerUp
from laps_sdk.timers import Timers
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import CloseCode
from laps_wire.peering.laps2 import Direction, Mode, RelayType
from laps_wire.peering.session import Draining, Staying

__all__ = [
    "HOPELESS",
    "MAX_REDIRECTS",
    "SELF_REASON",
    "Contact",
    "DialReport",
    "DialRow",
    "Dialler",
    "Phase",
    "Slot",
    "Target",
]

SELF_REASON: Final = "this contact leads to ourselves"
LEAST_DELAY: Final = 0.25
MOST_DELAY: Final = 30.0
MOST_RETRY_AFTER: Final = 3600.0
"""The longest retry time of a peer that is followed, in seconds."""
MAX_REDIRECTS: Final = 4
"""The most redirects that are followed in a row."""

HOPELESS: Final = frozenset(
    {
        CloseCode.NOT_AUTHORIZED,
        CloseCode.VERSION_MISMATCH,
        CloseCode.NODE_ID_CONFLICT,
        CloseCode.STALE_EPOCH,
        CloseCode.HASH_MISMATCH,
        CloseCode.MODE_REFUSED,
        CloseCode.REDUNDANT_CONTROL,
        CloseCode.POLICY,
        CloseCode.WRONG_NODE,
    }
)
"""Refusals that only an operator, or the end of another session, can change; retried rarely."""
STABLE: Final = 10.0
"""Seconds after which a session clears the count of earlier failures."""
CONTROL_GRACE: Final = 1.0
"""Seconds that the dialler of a lost control connection has to dial it again first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DialReport:
    """A dial failed, or its connection ended before its session was established."""

    contact: str
    node: NodeId | None
    dynamic: bool
    reason: str
    retry_at: float | None
    """When it is dialled again; None if it is given up."""


class DialRow(NamedTuple):
    """The state of one slot, for display."""

    contact: str
    node: NodeId | None
    dynamic: bool
    phase: str
    session: int | None
    failures: int
    due: float | None
    last_reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Contact:
    """A configured relay to stay connected with."""

    address: str
    """``host``, ``host:port`` or ``[IPv6]:port``."""
    node: NodeId | None = None
    """The node that must answer; None for any."""
    mode: Mode = Mode.BOTH
    direction: Direction = Direction.BIDIRECTIONAL
    parallel: int = 1
    """The number of connections, for networks with ECMP; all but the first carry data only."""
    alpn: str = ""
    """The protocol to use; "" for any that both support."""


@unique
class Phase(Enum):
    """The state of a slot."""

    IDLE = "idle"
    WAITING = "waiting"
    DIALLING = "dialling"
    GREETING = "greeting"
    UP = "up"


class Target:
    """A contact or a demand, with its slots."""

    __slots__ = (
        "alpn",
        "asked",
        "contacts",
        "direction",
        "dynamic",
        "given",
        "mode",
        "node",
        "slots",
    )

    def __init__(
        self,
        contacts: tuple[str, ...],
        node: NodeId | None,
        mode: Mode,
        direction: Direction = Direction.BIDIRECTIONAL,
        *,
        dynamic: bool = False,
        alpn: str = "",
    ) -> None:
        self.alpn = alpn
        self.given = contacts
        self.contacts = contacts
        """The contacts that may still lead to the node."""
        self.node = node
        self.asked = mode
        self.mode = mode
        """The mode to ask for now: less than ``asked`` if the peer refused that mode."""
        self.direction = direction
        self.dynamic = dynamic
        self.slots: list[Slot] = []

    def strike(self, contact: str) -> bool:
        """Remove a contact that leads to another node; return whether one is left."""
        self.contacts = tuple(each for each in self.contacts if each != contact)
        return bool(self.contacts)


class Slot:
    """One connection to be made and kept."""

    __slots__ = (
        "control",
        "epoch",
        "failures",
        "index",
        "key",
        "lesser",
        "node",
        "patient",
        "phase",
        "reason",
        "redirects",
        "redirects_left",
        "session",
        "since",
        "target",
        "turn",
    )

    def __init__(self, key: int, target: Target, index: int, redirects_left: int) -> None:
        self.key = key
        self.target = target
        self.index = index
        """0 for the first connection of its target; the others carry data only."""
        self.phase = Phase.IDLE
        self.session: int | None = None
        self.lesser: int | None = None
        """A session without control that is kept until a better one is up."""
        self.node: NodeId | None = None
        """The node that answered last."""
        self.epoch = 0
        """The latest epoch of the node, from a session or an advertisement."""
        self.patient = False
        """Whether the peer refused or asked to wait: advertisements do not shorten the delay."""
        self.control = False
        self.since = 0.0
        """When the session came up."""
        self.failures = 0
        self.turn = 0
        self.redirects: list[str] = []
        self.redirects_left = redirects_left
        self.reason = ""

    @property
    def address(self) -> str:
        """The contact to dial now."""
        if self.redirects:
            return self.redirects[0]
        contacts = self.target.contacts or self.target.given or ("",)
        return contacts[self.turn % len(contacts)]

    @property
    def expected(self) -> NodeId | None:
        """The node that must answer; None for any."""
        if self.index:
            return self.node
        # A redirect leads to another node, unless a demand names the node.
        return None if self.redirects and not self.target.dynamic else self.target.node

    @property
    def mode(self) -> Mode:
        """The mode to ask for."""
        return Mode.DATA if self.index else self.target.mode

    @property
    def wants_control(self) -> bool:
        """Whether it should carry control and does not."""
        return self.mode.control and not self.control

    def next_contact(self) -> None:
        """Go on to the next contact, because the last one failed."""
        if self.redirects:
            self.redirects.pop(0)
        else:
            self.turn += 1

    # For display

    def row(self, due: float | None) -> DialRow:
        """Return the state; ``due`` is when the slot is dialled again."""
        return DialRow(
            contact=self.address,
            node=self.expected if self.node is None else self.node,
            dynamic=self.target.dynamic,
            phase=self.phase.value,
            session=self.session,
            failures=self.failures,
            due=due,
            last_reason=self.reason,
        )

    def report(self, reason: str, retry_at: float | None) -> DialReport:
        """Return a report of a failure."""
        return DialReport(
            contact=self.address,
            node=self.expected,
            dynamic=self.target.dynamic,
            reason=reason,
            retry_at=retry_at,
        )


class DiallerSizes(NamedTuple):
    """How many entries the tables of a :class:`Dialler` have."""

    unwanted: int
    """Sessions that are to be closed."""
    dials: int
    """Dials in progress."""
    orphans: int
    """Slots without a contact or demand."""


class Dialler:
    """Decides which relays to dial and when; see the module. It does no I/O itself."""

    __slots__ = (
        "_by_number",
        "_by_session",
        "_contacts",
        "_control",
        "_demands",
        "_is_control",
        "_is_stub",
        "_next_number",
        "_next_slot",
        "_node_of",
        "_own",
        "_random",
        "_reports",
        "_sessions",
        "_slots",
        "_stopped",
        "_timers",
        "_unwanted",
    )

    def __init__(
        self,
        random: Callable[[], float],
        *,
        relay_type: RelayType = RelayType.EDGE,
        own_contacts: Iterable[str] = (),
    ) -> None:
        """``random`` returns numbers from 0 up to, but not including, 1."""
        self._random = random
        self._slots: dict[int, Slot] = {}
        self._timers: Timers[int] = Timers()
        self._reports: list[DialReport] = []
        self._is_stub = relay_type is RelayType.STUB
        self._is_control = relay_type is RelayType.CONTROL
        self._own = frozenset(own_contacts)
        self._contacts: dict[Contact, Target] = {}
        self._demands: dict[NodeId, Target] = {}
        self._by_number: dict[int, Slot] = {}
        self._by_session: dict[int, Slot] = {}
        self._sessions: dict[NodeId, dict[int, None]] = {}
        """Established sessions by node, dialled by either side."""
        self._node_of: dict[int, NodeId] = {}
        self._control: dict[NodeId, int] = {}
        self._unwanted: dict[int, None] = {}
        self._next_slot = self._next_number = 1
        self._stopped = False

    # Contacts and demands

    def set_contacts(self, now: float, contacts: Iterable[Contact]) -> None:
        """Replace the configured contacts; unchanged ones keep their connections."""
        wanted = dict.fromkeys(contacts)
        for contact in [each for each in self._contacts if each not in wanted]:
            self._drop(self._contacts.pop(contact))
        for contact in wanted:
            if contact in self._contacts:
                continue
            mode = Mode.CONTROL if self._is_control else contact.mode
            target = Target(
                (contact.address,), contact.node, mode, contact.direction, alpn=contact.alpn
            )
            self._contacts[contact] = target
            # Stubs carry everything on one connection, control servers carry no data.
            single = self._is_stub or not mode.data
            for index in range(1 if single else contact.parallel):
                self._add(now, target, index)

    def add_demand(
        self, now: float, node: NodeId, contacts: Sequence[str], mode: Mode = Mode.BOTH
    ) -> None:
        """Demand a session with this node, dialled by either side; contacts may be new ones."""
        known = self._demands.get(node)
        if known is not None:
            if known.given == tuple(contacts):
                return
            if any(slot.phase is Phase.UP for slot in known.slots):
                # Keep the session that is up; it is closed when the demand ends.
                known.given = known.contacts = tuple(contacts)
                return
            self._drop(self._demands.pop(node))
        target = Target(tuple(contacts), node, mode, dynamic=True)
        self._demands[node] = target
        self._add(now, target, 0)

    def remove_demand(self, now: float, node: NodeId) -> None:  # noqa: ARG002 - as all commands
        """End the demand for a node; a session that was dialled for it is closed."""
        target = self._demands.pop(node, None)
        if target is not None:
            self._drop(target)

    def set_demands(
        self,
        now: float,
        demands: Mapping[NodeId, Sequence[str]],
        servers: Mapping[NodeId, Sequence[str]] = MappingProxyType({}),
    ) -> None:
        """Replace all demands.

        ``servers`` are control servers, which are demanded for control alone.
        """
        configured = {contact.address for contact in self._contacts}
        # Configured contacts are dialled in any case: a demand would dial them twice.
        lacking = {
            node: contacts
            for node, contacts in servers.items()
            if contacts and configured.isdisjoint(contacts)
        }
        for node in [each for each in self._demands if each not in demands and each not in lacking]:
            self.remove_demand(now, node)
        for node in sorted(demands):
            self.add_demand(now, node, demands[node])
        for node in sorted(lacking.keys() - demands.keys()):
            self.add_demand(now, node, lacking[node], Mode.CONTROL)

    def demanded(self) -> list[NodeId]:
        """Return the demanded nodes, lowest first."""
        return sorted(self._demands)

    def stop(self) -> None:
        """Stop dialling, because the relay drains."""
        self._stopped = True

    def resume(self) -> None:
        """Dial again; what became due meanwhile is due now."""
        self._stopped = False

    # Results of dials

    def made(self, now: float, number: int, session: int) -> None:  # noqa: ARG002 - as all
        """Record that a dial led to a connection; its handshake follows."""
        slot = self._by_number.pop(number, None)
        if slot is None:
            self._unwanted[session] = None
            return
        slot.phase = Phase.GREETING
        slot.session = session
        self._by_session[session] = slot

    def failed(self, now: float, number: int, reason: str) -> None:
        """Record that a dial failed."""
        slot = self._by_number.pop(number, None)
        if slot is not None:
            self._retry(now, slot, reason)

    def up(self, now: float, session: int, node: NodeId, *, control: bool, epoch: int = 0) -> None:
        """Record an established session, dialled by either side."""
        if node:
            self._sessions.setdefault(node, {})[session] = None
            self._node_of[session] = node
            if control:
                self._control[node] = session
        slot = self._by_session.get(session)
        if slot is not None:
            slot.phase = Phase.UP
            slot.since = now
            slot.node = node
            slot.epoch = epoch
            slot.control = control
            slot.redirects.clear()
            slot.redirects_left = MAX_REDIRECTS
            if slot.lesser is not None:
                del self._by_session[slot.lesser]
                self._unwanted[slot.lesser] = None
                slot.lesser = None
            self._timers.cancel(slot.key)
            if slot.wants_control and not control and node and node not in self._control:
                # The other side still has a control connection that has ended here.
                delay = self._delay(slot.failures)
                self._timers.set(slot.key, now + CONTROL_GRACE + delay)
            self._wake_siblings(now, slot)
        demand = self._demands.get(node)
        if demand is not None:
            for each in demand.slots:
                if each.phase is Phase.WAITING:
                    self._idle(each)

    def refused(self, now: float, session: int, event: PeerRefused) -> None:
        """Record that a connection ended before its session was established."""
        self._unwanted.pop(session, None)
        slot = self._by_session.pop(session, None)
        if slot is None:
            return
        slot.session = None
        target, code = slot.target, event.code
        if event.to_self:
            self._hopeless(slot, SELF_REASON)
        elif code == CloseCode.MODE_REFUSED and slot.mode is Mode.BOTH and not self._is_stub:
            # The peer may be a control server, which only its answer shows (laps-2, 4.5).
            target.mode = Mode.CONTROL
            self._wait(slot, now)
        elif code == CloseCode.WRONG_NODE and target.dynamic and not target.strike(slot.address):
            self._hopeless(slot, event.reason)
        elif event.redirect and slot.redirects_left:
            slot.redirects_left -= 1
            slot.redirects = list(event.redirect)
            self._retry(now, slot, event.reason, fresh=True, least=event.retry_after)
        else:
            rarely = code in HOPELESS
            self._retry(now, slot, event.reason, rarely=rarely, least=event.retry_after)

    def ended(self, now: float, session: int) -> None:
        """Record the end of a session or connection; does nothing if it is unknown."""
        self._unwanted.pop(session, None)
        node = self._node_of.pop(session, None)
        if node is not None:
            self._lost(now, node, session)
        slot = self._by_session.pop(session, None)
        if slot is None:
            return
        if slot.lesser == session:
            slot.lesser = None
            return
        slot.session = None
        lived = slot.phase is Phase.UP
        if lived and slot.target.dynamic and self._sessions.get(slot.target.node or NodeId(0)):
            self._idle(slot)
            return
        if lived:
            slot.target.mode = slot.target.asked
            if now - slot.since >= STABLE:
                slot.failures = 0
        elsewhere = lived and bool(slot.redirects)
        self._retry(now, slot, "the session ended", quiet=lived, fresh=elsewhere)

    def observe(self, now: float, session: int, event: PeerEvent) -> None:
        """Handle an event of ``Peers``: calls :meth:`up`, :meth:`refused` or :meth:`ended`."""
        match event:
            case PeerUp():
                node = event.node.node
                self.up(now, session, node.node_id, control=event.control, epoch=node.stamp.epoch)
            case PeerRefused():
                self.refused(now, session, event)
            case PeerDown():
                self.ended(now, session)
            case Draining() if event.alternates and self._is_stub and session in self._by_session:
                # A Stub dials these after the session has ended; other relays have more peers.
                self._by_session[session].redirects = list(event.alternates)
            case Staying() if session in self._by_session:
                self._by_session[session].redirects.clear()

    def node_advertised(self, now: float, node: NodeId, epoch: int) -> None:
        """Dial a node soon if it is advertised with a newer epoch.

        A restarted relay is known to be back as soon as one of its peers has a session with it. The
        others need not wait until their delay has passed.
        """
        for slot in self._slots.values():
            if slot.phase is not Phase.WAITING or slot.patient or epoch <= slot.epoch:
                continue
            if node == (slot.target.node if slot.node is None else slot.node):
                slot.epoch = epoch
                due = self._timers.when(slot.key)
                soon = now + self._delay(0)
                if due is not None and soon < due:
                    self._wait(slot, soon)

    # Polls

    def poll_dials(self, now: float) -> list[Dial]:
        """Return what to dial now."""
        dials: list[Dial] = []
        while not self._stopped and (key := self._timers.pop(now)) is not None:
            slot = self._slots[key]
            if slot.phase is Phase.UP and not self._renew(slot):
                continue
            dials.append(self._dial(slot))
        return dials

    @property
    def has_unwanted(self) -> bool:
        """Whether :meth:`poll_unwanted` returns any."""
        return bool(self._unwanted)

    def poll_unwanted(self) -> list[int]:
        """Return sessions to close; each is returned until it has ended."""
        return list(self._unwanted)

    def poll_timeout(self) -> float | None:
        """Return when :meth:`poll_dials` has something; None for never."""
        return None if self._stopped else self._timers.next()

    def rows(self) -> list[DialRow]:
        """Return the state of all slots, for display."""
        return [slot.row(self._timers.when(slot.key)) for slot in self._slots.values()]

    def sizes(self) -> DiallerSizes:
        """Return how many entries each table of the dialler has."""
        targets = (*self._contacts.values(), *self._demands.values())
        return DiallerSizes(
            unwanted=len(self._unwanted),
            dials=len(self._by_number),
            orphans=len(self._slots) - sum(len(target.slots) for target in targets),
        )

    def poll_reports(self) -> list[DialReport]:
        """Return the failures since the last call."""
        reports, self._reports = self._reports, []
        return reports

    # Inside

    def _add(self, now: float, target: Target, index: int) -> None:
        slot = Slot(self._next_slot, target, index, MAX_REDIRECTS)
        self._next_slot += 1
        self._slots[slot.key] = slot
        target.slots.append(slot)
        if not target.contacts:
            self._hopeless(slot, "it has no contact")
        elif target.contacts[0] in self._own:
            self._hopeless(slot, SELF_REASON)
        elif index or (target.dynamic and self._sessions.get(target.node or NodeId(0))):
            self._idle(slot)
        else:
            self._wait(slot, now)

    def _drop(self, target: Target) -> None:
        """Forget a target and close its sessions."""
        for slot in target.slots:
            self._timers.cancel(slot.key)
            del self._slots[slot.key]
            for number in [n for n, each in self._by_number.items() if each is slot]:
                del self._by_number[number]
            for session in [s for s, each in self._by_session.items() if each is slot]:
                del self._by_session[session]
                self._unwanted[session] = None

    def _dial(self, slot: Slot) -> Dial:
        number = self._next_number
        self._next_number += 1
        slot.phase = Phase.DIALLING
        self._by_number[number] = slot
        return Dial(
            number=number,
            contact=slot.address,
            node=slot.expected,
            mode=slot.mode,
            dynamic=slot.target.dynamic,
            direction=slot.target.direction,
            alpn=slot.target.alpn,
        )

    def _renew(self, slot: Slot) -> bool:
        """Return whether a slot that is up without control should dial again."""
        if slot.control or slot.node is None or slot.node in self._control:
            return False
        slot.lesser, slot.session = slot.session, None
        return True

    def _lost(self, now: float, node: NodeId, session: int) -> None:
        """Let demands and lesser connections react to the end of a session with a node."""
        sessions = self._sessions[node]
        del sessions[session]
        if not sessions:
            del self._sessions[node]
            demand = self._demands.get(node)
            for slot in () if demand is None else demand.slots:
                if slot.phase is Phase.IDLE and demand is not None and demand.contacts:
                    self._wait(slot, now)
        if self._control.get(node) == session:
            del self._control[node]
            for slot in self._slots.values():
                if slot.phase is Phase.UP and slot.node == node and slot.wants_control:
                    self._timers.set(slot.key, now + CONTROL_GRACE + self._delay(0))

    def _wake_siblings(self, now: float, slot: Slot) -> None:
        """Dial the other connections of a contact, whose node is now known."""
        if slot.index or not slot.target.mode.data:
            return
        for other in slot.target.slots[1:]:
            other.node = slot.node
            if other.phase is Phase.IDLE:
                self._wait(other, now)

    def _retry(
        self,
        now: float,
        slot: Slot,
        reason: str,
        *,
        fresh: bool = False,
        rarely: bool = False,
        quiet: bool = False,
        least: float = 0.0,
    ) -> None:
        """Dial again after a delay; ``fresh`` means another contact, with the first delay."""
        slot.session = slot.lesser
        slot.lesser = None
        if slot.session is not None:
            # The connection that was to be replaced is still up.
            slot.phase = Phase.UP
            slot.reason = reason
            self._timers.set(slot.key, now + self._delay(0, rarely=True))
            return
        due = now + self._delay(0 if fresh else slot.failures, rarely=rarely, least=least)
        slot.patient = rarely or least > 0.0
        if not fresh:
            slot.next_contact()
            slot.failures += 1
        first = slot.target.slots[0]
        if slot.index and first.phase is not Phase.UP:
            self._idle(slot)  # the first connection of the contact comes first
        else:
            self._wait(slot, due)
        slot.reason = reason
        if not quiet:
            self._reports.append(slot.report(reason, due))

    def _wait(self, slot: Slot, due: float) -> None:
        slot.phase = Phase.WAITING
        self._timers.set(slot.key, due)

    def _idle(self, slot: Slot) -> None:
        slot.phase = Phase.IDLE
        self._timers.cancel(slot.key)

    def _hopeless(self, slot: Slot, reason: str) -> None:
        """Stop dialling a slot: no known contact leads to the node."""
        self._idle(slot)
        slot.target.contacts = ()
        slot.reason = reason
        self._reports.append(slot.report(reason, None))

    def _delay(self, failures: int, *, rarely: bool = False, least: float = 0.0) -> float:
        """Return how many seconds to wait; the peer asked for at least ``least``.

        The delay is drawn from the upper half of the longest delay for this number of failures.
        """
        most = MOST_DELAY if rarely else min(MOST_DELAY, 2 * LEAST_DELAY * 2 ** min(failures, 16))
        drawn = most * (0.5 + 0.5 * self._random())
        return max(drawn, min(least, MOST_RETRY_AFTER))
