"""A C++ relay as others see it: aioquic, and bytes written by hand as live relays write them.

It shares no code with the sessions under test. Like the real one it reads one control message from
each chunk that arrives, writes on stream 0 whoever dialled, drops data of sets that it does not
know, echoes node information, and answers nothing. It waits longer for packets than the real one,
which gives up after five seconds: a test must not fail because the machine has other things to do.
"""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.asyncio.server import serve
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import (
    ConnectionTerminated,
    DatagramFrameReceived,
    QuicEvent,
    StreamDataReceived,
)

from testkit.certs import certificates

__all__ = [
    "CLK",
    "CLK_HASH",
    "CONNECT",
    "EVENTS",
    "EVENTS_HASH",
    "RELAY_A",
    "SUBSCRIBE_CLK",
    "SUBSCRIBE_EVENTS",
    "CppSpeaker",
    "Message",
    "dialled",
    "dialling",
    "message",
]

# All of these were seen between live relays.
RELAY_A = 0xB97E0EF037B17F89
"""The node id of ``-e relay-a``."""
EVENTS_HASH = 0x070750223DAB53B6
CLK_HASH = 0x06563237CFE9CBB0
ROOM_HASH = 0x88FE0819A1261DA0
CONNECT = bytes.fromhex(
    "0100010000002202b97e0ef037b17f89010772656c61792d6100000000000000000000000000000000"
)
EVENTS = EVENTS_HASH.to_bytes(8, "big") + bytes.fromhex("01000a") + b"demo/room1\0\6events\0"
CLK = bytes.fromhex("06563237cfe9cbb001000a64656d6f2f726f6f6d310003636c6b00")
"""Announces, from the hash on."""
SUBSCRIBE_EVENTS = bytes.fromhex("00010a64656d6f2f726f6f6d31066576656e7473022040800201")
SUBSCRIBE_CLK = bytes.fromhex("00010a64656d6f2f726f6f6d3103636c6b022040800201")

CONNECT_KIND, RESPONSE = 1, 2
ANNOUNCE, UNANNOUNCE, SUBSCRIBE, UNSUBSCRIBE = 8, 9, 6, 7
NODE, NODE_GONE, SNS, SNS_GONE = 4, 5, 10, 11

_HEADER = struct.Struct(">BHI")


class Message(NamedTuple):
    """A control message."""

    kind: int
    body: bytes


def message(kind: int, body: bytes) -> bytes:
    return _HEADER.pack(1, kind, len(body)) + body


