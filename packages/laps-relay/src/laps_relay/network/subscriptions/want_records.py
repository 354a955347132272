"""What an s-relay remembers of one wanted track, why it cannot be had, and what waits."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from laps_sdk.timers import Timers
from laps_sdk.upstream.interfaces import Answer
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import SubscribeCode, SubscribeData, SubscribeInfo
from laps_wire.peering.laps2.information import NO_DATA

__all__ = [
    "MAX_REFUSALS",
    "NOT_ANNOUNCED",
    "NO_WAY",
    "PAUSE",
    "Due",
    "No",
    "Want",
    "WantTimers",
    "code_of",
]


class No(NamedTuple):
    """Why a track cannot be had."""

    code: SubscribeCode
    reason: str
    data: SubscribeData = NO_DATA


NOT_ANNOUNCED: Final = No(SubscribeCode.NO_PUBLISHER, "nobody has announced it")
NO_WAY: Final = No(SubscribeCode.POLICY, "policy leaves no way to the publisher's relay")
MAX_REFUSALS: Final = 64
"""Refusals of one track that are kept from relays that were not asked: anybody can invent some."""
PAUSE: Final = 1.0
"""A track is asked for again at most so often, in seconds, however often clients come back."""


class Due(Enum):
    """What a timer is for."""

    UNSUBSCRIBE = "unsubscribe"
    LINGER = "linger"
    RETRY = "retry"
    VERDICT = "verdict"
    DOUBT = "doubt"
    LOST = "lost"
    REFRESH = "refresh"
    CUT = "cut"
    BACK = "back"


WantTimers: TypeAlias = "Timers[tuple[Due, int, NodeId | None]]"
"""By what is due, the key of the track and, if it is about one, the o-relay."""


class Want:
    """One track."""

    __slots__ = (
        "accepted",
        "asked",
        "data",
        "denied",
        "elements",
        "entry",
        "key",
        "lost",
        "name",
        "name_hash",
        "ok",
        "patience",
        "refusals",
        "renewed",
        "state",
        "wanted",
    )

    def __init__(
        self, key: int, name: FullTrackName, elements: tuple[int, ...], name_hash: int
    ) -> None:
        self.key = key
        self.name = name
        self.elements = elements
        self.name_hash = name_hash
        self.data = NO_DATA
        self.wanted = True
        """Whether a client still wants it; if not, the unsubscribe waits."""
        self.denied = False
        """Our own policy says no."""
        self.entry: SubscribeInfo | None = None
        """What is advertised."""
        self.accepted: dict[NodeId, int | None] = {}
        """The o-relays that serve it, with their epochs."""
        self.lost = False
        """Whether those who served it went without a word: they may still take it for served, and
        say nothing more to what is advertised."""
        self.renewed: set[NodeId] = set()
        """Those of them that have said so of what is advertised now."""
        self.refusals: dict[NodeId, No] = {}
        """Those that said no to what is advertised."""
        self.state: Answer | None = None
        """What the clients were told last."""
        self.ok = NO_DATA
        """The first publisher's own answer."""
        self.patience = 0.0
        self.asked = 0.0
        """When it was advertised last."""

    @property
    def excluded(self) -> bool:
        """Whether policy is against it somewhere: when that changes, we are told."""
        return any(no.code is SubscribeCode.POLICY for no in self.refusals.values())

    def worst(self) -> No:
        """The refusal that says most: anything but that nobody is there."""
        for no in self.refusals.values():
            if no.code is not SubscribeCode.NO_PUBLISHER:
                return no
        nobody = No(SubscribeCode.NO_PUBLISHER, "nobody answered")
        return next(iter(self.refusals.values()), nobody)


def code_of(code: int) -> SubscribeCode:
    """A code that we know; a later protocol's refusal is still one."""
    try:
        return SubscribeCode(code)
    except ValueError:
        return SubscribeCode.PUBLISHER_REFUSED
