"""The forwarding plane between relays: any bytes on streams and in datagrams, in any chunks.

::

    again and again:
      op (1)      data, data with FIN, reset, datagram, the set comes, the set does not come,
                  a peer stops a stream, time
      stream (1)  which stream, or which outgoing one
      size (1)    how many bytes follow
      bytes

Only a ``RemoteError`` may be raised, and it ends the session. Every outgoing stream begins with the
header of an incoming one, under the id of our set, and its payload is a prefix of that one's.
"""

from __future__ import annotations

import contextlib

from laps_wire.errors import RemoteError
from laps_wire.peering.laps2 import DataKind
from testkit.peer_plane import Out, PeerNet, head

DATA, FIN, RESET, DATAGRAM, COMES, GIVEN_UP, STOPPED, TIME = range(8)
LATE = 9
"""A set that is not known at first; set 7 is."""


class _Run:
    """A plane, and what its peer sent."""

    def __init__(self) -> None:
        self.net = PeerNet(peers=2, local=True)
        self.sent: dict[int, bytes] = {}
        self.ended: set[int] = set()

    def do(self, op: int, stream: int, data: bytes) -> None:
        net = self.net
        if op in (DATA, FIN):
            if stream not in self.ended:
                self.sent[stream] = self.sent.get(stream, b"") + data
                if op == FIN:
                    self.ended.add(stream)
                net.send(data, stream=stream, fin=op == FIN)
        elif op == RESET:
            self.ended.add(stream)
            net.plane.stream_reset(net.now, 1, stream, len(data))
        elif op == DATAGRAM:
            net.plane.datagram(net.now, 1, data)
        elif op == COMES:
            net.install((2, 3), sns_id=LATE)
            net.plane.release(net.now, 1, net.holder[1].take(LATE))
        elif op == GIVEN_UP:
            net.plane.discard(net.now, 1, [item for _, item, _ in net.holder[1].items])
            net.holder[1].items.clear()
        elif op == STOPPED:
            if net.peer[2].streams:
                net.gone(2, stream % len(net.peer[2].streams), stopped=stream > 127)
        else:
            net.wait(stream / 64)

    def check(self) -> None:
        sent = list(self.sent.values())
        for peer in self.net.peer.values():
            for out in peer.streams:
                if not any(_is_copy(out, data) for data in sent):
                    raise AssertionError(f"nobody sent {out.data.hex()}")
        if len(self.net.sink.streams) > len(sent):
            raise AssertionError("more streams than were sent")
        counters = self.net.plane.counters()
        outs = [out for peer in self.net.peer.values() for out in peer.streams]
        datagrams = [data for peer in self.net.peer.values() for data, _ in peer.datagrams]
        if counters.bytes_out != sum(map(len, datagrams)) + sum(len(out.data) for out in outs):
            raise AssertionError("bytes were counted wrongly")

    def close(self) -> None:
        self.net.plane.remove_session(self.net.now, 1)
        if self.net.plane.counters().held_bytes:
            raise AssertionError("something waits for a session that is gone")
        sizes = self.net.plane.sizes()
        if sizes.incoming or sizes.outgoing:
            raise AssertionError("something of a session that is gone is under way")


def _is_copy(out: Out, data: bytes) -> bool:
    return data[:4] + out.data[4:8] + data[8 : len(out.data)] == out.data


def one_input(data: bytes) -> None:
    """Do what the script says until the peer breaks the protocol."""
    run = _Run()
    pos = 0
    with contextlib.suppress(RemoteError):
        while pos + 3 <= len(data):
            op, stream, size = data[pos : pos + 3]
            pos += 3
            run.do(op % 8, stream, data[pos : pos + size])
            pos += size
    run.check()
    run.close()


def _script(*ops: tuple[int, int, bytes]) -> bytes:
    return b"".join(bytes([op, stream, len(data)]) + data for op, stream, data in ops)


def seeds() -> list[bytes]:
    """Streams, whole and in pieces; data before its set; what is refused."""
    datagram = head(kind=DataKind.DATAGRAM) + b"object"
    late = head(LATE, ttl_ms=500, extensions=b"\x02\x01a") + b"late"
    whole = head() + b"payload"
    return [
        _script((FIN, 3, whole), (DATAGRAM, 0, datagram)),
        _script((DATA, 3, whole[:9]), (DATA, 3, whole[9:30]), (TIME, 90, b""), (FIN, 3, b"end")),
        _script((DATA, 3, whole), (STOPPED, 0, b""), (DATA, 3, b"more"), (RESET, 3, b"abc")),
        _script((DATA, 3, late), (DATA, 3, b"r"), (COMES, 0, b""), (FIN, 3, b"!")),
        _script((DATA, 3, late), (GIVEN_UP, 0, b""), (DATA, 3, b"r"), (FIN, 7, late)),
        _script((FIN, 3, whole[:8])),
        _script((DATA, 3, bytes([24, 0x30]) + whole[2:]), (DATAGRAM, 0, whole)),
        _script((DATA, 3, head(0) + b"stub")),
    ]
