"""The load: one publisher and K subscribers in one process, on our transport.

    python -m relay.load --port 4433 --ca ca.pem --subscribers 10 --rate 1000 --size 1200

Every object begins with its number and the time at which it was written, so subscribers verify
order and count and measure delay on one clock. Prints one JSON object.

``--plain`` leaves out MoQT's control messages: the plain relay does not know them; the data streams
are the same bytes.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import struct
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from laps_sdk.quic.base import Connection, ConnectionLimits, EgressLimits, Handler, OutStream
from laps_sdk.quic.endpoint import Endpoint, open_endpoint
from laps_sdk.quic.engine import EngineOptions, Tls
from laps_sdk.quic.events import (
    Closed,
    DatagramReceived,
    Event,
    StopSending,
    StreamData,
    StreamDropped,
)
from laps_sdk.quic.moqt import MoqtPeer
from laps_sdk.quic.tls import dev_certificate
from laps_wire.moqt.data import (
    ObjectDatagram,
    SubgroupHeader,
    SubgroupParser,
    SubgroupWriter,
    decode_datagram,
    encode_datagram,
)
from laps_wire.moqt.data.types import ObjectHeader, StreamKind
from laps_wire.moqt.messages import PublishNamespace, Subscribe, SubscribeNamespace
from laps_wire.moqt.session import Event as SessionEvent
from laps_wire.moqt.session import (
    RequestAccepted,
    RequestReceived,
    RequestRejected,
    SetupReceived,
)
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace

STAMP = struct.Struct(">QQ")
"""An object's number, and when it was written in nanoseconds."""
TICK = 0.005
"""Seconds between two bursts of the publisher."""
ALIAS = 1
TRACK = FullTrackName(Namespace((b"bench",)), b"load")
DRAIN = 3.0
"""Seconds after the last object in which late ones still count."""


class Place:
    """Where a receiver is in one stream."""

    __slots__ = ("last", "stamp")

    def __init__(self) -> None:
        self.last = -1
        self.stamp = b""
        """The beginning of the current payload: it may come in pieces."""


class Receiver:
    """What one subscriber got."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.objects = 0
        self.bytes = 0
        self.disorder = 0
        """Objects that came twice or before one that was written earlier on the same stream."""
        self.numbers: set[int] = set()
        self.delays: list[int] = []
        self.parsers: dict[int, tuple[SubgroupParser, Place]] = {}

    def chunk(self, stream_id: int, data: bytes, fin: bool) -> None:
        """Part of a subgroup stream."""
        entry = self.parsers.get(stream_id)
        if entry is None:
            entry = self.parsers[stream_id] = (SubgroupParser(self.draft), Place())
        parser, state = entry
        for event in parser.feed(data):
            if isinstance(event, ObjectHeader):
                self.bytes += event.payload_length
                state.stamp = b""
            elif isinstance(event, memoryview) and len(state.stamp) < STAMP.size:
                state.stamp += event[: STAMP.size - len(state.stamp)]
                if len(state.stamp) == STAMP.size:
                    self._note(state.stamp, state)
        if fin:
            del self.parsers[stream_id]

    def _note(self, payload: bytes, place: Place) -> None:
        number, written = STAMP.unpack_from(payload)
        if number <= place.last or number in self.numbers:
            self.disorder += 1
        place.last = number
        self.numbers.add(number)
        self.objects += 1
        self.delays.append(time.monotonic_ns() - written)

    def datagram(self, data: bytes) -> None:
        """An object in a datagram."""
        found = decode_datagram(data, self.draft)
        if isinstance(found, ObjectDatagram):
            self.bytes += len(found.payload)
            self._note(found.payload, Place())


class Client:
    """A connection of the load, with or without MoQT's control messages."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.ready = asyncio.Event()
        self.accepted = asyncio.Event()
        self.alias = ALIAS
        self.receiver = Receiver(draft)
        self.lost: str | None = None
        self.connection: Connection | None = None
        self.endpoint: Endpoint | None = None
        self.subscribed = asyncio.Event()

    def subscribe_again(self) -> None:
        """Forget what the relay said to the last request."""
        self.accepted.clear()
        self.lost = None

    # MoqtApplication

    def session_event(self, peer: MoqtPeer, event: SessionEvent) -> None:
        """Say yes to what the relay asks; note what it says."""
        match event:
            case SetupReceived():
                self.ready.set()
            case RequestAccepted():
                self.accepted.set()
            case RequestRejected(message=message):
                self.lost = f"refused: {message.reason}"
                self.accepted.set()
            case RequestReceived(request_id=request_id, message=message):
                if isinstance(message, Subscribe):
                    peer.session.accept_subscribe(request_id, ALIAS)
                    self.subscribed.set()
                elif isinstance(message, SubscribeNamespace | PublishNamespace):
                    peer.session.accept(request_id)
                peer.settle()
            case _:
                pass

    def stream_opened(
        self, _peer: MoqtPeer, stream_id: int, kind: StreamKind, data: bytes, fin: bool
    ) -> None:
        """A data stream."""
        if kind is StreamKind.SUBGROUP:
            self.receiver.chunk(stream_id, data, fin)

    def stream_data(self, _peer: MoqtPeer, stream_id: int, data: bytes, fin: bool) -> None:
        """More of it."""
        self.receiver.chunk(stream_id, data, fin)

    def stream_reset(self, _peer: MoqtPeer, stream_id: int, _code: int) -> None:
        """The relay gave up: a drop."""
        self.receiver.parsers.pop(stream_id, None)

    def datagram(self, _peer: MoqtPeer, data: bytes) -> None:
        """An object."""
        self.receiver.datagram(data)

    def out_stream_stopped(self, _peer: MoqtPeer, _event: StopSending) -> None:
        """The relay wants no more of a stream."""

    def out_stream_dropped(self, _peer: MoqtPeer, _event: StreamDropped) -> None:
        """The relay does not take what we write."""

    def writable(self, _peer: MoqtPeer) -> None:
        """Not waited for: the load is what the relay has to cope with."""

    def closed(self, _peer: MoqtPeer, event: Closed) -> None:
        """The relay is gone."""
        self.lost = event.reason or f"closed with {event.code}"