class CppSpeaker(QuicConnectionProtocol):
    """One connection."""

    def __init__(self, *args: object, **more: object) -> None:
        super().__init__(*args, **more)  # type: ignore[arg-type]  # aioquic's own arguments
        self.control: list[Message] = []
        self.crowded = 0
        """Chunks with more than a message: the real one is one behind from then on."""
        self.sets: dict[int, tuple[int, ...]] = {}
        self.streams: dict[int, bytes] = {}
        self.finished: set[int] = set()
        self.datagrams: list[bytes] = []
        self.lost = 0
        """Streams and datagrams of unknown sets."""
        self.closed: str | None = None
        self._buffer = b""

    # What arrives

    def quic_event_received(self, event: QuicEvent) -> None:
        match event:
            case StreamDataReceived(stream_id=0):
                self._chunk(event.data)
            case StreamDataReceived():
                self._data(event.stream_id, event.data, event.end_stream)
            case DatagramFrameReceived():
                if struct.unpack_from(">I", event.data, 2)[0] in self.sets:
                    self.datagrams.append(event.data)
                else:
                    self.lost += 1
            case ConnectionTerminated():
                self.closed = event.reason_phrase or str(event.error_code)

    def _chunk(self, data: bytes) -> None:
        self._buffer += data
        if len(self._buffer) < _HEADER.size:
            return
        version, kind, size = _HEADER.unpack_from(self._buffer)
        assert version == 1
        end = _HEADER.size + size
        if len(self._buffer) < end:
            return
        body, self._buffer = self._buffer[_HEADER.size : end], self._buffer[end:]
        self.crowded += bool(self._buffer)
        self.control.append(Message(kind, body))
        if kind == CONNECT_KIND:
            self.say(RESPONSE, bytes(2) + CONNECT[8:])
        elif kind == SNS:
            sns_id, _, count = struct.unpack_from(">IBH", body)
            self.sets[sns_id] = struct.unpack_from(f">{count}Q", body, 7)
        elif kind == SNS_GONE:
            del self.sets[int.from_bytes(body, "big")]
        elif kind == NODE:
            # The real one adds the node itself to the path, and tells its sender.
            self.say(NODE, body + body[7::-1] + bytes(8))

    def _data(self, stream_id: int, data: bytes, fin: bool) -> None:
        if stream_id not in self.streams:
            # The real one needs the whole header in the first chunk, and the set before it.
            if len(data) < 19 or struct.unpack_from(">I", data, 2)[0] not in self.sets:
                self.lost += 1
                return
            self.streams[stream_id] = b""
        self.streams[stream_id] += data
        if fin:
            self.finished.add(stream_id)

    def heard(self, kind: int) -> list[bytes]:
        """The bodies of all messages of one kind."""
        return [each.body for each in self.control if each.kind == kind]

    # What it says

    def say(self, kind: int, body: bytes) -> None:
        """A control message, in a packet of its own."""
        self.write(0, message(kind, body))

    def write(self, stream_id: int, data: bytes, *, fin: bool = False) -> None:
        self._quic.send_stream_data(stream_id, data, fin)
        self.transmit()

    def stream(self, data: bytes, *, fin: bool = True) -> int:
        """A data stream."""
        stream_id = self._quic.get_next_available_stream_id(is_unidirectional=True)
        self.write(stream_id, data, fin=fin)
        return stream_id

    def datagram(self, data: bytes) -> None:
        self._quic.send_datagram_frame(data)
        self.transmit()

    def announce(self, tail: bytes, *, source: int = RELAY_A) -> None:
        self.say(ANNOUNCE, source.to_bytes(8, "big") + tail)

    def retract(self, tail: bytes, *, source: int = RELAY_A) -> None:
        self.say(UNANNOUNCE, source.to_bytes(8, "big") + tail)

    def subscribe(self, hashed: int, body: bytes, *, sequence: int = 1, end: bool = False) -> None:
        # It is found by the hash of the full name; nobody compares the other two.
        head = struct.pack(">HQQQQI", sequence, RELAY_A, ROOM_HASH, 0, hashed, len(body))
        self.say(UNSUBSCRIBE if end else SUBSCRIBE, head + body)


def _configuration(*, client: bool) -> QuicConfiguration:
    return QuicConfiguration(
        is_client=client,
        alpn_protocols=["moqt-16"],
        idle_timeout=30.0,
        max_datagram_frame_size=1280,
        verify_mode=ssl.CERT_NONE if client else None,
    )


@asynccontextmanager
async def dialling(host: str, port: int) -> AsyncIterator[CppSpeaker]:
    """It dials a relay, and says Connect."""
    async with connect(
        host, port, configuration=_configuration(client=True), create_protocol=CppSpeaker
    ) as speaker:
        assert isinstance(speaker, CppSpeaker)
        speaker.write(0, CONNECT)
        yield speaker


@asynccontextmanager
async def dialled() -> AsyncIterator[tuple[str, asyncio.Future[CppSpeaker]]]:
    """It listens; gives its contact, and whoever connects first."""
    made: asyncio.Future[CppSpeaker] = asyncio.get_running_loop().create_future()

    def protocol(*args: object, **more: object) -> CppSpeaker:
        speaker = CppSpeaker(*args, **more)
        if not made.done():
            made.set_result(speaker)
        return speaker

    configuration = _configuration(client=False)
    tls = certificates().server
    assert tls.certificate is not None
    configuration.load_cert_chain(tls.certificate, tls.private_key)
    server = await serve("127.0.0.1", 0, configuration=configuration, create_protocol=protocol)
    try:
        transport = server._transport
        assert transport is not None
        yield f"127.0.0.1:{transport.get_extra_info('sockname')[1]}", made
    finally:
        server.close()
