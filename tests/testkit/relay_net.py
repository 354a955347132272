"""Network relays joined in memory, in virtual time: each connection has a delay, nothing is lost.

Control streams and data streams keep their order, each by itself. A relay's own clients are
simulated: what is announced here can be pulled, what is wanted here is recorded when it comes.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Mapping
from heapq import heappop, heappush
from itertools import count
from typing import TypeVar

from laps_relay.network.events import NetworkEvent
from laps_relay.network.nodes.node_table import Order, default_order
from laps_relay.network.relay import NetworkRelay
from laps_relay.network.settings import NetworkSettings
from laps_relay.policy import OPEN_POLICY
from laps_relay.policy.interface import Policy
from laps_sdk.forwarding.interfaces import OutStream
from laps_sdk.peering.dialler import Contact
from laps_sdk.peering.events import Dial, PeerAuthenticator
from laps_sdk.peering.links import ForeignPeerFactory
from laps_sdk.peering.settings import Identity
from laps_sdk.upstream.interfaces import Answer, Feed
from laps_wire.hashing import KeyedHasher
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    AnnounceKind,
    Location,
    RelayType,
    SubscribeCode,
)
from laps_wire.peering.session import ConnectionClose, Ending, Role, StreamData, StreamEnd
from testkit.relay_ends import Clients, End, OpenAuthenticator, Out

HASHER = KeyedHasher(b"a key that all relays share")
TRACK = FullTrackName.parse("example-room--video")
OTHER = FullTrackName.parse("example-room--audio")

E = TypeVar("E")


def key_of(name: FullTrackName) -> int:
    return HASHER.full_name(name.namespace.fields, name.name)


class RelayNet:
    """The network: ``add`` relays, ``join`` them, ``run`` for some time."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.relays: dict[int, NetworkRelay] = {}
        self.clients: dict[int, Clients] = {}
        self.events: dict[int, list[NetworkEvent]] = {}
        self.contacts: dict[str, int] = {}
        self.cut_off: set[int] = set()
        self._epochs = count(1)
        self._sessions = count(1)
        self.in_flight: list[tuple[float, int, End, str, tuple[object, ...]]] = []
        self._serial = count()
        self.ends: dict[tuple[int, int], End] = {}
        self.delay = 0.005

    def add(
        self,
        number: int,
        relay_type: RelayType = RelayType.EDGE,
        *,
        policy: Policy = OPEN_POLICY,
        region: str = "",
        location: Location | None = None,
        guests: ForeignPeerFactory | None = None,
        authenticator: PeerAuthenticator | None = None,
        order: Order = default_order,
        known_keys: Mapping[NodeId, bytes] | None = None,
        **settings: object,
    ) -> NetworkRelay:
        contact = f"relay-{number}:33434"
        clients = self.clients[number] = Clients(self, number)
        draw = random.Random(number)
        self.contacts[contact] = number
        takes = relay_type in (RelayType.EDGE, RelayType.STUB)
        self.relays[number] = relay = NetworkRelay(
            Identity(
                node_id=NodeId(number),
                epoch=next(self._epochs),
                contacts=(contact,),
                region=region,
                longitude=None if location is None else location.longitude,
                latitude=None if location is None else location.latitude,
            ),
            NetworkSettings(relay_type=relay_type, **{"hold": 15.0, **settings}),  # type: ignore[arg-type]
            hasher=HASHER,
            authenticator=authenticator or OpenAuthenticator(),
            challenge=lambda: draw.randbytes(32),
            contexts=lambda: draw.randrange(1, 1 << 32),
            random=draw.random,
            policy=policy,
            order=order,
            known_keys=known_keys,
        )
        if guests is not None:
            relay.set_foreign_peers(guests)
        if takes:
            relay.attach(clients, clients)
        self.events[number] = []
        return relay

    # Connections

    def join(self, left: int, right: int, *, delay: float | None = None) -> tuple[int, int]:
        """``left`` dials ``right``; the numbers of the session at both."""
        return self._connect(left, right, None, self.delay if delay is None else delay)

    def dial_for_ever(self, left: int, *rights: int) -> None:
        contacts = [Contact(address=f"relay-{right}:33434") for right in rights]
        self.relays[left].set_contacts(self.now, contacts)

    def _connect(self, left: int, right: int, dial: Dial | None, delay: float) -> tuple[int, int]:
        first = End(self, left, next(self._sessions), delay)
        second = End(self, right, next(self._sessions), delay)
        first.other, second.other = second, first
        for end, role in ((second, Role.LISTENER), (first, Role.DIALLER)):
            self.ends[end.owner, end.session] = end
            self.relays[end.owner].connection_opened(
                self.now,
                end.session,
                end,
                role=role,
                alpn="laps-2",
                spki_hash=bytes(32),
                dial=dial if role is Role.DIALLER else None,
            )
            self.relays[end.owner].measured(self.now, end.session, int(delay * 2e6))
        return first.session, second.session

    def cut(self, number: int, session: int) -> None:
        """A connection breaks, and both ends see it."""
        end = self.ends[number, session]
        for each in (end, end.other):
            if each.open:
                each.open = False
                self.relays[each.owner].connection_closed(self.now, each.session, 0, "cut")

    def crash(self, number: int) -> None:
        """A relay is gone; its peers see it at once."""
        for (owner, _), end in list(self.ends.items()):
            if owner == number and end.open:
                end.open = end.other.open = False
                self.relays[end.other.owner].connection_closed(
                    self.now, end.other.session, 0, "gone"
                )
        del self.relays[number]

    def restart(self, number: int, relay_type: RelayType = RelayType.EDGE) -> NetworkRelay:
        """It comes back with a new epoch, and knows nothing."""
        self.crash(number)
        return self.add(number, relay_type)

    def session(self, left: int, right: int) -> int:
        """The number, at ``left``, of its first open connection with ``right``."""
        return min(
            session
            for (owner, session), end in self.ends.items()
            if owner == left and end.other.owner == right and end.open
        )

    def say(self, left: int, right: int, message: object) -> None:
        """Let a relay say something to a peer that it would not say by itself."""
        wire = self.relays[left].peers.wire(self.session(left, right))
        wire.send(self.now, message)

    # Clients

    def publish(self, number: int, name: FullTrackName = TRACK) -> None:
        self.relays[number].announce(self.now, AnnounceKind.TRACK, name)

    def subscribe(self, number: int, name: FullTrackName = TRACK) -> None:
        self.relays[number].subscribe(self.now, name)

    def unsubscribe(self, number: int, name: FullTrackName = TRACK) -> None:
        self.relays[number].unsubscribe(self.now, name)

    def begin(self, number: int, data: bytes, name: FullTrackName = TRACK) -> OutStream:
        """A publisher at this relay begins a stream."""
        stream = self.feed(number, name).open_stream(self.now, priority=3)
        stream.write(data)
        return stream

    def send(self, number: int, data: bytes, name: FullTrackName = TRACK) -> None:
        """A whole stream."""
        self.begin(number, data, name).write(b"", fin=True)

    def feed(self, number: int, name: FullTrackName = TRACK) -> Feed:
        return self.clients[number].feeds[key_of(name)]

    def got(self, *numbers: int) -> list[list[bytes]]:
        """What came whole at these relays since the last time."""
        taken = []
        for number in numbers:
            clients = self.clients[number]
            taken.append(clients.finished)
            clients.finished = []
        return taken

    def answers(self, number: int) -> list[tuple[Answer, SubscribeCode]]:
        """What this relay's clients were told since the last time."""
        clients = self.clients[number]
        taken, clients.answers = clients.answers, []
        return [(answer, code) for _, answer, code, _ in taken]

    # Looking

    def told(self, number: int, kind: type[E]) -> list[E]:
        """Events of one kind since the last time; the others stay."""
        found: list[E] = [each for each in self.events[number] if isinstance(each, kind)]
        self.events[number] = [each for each in self.events[number] if not isinstance(each, kind)]
        return found

    def way(self, left: int, right: int) -> tuple[int, ...]:
        """The relays on the best way; empty if there is none."""
        rows = {row.node: row for row in self.relays[left].tables.nodes()}
        row = rows.get(NodeId(right))
        return () if row is None else tuple(int(node) for node in row.path)

    def at_rest(self, numbers: Iterable[int] | None = None) -> list[str]:
        """What is in the tables of interest and data; nothing after everything was withdrawn."""
        left = []
        for number in self.relays if numbers is None else numbers:
            relay = self.relays[number]
            rows = (
                *relay.tables.sets(),
                *relay.tables.fib(),
                *relay.tables.announce_rows(),
                *relay.tables.subscribe_rows(),
            )
            left += [f"{number}: {row}" for row in rows]
            left += [f"{number}: feed of {key}" for key in self.clients[number].feeds]
        return left

    # Time

    def lose(self) -> None:
        """Nothing arrives of what is under way."""
        self.in_flight.clear()

    def later(self, end: End, what: str, *args: object) -> None:
        heappush(self.in_flight, (self.now + end.delay, next(self._serial), end, what, args))

    def run(self, seconds: float = 1.0) -> None:
        """Let time pass."""
        until = self.now + seconds
        while True:
            self.transmit()
            times = [relay.poll_timeout() for relay in self.relays.values()]
            due = min((time for time in times if time is not None), default=float("inf"))
            if self.in_flight:
                due = min(due, self.in_flight[0][0])
            if due > until:
                break
            self.now = max(self.now, due)
            while self.in_flight and self.in_flight[0][0] <= self.now:
                _, _, end, what, args = heappop(self.in_flight)
                self._arrive(end.other, what, args)
            for relay in list(self.relays.values()):
                time = relay.poll_timeout()
                if time is not None and time <= self.now:
                    relay.handle_timeout(self.now)
            self._dial()
        self.now = until
        for number, relay in self.relays.items():
            self.events[number] += relay.poll_events()

    def _dial(self) -> None:
        for number, relay in list(self.relays.items()):
            for dial in relay.poll_dials(self.now):
                found = self.contacts.get(dial.contact)
                if found is None or found not in self.relays or found in self.cut_off:
                    relay.dial_failed(self.now, dial.number, "nobody there")
                else:
                    self._connect(number, found, dial, self.delay)

    def transmit(self) -> None:
        waiting = deque(self.relays.items())
        while waiting:
            number, relay = waiting.popleft()
            for session in relay.poll_dirty():
                end = self.ends[number, session]
                for item in relay.poll_transmit(session):
                    if isinstance(item, StreamData):
                        self.later(end, "control", item.stream_id, item.data)
                    elif isinstance(item, StreamEnd):
                        self.later(end, "ended", item)
                    elif end.open:
                        end.open = False
                        self.later(end, "close", item)
                        relay.connection_closed(self.now, session, item.code, item.reason)
                        waiting.append((number, relay))

    def _arrive(self, end: End, what: str, args: tuple[object, ...]) -> None:
        relay = self.relays.get(end.owner)
        if relay is None or not end.open:
            return
        now, session = self.now, end.session
        match what, args:
            case "control", (int(stream), bytes(data)):
                relay.control_data(now, session, stream, data)
            case "ended", (StreamEnd() as item,):
                if item.ending is Ending.FINISH:
                    relay.control_data(now, session, item.stream_id, b"", fin=True)
                elif item.ending is Ending.RESET:
                    relay.control_reset(now, session, item.stream_id, item.code)
                else:
                    relay.control_stopped(now, session, item.stream_id, item.code)
            case "close", (ConnectionClose() as item,):
                end.open = False
                relay.connection_closed(now, session, item.code, item.reason)
            case "data", (int(stream), bytes(data), bool(fin)):
                relay.data_stream(now, session, stream, data, fin)
            case "reset", (int(stream), int(code)):
                relay.data_reset(now, session, stream, code)
            case "datagram", (bytes(data),):
                relay.datagram(now, session, data)
            case "stopped", (Out() as out,):
                out.closed = True
                relay.out_stream_gone(now, session, out, 0, stopped=True)
