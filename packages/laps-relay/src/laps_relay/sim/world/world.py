"""A run: the clock, the network, the processes, the account, and everything that happens in it.

``RelayProcess`` is a core with its connections, its clients and its timer; it can crash and stand
still. After each call of the core the process carries out its dials, its bytes and its timer.

:func:`identify` reads which object the bytes between two relays carry.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from laps_relay.network.drain_monitor import DrainMonitor, Standing
from laps_relay.network.events import RouteChanged
from laps_relay.network.relay import STAY_WAIT, NetworkRelay
from laps_relay.policy.interface import OpenPolicy, Policy
from laps_relay.sim.clients.clients import Clients, track
from laps_relay.sim.clients.direct import DirectClients
from laps_relay.sim.clients.ledger import BreakError, Group, Ledger, Object, read_object
from laps_relay.sim.clients.moqt import EdgeHost, read_framed
from laps_relay.sim.core import RelayCore, Tables
from laps_relay.sim.net.clock import Clock, Entry, Rng
from laps_relay.sim.net.network import End, Network
from laps_relay.sim.net.shortcuts import fingerprint_of
from laps_relay.sim.net.wires import Chunk, SimOutStream, Wire
from laps_relay.sim.scenarios.model import Scenario
from laps_relay.sim.scenarios.policies import SimPolicy, rule_policy
from laps_relay.sim.scenarios.topology import LinkSpec, RelaySpec, light_delay
from laps_sdk.peering.events import Dial
from laps_sdk.peering.reports import PeerAdded, PeerGone
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import DataHeader, RelayType
from laps_wire.peering.laps2.codepoints import DATA_HEADER_BYTES
from laps_wire.peering.laps2.forwarding import decode_data_header
from laps_wire.peering.session import ConnectionClose, Ending, StreamData

__all__ = ["Builder", "RelayProcess", "Seen", "World", "identify"]


class Seen(NamedTuple):
    """The header and the first object of a stream, or of a datagram."""

    header: DataHeader
    item: Object


def identify(data: bytes, *, framed: bool, datagram: bool) -> Seen | None:
    """Header and first object; None if they are not all there."""
    if len(data) < DATA_HEADER_BYTES:
        return None
    header = decode_data_header(data)
    if framed:
        item = _first_object(data[header.size :], datagram)
    else:
        item = read_object(data, header.size, whole=False)
    return None if item is None else Seen(header, item)


@lru_cache(maxsize=1024)
def _first_object(data: bytes, datagram: bool) -> Object | None:
    """The first object; it crosses several links, and is the same on each of them."""
    return read_framed(data, datagram=datagram)


ALPN: Final = "laps-2"
_UNIDIRECTIONAL: Final = 2
LOOK: Final = 0.02
"""Seconds between two checks of a process that drains, as in a server."""


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
        """Whether others should choose paths around it."""
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
            self.clients = DirectClients(
                self._world.clock, self._world.ledger, self.contact, self.call, self._network_core
            )
        else:
            self.clients = self.edge.clients
        settings, flight = self._world.scenario.settings, self._world.ledger.flight
        self.clients.former = self.asked
        self.clients.stays = settings.unsubscribe_delay + settings.set_linger + flight
        self.core, self.tables = self._world.build(self)
        self._world.note(self.contact, "starts, life", self.life)
        self.pump()

    def crash(self) -> None:
        """Stop at once, without any message."""
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
        """Drain as a server does: end when nothing is in transit, or when the time is over."""
        now = self._world.clock.now
        self.draining = True
        self.leaves_by = now + seconds
        # Its sessions would end by themselves a moment later.
        self.call(lambda now: self.core.drain(now, seconds + LOOK))
        self._departure = DrainMonitor(now, seconds)
        self._look_out(self._departure, self.life, left)

    def stay(self) -> None:
        """Take :meth:`leave` back; others come back when the message has reached them."""
        self._departure = None
        self._world.clock.after(STAY_WAIT, self._stayed, self.life)
        self._world.note(self.contact, "stays")
        self.call(self.core.stay)

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
            self._world.late(self)
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

    def _network_core(self) -> NetworkRelay:
        """The core, of a process that is no Stub."""
        if not isinstance(self.core, NetworkRelay):
            raise TypeError(f"{self.contact} is a Stub: its clients have sessions of MoQT")
        return self.core

    # From clients

    def call(self, action: Callable[[float], None]) -> None:
        """Do something with the core, and carry out what follows.

        A process that stands still does it when it goes on; one that does not run never does it.
        """
        if not self.running:
            return
        if self.paused:
            self._backlog.append((self.call, (action,)))
            return
        action(self._world.clock.now)
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
        """A dial found no host."""
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


E = TypeVar("E")

_OF_PEERS: Final = (PeerAdded, PeerGone)
_STORY: Final = 4000
"""Lines that are kept unless the whole story was requested."""


Builder: TypeAlias = "Callable[[World, RelayProcess], tuple[RelayCore, Tables]]"
"""Makes the core of a process's next life; the core has met no node."""


