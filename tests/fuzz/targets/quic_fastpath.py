"""The 1-RTT fast path beside stock aioquic: told the same, both must end up in the same state.

::

    operation   1 byte    bits 0 to 2: what             bits 3 to 7: an argument
                          0, 1  a packet with a payload     argument: packet numbers left out
                          2     the last packet again, a byte of it changed (two bytes follow)
                          3     several packets at once     argument: how many
                          4     data on our own stream      bit 3: FIN
                          5     a datagram of ours
                          6     time passes, timers fire
                          7     both send                   bit 3: our stream is reset first
    size        1 byte    how many bytes of the payload follow (operations 0, 1, 3)
"""

from __future__ import annotations

import logging

from laps_sdk.quic.aioquic.fast.connection import FastQuicConnection
from testkit.quic_twins import Twins

OWN_STREAM = 1
"""A stream of the server, which both are."""

LOGGER = logging.getLogger("quic")


class Harness:
    """Both connections, and where the input is."""

    def __init__(self, data: bytes) -> None:
        self.twins = Twins(FastQuicConnection)
        self.data = data
        self.position = 0
        self.last = b""
        self.ended = False

    def take(self, size: int) -> bytes:
        """The next bytes of the input, as many as there are."""
        self.position += size
        return self.data[self.position - size : self.position]

    def byte(self) -> int:
        """The next byte, 0 at the end."""
        return int.from_bytes(self.take(1), "big")

    def packet(self, left_out: int) -> bytes:
        """A sealed packet with the next payload."""
        self.twins._number += left_out
        self.last = self.twins.seal(self.take(self.byte()))
        return self.last

    def run(self) -> None:
        while self.position < len(self.data):
            operation = self.byte()
            argument = operation >> 3
            self.step(operation & 7, argument)
            self.twins.check()
            if self.twins.fast._close_event is not None:
                self.twins.flush()
                self.twins.check()
                return

    def step(self, what: int, argument: int) -> None:
        twins = self.twins
        if what <= 1:
            twins.feed_datagram(self.packet(argument))
        elif what == 2:
            if self.last:
                damaged = bytearray(self.last)
                damaged[self.byte() % len(damaged)] ^= self.byte()
                twins.feed_datagram(bytes(damaged))
        elif what == 3:
            batch = [self.packet(0) for _ in range(argument)]
            for datagram in batch:
                twins.stock.receive_datagram(datagram, twins.source, now=twins.now)
            twins.fast.receive_datagrams(batch, twins.source, twins.now)
        elif what == 4:
            size = self.byte() * 8
            twins.do(lambda each: each.send_stream_data(OWN_STREAM, bytes(size), argument & 1 == 1))
        elif what == 5:
            twins.do(lambda each: each.send_datagram_frame(bytes(argument * 30)))
        elif what == 6:
            twins.wait(argument / 4000)
        else:
            self.send(argument)

    def send(self, argument: int) -> None:
        """Both send, where both order their frames alike: with no other stream to look after."""
        twins = self.twins
        loss = twins.fast._loss
        if argument & 1 and OWN_STREAM in twins.fast._streams:
            twins.do(lambda each: each.reset_stream(OWN_STREAM, argument))
        if (
            not set(twins.fast._streams) - {OWN_STREAM}
            and loss.congestion_window - loss.bytes_in_flight > 6 * 1200
        ):
            twins.flush()


def one_input(data: bytes) -> None:
    level = LOGGER.level
    LOGGER.setLevel(logging.CRITICAL)  # every close would be told twice
    try:
        Harness(data).run()
    finally:
        LOGGER.setLevel(level)


def _payload(payload: bytes, what: int = 0) -> bytes:
    return bytes([what, len(payload)]) + payload


def seeds() -> list[bytes]:
    """A bit of everything."""
    stream = _payload(b"\x0e\x02\x00\x05hello") + _payload(b"\x0f\x02\x05\x05world")
    late = _payload(b"\x0f\x02\x05\x05world") + _payload(b"\x0a\x02\x05hello", 8)
    own = bytes([4, 200, 5 | 16, 7, 6 | 200, 7])
    acks = own + _payload(b"\x02\x01\x00\x00\x00") + _payload(b"\x02\x01\x00\x00\x01")
    credit = own + _payload(b"\x10\xff\xff\xff\xff\xff\xff\xff\xff\x11\x01\x7f\xff")
    batch = bytes([3 | 24]) + b"".join(
        bytes([len(each)]) + each for each in (b"\x31\x02ab", b"\x01\x00", b"\x0a\x06\x01x\x30rest")
    )
    damaged = stream + bytes([2, 9, 1, 2, 0, 4, 2, 40, 255])
    reset = stream + _payload(b"\x04\x02\x07\x0a\x05\x01\x03") + bytes([15, 7])
    closed = _payload(b"\x1d\x05\x00") + stream
    bad = [_payload(each) for each in (b"", b"\x21", b"\x0e\x40", b"\x02\x05\x00\x01\x00")]
    return [stream, late, acks, credit, batch, damaged, reset, closed, *bad]
