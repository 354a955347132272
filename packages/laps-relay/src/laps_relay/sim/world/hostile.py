"""Hostile peers: impostors, liars, garbage, floods.

Each dials one relay, sends its messages, and goes. Whatever it does, no relay may stop working for
the others, and nothing of it may stay after it is gone.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from laps_relay.sim.clients.clients import HASHER
from laps_relay.sim.net.network import End
from laps_relay.sim.net.shortcuts import SimAuthenticator, fingerprint_of
from laps_relay.sim.net.wires import Chunk, SimOutStream
from laps_relay.sim.world.world import World
from laps_sdk.peering.events import Dial
from laps_sdk.peering.peers import DIALECTS
from laps_wire.errors import LapsError
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    ALPN,
    Evidence,
    NodeAdvertise,
    NodeInfo,
    NodePathItem,
    NodeSelf,
    NodeSignature,
    RelayType,
    Stamp,
    SubscribeAdvertise,
    SubscribeInfo,
)
from laps_wire.peering.session import (
    AuthenticationRequired,
    AuthenticationStep,
    ConnectionClose,
    Established,
    PeeringSession,
    Role,
    SessionConfig,
    StreamData,
)

__all__ = ["Hostile"]

_UNKNOWN: Final = bytes((0x7F, 0x2E, 0x00))
"""A message of an unknown even type: a relay must not ignore it (laps-2, 3.2)."""
_OWN: Final = 0x66_0666_0000_0000


class Hostile:
    """One such peer; ``habit`` is a verb of :mod:`laps_relay.sim.scenarios.scenario`."""

    def __init__(self, world: World, habit: str, number: int, victim: str, other: str) -> None:
        self._world = world
        self.habit = habit
        self.contact = f"x{number}"
        self.own = NodeId(_OWN + number)
        self.victim = victim
        self.other = other
        self.spki_hash = bytes(32)
        self.life = 1
        self.running = True
        self.refused: int | None = None
        """With which code it was sent away."""
        self.established = False
        self.must_be_refused = habit == "double"
        """Whether it has done what ends a session, or should have been kept from having one."""
        self._rng: random.Random = world.rng.of(f"hostile {number}")
        self._keys = SimAuthenticator(fingerprint_of(self.contact))
        self.met = False
        """Whether the victim was there."""
        self.excused = True
        """Whether the victim could not send it away: it was gone, or stood still."""
        self._life = world.processes[victim].life
        self._end: End | None = None
        self._session: PeeringSession | None = None
        world.hostiles[self.contact] = self
        world.network.add_host(self)
        world.network.dial(self, Dial(1, victim))

    @property
    def silent(self) -> bool:
        """It is there until it goes."""
        return not self.running

    def go(self) -> None:
        """Leave without a word."""
        self.running = False
        victim = self._world.processes[self.victim]
        self.excused = victim.silent or victim.life != self._life
        if self._end is not None:
            self._world.network.vanish(self._end)

    # Host

    def opened(self, end: End, dial: Dial | None) -> None:  # noqa: ARG002
        """Begin to talk."""
        self._end = end
        self.met = True
        node_id = self._world.node(self.other) if self.habit == "double" else self.own
        epoch = 1_000_000 if self.habit == "double" else 1
        node = NodeSelf(
            node_id,
            RelayType.EDGE,
            Stamp(epoch=epoch, sequence=1),
            contacts=(self.contact,),
        )
        info = self._keys.sign_node(node)
        config = SessionConfig(
            role=Role.DIALLER,
            node_info=info,
            challenge=bytes(self._rng.randrange(256) for _ in range(32)),
            schemes=self._keys.schemes,
            spki_hash=end.other.host.spki_hash,
        )
        self._session = PeeringSession(config, DIALECTS[ALPN], self._now)
        self._session.connect(self._now)
        self._pump()

    def arrived(self, end: End, chunk: Chunk) -> None:  # noqa: ARG002
        """Read the victim's messages."""
        if self._session is not None and chunk.kind == "data" and not chunk.stream_id & 2:
            self._session.handle_stream_data(self._now, chunk.stream_id, chunk.data)
            self._pump()

    def stream_gone(self, end: End, stream: SimOutStream, lost: int, stopped: bool) -> None:
        """Nothing follows from it."""

    def lost(self, end: End, code: int, reason: str) -> None:  # noqa: ARG002
        """Sent away."""
        self.refused = code
        self._world.note(self.contact, self.habit, "is sent away", f"code {code:#x}", reason)

    def dial_failed(self, dial: Dial, reason: str) -> None:
        """The victim is not there."""

    # Talking

    @property
    def _now(self) -> float:
        return self._world.clock.now

    def _pump(self) -> None:
        session, end = self._session, self._end
        if session is None or end is None:
            return
        for event in session.poll_events():
            if isinstance(event, AuthenticationRequired):
                self._authenticate(session, event)
            elif isinstance(event, Established):
                self.established = True
                self._harm()
        while (item := session.poll_transmit()) is not None:
            if isinstance(item, StreamData):
                end.pipe.send(None, Chunk("data", item.stream_id, item.data))
            elif isinstance(item, ConnectionClose):
                self._world.network.close(end, item.code, item.reason)

    def _authenticate(self, session: PeeringSession, event: AuthenticationRequired) -> None:
        if event.step is AuthenticationStep.VERIFY:
            session.accept(self._now)
            self._pump()
            return
        transcript: Callable[[Evidence], bytes] = lambda bare: session.transcript(  # noqa: E731
            evidence=bare
        )
        evidence = self._keys.sign(event.schemes, transcript)
        if evidence is not None:
            session.prove(self._now, evidence=evidence)

    def _harm(self) -> None:
        harm: dict[str, Callable[[], None]] = {
            "liar": self._lie,
            "garbage": self._garble,
            "reflector": self._reflect,
            "flood": self._flood,
        }
        try:
            harm.get(self.habit, lambda: None)()
        except LapsError as error:  # our own session refuses to send the message
            self._world.note(self.contact, "cannot", error)

    def _lie(self) -> None:
        """Claim to be a microsecond away from all nodes, and that one of them restarted."""
        session = self._session
        if session is None:
            return
        nodes = []
        for name, process in sorted(self._world.processes.items()):
            if name == self.victim or not process.running or process.is_stub:
                continue
            life = process.life + (1 if name == self.other else 0)
            node = NodeSelf(
                process.spec.node_id,
                process.spec.relay_type,
                Stamp(epoch=life, sequence=10_000),
                contacts=(name,),
            )
            fingerprint = fingerprint_of(self.contact if name == self.other else name)
            path = (NodePathItem(self.own, 1),)
            nodes.append(NodeInfo(node, NodeSignature(fingerprint=fingerprint), path))
        session.send(self._now, NodeAdvertise(tuple(nodes)))
        self._pump()

    def _garble(self) -> None:
        """Bytes that are nothing, on every kind of stream."""
        end = self._end
        if end is None:
            return
        noise = bytes(self._rng.randrange(256) for _ in range(200))
        where = self._rng.choice((0, 2, 0))
        if where:
            end.open_unidirectional().write(noise)
            end.send_datagram(noise[:50])
        else:
            # Noise may look like the beginning of something long, for which a relay has to wait.
            self.must_be_refused = self._rng.random() < 0.5
            end.pipe.send(None, Chunk("data", 0, _UNKNOWN * self.must_be_refused + noise))

    def _reflect(self) -> None:
        """Serve targets that were never advertised to me."""
        session = self._session
        if session is None:
            return
        strangers = [NodeId(0x67_0000_0000_0000 + number) for number in range(1, 9)]
        session.advertise_sns(self._now, strangers)
        self._pump()

    def _flood(self) -> None:
        """Send subscribes of unknown sources, with epochs of the future."""
        session = self._session
        if session is None:
            return
        key, name = self._world.track("t0")
        entries = tuple(
            SubscribeInfo(
                source=NodeId(0x68_0000_0000_0000 + number),
                stamp=Stamp(epoch=1 << 40, sequence=number),
                element_hashes=HASHER.elements(name.namespace.fields),
                name_hash=HASHER.name(name.name),
                full_name_hash=key if number % 2 else key ^ number,
            )
            for number in range(1, 200)
        )
        session.send(self._now, SubscribeAdvertise(entries))
        self._pump()