class World:
    """Everything of one run."""

    __slots__ = (
        "_builder",
        "_by_node",
        "_late",
        "_stirred",
        "_story",
        "_tracks",
        "_watchers",
        "clock",
        "control_messages",
        "ending",
        "holders",
        "hostiles",
        "ledger",
        "listeners",
        "measured_again",
        "moqt",
        "network",
        "policy",
        "policy_since",
        "processes",
        "quiet_since",
        "rerouted",
        "rng",
        "scenario",
        "tracing",
        "unsettled",
    )

    def __init__(self, scenario: Scenario, builder: Builder, *, tracing: bool = False) -> None:
        self.scenario = scenario
        self.tracing = tracing
        self.clock = Clock()
        self.rng = Rng(scenario.seed)
        self.ledger = Ledger()
        self.policy = SimPolicy(max_loss=scenario.max_loss)
        self.policy_since = 0.0
        self.network = Network(
            self.clock, self.rng.of("links"), idle=scenario.idle, watch=self._crossing
        )
        self.network.default = self._default_wire
        self.ledger.digest = self.network.digest
        self.network.queue = scenario.queue
        self.ledger.flight = scenario.flight
        self.ledger.repair = scenario.repair
        self.processes: dict[str, RelayProcess] = {}
        self._by_node: dict[NodeId, RelayProcess] = {}
        self.holders: dict[NodeId, bytes] = {}
        """Node IDs that credentials cover: of all relays, or of none in every second seed."""
        self.moqt = scenario.repair > 0 or any(
            spec.relay_type is RelayType.STUB for spec in scenario.topology.relays
        )
        """Whether Edges are whole ones: Stubs are clients of theirs, or their logs repair losses.
        """
        self.listeners: list[Callable[[End, Chunk], None]] = []
        """Callables that get what arrives on control streams."""
        self.hostiles: dict[str, object] = {}
        """Peers that mean harm, by contact: no relay may end up with them."""
        self.control_messages = 0
        """Chunks of control streams that arrived."""
        self.measured_again = False
        """Whether delays changed: what relays know of them is damped."""
        self.rerouted: dict[NodeId, None] = {}
        """Nodes to which a path has changed since the last search for loops."""
        self.quiet_since = 0.0
        """When the last route or session changed."""
        self.unsettled = 0.0
        """Until when routes may move for another reason than a session: delays, drains, policy."""
        self.ending = False
        """Whether the run is over but for the tables that must become empty."""
        self._builder = builder
        self._story: list[str] = []
        self._tracks: dict[int, str] = {}
        self._stirred: Callable[[], None] = lambda: None
        self._late: Callable[[RelayProcess], None] = lambda _process: None
        self._watchers: dict[type, list[Callable[[RelayProcess, Any], None]]] = {}

        self._lay(scenario)

    def _lay(self, scenario: Scenario) -> None:
        """Relays that can be started, and wires between them."""
        if any(spec.relay_type is RelayType.CONTROL for spec in scenario.topology.relays):
            # Control servers answer before there is a way for data.
            self.ledger.exempt(0.0, 3.0)
        for spec in scenario.topology.relays:
            self.add(spec, scenario.topology.links)
        for spec in scenario.spares:
            self.add(spec, scenario.spare_links)
        for link in (*scenario.topology.links, *scenario.spare_links):
            self.network.add_wire(_wire(link))
            self.ledger.lossy |= link.loss > 0

    def add(self, spec: RelaySpec, links: tuple[LinkSpec, ...]) -> None:
        """A relay that can be started."""
        dials = tuple(link.b for link in links if link.a == spec.name)
        if self.scenario.seed % 2:
            self.holders[spec.node_id] = fingerprint_of(spec.name)
        process = RelayProcess(self, spec, dials)
        self.take_over(process)
        self.network.add_host(process)

    def take_over(self, process: RelayProcess) -> None:
        """From now on this is the process of its contact and of its node."""
        self.processes[process.contact] = process
        self._by_node[process.spec.node_id] = process

    def build(self, process: RelayProcess) -> tuple[RelayCore, Tables]:
        """The core of a process's next life."""
        return self._builder(self, process)

    def edge_host(self, process: RelayProcess) -> EdgeHost | None:
        """The MoQT side of a process's next life; None if clients without MoQT do."""
        has_clients = process.spec.relay_type in (RelayType.EDGE, RelayType.STUB)
        if not self.moqt or not has_clients:
            return None
        return EdgeHost(
            self.clock, self.ledger, process.contact, process.call, stub=process.is_stub
        )

    def place(self, process: RelayProcess) -> RelayProcess | None:
        """Where the network sees a relay's clients: those of a Stub are its parent's."""
        if not process.is_stub:
            return process
        parent = None if process.edge is None else process.edge.parent
        return None if parent is None else self.by_node()[parent]

    def policy_of(self, process: RelayProcess) -> Policy:
        """What a relay is given: our policy, the same in the words of the real engine, or none."""
        if not self.scenario.policies and self.scenario.max_loss is None:
            return OpenPolicy()
        if self.scenario.rule_engine:
            return rule_policy(self.policy, process.spec.node_id)
        if process.edge is None:
            return self.policy
        return replace(self.policy, home=process.edge.publishes)

    # Names

    def track(self, text: str) -> tuple[int, FullTrackName]:
        """The key and the name of a track of the simulation: its class is its first field."""
        found = track(text)
        self._tracks[found[0]] = text
        return found

    def scope_of(self, key: int) -> str:
        """The word for a track, which is its class."""
        return self._tracks.get(key, "")

    def node(self, contact: str) -> NodeId:
        """The node ID at a contact."""
        return self.processes[contact].spec.node_id

    def places(self, verb: str, tracks: Collection[str] = ()) -> list[str]:
        """Contacts whose clients publish or subscribe at any time of the run, or some tracks."""
        found = {
            action.who[0]: None
            for action in self.scenario.actions
            if action.verb.startswith(verb) and action.who and (not tracks or action.text in tracks)
        }
        return list(found)

    def by_node(self) -> Mapping[NodeId, RelayProcess]:
        """Processes by their node ID."""
        return self._by_node

    def running(self) -> list[RelayProcess]:
        """Those that exist now."""
        return [process for process in self.processes.values() if process.running]

    # What happens

    def note(self, *words: object) -> None:
        """Add a line to the story."""
        line = self._line(*words)
        if not self.tracing and len(self._story) >= _STORY:
            del self._story[: _STORY // 2]
        self._story.append(line)

    def _line(self, *words: object) -> str:
        return f"{self.clock.now:9.4f}  {' '.join(map(str, words))}"

    def mark(self, now: float, end: End, chunk: Chunk) -> None:
        """Count an arrival and report it."""
        kind, stream_id, data, fin, _ = chunk
        if kind == "data" and not stream_id & 2:
            self.control_messages += 1
            for listener in self.listeners:
                listener(end, chunk)
        if self.tracing:
            self._story.append(
                f"{now:9.4f}  connection {end.connection} {kind} of stream {stream_id}: "
                f"{len(data)} bytes{', end' if fin else ''}"
            )

    def event(self, process: RelayProcess, event: object) -> None:
        """A core reports something."""
        now = self.clock.now
        if isinstance(event, RouteChanged):
            self.rerouted[event.node] = None
            self.quiet_since = now
            self._moved(now, event.node)
        elif isinstance(event, _OF_PEERS):
            self.quiet_since = now
            self.note(process.contact, event)
        elif self.tracing:
            self._story.append(self._line(process.contact, event))
        if process is self.processes[process.contact]:  # what a former life does is not judged
            for watcher in self._watchers.get(type(event), ()):
                watcher(process, event)

    def _moved(self, now: float, node: NodeId) -> None:
        """A path to a node changed: copies for it may meet others for a flight."""
        if self.moqt:  # clients of a Stub are reached at its parent
            self.ledger.stirred = now + self.ledger.flight
        elif (target := self._by_node.get(node)) is not None:
            self.ledger.moved[target.contact] = now

    def disturbed(self) -> None:
        """Routes move for another reason than a session: nothing is proven of it for a while."""
        # Each relay tells a metric again when its own interval is over.
        self.unsettled = self.clock.now + 4 * self.scenario.settings.metric_interval
        self._stirred()

    def when_disturbed(self, call: Callable[[], None]) -> None:
        """Set the callable that :meth:`disturbed` calls."""
        self._stirred = call

    def late(self, process: RelayProcess) -> None:
        """A relay that drains ends because its time is over."""
        self._late(process)

    def when_late(self, call: Callable[[RelayProcess], None]) -> None:
        """Call ``call`` with each relay that has not drained in time, before it ends."""
        self._late = call

    def watch(self, watcher: Callable[[RelayProcess, E], None], kind: type[E]) -> None:
        """Call a watcher for each event of one kind."""
        self._watchers.setdefault(kind, []).append(watcher)

    def _crossing(self, end: End, stream: SimOutStream | None, chunk: Chunk) -> None:
        """A chunk goes over a link: it must be allowed there, and new."""
        if chunk.kind == "datagram":
            data = chunk.data
        elif stream is None or chunk.kind != "data" or isinstance(stream.seen, Seen):
            return
        else:  # header and first object may come in pieces
            data = (stream.seen or b"") + chunk.data
            stream.seen = data
        if end.host.contact in self.hostiles:
            return
        seen = identify(data, framed=self.moqt, datagram=stream is None)
        if seen is None:
            return
        if stream is not None:
            stream.seen = seen
        header, item = seen
        sender, receiver = end.host.contact, end.other.host.contact
        now = self.clock.now
        # What a Stub publishes may go through two of its parents while it moves.
        group = self.ledger.crossed(now, sender, receiver, item, header.context if self.moqt else 0)
        ends = (self.processes.get(receiver), self.processes.get(group.flow.contact))
        if not any(end is not None and end.is_stub and sender in end.links for end in ends):
            # For the network a Stub's clients are its parent's: that is an end, and no transit.
            self._permitted(sender, receiver, group)

    def _permitted(self, sender: str, receiver: str, group: Group) -> None:
        """Check that policy allows every relay on the path.

        What began before the policy ends within a flight. A datagram that waits is not taken back.
        It may wait longer for a narrow link or a slow receiver.
        """
        since, origin, scope = self.policy_since, group.flow.contact, group.flow.scope
        if group.began < since and (
            self.clock.now < since + self.ledger.flight
            or (group.datagrams and self.network.holds_back(group.began))
        ):
            return
        node, peer = self.node(sender), self.processes.get(receiver)
        if peer is not None and not self.policy.crosses(scope, node, peer.spec.node_id):
            text = f"from {sender} to {receiver} {scope!r} passes a country that it must not"
            raise BreakError("policy", text, self.clock.now)
        if sender == origin:
            return
        if not self.policy.transit(scope, node):
            text = f"{sender} is no transit for {scope!r} of {origin}"
            raise BreakError("policy", text, self.clock.now)

    def _default_wire(self, one: str, other: str) -> Wire | None:
        """Relays without a link reach each other over the Internet."""
        places = []
        for contact in (one, other):
            process = self.processes.get(contact)
            if process is None or process.spec.location is None:
                return Wire((one, other), 0.03)
            places.append(process.spec.location)
        return Wire((one, other), light_delay(*places))

    # Reading it

    @property
    def digest(self) -> str:
        """The same for two runs in which the same bytes were sent at the same times."""
        return self.network.digest.hexdigest()

    @property
    def story(self) -> list[str]:
        """What happened, line by line."""
        return self._story

    def configured(self, *, mended: bool = False) -> list[tuple[RelayProcess, RelayProcess, Wire]]:
        """Links that should be up: between relays that run, over wires that work.

        ``mended``: as if no relay and no wire were broken.
        """
        found = []
        for link in (*self.scenario.topology.links, *self.scenario.spare_links):
            one, other = self.processes[link.a], self.processes[link.b]
            wire = self.network.wire(link.a, link.b)
            if wire is None:
                continue
            if (
                one.life and other.life
                if mended
                else one.running and other.running and not any(wire.blocked.values())
            ):
                found.append((one, other, wire))
        return found

    def neighbours(self, contact: str) -> list[str]:
        """Relays with a configured link to one."""
        links = (*self.scenario.topology.links, *self.scenario.spare_links)
        found = [
            link.b if link.a == contact else link.a for link in links if contact in (link.a, link.b)
        ]
        return [name for name in found if self.processes[name].life]

    def graph(self, *, mended: bool = False) -> dict[NodeId, dict[NodeId, int]]:
        """Return the cost of each link between connected nodes, for the oracle."""
        graph: dict[NodeId, dict[NodeId, int]] = {
            process.spec.node_id: {}
            for process in self.processes.values()
            if (process.life if mended else process.running) and not process.is_stub
        }
        for one, other, wire in self.configured(mended=mended):
            if RelayType.CONTROL in (one.spec.relay_type, other.spec.relay_type) or one.is_stub:
                continue
            a, b = one.spec.node_id, other.spec.node_id
            graph[a][b] = graph[b][a] = wire.srtt_us
        if self.scenario.settings.dynamic_peering:
            self._add_dialled(graph)
        return graph

    def _add_dialled(self, graph: dict[NodeId, dict[NodeId, int]]) -> None:
        """Add connections that relays dialled on demand and that both ends have as a session."""
        nodes = {node: process for node, process in self.by_node().items() if node in graph}
        for node, process in nodes.items():
            for peer in process.tables.peers():
                other = nodes.get(peer)
                if other is None or peer in graph[node] or node not in other.tables.peers():
                    continue
                wire = self.network.wire(process.contact, other.contact)
                if wire is not None:
                    graph[node][peer] = graph[peer][node] = wire.srtt_us


def _wire(link: LinkSpec) -> Wire:
    ends = (link.a, link.b) if link.a < link.b else (link.b, link.a)
    back = link.bandwidth if link.bandwidth_back is None else link.bandwidth_back
    rates = {link.a: link.bandwidth, link.b: back}
    bandwidth = {sender: rate for sender, rate in rates.items() if rate is not None}
    return Wire(ends, link.delay, link.jitter, link.loss, bandwidth)