class PlainHandler:
    """A connection without MoQT's control messages."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def handle_events(self, events: Sequence[Event]) -> None:
        """Data is all there is."""
        for event in events:
            if isinstance(event, StreamData):
                self.client.receiver.chunk(event.stream_id, event.data, event.fin)
            elif isinstance(event, DatagramReceived):
                self.client.receiver.datagram(event.data)


async def connect(arguments: argparse.Namespace, port: int) -> tuple[Client, MoqtPeer | None]:
    """One more client; ready to make requests."""
    draft = Draft.from_alpn(arguments.alpn)
    if draft is None:
        raise SystemExit(f"{arguments.alpn} is not a draft that we speak")
    client = Client(draft)
    peers: list[MoqtPeer] = []

    def listener(connection: Connection) -> Handler:
        client.connection = connection
        if arguments.plain:
            return PlainHandler(client)
        peer = MoqtPeer(connection, client, draft=draft)
        peers.append(peer)
        return peer

    endpoint = await open_endpoint(
        backend=arguments.backend,
        options=EngineOptions(
            tls=Tls(verify=False),
            limits=ConnectionLimits(max_streams_uni=4096, idle_timeout=60.0),
        ),
        egress=EgressLimits(max_bytes=64 << 20, high_water=1 << 20),
    )
    client.endpoint = endpoint
    await endpoint.connect(
        ("127.0.0.1", port),
        handler=listener,
        alpn=[arguments.alpn],
        server_name="localhost",
        timeout=30.0,
    )
    if not arguments.plain:
        async with asyncio.timeout(30):
            await client.ready.wait()
    return client, peers[0] if peers else None


def own_certificate(folder: str) -> Tls:
    """A certificate for a listener."""
    made = dev_certificate(["localhost"])
    certificate, key = Path(folder, "cert.pem"), Path(folder, "key.pem")
    certificate.write_bytes(made.certificate_pem)
    key.write_bytes(made.key_pem)
    return Tls(certificate=str(certificate), private_key=str(key))


async def listen(arguments: argparse.Namespace) -> tuple[Client, int]:
    """The baseline of a network: a subscriber to whom the publisher connects directly."""
    draft = Draft.from_alpn(arguments.alpn) or Draft.D16
    client = Client(draft)
    with tempfile.TemporaryDirectory() as folder:
        client.endpoint = await open_endpoint(
            backend=arguments.backend,
            options=EngineOptions(
                tls=own_certificate(folder),
                alpn=(arguments.alpn,),
                limits=ConnectionLimits(max_streams_uni=4096, idle_timeout=60.0),
            ),
            listener=lambda _: PlainHandler(client),
        )
    return client, client.endpoint.local_address[1]


class Publisher:
    """Writes objects at a rate: a burst every tick, a group every ``per_group`` objects."""

    def __init__(self, client: Client, arguments: argparse.Namespace) -> None:
        if client.connection is None:
            raise RuntimeError("not connected")
        self.connection = client.connection
        self.draft = client.draft
        self.size = arguments.size
        self.per_group = arguments.per_group
        self.datagrams = arguments.datagrams
        self.push = arguments.push
        self.filler = bytes(max(0, self.size - STAMP.size))
        self.written = 0
        self.writer: SubgroupWriter | None = None
        self.stream: OutStream | None = None
        first = time.time_ns() // 1_000_000
        self.first_group = first

    def write(self) -> None:
        """One object."""
        number = self.written
        group, place = divmod(number, self.per_group)
        payload = STAMP.pack(number, time.monotonic_ns()) + self.filler
        self.written += 1
        if self.datagrams:
            found = ObjectDatagram(ALIAS, self.first_group + group, place, payload, 128)
            self.connection.send_datagram(encode_datagram(found, self.draft))
            return
        if self.stream is None or self.writer is None:
            self.writer = SubgroupWriter(
                SubgroupHeader(ALIAS, self.first_group + group, 0, 128), self.draft
            )
            self.stream = self.connection.open_unidirectional(priority=1, droppable=True)
            self.stream.write(self.writer.start)
        last = place == self.per_group - 1
        head = self.writer.object_header(place, len(payload))
        self.stream.write(head + payload, last)
        if last:
            self.stream = None

    async def run(self, rate: float, seconds: float) -> None:
        """Bursts on a fixed grid, so that a late tick is made up for by the next one."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        while (passed := loop.time() - start) < seconds:
            # Like any good publisher: what the relay does not take is not written, unless the
            # load is to be more than the relay can take.
            while self.written < passed * rate and (self.push or not self.connection.congested):
                self.write()
            await asyncio.sleep(TICK)
        while self.written % self.per_group:
            self.write()


