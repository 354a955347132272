"""What the forwarding plane between relays costs for each chunk and peer, without any network.

    python benchmarks/peer_plane.py            every row
    python benchmarks/peer_plane.py stream     rows whose name contains one of the words
    python benchmarks/peer_plane.py --json     one object a row

Times are CPU times, the best of several repeats. ``ratio`` is the time for one chunk as a multiple
of a baseline measured in turns with it: a plain loop that calls the ``write`` of the same number of
streams with the same bytes, which is the least that a fan-out can cost. Compare the ratios.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

from sink import Sink

from laps_relay.peer_forwarding.forwarding import LOCAL, EgressSet, Ingress
from laps_relay.peer_forwarding.plane import PeerPlane
from laps_wire.peering.laps2 import DataHeader, DataKind, encode_data_header
from laps_wire.peering.session import SnsStanding

REPEATS = 9
CHUNKS = 6000
CHUNK = 1200
"""Bytes that one packet brings."""


@dataclass(frozen=True, slots=True)
class Case:
    """One way to use the plane."""

    kind: str
    peers: int
    chunks: int = 100
    """In one stream."""
    ttl_ms: int = 0

    @property
    def name(self) -> str:
        """How the row is called."""
        length = "" if self.kind == "datagram" else f" of {self.chunks}"
        return f"{self.kind}{length}{' ttl' if self.ttl_ms else ''} x{self.peers}"


def cases() -> Iterator[Case]:
    for peers in (1, 2, 10):
        yield Case("stream", peers)
        yield Case("stream", peers, chunks=1)
        yield Case("stream", peers, ttl_ms=500)
        yield Case("feed", peers)
        yield Case("feed", peers, chunks=1)
        yield Case("datagram", peers)


def _never(now: float, sns_id: int, item: object, size: int) -> SnsStanding:
    raise AssertionError(now, sns_id, item, size)


def prepared(case: Case) -> Callable[[], float]:
    """A call that forwards ``CHUNKS`` chunks, and says how long that took."""
    plane = PeerPlane(None)
    plane.add_session(1, Sink(), _never)
    egress = []
    for number in range(2, 2 + case.peers):
        plane.add_session(number, Sink(), _never)
        egress.append(EgressSet(number, number))
    plane.install(0.0, Ingress(1, 7), egress, local=False)
    plane.install(0.0, Ingress(LOCAL, 1), egress, local=False)
    feed = plane.open_feed(1, 5, 6, 1)
    kind = DataKind.DATAGRAM if case.kind == "datagram" else DataKind.STREAM
    head = encode_data_header(DataHeader(kind, 7, 5, 6, ttl_ms=case.ttl_ms))
    first, chunk = head + bytes(CHUNK - len(head)), bytes(CHUNK)
    streams = CHUNKS // case.chunks

    def run_streams() -> float:
        stream_data, middle = plane.stream_data, range(case.chunks - 2)
        start = time.process_time()
        for stream in range(streams):
            if case.chunks == 1:
                stream_data(1.0, 1, stream, first, True)
                continue
            stream_data(1.0, 1, stream, first, False)
            for _ in middle:
                stream_data(1.0, 1, stream, chunk, False)
            stream_data(1.0, 1, stream, chunk, True)
        return time.process_time() - start

    def run_feed() -> float:
        middle = range(case.chunks - 1)
        start = time.process_time()
        for _ in range(streams):
            stream = feed.open_stream(1.0, priority=128)
            for _ in middle:
                stream.write(chunk, False)
            stream.write(chunk, True)
        return time.process_time() - start

    def run_datagrams() -> float:
        start = time.process_time()
        for _ in range(CHUNKS):
            plane.datagram(1.0, 1, first)
        return time.process_time() - start

    return {"stream": run_streams, "feed": run_feed, "datagram": run_datagrams}[case.kind]


def baseline(peers: int) -> float:
    """Seconds for one chunk in a plain loop."""
    writes, data = [Sink().write for _ in range(peers)], bytes(CHUNK)
    start = time.process_time()
    for _ in range(CHUNKS):
        for write in writes:
            write(data, False)
    return (time.process_time() - start) / CHUNKS


@dataclass(frozen=True, slots=True)
class Row:
    """What one case took."""

    name: str
    chunks_per_second: float
    nanoseconds: float
    """For one chunk and peer."""
    ratio: float


def measure(case: Case) -> Row:
    call = prepared(case)
    lowest, base = float("inf"), float("inf")
    for _ in range(REPEATS):
        base = min(base, baseline(case.peers))
        lowest = min(lowest, call())
    each = lowest / CHUNKS
    return Row(case.name, 1 / each, each / case.peers * 1e9, each / base)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("words", nargs="*", help="only rows whose name contains one of these")
    parser.add_argument("--json", action="store_true", help="one JSON object a row")
    options = parser.parse_args()
    for case in cases():
        if options.words and not any(word in case.name for word in options.words):
            continue
        row = measure(case)
        if options.json:
            print(json.dumps(asdict(row)))
        else:
            print(
                f"{row.name:28} {row.chunks_per_second:12,.0f} chunks/s"
                f" {row.nanoseconds:9,.0f} ns/chunk/peer {row.ratio:7.1f} x"
            )


if __name__ == "__main__":
    main()
