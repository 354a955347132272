"""What a control server needs for each subscribe it holds: bytes and CPU time, without any network.

    python benchmarks/control.py                      10 thousand, 100 thousand and 1 million
    python benchmarks/control.py 10000 100000         these numbers
    python benchmarks/control.py --json               one object a row

Subscribes arrive as messages, are decoded as a session decodes them, go through the flood table
and the control server's indexes, and are passed to the Edges whose announces match. Then all of
them are withdrawn. ``RSS`` is how much the process grew by holding them, ``traced`` what Python's
own allocator counts for them, in a run of its own. Every number is measured in a process of its
own, for memory that was used once is seldom given back.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from laps_relay.network.control_server.control_server import ControlServer
from laps_relay.network.flood.entries import AnnounceEntries, SubscribeEntries
from laps_relay.network.flood.floods import AnnounceTable, FloodTable, SubscribeTable
from laps_relay.network.settings import NetworkSettings
from laps_wire.hashing import KeyedHasher
from laps_wire.moqt.control import encode_subscribe_body
from laps_wire.moqt.messages import Subscribe
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    AnnounceInfo,
    AnnounceKind,
    NodeSelf,
    RelayType,
    Stamp,
    SubscribeAdvertise,
    SubscribeData,
    SubscribeInfo,
    SubscribeResponse,
    SubscribeWithdraw,
    SubscribeWithdrawal,
    decode,
    encode,
)

SIZES: Final = (10_000, 100_000, 1_000_000)
EDGES: Final = 100
TRACKS: Final = 20
"""In a namespace: the camera, microphone and screen of a few people."""
BATCH: Final = 256
EPOCH: Final = 1_760_000_000_000
"""When the Edges started, in milliseconds."""
SERVER: Final = NodeId.parse("9.9:9.9")
HASHER: Final = KeyedHasher(b"benchmark, no secret")


class Host:
    """The relay around a control server: two tables, and answers that are only counted."""

    def __init__(self) -> None:
        self.responses = 0
        settings = NetworkSettings()
        self.announces: AnnounceTable = FloodTable(
            AnnounceEntries(SERVER), settings, exports=self._exports_announce
        )
        self.subscribes: SubscribeTable = FloodTable(
            SubscribeEntries(SERVER),
            settings,
            exports=self._exports_subscribe,
            audience=self._audience,
        )
        self.server = ControlServer(
            SERVER,
            announces=self.announces,
            subscribes=self.subscribes,
            node=self.node,
            respond=self.respond,
        )
        for session in range(EDGES):
            node = edge(session)
            for table in (self.announces, self.subscribes):
                table.add_session(session, source=node)
                table.node_changed(0.0, node, EPOCH)
            self.server.add_session(session, node, RelayType.EDGE)
            fields = (b"example.net", b"edge %d" % session)
            elements = HASHER.elements(fields)
            entry = AnnounceInfo(
                node,
                Stamp(EPOCH, 1),
                AnnounceKind.NAMESPACE,
                elements,
                None,
                HASHER.full_name(fields, b""),
            )
            self.announces.heard(0.0, session, entry)
        self.server.announces_changed(0.0, self.announces.take_changes())

    def _exports_announce(self, session: int, entry: AnnounceInfo) -> bool:
        return self.server.exports_announce(session, entry)

    def _exports_subscribe(self, session: int, entry: SubscribeInfo) -> bool:
        return self.server.exports_subscribe(session, entry)

    def _audience(self, entry: SubscribeInfo) -> Iterator[int]:
        return self.server.audience(entry)

    def node(self, node: NodeId) -> NodeSelf | None:  # noqa: ARG002 - nobody drains here
        """What a node says of itself: nobody does."""
        return None

    def respond(self, now: float, session: int, response: SubscribeResponse) -> None:
        """Nobody waits for it."""
        del now, session, response
        self.responses += 1


def edge(session: int) -> NodeId:
    return NodeId.from_halves(1, session + 1)


def messages(size: int) -> Iterator[tuple[int, bytes, bytes]]:
    """Sessions, and the messages that they bring: subscribes, and their withdrawals."""
    entries: list[SubscribeInfo] = []
    for number in range(size):
        meeting, track = divmod(number, TRACKS)
        publisher = meeting % EDGES
        fields = (b"example.net", b"edge %d" % publisher, b"meeting %d" % meeting)
        name = FullTrackName(Namespace(fields), b"person %d/video" % track)
        session = (number // BATCH) % EDGES
        body = encode_subscribe_body(Subscribe(2 * number, name), Draft.D18)
        entries.append(
            SubscribeInfo(
                edge(session),
                Stamp(EPOCH, number + 2),
                HASHER.elements(fields),
                HASHER.name(name.name),
                HASHER.full_name(fields, name.name),
                data=SubscribeData(18, body),
            )
        )
        if len(entries) == BATCH or number == size - 1:
            ends = tuple(
                SubscribeWithdrawal(
                    entry.source, Stamp(EPOCH, size + number + 2), entry.full_name_hash
                )
                for entry in entries
            )
            yield (
                session,
                encode(SubscribeAdvertise(tuple(entries))),
                encode(SubscribeWithdraw(ends)),
            )
            entries = []


@dataclass(frozen=True, slots=True)
class Row:
    """What one number of subscribes took. Times are of CPU, in microseconds for one of them."""

    subscribes: int
    rss_bytes: float
    traced_bytes: float
    decode_us: float
    insert_us: float
    flush_us: float
    withdraw_us: float
    flush_withdrawals_us: float


def rss() -> int:
    """Bytes of memory that the process has now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class Clock:
    """CPU time between two looks."""

    def __init__(self) -> None:
        self._last = time.process_time()

    def lap(self) -> float:
        """Seconds since the last look."""
        now = time.process_time()
        passed, self._last = now - self._last, now
        return passed