def percentile(ordered: list[int], share: float) -> float | None:
    """In milliseconds; None of nothing."""
    if not ordered:
        return None
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] / 1e6


async def subscribe(client: Client, peer: MoqtPeer) -> None:
    """Ask for the track until it is there: in a network the announce has a way to go."""
    limit = time.monotonic() + 30.0
    while True:
        client.subscribe_again()
        peer.session.subscribe(TRACK)
        peer.settle()
        async with asyncio.timeout(60):
            await client.accepted.wait()
        if client.lost is None:
            return
        if time.monotonic() > limit:
            raise SystemExit(client.lost)
        await asyncio.sleep(0.05)


async def main(arguments: argparse.Namespace) -> dict[str, object]:
    """Connect everybody, send, wait for the rest, add up."""
    port, direct = arguments.port, None
    if arguments.direct:
        arguments.plain = True
        direct, port = await listen(arguments)
    publisher, peer = await connect(arguments, port)
    if peer is not None:
        peer.session.publish_namespace(TRACK.namespace)
        peer.settle()
        async with asyncio.timeout(30):
            await publisher.accepted.wait()
    if direct is not None:
        subscribers: list[tuple[Client, MoqtPeer | None]] = [(direct, None)]
    else:
        to = arguments.subscribe_port or port
        subscribers = [await connect(arguments, to) for _ in range(arguments.subscribers)]
    for client, session in subscribers:
        if session is not None:
            await subscribe(client, session)
    if peer is not None:
        async with asyncio.timeout(30):
            await publisher.subscribed.wait()
    gc.collect()
    gc.freeze()
    print(json.dumps({"begin": time.time()}), flush=True)
    sender = Publisher(publisher, arguments)
    began = time.monotonic()
    own = time.process_time()
    await sender.run(arguments.rate, arguments.seconds)
    sent_for = time.monotonic() - began
    limit = time.monotonic() + DRAIN
    receivers = [client.receiver for client, _ in subscribers]
    while time.monotonic() < limit and any(  # noqa: ASYNC110 - counters of the hot path
        receiver.objects < sender.written for receiver in receivers
    ):
        await asyncio.sleep(0.02)
    took = time.monotonic() - began
    delays = sorted(delay for receiver in receivers for delay in receiver.delays)
    return {
        "written": sender.written,
        "wanted": int(arguments.rate * arguments.seconds),
        "delivered": sum(receiver.objects for receiver in receivers),
        "bytes": sum(receiver.bytes for receiver in receivers),
        "disorder": sum(receiver.disorder for receiver in receivers),
        "least": min(receiver.objects for receiver in receivers),
        "most": max(receiver.objects for receiver in receivers),
        "seconds": took,
        "sent_for": sent_for,
        "load_cpu": time.process_time() - own,
        "p50_ms": percentile(delays, 0.5),
        "p99_ms": percentile(delays, 0.99),
        "lost_sessions": sum(1 for client, _ in subscribers if client.lost),
    }


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=0, help="where the publisher connects")
    parser.add_argument("--subscribe-port", type=int, default=0, help="if not the same")
    parser.add_argument("--direct", action="store_true", help="no relay: publisher to subscriber")
    parser.add_argument("--alpn", default="moqt-16")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--backend", default=os.environ.get("LOAD_BACKEND", "qh3"))
    parser.add_argument("--subscribers", type=int, default=10)
    parser.add_argument("--rate", type=float, default=250.0, help="objects a second")
    parser.add_argument("--size", type=int, default=1200)
    parser.add_argument("--per-group", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--datagrams", action="store_true")
    parser.add_argument("--push", action="store_true", help="do not hold back when congested")
    return parser.parse_args()


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(parse()))), flush=True)
