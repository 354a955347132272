"""The bookkeeping of the dialler: what is to be dialled, and how far each connection has come."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, unique
from typing import Final, NamedTuple, Protocol

from laps_sdk.timers import Timers
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import CloseCode
from laps_wire.peering.laps2 import Direction, Mode

__all__ = [
    "HOPELESS",
    "MAX_REDIRECTS",
    "SELF_REASON",
    "Backoff",
    "Contact",
    "DialReport",
    "DialRow",
    "Phase",
    "RandomSource",
    "Slot",
    "SlotTable",
    "Target",
]

SELF_REASON: Final = "this contact leads to ourselves"
LEAST_DELAY: Final = 0.25
MOST_DELAY: Final = 30.0
MOST_RETRY_AFTER: Final = 3600.0
"""A peer that wants to be left alone for longer is asked again nevertheless."""
MAX_REDIRECTS: Final = 4
"""Redirects that are followed in a row."""

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
"""Refusals that only a person, or the end of another session, can change: asked rarely."""


class RandomSource(Protocol):
    """``random.Random``, as far as it is needed."""

    def random(self) -> float:
        """At least 0, less than 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DialReport:
    """A connection could not be had, or did not last until its session was established."""

    contact: str
    node: NodeId | None
    dynamic: bool
    reason: str
    retry_at: float | None
    """When it is tried again; None: it is given up."""


class DialRow(NamedTuple):
    """One slot, for people."""

    contact: str
    node: NodeId | None
    dynamic: bool
    phase: str
    session: int | None
    failures: int
    due: float | None
    last_reason: str


class Backoff:
    """How long to wait, drawn from the upper half of what the failures so far deserve."""

    __slots__ = ("_random",)

    def __init__(self, random: RandomSource) -> None:
        self._random = random

    def delay(self, failures: int, *, rarely: bool = False, least: float = 0.0) -> float:
        """Seconds; ``least`` is what the peer asked for."""
        most = MOST_DELAY if rarely else min(MOST_DELAY, 2 * LEAST_DELAY * 2 ** min(failures, 16))
        drawn = most * (0.5 + 0.5 * self._random.random())
        return max(drawn, min(least, MOST_RETRY_AFTER))


@dataclass(frozen=True, slots=True, kw_only=True)
class Contact:
    """A relay to stay connected with, by configuration."""

    address: str
    """``host``, ``host:port`` or ``[IPv6]:port``."""
    node: NodeId | None = None
    """Who must be there; None: whoever it is."""
    mode: Mode = Mode.BOTH
    direction: Direction = Direction.BIDIRECTIONAL
    parallel: int = 1
    """Connections, for networks with ECMP; all but the first carry data only."""
    alpn: str = ""
    """The protocol to speak; none: whatever there is in common."""


@unique
class Phase(Enum):
    """How far a connection has come."""

    IDLE = "idle"
    WAITING = "waiting"
    DIALLING = "dialling"
    GREETING = "greeting"
    UP = "up"


class Target:
    """A contact or a wish, with its connections."""

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
        """Those that may still lead there."""
        self.node = node
        self.asked = mode
        self.mode = mode
        """What to ask for now: less than ``asked`` once the peer has said that it takes less."""
        self.direction = direction
        self.dynamic = dynamic
        self.slots: list[Slot] = []

    def strike(self, contact: str) -> bool:
        """This contact leads elsewhere; gives whether another one is left."""
        self.contacts = tuple(each for each in self.contacts if each != contact)
        return bool(self.contacts)


class Slot:
    """One connection that is to be."""

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
        """0: the first connection of its target; others carry data only."""
        self.phase = Phase.IDLE
        self.session: int | None = None
        self.lesser: int | None = None
        """A session without control that is kept until a better one is up."""
        self.node: NodeId | None = None
        """Who is there, or was."""
        self.epoch = 0
        """The latest life of it that we know of from a session, or were told of."""
        self.patient = False
        """It was turned away, or asked to wait: news of the node changes nothing."""
        self.control = False
        self.since = 0.0
        """When it came up."""
        self.failures = 0
        self.turn = 0
        self.redirects: list[str] = []
        self.redirects_left = redirects_left
        self.reason = ""

    @property
    def address(self) -> str:
        """Where to dial now."""
        if self.redirects:
            return self.redirects[0]
        contacts = self.target.contacts or self.target.given or ("",)
        return contacts[self.turn % len(contacts)]

    @property
    def expected(self) -> NodeId | None:
        """Who must be there."""
        if self.index:
            return self.node
        # A redirect leads to somebody else, unless a certain node is wished for.
        return None if self.redirects and not self.target.dynamic else self.target.node

    @property
    def mode(self) -> Mode:
        """What to ask for."""
        return Mode.DATA if self.index else self.target.mode

    @property
    def wants_control(self) -> bool:
        """Whether it should carry control and does not."""
        return self.mode.control and not self.control

    def next_contact(self) -> None:
        """The one that was tried led to nothing."""
        if self.redirects:
            self.redirects.pop(0)
        else:
            self.turn += 1

    # For people

    def row(self, due: float | None) -> DialRow:
        """How it stands; ``due`` is when it is dialled again."""
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
        """What went wrong."""
        return DialReport(
            contact=self.address,
            node=self.expected,
            dynamic=self.target.dynamic,
            reason=reason,
            retry_at=retry_at,
        )


class SlotTable:
    """All slots, when each is due, and what went wrong."""

    __slots__ = ("_backoff", "_reports", "_slots", "_timers")

    def __init__(self, random: RandomSource) -> None:
        self._backoff = Backoff(random)
        self._slots: dict[int, Slot] = {}
        self._timers: Timers[int] = Timers()
        self._reports: list[DialReport] = []

    def rows(self) -> list[DialRow]:
        """All slots, for people."""
        return [slot.row(self._timers.when(slot.key)) for slot in self._slots.values()]

    def poll_reports(self) -> list[DialReport]:
        """What went wrong; taken once."""
        reports, self._reports = self._reports, []
        return reports

    def heard(self, now: float, node: NodeId, epoch: int) -> None:
        """A node is there: if that is a new life of it, nobody need wait for long to dial it.

        A relay that was away for a while is known to be back as soon as one of its peers is; the
        others would find out when their delay is over, and the longer it was away, the later.
        """
        for slot in self._slots.values():
            if slot.phase is not Phase.WAITING or slot.patient or epoch <= slot.epoch:
                continue
            if node == (slot.target.node if slot.node is None else slot.node):
                slot.epoch = epoch
                due = self._timers.when(slot.key)
                soon = now + self._backoff.delay(0)
                if due is not None and soon < due:
                    self._wait(slot, soon)

    def _wait(self, slot: Slot, due: float) -> None:
        slot.phase = Phase.WAITING
        self._timers.set(slot.key, due)

    def _idle(self, slot: Slot) -> None:
        slot.phase = Phase.IDLE
        self._timers.cancel(slot.key)

    def _hopeless(self, slot: Slot, reason: str) -> None:
        """Nothing that is known leads there: a person, or another wish, has to change it."""
        self._idle(slot)
        slot.target.contacts = ()
        slot.reason = reason
        self._reports.append(slot.report(reason, None))
