"""What the forwarding plane writes for a session in memory, by track into the network's feeds.

::

    Plane --open_unidirectional--> FeedStream
          --write(header ...)----> which track?  --alias--> Feed.open_stream, then every byte on
          --send_datagram--------> which track?  --alias--> Feed.send_datagram
          --write(FETCH_HEADER)--> which FETCH?  --request id--> the feed of its answer

The alias stands behind the type at the beginning of a stream and of a datagram, and the plane
writes a SUBGROUP_HEADER in one piece: the first write tells the feed. Payload is never looked at,
nor copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from laps_sdk.forwarding.interfaces import OutStream
from laps_sdk.forwarding.priority import publisher_priority
from laps_sdk.upstream.bodies import DRAFT
from laps_sdk.upstream.interfaces import Feed, FetchHandle
from laps_wire.errors import IncompleteError
from laps_wire.moqt.data.datagram import DEFAULT_PRIORITY as NO_PRIORITY
from laps_wire.moqt.data.datagram import ZERO_OBJECT_ID
from laps_wire.moqt.data.types import FETCH_HEADER_TYPE
from laps_wire.moqt.parameters import DEFAULT_PRIORITY
from laps_wire.moqt.versions import Draft

__all__ = ["FeedEgress", "FeedStream", "FetchOutlet", "Outlet", "alias_at", "alias_of"]

_ALIAS_MASK: Final = (1 << 62) - 1


def alias_of(key: int) -> int:
    """The track alias for a full-name hash: as much of it as an integer of draft 16 holds."""
    return key & _ALIAS_MASK


def alias_at(data: bytes, draft: Draft = DRAFT) -> int | None:
    """The track alias at the beginning of a subgroup stream or an object datagram; None: cut."""
    decode, end = draft.integers.decode, len(data)
    try:
        _, pos = decode(data, 0, end)
        alias, _ = decode(data, pos, end)
    except IncompleteError:
        return None
    return alias


def _datagram_priority(data: bytes, draft: Draft) -> int | None:
    """The publisher's priority in an object datagram; None if it names none."""
    decode, end = draft.integers.decode, len(data)
    kind, pos = decode(data, 0, end)
    if kind & NO_PRIORITY:
        return None
    _, pos = decode(data, pos, end)
    _, pos = decode(data, pos, end)
    if not kind & ZERO_OBJECT_ID:
        _, pos = decode(data, pos, end)
    return data[pos]


@dataclass(slots=True, eq=False)
class Outlet:
    """Where a track goes, and what its publisher said about it."""

    feed: Feed
    priority: int = DEFAULT_PRIORITY
    """Of objects that name none."""
    ttl_ms: int = 0
    """How long an object is worth sending; 0: as long as the relays like."""


@dataclass(slots=True, eq=False)
class FetchOutlet:
    """Where the answer to a FETCH goes."""

    feed: Feed
    handle: FetchHandle
    tell: Callable[[FetchHandle, bool], None]
    """Told with True when its stream begins, and with False when it ends."""


