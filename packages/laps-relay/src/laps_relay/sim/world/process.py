"""A relay process: a core, its connections, its clients, its timer; it can crash and stand still.

After everything that happens to the core, what it wants is carried out: dials, bytes, the timer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from laps_relay.network.drain_monitor import DrainMonitor, Standing
from laps_relay.network.relay import STAY_WAIT
from laps_relay.sim.clients.direct import Clients
from laps_relay.sim.clients.edge_host import EdgeHost
from laps_relay.sim.core import RelayCore, Tables
from laps_relay.sim.net.clock import Entry
from laps_relay.sim.net.network import End
from laps_relay.sim.net.wires import Chunk, SimOutStream
from laps_relay.sim.scenarios.topology import RelaySpec
from laps_sdk.peering.events import Dial
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import RelayType
from laps_wire.peering.session import ConnectionClose, StreamData
from laps_wire.peering.session.control_streams import Ending

if TYPE_CHECKING:
    from laps_relay.sim.world.world import World

__all__ = ["RelayProcess"]

ALPN: Final = "laps-2"
_UNIDIRECTIONAL: Final = 2
LOOK: Final = 0.02
"""Seconds between two looks of a process that drains, as of a server's."""


class RelayProcess:
    """One relay of the simulation."""

    __slots__ = (
        "_backlog",
        "_departure",
        "_ends",
        "_pumping",
        "_session",
        "_timer",
        "_world",
        "asked",
        "clients",
        "contact",
        "core",
        "draining",
        "edge",
        "is_control",
        "is_stub",
        "known_keys",
        "leaves_by",
        "life",
        "links",
        "overloaded",
        "paused",
        "running",
        "spec",
        "spki_hash",
        "tables",
        "turns",
    )

    def __init__(self, world: World, spec: RelaySpec, links: tuple[str, ...]) -> None:
        self._world = world
        self.spec = spec
        self.contact = spec.name
        self.is_stub = spec.relay_type is RelayType.STUB
        """Whether it is a Stub."""
        self.is_control = spec.relay_type is RelayType.CONTROL
        """Whether it is a control server."""
        self.links = links
        """Contacts that it dials by configuration."""
        self.spki_hash = spec.name.encode().rjust(32, b".")[-32:]
        self.running = False
        self.paused = False
        self.draining = False
        self.overloaded = False
        self.leaves_by = 0.0
        """When its time is over, if it drains."""
        self._departure: DrainMonitor | None = None
        self.life = 0
        self.known_keys: dict[NodeId, bytes] = {}
        """Which keys hold node ids, as its state directory has it: the next life begins with it."""
        self.asked: dict[int, float] = {}
        """What clients of its former lives wanted, and until when."""
        self.core: RelayCore
        self.tables: Tables
        self.clients: Clients
        self.edge: EdgeHost | None = None
        """The MoQT side, in networks with Stubs."""
        self._session = 0
        self._ends: dict[int, End] = {}
        self._timer: Entry | None = None
        self._backlog: list[tuple[Callable[..., None], tuple[object, ...]]] = []
        self._pumping = False
        self.turns = 0
        """How often something was carried out: as long as it is the same, so are its tables."""

    @property
    def silent(self) -> bool:
        """Whether nothing comes out of it."""
        return self.paused or not self.running

    @property
    def avoided(self) -> bool:
        """Whether others should take ways around it."""
        return self.draining or self.overloaded

    @property
    def ends(self) -> dict[int, End]:
        """Its connections, by session number."""
        return self._ends

    # Life and death

    def start(self) -> None:
        """Begin a life: everything volatile is new, and the epoch is higher."""
        self.life += 1
        self.running = True
        self.paused = False
        self.draining = False
        self.overloaded = False
        self._departure = None
        self._ends = {}
        self._backlog = []
        self._timer = None
        self.edge = self._world.edge_host(self)
        if self.edge is None:
            self.clients = Clients(self._world.clock, self._world.ledger, self.contact, self.call)
        else:
            self.clients = self.edge.clients
        settings, flight = self._world.scenario.settings, self._world.ledger.flight
        self.clients.former = self.asked
        self.clients.stays = settings.unsubscribe_delay + settings.set_linger + flight
        self.core, self.tables = self._world.build(self)
        self._world.note(self.contact, "starts, life", self.life)
        self.pump()

    def crash(self) -> None:
        """Stop at once; nobody is told."""
        self.running = False
        self.asked = self.clients.asked()
        self.clients.gone()
        if self._timer is not None:
            self._world.clock.cancel(self._timer)
            self._timer = None
        self._world.note(self.contact, "crashes")
        for end in list(self._ends.values()):
            self._world.network.vanish(end)
        self._ends = {}

    def pause(self) -> None:
        """Stand still: nothing is read, no timer runs."""
        self.paused = True
        self._world.note(self.contact, "stands still")
        for end in self._ends.values():
            self._world.network.watch_silence(end.other)

    def resume(self) -> None:
        """Go on; what has come meanwhile is read now."""
        if not self.running or not self.paused:
            return
        self.paused = False
        self._world.note(self.contact, "goes on")
        backlog, self._backlog = self._backlog, []
        for action, arguments in backlog:
            action(*arguments)
        self._wake()

    def leave(self, seconds: float, left: Callable[[], object]) -> None:
        """Drain as a server does: end when nothing is under way any more, or its time is over."""
        now = self._world.clock.now
        self.draining = True
        self.leaves_by = now + seconds
        # Its sessions would end by themselves a moment later.
        self.call(lambda core, now: core.drain(now, seconds + LOOK))
        self._departure = DrainMonitor(now, seconds)
        self._look_out(self._departure, self.life, left)

    def stay(self) -> None:
        """Take :meth:`leave` back; others come back when they have heard of it."""
        self._departure = None
        self._world.clock.after(STAY_WAIT, self._stayed, self.life)
        self._world.note(self.contact, "stays")
        self.call(lambda core, now: core.stay(now))

    def _stayed(self, life: int) -> None:
        if self.life == life and self._departure is None:
            self.draining = False
            self._world.disturbed()

    def _look_out(self, departure: DrainMonitor, life: int, left: Callable[[], object]) -> None:
        if not self.running or self.life != life or self._departure is not departure:
            return
        now = self._world.clock.now
        standing = departure.look(now, busy=self._in_transit, flight=self.core.flight)
        if self.paused or standing is Standing.STAYS:
            when = now + LOOK if now >= self.leaves_by else min(now + LOOK, self.leaves_by)
            self._world.clock.at(when, self._look_out, departure, life, left)
            return
        if standing is Standing.LATE:
            self._world.drops.late(self)
        self._departure = None
        self._world.note(self.contact, "has drained:", standing.value)
        self.core.close_all(now)
        self.pump()
        left()

    @property
    def leaving(self) -> bool:
        """Whether it drains and has not left."""
        return self._departure is not None

    @property
    def _in_transit(self) -> bool:
        """Whether data goes through it, also from and to a Stub, or waits for a wire."""
        if self.core.in_transit or (self.edge is not None and self.edge.stubs):
            return True
        return any(end.pipe.backlog for end in self._ends.values())

    # From clients

    def call(self, action: Callable[[RelayCore, float], None]) -> None:
        """Let clients do something with the core."""
        if not self.running:
            return
        if self.paused:
            self._backlog.append((self.call, (action,)))
            return
        action(self.core, self._world.clock.now)
        self.pump()

    # From the network (Host)

    def opened(self, end: End, dial: Dial | None) -> None:
        """A connection was made."""
        if self.paused:
            self._backlog.append((self.opened, (end, dial)))
            return
        if not end.open:
            if dial is not None:
                self.dial_failed(dial, "closed at once")
            return
        self._session += 1
        end.session = self._session
        self._ends[end.session] = end
        now = self._world.clock.now
        wire = end.pipe.wire
        self.core.connection_opened(
            now,
            end.session,
            end,
            role=end.role,
            alpn=ALPN,
            spki_hash=(end.host if dial is None else end.other.host).spki_hash,
            dial=dial,
        )
        self.core.measured(now, end.session, wire.srtt_us, 0.0, congested=False)
        self.pump()

    def arrived(self, end: End, chunk: Chunk) -> None:
        """Something came."""
        if self.paused:
            self._backlog.append((self.arrived, (end, chunk)))
            return
        if end.session not in self._ends:
            return
        now = self._world.clock.now
        self._world.mark(now, end, chunk)
        core, session, stream_id = self.core, end.session, chunk.stream_id
        if chunk.kind == "datagram":
            core.datagram(now, session, chunk.data)
        elif chunk.kind == "data":
            if stream_id & _UNIDIRECTIONAL:
                core.data_stream(now, session, stream_id, chunk.data, chunk.fin)
                if (
                    not chunk.fin and self.edge is None
                ):  # nothing follows for the control plane, unless it is a fault
                    for dirty in core.poll_dirty():
                        self._transmit(dirty)
                    return
            else:
                core.control_data(now, session, stream_id, chunk.data, chunk.fin)
        elif chunk.kind == "reset":
            if stream_id & _UNIDIRECTIONAL:
                core.data_reset(now, session, stream_id, chunk.code)
            else:
                core.control_reset(now, session, stream_id, chunk.code)
        elif stream_id & _UNIDIRECTIONAL:
            end.stopped(stream_id, chunk.code)
        else:
            core.control_stopped(now, session, stream_id, chunk.code)
        self.pump()

    def stream_gone(self, end: End, stream: SimOutStream, lost: int, stopped: bool) -> None:
        """An outgoing stream was dropped here, or stopped by the peer."""
        if self.running and end.session in self._ends:
            # The core may be in the middle of something: tell it afterwards, as a shell does.
            self._world.clock.after(0.0, self._stream_gone, end, stream, lost, stopped)

    def _stream_gone(self, end: End, stream: SimOutStream, lost: int, stopped: bool) -> None:
        if self.running and self._ends.get(end.session) is end:
            self.core.out_stream_gone(
                self._world.clock.now, end.session, stream, lost, stopped=stopped
            )
            self.pump()

    def lost(self, end: End, code: int, reason: str) -> None:
        """A connection is over."""
        if self.paused:
            self._backlog.append((self.lost, (end, code, reason)))
            return
        if self._ends.pop(end.session, None) is None:
            return
        self._world.note(
            self.contact, "has lost", end.other.host.contact, f"code {code:#x}", reason
        )
        self.core.connection_closed(self._world.clock.now, end.session, code, reason)
        self.pump()

    def dial_failed(self, dial: Dial, reason: str) -> None:
        """Nobody was there."""
        if self.paused:
            self._backlog.append((self.dial_failed, (dial, reason)))
            return
        self.core.dial_failed(self._world.clock.now, dial.number, reason)
        self.pump()

    # To the network

    def pump(self) -> None:
        """Carry out what the core wants now."""
        if self._pumping or not self.running:
            return
        self._pumping = True
        self.turns += 1
        core, world = self.core, self._world
        now = world.clock.now
        if self.edge is not None:
            self.edge.pump(now)
        while dirty := core.poll_dirty():
            for session in dirty:
                self._transmit(session)
        for dial in core.poll_dials(now):
            world.network.dial(self, dial)
        for event in core.poll_events():
            world.event(self, event)
        keys = core.poll_known_keys()
        if keys is not None:
            self.known_keys = keys
        self._pumping = False
        when = self._due()
        if when is None:
            return
        if self._timer is not None:
            if self._timer[0] <= when:
                return  # it looks again when it wakes
            world.clock.cancel(self._timer)
        self._timer = world.clock.at(when, self._wake)

    def _transmit(self, session: int) -> None:
        end = self._ends.get(session)
        for item in self.core.poll_transmit(session):
            if end is None or not end.open:
                continue
            if isinstance(item, StreamData):
                end.pipe.send(None, Chunk("data", item.stream_id, item.data))
            elif isinstance(item, ConnectionClose):
                self._world.network.close(end, item.code, item.reason)
            elif item.ending is Ending.FINISH:
                end.pipe.send(None, Chunk("data", item.stream_id, b"", True))
            else:
                kind = "reset" if item.ending is Ending.RESET else "stop"
                end.pipe.send(None, Chunk(kind, item.stream_id, code=item.code))

    def _wake(self) -> None:
        self._timer = None
        if self.paused or not self.running:
            return
        now = self._world.clock.now
        when = self._due()
        if when is None or when > now:
            # Whatever it was planned for has moved, or is gone.
            if when is not None:
                self._timer = self._world.clock.at(when, self._wake)
            return
        self.core.handle_timeout(now)
        if self.edge is not None:
            self.edge.handle_timeout(now)
        self.pump()

    def _due(self) -> float | None:
        """When the first timer is due."""
        when = self.core.poll_timeout()
        local = None if self.edge is None else self.edge.poll_timeout()
        if when is None or local is None:
            return local if when is None else when
        return min(when, local)
