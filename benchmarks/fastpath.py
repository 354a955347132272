"""What the 1-RTT fast path saves: CPU per gigabyte, fast against stock aioquic, in one run.

    python benchmarks/fastpath.py                table
    python benchmarks/fastpath.py --json         one object a row
    python benchmarks/fastpath.py --profile bulk where the fast path spends its time
    python benchmarks/fastpath.py --seconds 2    longer repeats

Two connections of the same class, client and server, hand each other their packets without
sockets; both sides' work is counted. What a socket loop costs comes on top, the same for both.
Times are CPU times, stock and fast measured in turns, the best of several repeats each (noise only
ever adds time). Compare the ratios: the speed of a core drifts.
"""

# ruff: noqa: SLF001 - the load follows limits that the library keeps to itself

from __future__ import annotations

import argparse
import cProfile
import gc
import json
import pstats
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import DatagramFrameReceived, StreamDataReceived

from laps_sdk.quic.aioquic.engine import fast_path
from laps_sdk.quic.aioquic.fast.connection import FastQuicConnection
from testkit.quic_pair import CLIENT, SERVER, QuicPair

PACKET = 1452
REPEATS = 3
BATCH = 32
"""Datagrams that a socket loop reads at once."""
DELAY = 0.0005
"""One way, virtual seconds: a machine next door."""


class Conversation:
    """A pair, driven as a socket loop drives it: feed a batch, take events, flush once."""

    def __init__(self, kind: type[QuicConnection]) -> None:
        self.pair = QuicPair(
            client=kind,
            server=kind,
            max_datagram_size=PACKET,
            max_data=1 << 24,
            max_stream_data=1 << 24,
        )
        self.now = self.pair.now
        self.received = 0
        self.packets = 0
        self.waiting: dict[str, list[bytes]] = {"client": [], "server": []}

    def exchange(self) -> None:
        """One turn of both sides."""
        pair = self.pair
        self.now += DELAY
        for side, connection, source in (
            ("server", pair.server, CLIENT),
            ("client", pair.client, SERVER),
        ):
            arrived, self.waiting[side] = self.waiting[side], []
            for index in range(0, len(arrived), BATCH):
                feed(connection, arrived[index : index + BATCH], source, self.now)
                self.take(connection)
            timer = connection.get_timer()
            if timer is not None and timer <= self.now:
                connection.handle_timer(now=self.now)
            other = "client" if side == "server" else "server"
            outbox = self.waiting[other]
            outbox += [data for data, _ in connection.datagrams_to_send(now=self.now)]
            self.packets += len(outbox)

    def take(self, connection: QuicConnection) -> None:
        """Count what arrived."""
        while (event := connection.next_event()) is not None:
            if isinstance(event, StreamDataReceived | DatagramFrameReceived):
                self.received += len(event.data)


def feed(
    connection: QuicConnection, datagrams: list[bytes], source: tuple[str, int], now: float
) -> None:
    """Give datagrams to a connection, all at once if it can take them so."""
    at_once = getattr(connection, "receive_datagrams", None)
    if at_once is not None:
        at_once(datagrams, source, now)
    else:
        for data in datagrams:
            connection.receive_datagram(data, source, now=now)


def bulk(talk: Conversation, streams: int = 1) -> Callable[[], None]:
    """Long streams, always with something to send."""
    client = talk.pair.client
    ids = [2 + 4 * index for index in range(streams)]
    chunk = bytes(16384)

    def more() -> None:
        backlog = sum(
            client._streams[each].sender._buffer_stop for each in ids if each in client._streams
        )
        sent = client._remote_max_data_used
        while backlog - sent < 200_000:
            for each in ids:
                client.send_stream_data(each, chunk)
                backlog += len(chunk)

    return more


