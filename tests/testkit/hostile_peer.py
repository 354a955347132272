"""A relay of the network that does what it should not: it has the key, and says what a test wants.

::

    async with hostile_peer(net, via) as mallory:
        mallory.say(NodeAdvertise(...))     # as the protocol writes it
        mallory.write(b"garbage")           # or not
        closed = await mallory.closed()

The handshake is an honest one; behind it nothing is checked on this side.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from laps_sdk.peering.keys import PeerKeyRing, open_key_ring
from laps_sdk.peering.keys.files import NETWORK_KEY
from laps_sdk.quic.base import OutStream
from laps_sdk.quic.events import Closed, StopSending
from laps_wire.errors import IncompleteError
from laps_wire.hashing import KeyedHasher
from laps_wire.nodeid import NodeId
from laps_wire.peering import laps2
from laps_wire.peering.laps2 import (
    DataHeader,
    DataKind,
    Feature,
    Location,
    Mode,
    NodeInfo,
    NodeSelf,
    RelayType,
    Settings,
    Stamp,
    encode_data_header,
)
from laps_wire.peering.laps2.codepoints import MAX_MESSAGE_BYTES
from laps_wire.peering.laps2.handshake import HASH_CHECK_NAME
from laps_wire.peering.session import (
    LAPS2,
    AuthenticationRequired,
    AuthenticationStep,
    ConnectionClose,
    PeeringSession,
    Refused,
    Role,
    SessionConfig,
    StreamData,
)
from testkit.network_task import NetworkTask, RunningRelay, until
from testkit.raw_peer import RawPeer, raw_peer

__all__ = ["HostilePeer", "hostile_peer", "peer_keys"]

M = TypeVar("M")
FEATURES = (Feature.DATAGRAMS, Feature.PROBES, Feature.PLAINTEXT_NAMES)
SIGNED = Feature.SIGNED_NODES


def peer_keys(net: NetworkTask, name: str) -> PeerKeyRing:
    """The network's key, and a node key of its own that belongs to ``name``."""
    state = net.state / f"keys-{name}"
    state.mkdir(exist_ok=True)
    return open_key_ring("shared-key", state, key_file=net.state / NETWORK_KEY)


