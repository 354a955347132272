"""Drives the server's HTTP/3 and WebTransport with bytes: what arrives on which stream.

::

    operation   1 byte    bits 0 to 2: the stream     bit 3: FIN
                          bit 4: a reset instead      bit 5: STOP_SENDING instead
                          bit 6: a datagram instead   bit 7: the session closes itself first
    size        1 byte    how many bytes follow (not for a reset or a stop)
"""

from __future__ import annotations

from laps_sdk.quic.events import (
    Closed,
    Connected,
    DatagramReceived,
    Event,
    StopSending,
    StreamData,
    StreamReset,
)
from laps_sdk.quic.webtransport.h3 import OPENING, encode_close, encode_record
from testkit.webtransport import CONNECT, RawPeer, headers

STREAMS = (0, 2, 4, 6, 8, 10, 14, 18)


def one_input(data: bytes) -> None:
    """Whatever arrives: no exception, the session's events begin and end as they must."""
    peer = RawPeer()
    finished: set[int] = set()
    pos = 0
    while pos < len(data) and not peer.connection.closed:
        operation = data[pos]
        pos += 1
        stream_id = STREAMS[operation & 7]
        if operation & 0x80 and peer.app.connection is not None:
            peer.app.connection.close(operation)
        event: Event
        if operation & 0x30:
            stop = bool(operation & 0x20)
            event = StopSending(stream_id, pos) if stop else StreamReset(stream_id, pos)
            if not stop:
                finished.add(stream_id)
        else:
            size = data[pos] if pos < len(data) else 0
            chunk = data[pos + 1 : pos + 1 + size]
            pos += 1 + size
            if operation & 0x40:
                event = DatagramReceived(chunk)
            elif stream_id in finished or stream_id in peer.connection.stopped:
                continue
            else:
                event = StreamData(stream_id, chunk, bool(operation & 8))
                if event.fin:
                    finished.add(stream_id)
        peer.handler.handle_events([event])
    peer.connection.close()
    peer.handler.handle_events(peer.connection.take_inbox())
    events = peer.app.events
    if peer.app.connection is None:
        assert not events
        return
    assert isinstance(events[0], Connected)
    assert isinstance(events[-1], Closed)
    assert not any(isinstance(event, Connected | Closed) for event in events[1:-1])
    assert peer.app.connection.closed


def _step(operation: int, data: bytes = b"") -> bytes:
    """More bytes than fit one step are cut."""
    steps = [data[i : i + 255] for i in range(0, len(data), 255)] or [b""]
    return b"".join(bytes([operation, len(step)]) + step for step in steps)


def seeds() -> list[bytes]:
    """A session with all that it can have, and requests that get none."""
    session = _step(1, OPENING[0]) + _step(3, OPENING[1]) + _step(5, OPENING[2])
    session += _step(0, headers(CONNECT))
    streams = _step(6, b"\x40\x54\x00data") + _step(2, b"\x40\x41\x00data") + _step(0x40, b"\x00d")
    close = _step(0, encode_record(0, encode_close(7, "bye")))
    return [
        session + streams + close,
        streams + session + _step(8),
        session + streams + b"\x16\x26\xc0\x00" + _step(8),
        _step(8, headers(CONNECT[:-1])) + _step(4, headers(CONNECT[:2], 8)),
        session + _step(4, headers(CONNECT, 8)) + b"\x10",
    ]