def objects(talk: Conversation, size: int, idle_streams: int = 0) -> Callable[[], None]:
    """A stream for each object, as media sends them."""
    client = talk.pair.client
    data = bytes(size)
    for _ in range(idle_streams):
        client.send_stream_data(client.get_next_available_stream_id(), b"x")
    batch = max(1, 100_000 // size)

    def more() -> None:
        for _ in range(batch):
            stream_id = client.get_next_available_stream_id(is_unidirectional=True)
            if stream_id // 4 >= client._remote_max_streams_uni:
                break
            client.send_stream_data(stream_id, data, end_stream=True)

    return more


def datagrams(talk: Conversation, size: int) -> Callable[[], None]:
    """DATAGRAM frames of one size, some dozens a turn."""
    client = talk.pair.client
    data = bytes(size)

    def more() -> None:
        while len(client._datagrams_pending) < 100:
            client.send_datagram_frame(data)

    return more


CASES: dict[str, Callable[[Conversation], Callable[[], None]]] = {
    "bulk": bulk,
    "bulk-20-streams": lambda talk: bulk(talk, 20),
    "objects-1200": lambda talk: objects(talk, 1200),
    "objects-1200-of-120-open": lambda talk: objects(talk, 1200, 120),
    "objects-16k": lambda talk: objects(talk, 16384),
    "objects-100": lambda talk: objects(talk, 100),
    "datagrams-1100": lambda talk: datagrams(talk, 1100),
    "datagrams-100": lambda talk: datagrams(talk, 100),
}


@dataclass(frozen=True, slots=True)
class Cost:
    """What one class spent."""

    seconds_per_gb: float
    microseconds_per_packet: float


def spend(case: str, kind: type[QuicConnection], seconds: float) -> Cost:
    """Run one case for some CPU time, after a start that lets the window open."""
    talk = Conversation(kind)
    more = CASES[case](talk)
    begin = time.process_time()
    while time.process_time() < begin + seconds / 4:
        more()
        talk.exchange()
    talk.received = talk.packets = 0
    gc.collect()
    begin = time.process_time()
    while (used := time.process_time() - begin) < seconds:
        for _ in range(5):
            more()
            talk.exchange()
    if not talk.received:
        raise RuntimeError(f"{case}: nothing was received, so there is nothing to compare")
    return Cost(used / talk.received * 1e9, used / talk.packets * 1e6)


@dataclass(frozen=True, slots=True)
class Row:
    """One case, both classes."""

    case: str
    stock_seconds_per_gb: float
    fast_seconds_per_gb: float
    stock_microseconds_per_packet: float
    fast_microseconds_per_packet: float
    ratio: float


def measure(case: str, seconds: float) -> Row:
    """Both classes in turns; the best of each."""
    kinds = (QuicConnection, FastQuicConnection)
    best: list[Cost | None] = [None, None]
    for _ in range(REPEATS):
        for index, kind in enumerate(kinds):
            cost = spend(case, kind, seconds)
            known = best[index]
            if known is None or cost.seconds_per_gb < known.seconds_per_gb:
                best[index] = cost
    stock, fast = (cost for cost in best if cost is not None)
    return Row(
        case=case,
        stock_seconds_per_gb=stock.seconds_per_gb,
        fast_seconds_per_gb=fast.seconds_per_gb,
        stock_microseconds_per_packet=stock.microseconds_per_packet,
        fast_microseconds_per_packet=fast.microseconds_per_packet,
        ratio=stock.seconds_per_gb / fast.seconds_per_gb,
    )


def profile(case: str, seconds: float) -> None:
    """Where the fast path spends its time."""
    profiler = cProfile.Profile()
    profiler.runcall(spend, case, FastQuicConnection, seconds)
    pstats.Stats(profiler).sort_stats("tottime").print_stats(25)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("words", nargs="*", help="only cases whose name contains one of these")
    parser.add_argument("--json", action="store_true", help="one object a row")
    parser.add_argument("--profile", metavar="CASE", choices=CASES)
    parser.add_argument("--seconds", type=float, default=0.5, help="CPU time of one repeat")
    options = parser.parse_args()
    if why_not := fast_path().why_not:
        print(f"no fast path: {why_not}", file=sys.stderr)
        return 1
    if options.profile:
        profile(options.profile, options.seconds)
        return 0
    if not options.json:
        print(f"{'':26}{'CPU s/GB':^19}{'us/packet':^19}")
        print(f"{'case':26}{'stock':>9}{'fast':>9} {'stock':>9}{'fast':>9}  {'ratio':>6}")
    for case in CASES:
        if options.words and not any(word in case for word in options.words):
            continue
        row = measure(case, options.seconds)
        if options.json:
            print(json.dumps(asdict(row)))
        else:
            print(
                f"{row.case:26}{row.stock_seconds_per_gb:9.1f}{row.fast_seconds_per_gb:9.1f} "
                f"{row.stock_microseconds_per_packet:9.1f}{row.fast_microseconds_per_packet:9.1f}"
                f"  {row.ratio:5.1f}x"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
