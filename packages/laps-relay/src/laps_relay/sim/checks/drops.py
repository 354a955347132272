"""What queues may give up, and in which order: the account of narrow links and slow receivers.

The header of each stream has its priority and how long it may wait in the queue of one relay
(laps-2, 7). This check reads the header from the bytes that wait, not from what the relay passed to
its egress. A relay that forgets to pass it on is found:

============  ====================================================================================
``stale``     data that has waited much longer than its ttl is sent nevertheless
``hasty``     a stream is given up as expired that has waited less than its ttl
``priority``  a stream is sent, or another one is given up, before one that is more urgent
``needless``  something expires on a wire that takes twenty times what is offered
``drained``   a relay has drained, its time is not over, and streams go through it
============  ====================================================================================

Each drop is noted with its group and its receivers. Only these receivers may miss something of the
group (:meth:`~laps_relay.sim.clients.ledger.Group.explained`). Only they may see its stream reset,
with the same code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from laps_relay.sim.clients.ledger import FLIGHT, BreakError, GivenUp, Group
from laps_relay.sim.net.wires import Cause, Pipe, SimOutStream, Waiting
from laps_relay.sim.world.world import RelayProcess, Seen, World, identify
from laps_wire.peering.errors import StreamCode
from laps_wire.peering.laps2 import DataHeader
from laps_wire.peering.laps2.codepoints import DATA_HEADER_BYTES
from laps_wire.peering.laps2.forwarding import decode_data_header

__all__ = ["AMPLE", "Drops"]

AMPLE: Final = 20.0
"""A wire that takes so many times what all publishers offer is wide enough for everything."""
TICK: Final = 1e-6
_EXPIRED: Final = int(StreamCode.EXPIRED)


class Drops:
    """Judges the queues of all connections (``QueueJudge``)."""

    __slots__ = ("_left", "_world", "datagrams", "expired", "longest", "sent", "shed", "undrained")

    def __init__(self, world: World) -> None:
        self._world = world
        self._left: dict[tuple[Group, str, str], tuple[float, GivenUp]] = {}
        """Data that left a queue, by group and link: the time, and the relays that it was for."""
        self.sent = 0
        """Packets that waited."""
        self.longest = 0
        """Bytes that waited in one pipe, at most."""
        self.shed = 0
        self.expired = 0
        """Streams that were given up, and why."""
        self.datagrams = 0
        """Datagrams that were given up."""
        self.undrained = 0
        """Streams that still waited when the time of a relay that drained was over."""
        world.network.judge = self
        world.ledger.waiting = self.waiting
        world.when_late(self.late)

    # QueueJudge

    def sends(self, pipe: Pipe, stream: SimOutStream | None, item: Waiting) -> None:
        """Check that sent data is not too old, and that no more urgent data waits."""
        self.sent += 1
        self.longest = max(self.longest, pipe.backlog.droppable + len(item.chunk.data))
        if pipe.sender in self._world.hostiles:
            return
        now = self._world.clock.now
        seen = self._seen(stream, item)
        if seen is None:
            return
        ttl = seen.header.ttl_ms / 1000
        # A datagram has a time of its own. The time of a stream is that of its last bytes; those
        # before them are looked at when more comes, one at a time (``Flow.renew``).
        allowed = ttl if stream is None else 3 * ttl
        if ttl and now - item.since > allowed + TICK:
            self._fail(
                "stale", pipe, seen, f"has waited {now - item.since:.3f} s, allowed are {ttl:g}"
            )
        group = self._group(seen)
        self._left[group, pipe.sender, pipe.receiver] = (now, self._for_whom(pipe, seen.header, 0))
        if stream is None:
            if now - item.since > self._world.scenario.settings.set_linger:
                # The set may be withdrawn before the datagram: a withdrawal does not wait for it.
                self._excuse(pipe, group, seen, 0)
            return
        for other in pipe.backlog.streams.values():
            before = self._seen(other)
            if before is not None and before.header.priority < seen.header.priority:
                self._fail("priority", pipe, seen, f"goes before {before.header.priority}")

    def drops(self, pipe: Pipe, stream: SimOutStream, cause: Cause, code: int) -> None:
        """Check the reason of a drop, and excuse gaps at the relays that the stream was for."""
        if pipe.sender in self._world.hostiles or cause is Cause.STOPPED:
            return  # a receiver that stops a stream has given up all targets behind it
        seen = self._seen(stream)
        if seen is None:
            self._unnamed(pipe, stream, code)
            return
        group = self._group(seen)
        if cause is Cause.SHED:
            self.shed += 1
            self._least(pipe, stream, seen)
        elif cause is Cause.EXPIRED or (code == _EXPIRED and not self._mirrored(pipe, group, code)):
            self.expired += 1
            self._old(pipe, stream, seen)
        self._excuse(pipe, group, seen, None if cause is Cause.CLOSED else code)

    def drops_datagram(self, pipe: Pipe, item: Waiting) -> None:
        """A datagram is dropped without notice; its receivers may miss it."""
        seen = self._seen(None, item)
        if seen is not None and pipe.sender not in self._world.hostiles:
            self.datagrams += 1
            self._excuse(pipe, self._group(seen), seen, 0)

    def closes(self, pipe: Pipe, begun: Sequence[SimOutStream]) -> None:
        """Check that a relay that drains closes when all is sent, or when its time is over."""
        now = self._world.clock.now
        for contact in (pipe.sender, pipe.receiver):
            process = self._world.processes.get(contact)
            if process is None or not process.draining:
                continue
            if (begun or pipe.backlog.streams) and now < process.leaves_by - TICK:
                raise BreakError(
                    "drained",
                    f"{contact} has drained until {now:.3f}, had time until "
                    f"{process.leaves_by:.3f}, and streams are under way "
                    f"({pipe.sender} -> {pipe.receiver})",
                    now,
                )
            self._cut_off(pipe, contact, begun)

    def late(self, process: RelayProcess) -> None:
        """The time of a relay is over: what waits anywhere for targets behind it is given up."""
        names = self._world.by_node()
        behind = frozenset(
            names[node].contact
            for flow in process.tables.fib()
            if flow.peer is not None
            for node in flow.targets
            if node in names
        )
        for group, found in self.waiting().items():
            for whom in found:
                hit = behind if whom.targets is None else whom.targets & behind
                if hit:
                    group.given_up = (*group.given_up, GivenUp(process.contact, hit, None))

    def _cut_off(self, pipe: Pipe, late: str, begun: Sequence[SimOutStream]) -> None:
        """The time of a relay is over: what goes through it ends, and what just left a queue."""
        unsent = {stream.stream_id: stream for stream in begun} | pipe.backlog.streams
        self.undrained += len(unsent)
        for stream in unsent.values():
            seen = self._seen(stream)
            if seen is None:
                self._unnamed(pipe, stream, None)
            else:
                self._excuse(pipe, self._group(seen), seen, None)
        for (group, sender, receiver), (when, whom) in self._left.items():
            if late in (sender, receiver) and when > self._world.clock.now - FLIGHT:
                group.given_up = (*group.given_up, whom._replace(code=None))

    def _unnamed(self, pipe: Pipe, stream: SimOutStream, code: int | None) -> None:
        """Note a stream of which only the header was written, so its group is unknown."""
        left: bytes = max(stream.seen or b"", stream.ahead or b"", key=len)
        data = left + b"".join(each.chunk.data for each in stream.waiting)
        if len(data) >= DATA_HEADER_BYTES:
            header = decode_data_header(data)
            whom = self._for_whom(pipe, header, code)
            self.shed += 1
            self._world.ledger.unnamed.append((self._world.clock.now, header.track, whom))

    # Rules

    def _least(self, pipe: Pipe, stream: SimOutStream, seen: Seen) -> None:
        for other in pipe.backlog.streams.values():
            behind = self._seen(other)
            if (
                other is not stream
                and other.droppable
                and behind is not None
                and behind.header.priority > seen.header.priority
            ):
                self._fail("priority", pipe, seen, f"is given up before {behind.header.priority}")

    def _old(self, pipe: Pipe, stream: SimOutStream, seen: Seen) -> None:
        since = stream.waiting[0].since
        waited = self._world.clock.now - since
        ttl = seen.header.ttl_ms / 1000
        if waited < ttl - TICK:
            self._fail("hasty", pipe, seen, f"has waited {waited:.3f} s, allowed are {ttl:g}")
        rate, offered = pipe.lane.rate, self._world.scenario.offered
        if since < pipe.lane.quickened:
            return  # it waited for a receiver that was slow until a moment ago
        if rate is None or (offered and rate >= AMPLE * offered):
            self._fail("needless", pipe, seen, f"expires, and the wire takes {rate} B/s")

    @staticmethod
    def _mirrored(pipe: Pipe, group: Group, code: int) -> bool:
        """Whether the relay only passes on what was given up before it."""
        return any(
            each.code == code and group.behind(each.receiver, pipe.sender)
            for each in group.given_up
        )

    # Relays that may miss data

    def waiting(self) -> dict[Group, tuple[GivenUp, ...]]:
        """Return, by group, the data in queues or just sent, which may still arrive."""
        found: dict[Group, tuple[GivenUp, ...]] = {}
        for (group, *_), (when, whom) in self._left.items():
            if when > self._world.clock.now - FLIGHT:
                found[group] = (*found.get(group, ()), whom)
        for ends in self._world.network.up.values():
            for pipe in (end.pipe for end in ends if end.host.contact not in self._world.hostiles):
                backlog = pipe.backlog
                items = [self._seen(None, each) for each in backlog.datagrams]
                for seen in (*items, *map(self._seen, backlog.streams.values())):
                    if seen is not None:
                        group = self._group(seen)
                        found[group] = (*found.get(group, ()), self._for_whom(pipe, seen.header, 0))
        return found

    def _excuse(self, pipe: Pipe, group: Group, seen: Seen, code: int | None) -> None:
        group.given_up = (*group.given_up, self._for_whom(pipe, seen.header, code))

    def _for_whom(self, pipe: Pipe, header: DataHeader, code: int | None) -> GivenUp:
        process = self._world.processes[pipe.sender]
        nodes = process.tables.targets(pipe.connection, header.sns_id)
        targets: frozenset[str] | None = None
        if nodes is not None:
            names = self._world.by_node()
            targets = frozenset(names[node].contact for node in nodes if node in names)
        return GivenUp(pipe.receiver, targets, code)

    def _group(self, seen: Seen) -> Group:
        return self._world.ledger.group(seen.item.flow, seen.item.group, self._world.clock.now)

    def _seen(self, stream: SimOutStream | None, item: Waiting | None = None) -> Seen | None:
        """What is known of a stream of which something waits, or of a datagram."""
        framed = self._world.moqt
        if stream is None:
            return None if item is None else identify(item.chunk.data, framed=framed, datagram=True)
        for known in (stream.seen, stream.ahead):
            if isinstance(known, Seen):
                return known
        # What has left: where nothing gets through now, only we know of it.
        left: bytes = max(stream.seen or b"", stream.ahead or b"", key=len)
        if item is not None:
            left += item.chunk.data
        waiting = b"".join(each.chunk.data for each in stream.waiting)
        found = identify(left + waiting, framed=framed, datagram=False)
        stream.ahead = found or left
        return found

    def _fail(self, rule: str, pipe: Pipe, seen: Seen, text: str) -> None:
        item, header = seen.item, seen.header
        raise BreakError(
            rule,
            f"{item.flow}/{item.group} of priority {header.priority} {text} "
            f"({pipe.sender} -> {pipe.receiver})",
            self._world.clock.now,
        )