class FeedEgress:
    """The :class:`~laps_sdk.forwarding.interfaces.Egress` of a session in memory."""

    __slots__ = (
        "_answers",
        "_begun",
        "_clock",
        "_draft",
        "_fetches",
        "_outlets",
        "_stop",
        "_to",
    )

    def __init__(
        self,
        clock: Callable[[], float],
        outlets: Mapping[int, Outlet],
        stop: Callable[[int, int], None] | None = None,
        draft: Draft = DRAFT,
        fetches: Mapping[int, FetchOutlet] | None = None,
    ) -> None:
        self._clock = clock
        self._draft = draft
        self._outlets = outlets
        """By track alias."""
        self._fetches = {} if fetches is None else fetches
        """By the request id of our FETCH."""
        self._answers: dict[OutStream, FetchOutlet] = {}
        """Streams of theirs that are under way."""
        self._stop = stop
        self._to: tuple[int, int] | None = None
        self._begun: dict[OutStream, FeedStream] = {}
        """Streams under way, by what they are written to."""

    @property
    def now(self) -> float:
        """The time."""
        return self._clock()

    @property
    def max_datagram_size(self) -> int:
        """What fits is known to each session behind a feed."""
        return 65535

    def open_unidirectional(
        self,
        *,
        priority: int = 0,
        droppable: bool = False,  # noqa: ARG002 - Egress
        drop_code: int = 0,  # noqa: ARG002 - Egress
        deadline: float | None = None,
    ) -> OutStream:
        """Begin a stream; where it goes is known with the first write."""
        return FeedStream(self, priority, deadline, self._to)

    @contextmanager
    def only_to(self, egress: tuple[int, int]) -> Iterator[None]:
        """Send streams that begin inside the block to one egress set of their feed."""
        self._to = egress
        try:
            yield
        finally:
            self._to = None

    def begin(
        self,
        stream: FeedStream,
        data: bytes,
        priority: int,
        deadline: float | None,
        *,
        continued: bool = False,
        to: tuple[int, int] | None = None,
    ) -> OutStream | None:
        """Open the stream whose first bytes these are; None if nobody wants it any more."""
        alias = alias_at(data, self._draft)
        if alias is not None and data[0] == FETCH_HEADER_TYPE:
            return self._answer(alias, priority, deadline)
        outlet = None if alias is None else self._outlets.get(alias)
        if outlet is None:
            return None
        out = outlet.feed.open_stream(
            self._clock(),
            priority=publisher_priority(priority),
            ttl_ms=outlet.ttl_ms,
            deadline=deadline,
            continued=continued,
            to=to,
        )
        self._begun[out] = stream
        return out

    def _answer(self, request_id: int, priority: int, deadline: float | None) -> OutStream | None:
        """Open the stream that answers a FETCH; None if nobody waits for it any more."""
        outlet = self._fetches.get(request_id)
        if outlet is None:
            return None
        out = outlet.feed.open_stream(
            self._clock(), priority=publisher_priority(priority), deadline=deadline
        )
        self._answers[out] = outlet
        outlet.tell(outlet.handle, True)
        return out

    def end(self, out: OutStream) -> None:
        """Nothing more is written to it."""
        self._begun.pop(out, None)
        outlet = self._answers.pop(out, None)
        if outlet is not None:
            outlet.tell(outlet.handle, False)

    def stream_of(self, out: OutStream) -> FeedStream | None:
        """The stream that is written to this one."""
        return self._begun.get(out)

    def send_datagram(self, data: bytes, deadline: float | None = None) -> bool:
        """Hand an object to its feed."""
        alias = alias_at(data, self._draft)
        outlet = None if alias is None else self._outlets.get(alias)
        if outlet is None:
            return False
        now, ttl_ms = self._clock(), outlet.ttl_ms
        if deadline is not None:
            left = max(int((deadline - now) * 1000), 1)
            ttl_ms = min(left, ttl_ms) if ttl_ms else left
        priority = _datagram_priority(data, self._draft)
        if priority is None:
            priority = outlet.priority
        return outlet.feed.send_datagram(now, data, priority=priority, ttl_ms=ttl_ms)

    def stop_sending(self, stream_id: int, code: int) -> None:
        """The plane takes nothing more of a stream that we gave it."""
        if self._stop is not None:
            self._stop(stream_id, code)


class FeedStream:
    """The :class:`~laps_sdk.forwarding.interfaces.LinkedStream` of one subgroup."""

    __slots__ = ("_begun", "_continued", "_deadline", "_egress", "_out", "_priority", "_to")

    def __init__(
        self,
        egress: FeedEgress,
        priority: int,
        deadline: float | None,
        to: tuple[int, int] | None = None,
    ) -> None:
        self._egress = egress
        self._to = to
        self._priority = priority
        self._deadline = deadline
        self._begun = False
        self._continued = False
        self._out: OutStream | None = None

    def goes_on(self) -> None:
        """The other relays are told that its beginning is on another stream."""
        self._continued = True

    @property
    def closed(self) -> bool:
        """Whether nothing more can be written."""
        return self._begun and (self._out is None or self._out.closed)

    @property
    def queued(self) -> int:
        """Bytes that wait in the network's queues."""
        return 0 if self._out is None else self._out.queued

    def write(self, data: bytes, fin: bool = False) -> None:
        """Pass bytes on by reference."""
        if not self._begun:
            self._begun = True
            self._out = self._egress.begin(
                self, data, self._priority, self._deadline, continued=self._continued, to=self._to
            )
        out = self._out
        if out is not None:
            out.write(data, fin)
            if fin:
                self._egress.end(out)

    def offer(self, data: bytes, fin: bool = False) -> bool:
        """Pass bytes on; the network takes them all."""
        self.write(data, fin)
        return True

    def pull_from(self, source: Callable[[float], None]) -> None:
        """Call the source at once: the network takes everything."""
        source(self._egress.now)

    def reset(self, code: int) -> None:
        """Abandon it."""
        self._begun = True
        if self._out is not None:
            self._out.reset(code)
            self._egress.end(self._out)

    def set_priority(self, priority: int) -> None:
        """Only the subscriber's part can have changed, and the network knows the publisher's."""

    def set_deadline(self, deadline: float | None) -> None:
        """When what has not been sent is given up."""
        self._deadline = deadline
        if self._out is not None:
            self._out.set_deadline(deadline)
