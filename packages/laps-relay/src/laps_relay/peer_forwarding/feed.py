"""Data that enters the network here: the feed of a local publisher, and its streams.

The one who writes into a feed has a delivery timeout of its own and knows the time; so the ttl is
told to the relays behind us, and the deadline of our own egress is what the writer says.

A stream goes to the sets of the moment when it began. If those become others while it is open, or
somebody is lost on the way, and it does not end soon, its writer is asked to go on with a new one
(``Outdated``): who writes knows where an object ends, and nobody else does.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Final

from laps_relay.peer_forwarding.datagrams import count, send
from laps_relay.peer_forwarding.forwarding import LOCAL, Ingress, Outdated
from laps_relay.peer_forwarding.probe import START, Probe, may_be_sampled
from laps_relay.peer_forwarding.state import Branch, Entry, Fanout, State
from laps_sdk.forwarding.interfaces import OutStream
from laps_wire.peering.laps2 import FLAG_CONTINUED, DataHeader, DataKind, encode_data_header

__all__ = ["FeedStream", "PlaneFeed"]

_STREAM: Final = DataKind.STREAM
_DATAGRAM: Final = DataKind.DATAGRAM
_HEADS: Final = 64
"""Headers of a feed that are kept, one for each priority and ttl that it uses, and flag."""
_LONGEST: Final = 8.0
"""The longest wait before a stream goes on that a peer has stopped, in seconds."""


class FeedStream(Fanout):
    """A stream of a local publisher; an ``OutStream`` to all egress sets at once."""

    __slots__ = ("_feed", "_head", "_over", "bereft", "came", "stale")

    def __init__(self, feed: PlaneFeed, state: State, entry: Entry, head: bytes) -> None:
        super().__init__(state, entry, head, 0.0)
        self._feed = feed
        self._head = head
        self.came = 0.0
        """When it began."""
        self._over = False
        self.stale = False
        """Whether others should have it than those who do."""
        self.bereft = False
        """Whether somebody was lost who had it."""

    def start(self, now: float, priority: int, deadline: float | None, *, expires: bool) -> None:
        """Open a stream to every set; the header goes with the first bytes."""
        self.came = now
        self.open(now, priority, deadline, expires=expires)
        if not self.branches:
            self._end()

    @property
    def closed(self) -> bool:
        """Whether nothing more can be written to anyone."""
        return self._over or all(branch.stream.closed for branch in self.branches)

    @property
    def queued(self) -> int:
        """Bytes that wait for the slowest."""
        return max((branch.stream.queued for branch in self.branches), default=0)

    def write(self, data: bytes, fin: bool = False) -> None:
        """Hand bytes to all of them; ignored if closed."""
        direct = self.direct
        if direct is not None:
            self.size += len(data)
            direct(data, fin)
        elif self._over:
            if fin:
                self._feed.open.pop(self, None)
            return
        elif self._head:
            head, self._head = self._head, b""
            samples = self.state.samples
            if samples is not None and may_be_sampled(samples, head + data[:START]):
                self.probe = Probe(samples, head, self.came)
            self.begin(head, data, fin)
            self.aim()
        else:
            self.size += len(data)
            for write in self.writes:
                write(data, fin)
        if self.probe is not None:
            # Who writes does not say when; it is the moment in which it began, or soon after.
            self.look(self.probe.came, data)
        if fin:
            self._end()
            self._feed.open.pop(self, None)

    def offer(self, data: bytes, fin: bool = False) -> bool:
        """Hand bytes to all of them; none refuses."""
        self.write(data, fin)
        return True

    def pull_from(self, source: Callable[[float], None]) -> None:
        """Do nothing: nobody refuses bytes."""

    def reset(self, code: int) -> None:
        """Abandon it; one that was finished still takes back what waits."""
        self._feed.open.pop(self, None)
        for branch in self.branches:
            branch.gone = True
            branch.stream.reset(code)
        self._end()

    def set_priority(self, priority: int) -> None:
        """Lower is more urgent."""
        for branch in self.branches:
            branch.stream.set_priority(priority)

    def set_deadline(self, deadline: float | None) -> None:
        """When what has not been sent is given up."""
        for branch in self.branches:
            branch.stream.set_deadline(deadline)

    def leave(self, now: float, branch: Branch) -> None:
        """One branch is gone."""
        super().leave(now, branch)
        if not self.branches:
            self._end()

    def missed(self, now: float) -> None:
        """One branch is gone that should be there: perhaps another one can be."""
        self.stale = self.bereft = True
        self._feed.missed(now, now - self.came)

    def aim(self) -> None:
        """The header goes first."""
        super().aim()
        if self._head:
            self.direct = None

    def _end(self) -> None:
        if not self._over:
            self._over = True
            self.close(None)


class PlaneFeed:
    """One data context of a local publisher; see ``laps_sdk.upstream.interfaces.Feed``."""

    __slots__ = (
        "_entries",
        "_header",
        "_heads",
        "_state",
        "_wait",
        "closed",
        "ingress",
        "open",
    )

    def __init__(
        self, state: State, entries: dict[int, Entry], number: int, header: DataHeader
    ) -> None:
        self._state = state
        self._entries = entries
        self._header = header
        self.ingress = Ingress(LOCAL, number)
        self.closed = False
        self.open: dict[FeedStream, None] = {}
        """Streams whose end was not written."""
        self._wait = state.patience
        self._heads: dict[tuple[DataKind, int, int, int], bytes] = {}
        self._head(_STREAM, 0, 0)  # what does not fit is the caller's fault, and seen now

    def open_stream(
        self,
        now: float,
        *,
        priority: int,
        ttl_ms: int = 0,
        deadline: float | None = None,
        continued: bool = False,
        to: tuple[int, int] | None = None,
    ) -> OutStream:
        """Begin a stream to all egress sets of the moment, or only to the one named by ``to``."""
        head = self._head(_STREAM, priority, ttl_ms, FLAG_CONTINUED if continued else 0)
        entry = self._entry()
        if to is None:
            stream = FeedStream(self, self._state, entry, head)
            # Somebody has just been added to a set, and may hear of that behind this stream.
            stream.stale = self._state.outdated.when(self.ingress.set_id) is not None
            self.open[stream] = None
        else:
            stream = FeedStream(self, self._state, entry.only(*to), head)
        stream.start(now, priority, deadline, expires=ttl_ms > 0 or deadline is not None)
        return stream

    def send_datagram(self, now: float, payload: bytes, *, priority: int, ttl_ms: int = 0) -> bool:
        """Send an object to all egress sets; whether one of them took it."""
        state, entry = self._state, self._entry()
        head = self._head(_DATAGRAM, priority, ttl_ms)
        deadline = now + ttl_ms / 1000 if ttl_ms else None
        count(state, entry, self._header.track, len(head) + len(payload))
        return send(state, entry, head[:4], head[8:] + payload, deadline) > 0

    def close(self) -> None:
        """No new streams; those under way go on to where they go."""
        self.closed = True
        self._state.outdated.cancel(self.ingress.set_id)

    # Streams that should go elsewhere

    def outdate(self, now: float, *, in_place: bool) -> None:
        """Others should have the streams that are open: at once if one has lost somebody.

        If nothing is open, what begins soon may still overtake the news of a target that was added
        to a set in place, on its way, and be all that ever comes. For a new set data waits.
        """
        for stream in self.open:
            stream.stale = True
        if any(stream.bereft for stream in self.open):
            self._state.outdated.cancel(self.ingress.set_id)
            self.report(now)
        elif self.open or in_place:
            self._look(now + self._state.patience)

    def missed(self, now: float, lived: float) -> None:
        """A stream lost a branch; perhaps it gets one again, unless streams never live for long."""
        short = lived < 4 * self._wait
        self._wait = min(2 * self._wait, _LONGEST) if short else self._state.patience
        self._look(now + self._wait)

    def _look(self, when: float) -> None:
        timers, number = self._state.outdated, self.ingress.set_id
        before = timers.when(number)
        if not self.closed and (before is None or when < before):
            timers.set(number, when)

    def report(self, now: float) -> None:
        """Let the writer go on with new streams, if there are still old ones.

        One that has just begun is looked at when it is as old as the others: it may end by itself,
        and its first packets may still be under way, to be overtaken by those of a new one.
        """
        stale = [stream for stream in self.open if stream.stale]
        patience, bereft = self._state.patience, any(stream.bereft for stream in stale)
        young = [] if bereft else [each for each in stale if now < each.came + patience]
        if young:
            self._look(min(stream.came for stream in young) + patience)
        due = [stream for stream in stale if stream not in young]
        for stream in due:
            stream.stale = stream.bereft = False
        if due:
            before = inf if bereft else max(stream.came for stream in due)
            self._state.notices.append(Outdated(self.ingress, before))

    def _head(self, kind: DataKind, priority: int, ttl_ms: int, flag: int = 0) -> bytes:
        """An encoded header; a publisher uses few."""
        heads, key = self._heads, (kind, priority, ttl_ms, flag)
        head = heads.get(key)
        if head is None:
            if len(heads) >= _HEADS:
                heads.clear()
            header = self._header
            header = header._replace(
                kind=kind, priority=priority, ttl_ms=ttl_ms, flags=header.flags | flag
            )
            head = heads[key] = encode_data_header(header)
        return head

    def _entry(self) -> Entry:
        """Its place in the FIB; one that leads nowhere if there is none."""
        entry = None if self.closed else self._entries.get(self.ingress.set_id)
        return Entry(self.ingress) if entry is None else entry
