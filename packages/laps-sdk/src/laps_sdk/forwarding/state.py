"""What the parts of the plane share, and what it knows of each session."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from laps_sdk.forwarding.cache import Cache
from laps_sdk.forwarding.clients import Service
from laps_sdk.forwarding.interfaces import CacheLimits, Egress, Notice, OutStream
from laps_sdk.forwarding.limits import PlaneCounters, PlaneLimits
from laps_sdk.forwarding.samples import Samples
from laps_sdk.forwarding.traffic import TrackTraffic
from laps_sdk.timers import Timers
from laps_wire.moqt.versions import Draft

if TYPE_CHECKING:
    from laps_sdk.forwarding.fetch_relay import FetchRelay
    from laps_sdk.forwarding.intake import Intake
    from laps_sdk.forwarding.pending import Pending
    from laps_sdk.forwarding.receiver import Receiver
    from laps_sdk.forwarding.track import Track

__all__ = ["Handler", "Owner", "Session", "Source", "State"]


class Handler(Protocol):
    """An incoming data stream in one of its states."""

    @property
    def track(self) -> Track | None:
        """What it belongs to, if that is known."""

    def data(self, now: float, data: bytes, fin: bool) -> None:
        """More of it."""

    def reset(self, now: float, code: int) -> None:
        """It was abandoned, by its sender or by us."""


class Owner(Protocol):
    """Whom an outgoing stream belongs to."""

    def gone(self, now: float, stream: OutStream, lost: int) -> None:
        """The stream was stopped or dropped."""


@dataclass(slots=True, eq=False)
class Source:
    """What an alias of a session stands for."""

    track: Track
    priority: int
    """Of objects that name none."""
    streams: int = 0
    """That began, to be compared with what PUBLISH_DONE says."""
    since: tuple[int, int] | None = None
    """The oldest subgroup, with its group before it, that came from its first object on."""

    def began_with(self, group_id: int, subgroup_id: int) -> None:
        """A subgroup comes from its first object on."""
        if self.since is None or (group_id, subgroup_id) < self.since:
            self.since = group_id, subgroup_id


class State:
    """What there is once in a plane."""

    __slots__ = (
        "cache",
        "gone",
        "late_objects",
        "limits",
        "notices",
        "overflow_datagrams",
        "overflow_streams",
        "samples",
        "standby_overflow",
        "timed_out",
        "timers",
        "tracks",
        "unknown_datagrams",
        "unknown_streams",
    )

    def __init__(self, cache: CacheLimits, limits: PlaneLimits) -> None:
        self.cache = Cache(cache)
        self.limits = limits
        self.timers: Timers[Callable[[float], None]] = Timers()
        """What is called with the time when its own has come: a method of what it is about."""
        self.notices: list[Notice] = []
        self.tracks: dict[int, Track] = {}
        self.gone: list[TrackTraffic] | None = None
        """What tracks did that are no more, if somebody wants to know."""
        self.samples: Samples | None = None
        """Who times objects, if anybody."""
        self.unknown_streams = 0
        self.unknown_datagrams = 0
        self.overflow_streams = 0
        self.overflow_datagrams = 0
        self.standby_overflow = 0
        self.late_objects = 0
        self.timed_out = 0

    def counters(self) -> PlaneCounters:
        """What was given up."""
        return PlaneCounters(
            self.unknown_streams,
            self.unknown_datagrams,
            self.overflow_streams,
            self.overflow_datagrams,
            self.standby_overflow,
            self.late_objects,
            self.timed_out,
        )


class Session:
    """One session: who it is, what comes from it, what goes to it."""

    __slots__ = (
        "draft",
        "early_bytes",
        "egress",
        "fetches",
        "finished",
        "intakes",
        "malformed",
        "number",
        "outs",
        "peering",
        "pending",
        "receivers",
        "service",
        "sources",
        "state",
        "streams",
        "upstream",
    )

    def __init__(
        self,
        state: State,
        number: int,
        draft: Draft,
        egress: Egress,
        pending: Pending,
        *,
        peering: bool = False,
        upstream: bool = False,
    ) -> None:
        self.state = state
        self.number = number
        self.peering = peering
        """Whether other relays are behind it."""
        self.upstream = upstream
        """Whether those are a whole network: some want what others there have sent."""
        self.draft = draft
        self.egress = egress
        self.streams: dict[int, Handler] = {}
        """Incoming data streams that are under way."""
        self.sources: dict[int, Source] = {}
        """Aliases that are known."""
        self.intakes: dict[int, Intake] = {}
        """Aliases of tracks that the relay takes itself."""
        self.malformed: set[Track] = set()
        """Tracks that this session broke: nothing more of them is taken."""
        self.early_bytes = 0
        """What waits for the beginning of its subgroup."""
        self.pending = pending
        """What came with others."""
        self.outs: dict[OutStream, Owner] = {}
        """Outgoing data streams that are not finished."""
        self.finished: OrderedDict[OutStream, Owner] = OrderedDict()
        """Finished ones, of which something may still be dropped."""
        self.receivers: dict[int, Receiver] = {}
        self.service = Service()
        self.fetches: dict[int, FetchRelay] = {}
        """Answers that we wait for, by the request."""

    def finish_out(self, stream: OutStream) -> None:
        """All of an outgoing stream was written."""
        owner = self.outs.pop(stream, None)
        if owner is not None:
            self.finished[stream] = owner
            if len(self.finished) > self.state.limits.finished_streams:
                self.finished.popitem(last=False)

    def gone(self, now: float, stream: OutStream, lost: int) -> None:
        """An outgoing stream was stopped or dropped."""
        owner = self.outs.pop(stream, None) or self.finished.pop(stream, None)
        if owner is not None:
            owner.gone(now, stream, lost)

    def stop(self, stream_id: int, code: int) -> None:
        """Take nothing more of an incoming stream."""
        if self.streams.pop(stream_id, None) is not None:
            self.egress.stop_sending(stream_id, code)
