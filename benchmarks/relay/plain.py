"""The baseline: the relay that one would write first, on aioquic's own asyncio server.

    python -m relay.plain CERTIFICATE KEY

It knows no MoQT: what arrives on a unidirectional stream or as a datagram of one connection goes to
all others, stream by stream. Prints the port it listens on.
"""

from __future__ import annotations

import asyncio
import sys

from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.asyncio.server import serve
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import (
    ConnectionTerminated,
    DatagramFrameReceived,
    QuicEvent,
    StreamDataReceived,
)

PEERS: set[Plain] = set()


class Plain(QuicConnectionProtocol):
    """One client."""

    def quic_event_received(self, event: QuicEvent) -> None:
        """Pass it on to everybody else."""
        PEERS.add(self)
        if isinstance(event, StreamDataReceived):
            for peer in PEERS - {self}:
                peer.forward(self, event)
        elif isinstance(event, DatagramFrameReceived):
            for peer in PEERS - {self}:
                peer._quic.send_datagram_frame(event.data)  # noqa: SLF001 - no public way
                peer.transmit()
        elif isinstance(event, ConnectionTerminated):
            PEERS.discard(self)

    def forward(self, source: Plain, event: StreamDataReceived) -> None:
        """Write a chunk to our stream for theirs."""
        streams = self.__dict__.setdefault("streams", {})
        key = (source, event.stream_id)
        if key not in streams:
            streams[key] = self._quic.get_next_available_stream_id(is_unidirectional=True)
        self._quic.send_stream_data(streams[key], event.data, event.end_stream)
        self.transmit()
        if event.end_stream:
            del streams[key]


async def main(certificate: str, key: str) -> None:
    """Serve until killed."""
    configuration = QuicConfiguration(
        is_client=False, alpn_protocols=["moqt-16"], max_datagram_frame_size=65536
    )
    configuration.load_cert_chain(certificate, key)
    server = await serve("127.0.0.1", 0, configuration=configuration, create_protocol=Plain)
    transport = server._transport  # noqa: SLF001 - no public way
    if transport is None:
        raise SystemExit("not listening")
    print(transport.get_extra_info("sockname")[1], flush=True)
    await asyncio.Future()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3]))
