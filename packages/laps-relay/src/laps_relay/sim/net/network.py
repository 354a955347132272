"""Connections between relays: dialling, streams, and the detection of dead peers.

::

    dialler                                   listener
      | dial ------------------------------------>|     one round trip, or a time-out
      | opened                                    |
      |------------------------------------------>| opened

A connection ends

- at once, when one side closes it; the other side learns it one delay later;
- when a side has received nothing for ``idle`` seconds: the wire is blocked, or the other process
  is gone or stands still. The other side then receives nothing either, and gives up as well.

An :class:`End` is one relay's side of a connection. It is the ``Egress`` of its data.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from laps_relay.sim.net.clock import Clock
from laps_relay.sim.net.wires import (
    QUEUE_BYTES,
    Cause,
    Chunk,
    Pipe,
    QueueJudge,
    SimOutStream,
    Wire,
    WireDigest,
)
from laps_sdk.forwarding.interfaces import OutStream
from laps_sdk.peering.events import Dial
from laps_wire.peering.session import Role

__all__ = ["CONNECT_TIMEOUT", "IDLE_CODE", "End", "Host", "Network"]

CONNECT_TIMEOUT: Final = 1.0
"""Seconds until an unanswered dial fails."""
IDLE_CODE: Final = 0
"""The reason that a relay gets for a dead connection."""
DATAGRAM_BYTES: Final = 1200


class Host(Protocol):
    """A process at a contact."""

    contact: str
    spki_hash: bytes
    life: int
    """Grows with every start: what belongs to a former life is dead."""

    @property
    def running(self) -> bool:
        """Whether it exists."""

    @property
    def silent(self) -> bool:
        """Whether nothing comes out of it now: it does not run, or stands still."""

    def opened(self, end: End, dial: Dial | None) -> None:
        """A connection was made."""

    def arrived(self, end: End, chunk: Chunk) -> None:
        """Something came."""

    def stream_gone(self, end: End, stream: SimOutStream, lost: int, stopped: bool) -> None:
        """An outgoing stream was dropped here, or stopped by the peer."""

    def lost(self, end: End, code: int, reason: str) -> None:
        """The connection is over."""

    def dial_failed(self, dial: Dial, reason: str) -> None:
        """The dial failed."""


class End:
    """One side of a connection."""

    __slots__ = (
        "_mark",
        "_next_stream",
        "_streams",
        "connection",
        "host",
        "life",
        "open",
        "other",
        "pipe",
        "role",
        "session",
    )

    def __init__(self, host: Host, role: Role, connection: int) -> None:
        self.host = host
        self.life = host.life
        self.role = role
        self.connection = connection
        """Its number in the network, the same on both sides."""
        self.session = 0
        """Its number at its relay."""
        self.open = True
        self.other: End
        self.pipe: Pipe
        self._next_stream = 2 if role is Role.DIALLER else 3
        self._streams: dict[int, SimOutStream] = {}
        self._mark = 0

    @property
    def begun(self) -> list[SimOutStream]:
        """Outgoing streams that have not ended."""
        return [stream for stream in self._streams.values() if not stream.closed]

    @property
    def max_datagram_size(self) -> int:
        """The longest datagram."""
        return DATAGRAM_BYTES

    def open_unidirectional(
        self,
        *,
        priority: int = 0,
        droppable: bool = False,
        drop_code: int = 0,
        deadline: float | None = None,
    ) -> OutStream:
        """Open a data stream."""
        stream = SimOutStream(
            self.pipe, self._next_stream, priority, droppable, drop_code, deadline
        )
        self._next_stream += 4
        if not self.open:
            stream.closed = True
            return stream
        self._streams[stream.stream_id] = stream
        if len(self._streams) > 2 * self._mark + 64:
            # A finished stream can no longer be stopped, so its entry is not needed.
            self._streams = {at: each for at, each in self._streams.items() if not each.closed}
            self._mark = len(self._streams)
        return stream

    def unacknowledged(self) -> frozenset[int]:
        """Nothing of a stream is lost here: what was sent arrives."""
        return frozenset()

    def send_datagram(self, data: bytes, deadline: float | None = None) -> bool:
        """Send a datagram; it waits its turn, until its deadline."""
        if not self.open or len(data) > DATAGRAM_BYTES:
            return False
        self.pipe.send(None, Chunk("datagram", 0, bytes(data)), deadline)
        return True

    def stop_sending(self, stream_id: int, code: int) -> None:
        """Ask the other side to abandon a stream."""
        if self.open:
            self.pipe.send(None, Chunk("stop", stream_id, code=code))

    def stopped(self, stream_id: int, code: int) -> None:
        """The receiver asked to stop: reset the stream, and report it to the relay."""
        stream = self._streams.pop(stream_id, None)
        if stream is None or (stream.closed and not stream.waiting):
            return
        lost = stream.queued
        stream.closed = True
        self.pipe.abandon(stream, code, Cause.STOPPED)
        self.host.stream_gone(self, stream, lost, True)


class Network:
    """All wires and connections."""

    __slots__ = (
        "_clock",
        "_hosts",
        "_number",
        "_rng",
        "_watch",
        "_wires",
        "default",
        "digest",
        "idle",
        "judge",
        "queue",
        "up",
    )

    def __init__(
        self,
        clock: Clock,
        rng: random.Random,
        *,
        idle: float,
        watch: Callable[[End, SimOutStream | None, Chunk], None],
    ) -> None:
        self._clock = clock
        self._rng = rng
        self._watch = watch
        self.idle = idle
        self.queue = QUEUE_BYTES
        """Bytes that a connection keeps for a slow peer."""
        self.judge: QueueJudge | None = None
        """Judges what waits in queues, and what they give up."""
        self._hosts: dict[str, Host] = {}
        self._wires: dict[tuple[str, str], Wire] = {}
        self.default: Callable[[str, str], Wire | None] = lambda *_: None
        """The wire of two relays without a configured link; None: they cannot reach each other."""
        self.digest = WireDigest()
        """Of all that is sent."""
        self._number = 0
        self.up: dict[int, tuple[End, End]] = {}
        """Living connections: dialler's and listener's end."""

    # Hosts and wires

    def add_host(self, host: Host) -> None:
        """Add a host that can be dialled; it may replace another one."""
        self._hosts[host.contact] = host

    def host(self, contact: str) -> Host | None:
        """Return the host that can be dialled at a contact; None if there is none."""
        return self._hosts.get(contact)

    def add_wire(self, wire: Wire) -> None:
        """Lay a wire."""
        self._wires[wire.ends] = wire

    def holds_back(self, since: float) -> bool:
        """Whether what was sent then may have waited for a narrow wire or a slow receiver."""
        return any(
            lane.held_back(since) for wire in self._wires.values() for lane in wire.lanes.values()
        )

    def wire(self, one: str, other: str) -> Wire | None:
        """The wire between two contacts; made if two without a link may reach each other."""
        ends = (one, other) if one < other else (other, one)
        wire = self._wires.get(ends)
        if wire is None:
            wire = self.default(*ends)
            if wire is not None:
                self._wires[ends] = wire
        return wire

    # Connections

    def dial(self, host: Host, dial: Dial) -> None:
        """Connect to a contact."""
        self.digest.shared_channel(host.contact, "").dialled(self._clock.now, dial.contact)
        there = self._hosts.get(dial.contact)
        wire = None if there is None or there is host else self.wire(host.contact, dial.contact)
        if there is None or wire is None:
            self._clock.after(0.0, host.dial_failed, dial, "no such relay")
            return
        self._clock.after(2 * wire.delay, self._dialled, host, host.life, there, wire, dial)

    def _dialled(self, host: Host, life: int, there: Host, wire: Wire, dial: Dial) -> None:
        if not host.running or host.life != life:
            return
        there = self._hosts.get(dial.contact, there)
        if there.silent or any(wire.blocked.values()):
            self._clock.after(CONNECT_TIMEOUT, self._failed, host, life, dial, "nobody answers")
            return
        self._number += 1
        near = End(host, Role.DIALLER, self._number)
        far = End(there, Role.LISTENER, self._number)
        near.other, far.other = far, near
        for end, other in ((near, far), (far, near)):
            end.pipe = Pipe(
                self._clock,
                self._rng,
                wire,
                end.host.contact,
                partial(self._arrive, other),
                partial(self._dropped, end),
                partial(self._watch, end),
                connection=self._number,
                record=self.digest.channel(end.host.contact, other.host.contact),
                limit=self.queue,
                judge=self.judge,
            )
        self.up[self._number] = (near, far)
        # The listener's side exists when the dialler's first bytes come: planned before them.
        self._clock.after(wire.delay, self._accepted, far)
        host.opened(near, dial)

    def _failed(self, host: Host, life: int, dial: Dial, reason: str) -> None:
        if host.running and host.life == life:
            host.dial_failed(dial, reason)

    def _accepted(self, end: End) -> None:
        if not end.open:
            return
        if end.life == end.host.life and end.host.running:
            end.host.opened(end, None)
        else:
            self.vanish(end)

    def _arrive(self, end: End, chunk: Chunk) -> None:
        if not end.open or end.life != end.host.life:
            return
        end.host.arrived(end, chunk)

    def _dropped(self, end: End, stream: SimOutStream, lost: int) -> None:
        end.host.stream_gone(end, stream, lost, False)

    def close(self, end: End, code: int, reason: str) -> None:
        """One side closes: the other learns it, if anything gets through."""
        if not end.open:
            return
        end.pipe.record_close(code)
        self._end(end)
        end.host.lost(end, code, reason)
        other = end.other
        if not other.open:
            return
        if end.pipe.wire.blocked.get(end.host.contact):
            self._clock.after(self.idle, self._give_up, other)
        else:
            self._clock.after(end.pipe.wire.delay, self._closed_by_peer, other, code, reason)

    def _closed_by_peer(self, end: End, code: int, reason: str) -> None:
        if not end.open:
            return
        if end.host.silent and end.host.running:  # it stands still: it reads that later
            self._clock.after(self.idle, self._closed_by_peer, end, code, reason)
            return
        self._end(end)
        if end.life == end.host.life:
            end.host.lost(end, code, reason)

    def vanish(self, end: End) -> None:
        """A side is gone without a word: the other one learns it after the idle time."""
        if end.open:
            self._end(end)
        if end.other.open:
            self._clock.after(self.idle, self._give_up, end.other)

    def watch_silence(self, end: End) -> None:
        """Nothing arrives at this end from now on; give it up after the idle time."""
        self._clock.after(self.idle, self._check_silence, end)

    def _check_silence(self, end: End) -> None:
        """Give an end up if nothing can arrive; callers plan one check for each silence."""
        if not end.open:
            return
        sender = end.other
        if (
            not sender.open
            or sender.host.silent
            or sender.life != sender.host.life
            or sender.pipe.wire.blocked.get(sender.host.contact)
        ):
            self._give_up(end)
            if sender.open:  # the end that was given up sends nothing from now on
                self._clock.after(self.idle, self._give_up, sender)

    def _give_up(self, end: End) -> None:
        if not end.open:
            return
        if end.host.silent and end.host.running:
            self._clock.after(self.idle, self._give_up, end)
            return
        self._end(end)
        if end.life == end.host.life and end.host.running:
            end.host.lost(end, IDLE_CODE, "idle timeout")

    def _end(self, end: End) -> None:
        end.open = False
        end.pipe.close(end.begun)
        if not end.other.open:
            self.up.pop(end.connection, None)

    # Faults

    def between(self, one: str, other: str) -> list[tuple[End, End]]:
        """Living connections of two contacts."""
        both = {one, other}
        return [ends for ends in self.up.values() if {end.host.contact for end in ends} == both]

    def of(self, contact: str) -> list[End]:
        """Ends of living connections at a contact."""
        return [end for ends in self.up.values() for end in ends if end.host.contact == contact]

    def block(self, sender: str, receiver: str) -> None:
        """Nothing gets through in this direction from now on."""
        wire = self.wire(sender, receiver)
        if wire is None or wire.blocked.get(sender):
            return
        wire.blocked[sender] = True
        for ends in self.between(sender, receiver):
            for end in ends:
                if end.host.contact == receiver:
                    self.watch_silence(end)

    def unblock(self, sender: str, receiver: str) -> None:
        """Let data through in this direction again."""
        wire = self.wire(sender, receiver)
        if wire is None or not wire.blocked.pop(sender, False):
            return
        for ends in self.between(sender, receiver):
            for end in ends:
                if end.host.contact == sender and end.open:
                    end.pipe.unblocked()
