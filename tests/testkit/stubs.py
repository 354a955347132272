"""Stubs and their parents in memory: real Edges, bridges and peering sessions, data in between.

::

    world = World()
    parent = world.edge()                   an Edge with a network behind it
    stub = Stub(world)                      a Stub with clients of its own
    joint = stub.join(parent, srtt_us=10)   a session between the two
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, cast

from laps_relay.stubs.stub_parent import StubParent
from laps_sdk.forwarding.interfaces import OutStream
from laps_sdk.peering.links import ForeignPeerWire
from laps_sdk.stub.stub_uplink import StubUplink, UplinkParent
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import Feature, RelayType, Settings
from laps_wire.peering.session import Closed, Role
from testkit.bridges import HASHER, NETWORK, Edge, World
from testkit.peering_pair import DIALLER, LISTENER, Pair, config, node

__all__ = ["Joint", "Pipe", "PipeStream", "Stub"]

_SETTINGS = Settings(hash_check=7)
_FEATURES = (int(Feature.DATAGRAMS), int(Feature.PLAINTEXT_NAMES))


class PipeStream:
    """A stream that arrives as it is written."""

    def __init__(self, pipe: Pipe, number: int, priority: int, deadline: float | None) -> None:
        self.pipe = pipe
        self.number = number
        self.priority = priority
        self.deadline = deadline
        self.closed = False
        self.queued = 0

    def write(self, data: bytes, fin: bool = False) -> None:
        if not self.closed:
            self.closed = fin
            self.pipe.joint.data(self.pipe, self.number, data, fin)

    def offer(self, data: bytes, fin: bool = False) -> bool:
        self.write(data, fin)
        return True

    def pull_from(self, source: Callable[[float], None]) -> None:
        raise AssertionError(source)

    def reset(self, code: int) -> None:
        if not self.closed:
            self.closed = True
            self.pipe.joint.reset(self.pipe, self.number, code)

    def set_priority(self, priority: int) -> None:
        self.priority = priority

    def set_deadline(self, deadline: float | None) -> None:
        self.deadline = deadline


class Pipe:
    """The connection as one end writes to it."""

    def __init__(self, joint: Joint) -> None:
        self.joint = joint
        self.max_datagram_size = 1200
        self.streams: list[PipeStream] = []
        self.datagrams: list[bytes] = []
        self.stopped: list[tuple[int, int]] = []
        self._numbers = itertools.count(2, 4)

    def open_unidirectional(
        self,
        *,
        priority: int = 0,
        droppable: bool = False,
        drop_code: int = 0,
        deadline: float | None = None,
    ) -> OutStream:
        stream = PipeStream(self, next(self._numbers), priority, deadline)
        self.streams.append(stream)
        return stream

    def send_datagram(self, data: bytes, deadline: float | None = None) -> bool:
        self.datagrams.append(data)
        self.joint.datagram(self, data)
        return True

    def stop_sending(self, stream_id: int, code: int) -> None:
        self.stopped.append((stream_id, code))


class Joint:
    """A session between a Stub and a parent."""

    def __init__(self, world: World, stub: Stub, parent: Edge, srtt_us: int, number: int) -> None:
        self.world = world
        self.parent_edge = parent
        self.pair = Pair(
            config(
                Role.DIALLER,
                node_info=node(0, RelayType.STUB),
                settings=_SETTINGS,
                features=_FEATURES,
            ),
            config(
                Role.LISTENER,
                node_info=node(20 + parent.number),
                settings=_SETTINGS,
                features=_FEATURES,
            ),
            delay=0.0,
        )
        self.pair.now = world.now
        self.pair.dialler.connect(world.now)
        self.up, self.down = Pipe(self), Pipe(self)
        """What the Stub writes to, and what the parent writes to."""
        self.pair.run()
        assert self.pair.dialler.established
        self.over = False
        self.parent = StubParent(
            parent.relay,
            parent.plane,
            HASHER,
            session=number,
            node=NodeId(20 + parent.number),
            epoch=5,
            wire=cast("ForeignPeerWire", self.pair.listener),
            egress=self.down,
            contexts=lambda: 77,
            clock=lambda: world.now,
        )
        self.parent.open(world.now)
        self.uplink: UplinkParent = stub.uplink.parent(
            world.now,
            cast("ForeignPeerWire", self.pair.dialler),
            self.up,
            node=NodeId(20 + parent.number),
            srtt_us=srtt_us,
        )
        parent.hooks.append(self.turn)
        world.timed.append(self.parent)
        world.settle()

    @property
    def guests(self) -> tuple[Any, Any]:
        return self.uplink, self.parent

    def turn(self) -> bool:
        """Carry control messages both ways; whether there were any."""
        if self.over:
            return False
        moved = self.parent.pump(self.world.now)
        self.pair.run()
        for side in (DIALLER, LISTENER):
            events = [*self.pair.events[side]]
            self.pair.events[side].clear()
            for event in events:
                moved = True
                if isinstance(event, Closed):
                    self.close()
                    return True
                self.guests[side].event(self.world.now, event)
        return moved

    def close(self) -> None:
        """The connection is lost, for both."""
        if not self.over:
            self.over = True
            self.world.timed.remove(self.parent)
            self.uplink.closed(self.world.now)
            self.parent.closed(self.world.now)
            self.world.settle()

    # Data

    def _other(self, pipe: Pipe) -> Any:
        return self.parent if pipe is self.up else self.uplink

    def data(self, pipe: Pipe, number: int, data: bytes, fin: bool) -> None:
        if not self.over:
            self._other(pipe).stream_data(self.world.now, number, data, fin)

    def reset(self, pipe: Pipe, number: int, code: int) -> None:
        if not self.over:
            self._other(pipe).stream_reset(self.world.now, number, code)

    def datagram(self, pipe: Pipe, data: bytes) -> None:
        if not self.over:
            self._other(pipe).datagram(self.world.now, data)


class Stub:
    """A Stub relay with clients."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.edge = world.bare_edge()
        self.uplink = StubUplink(
            self.edge.relay,
            self.edge.plane,
            HASHER,
            session=NETWORK,
            epoch=9,
            contexts=lambda: 99,
            clock=lambda: world.now,
        )
        self.uplink.open(world.now)
        self.edge.hooks.append(lambda: self.uplink.pump(world.now))
        self.edge.listeners.append(lambda events: self.uplink.observe(world.now, events))
        world.timed.append(self.uplink)

    def join(self, parent: Edge, *, srtt_us: int = 10_000) -> Joint:
        """Connect to a parent."""
        return Joint(self.world, self, parent, srtt_us, 2000 + next(self.world.numbers))