def flush(host: Host) -> int:
    """Everything to everybody."""
    told = 0
    for session in range(EDGES):
        advertise, withdraw = host.subscribes.flush(session)
        told += len(advertise) + len(withdraw)
    return told


def run(size: int, *, traced: bool) -> Row:
    """Fill a control server, and empty it."""
    host = Host()
    batches = list(messages(size))
    gc.collect()
    before = rss()
    if traced:
        tracemalloc.start()
    decoding = inserting = flushing = withdrawing = ending = 0.0
    clock = Clock()
    for session, advertise, _ in batches:
        message, _ = decode(advertise)
        if not isinstance(message, SubscribeAdvertise):
            raise TypeError(message)
        decoding += clock.lap()
        for entry in message.subscribes:
            host.subscribes.heard(0.0, session, entry)
        host.server.subscribes_changed(0.0, host.subscribes.take_changes())
        inserting += clock.lap()
        flush(host)
        flushing += clock.lap()
    gc.collect()
    grown = rss() - before
    held = tracemalloc.get_traced_memory()[0] if traced else 0
    if traced:
        tracemalloc.stop()
    clock.lap()
    for session, _, withdraw in batches:
        message, _ = decode(withdraw)
        if not isinstance(message, SubscribeWithdraw):
            raise TypeError(message)
        clock.lap()
        for withdrawal in message.subscribes:
            host.subscribes.heard_withdrawal(0.0, session, withdrawal)
        host.server.subscribes_changed(0.0, host.subscribes.take_changes())
        withdrawing += clock.lap()
        flush(host)
        ending += clock.lap()
    host.subscribes.handle_timeout(100.0)
    if host.server.sizes().subscribes or any(host.subscribes.sizes()):
        raise RuntimeError("something is left of what was withdrawn")
    times = (each / size * 1e6 for each in (decoding, inserting, flushing, withdrawing, ending))
    return Row(size, grown / size, held / size, *times)


def measure(size: int) -> Row:
    """Both runs, each in a process of its own."""
    rows = []
    for more in ([], ["--traced"]):
        command = [sys.executable, __file__, "--run", str(size), *more]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        rows.append(json.loads(done.stdout))
    return Row(**(rows[0] | {"traced_bytes": rows[1]["traced_bytes"]}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("sizes", nargs="*", type=int, help="how many subscribes")
    parser.add_argument("--json", action="store_true", help="one JSON object a row")
    parser.add_argument("--run", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--traced", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run is not None:
        print(json.dumps(asdict(run(options.run, traced=options.traced))))
        return
    if not options.json:
        print(
            "subscribes      RSS   traced | microseconds: decode  insert   flush  withdraw   flush"
        )
    for size in options.sizes or SIZES:
        row = measure(size)
        if options.json:
            print(json.dumps(asdict(row)))
        else:
            print(
                f"{row.subscribes:10,} {row.rss_bytes:6,.0f} B {row.traced_bytes:6,.0f} B |"
                f" {row.decode_us:20.1f} {row.insert_us:7.1f} {row.flush_us:7.1f}"
                f" {row.withdraw_us:9.1f} {row.flush_withdrawals_us:7.1f}"
            )


if __name__ == "__main__":
    main()