class HostilePeer:
    """A connection to a relay's peer port, and what is said on its control stream."""

    def __init__(
        self,
        raw: RawPeer,
        keys: PeerKeyRing,
        node: NodeId,
        *,
        relay_type: RelayType = RelayType.EDGE,
        epoch: int = 1,
        mode: Mode = Mode.BOTH,
        location: Location | None = None,
        signed: bool = False,
        fetches: bool = False,
    ) -> None:
        self.raw = raw
        self.keys = keys
        self.node = node
        self.epoch = epoch
        assert keys.network_key is not None
        self.hasher = KeyedHasher(keys.network_key.hash_key())
        self.stream = raw.control()
        self.refused: Refused | None = None
        me = NodeSelf(node, relay_type, Stamp(epoch, 1), location=location)
        server_key = raw.connection.server_key_hash
        assert server_key is not None
        features = [*FEATURES, *([SIGNED] * signed), *([Feature.FETCHES] * fetches)]
        self._session = PeeringSession(
            SessionConfig(
                role=Role.DIALLER,
                node_info=keys.sign_node(me),
                challenge=secrets.token_bytes(32),
                mode=mode,
                settings=Settings(
                    hold_ms=0,
                    max_message_size=MAX_MESSAGE_BYTES,
                    hash_check=self.hasher.full_name(*HASH_CHECK_NAME),
                ),
                features=tuple(sorted(features)),
                schemes=keys.schemes,
                spki_hash=server_key,
            ),
            LAPS2,
            0.0,
        )
        self._fed = 0

    async def connect(self) -> HostilePeer:
        """The handshake; its outcome is in ``refused`` if it is one."""
        self._session.connect(0.0, 0)
        await until(self._step)
        return self

    def _step(self) -> bool:
        session = self._session
        received = self.raw.received(0)
        if len(received) > self._fed and not session.established:
            session.handle_stream_data(0.0, 0, received[self._fed :])
            self._fed = len(received)
        while True:
            while (item := session.poll_transmit()) is not None:
                if isinstance(item, StreamData):
                    self.stream.write(item.data)
                elif isinstance(item, ConnectionClose):
                    self.raw.connection.close(item.code, item.reason)
            happened = session.poll_events()
            if not happened:
                break
            for event in happened:
                if isinstance(event, AuthenticationRequired):
                    self._authenticate(event)
                elif isinstance(event, Refused):
                    self.refused = event
        return session.established or self.raw.closed is not None or self.refused is not None

    def _authenticate(self, question: AuthenticationRequired) -> None:
        session = self._session
        if question.step is AuthenticationStep.VERIFY:
            session.accept(0.0)
            return
        evidence = self.keys.sign(
            question.schemes,
            lambda unsigned: session.transcript(mode=question.mode, evidence=unsigned),
        )
        assert evidence is not None
        session.prove(0.0, mode=question.mode, evidence=evidence)

    @property
    def established(self) -> bool:
        return self._session.established

    # Saying

    def say(self, *messages: Any) -> None:
        """Messages, whether they are allowed or not."""
        self.write(b"".join(laps2.encode(message) for message in messages))

    def write(self, data: bytes) -> None:
        """Bytes on the control stream."""
        self.stream.write(data)

    def data(
        self,
        sns_id: int,
        payload: bytes,
        *,
        track: int = 7,
        fin: bool = True,
        context: int = 1,
        flags: int = 0,
        payload_format: int = 0,
    ) -> OutStream:
        """A data stream."""
        stream = self.raw.data()
        header = DataHeader(
            DataKind.STREAM,
            sns_id,
            track,
            context,
            payload_format=payload_format,
            flags=flags,
        )
        stream.write(encode_data_header(header) + payload, fin)
        return stream

    def info(self, number: int, *path: laps2.NodePathItem, **more: Any) -> NodeInfo:
        """Node information about somebody else, as this peer would pass it on."""
        stamp = more.pop("stamp", Stamp(1, 1))
        kind = more.pop("relay_type", RelayType.EDGE)
        self_part = NodeSelf(NodeId(number), kind, stamp, **more)
        return NodeInfo(self_part, path=path or (laps2.NodePathItem(self.node, 1000),))

    # Hearing

    def heard(self, kind: type[M]) -> list[M]:
        """All messages of a kind that came."""
        data, pos = self.raw.received(0), 0
        found: list[M] = []
        while pos < len(data):
            try:
                message, pos = laps2.decode(data, pos=pos, max_size=MAX_MESSAGE_BYTES)
            except IncompleteError:
                break
            if isinstance(message, kind):
                found.append(message)
        return found

    async def hears(self, kind: type[M], good: Callable[[M], bool] = lambda _: True) -> M:
        """Wait for a message."""
        await until(lambda: any(good(each) for each in self.heard(kind)) or self.raw.closed)
        found = [each for each in self.heard(kind) if good(each)]
        assert found, self.raw.closed
        return found[0]

    async def knows(self, *relays: RunningRelay) -> None:
        """Wait until it was told of these nodes."""
        wanted = {relay.node for relay in relays}

        def told() -> set[str]:
            return {
                str(info.node.node_id)
                for message in self.heard(laps2.NodeAdvertise)
                for info in message.nodes
            }

        await until(lambda: wanted <= told() or self.raw.closed)
        assert wanted <= told(), self.raw.closed

    async def closed(self) -> Closed:
        """Wait for the relay to close the connection."""
        await until(lambda: self.raw.closed)
        closed = self.raw.closed
        assert closed is not None
        assert closed.by_peer
        return closed

    def stopped(self) -> list[int]:
        """The codes with which data streams were stopped."""
        return [event.code for event in self.raw.events if isinstance(event, StopSending)]

    async def echo(self) -> None:
        """Wait until everything that was said so far was heard: a probe is answered in order."""
        probe = secrets.randbits(40)
        self.say(laps2.Probe(probe, self.node, 0))
        await self.hears(laps2.ProbeResponse, lambda each: each.probe_id == probe)


@asynccontextmanager
async def hostile_peer(
    net: NetworkTask,
    relay: RunningRelay,
    *,
    node: str = "66:6",
    keys: PeerKeyRing | None = None,
    **more: Any,
) -> AsyncIterator[HostilePeer]:
    """Come into the network through one of its relays."""
    address = ("127.0.0.1", relay.network.server.address[1])
    async with raw_peer(address) as raw:
        peer = HostilePeer(raw, keys or peer_keys(net, "mallory"), NodeId.parse(node), **more)
        yield await peer.connect()
