"""Does a relay come back to where it was? Churn and forged handshakes, on loopback, bounded.

    python scripts/abuse.py churn --cycles 500      connect, subscribe, read, close; again and again
    python scripts/abuse.py initials --packets 5000 Initial packets of clients that do not exist

``churn`` compares memory and the size of every table of the relay with the time before. The
first quarter is left out of the memory's growth: it fills caches and the allocator's arenas.

``initials`` sends Initial packets from many sources, a share of them with a valid ClientHello, and
reads all answers: the relay must not send more than three times what it was sent (RFC 9000, 8.1).
A publisher and a subscriber work beside it and must lose nothing.

Exit code 0: all as it should be; 1: not. Figures are printed either way.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import ctypes.util
import gc
import json
import os
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

LIMIT = 60.0
"""Seconds for anything that is waited for."""
GROWTH = 4 << 20
"""Bytes of resident memory that noise of the allocator may account for."""
MAX_CYCLES = 20_000
MAX_PACKETS = 200_000
ROWS = 128
"""Rows that a table may have more: timers that stand for nothing are swept out in bulk."""
PARTS = 4
"""Of the churn: memory that a leak takes grows from part to part."""
SOURCES = 32
"""Sockets of the forger, each with its own port."""
STEP = 64
"""Packets between two looks at the answers."""

Figures = dict[str, int]


def resident() -> int:
    """Bytes of this process in memory, without what the allocator only keeps for later."""
    libc = ctypes.util.find_library("c")
    if libc is not None and hasattr(ctypes.CDLL(libc), "malloc_trim"):
        ctypes.CDLL(libc).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def tables(name: str, thing: object, seen: set[int], depth: int = 4) -> Iterator[tuple[str, int]]:
    """The containers in an object of ours and in what it holds, with their sizes."""
    if id(thing) in seen or depth == 0:
        return
    seen.add(id(thing))
    names = set(getattr(thing, "__dict__", ()))
    for kind in type(thing).__mro__:
        names.update(getattr(kind, "__slots__", ()))
    for each in sorted(names):
        value = getattr(thing, each, None)
        if isinstance(value, dict | list | set | deque):
            yield f"{name}.{each}", len(value)
        elif type(value).__module__.startswith("laps_"):
            yield from tables(f"{name}.{each}", value, seen, depth - 1)


# The relay: a process of its own, which tells its figures when asked


async def relay(backend: str) -> None:
    """Serve; for each line that comes in, print one with figures."""
    from testkit.edge_task import edge_relay  # noqa: PLC0415 - not needed to print usage

    loop = asyncio.get_running_loop()
    async with edge_relay(backend=cast("Any", backend)) as edge:
        print(json.dumps({"port": edge.port, "ca_file": edge.ca_file}), flush=True)
        while await loop.run_in_executor(None, sys.stdin.readline):
            edge.events.clear()
            gc.collect()
            found: Figures = dict(tables("server", edge.server, set()))
            found["resident"] = resident()
            found["objects"] = len(gc.get_objects())
            print(json.dumps(found), flush=True)


class Relay:
    """The parent's side of it: looks like an ``Edge`` to the witness pair."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        told = self._read()
        self.port: int = told["port"]
        self.ca_file: str = told["ca_file"]

    def _read(self) -> dict[str, Any]:
        if self.process.stdout is None:
            raise SystemExit("no output")
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("the relay is gone")
        return cast("dict[str, Any]", json.loads(line))

    def url(self) -> str:
        """Where clients connect."""
        return f"moqt://127.0.0.1:{self.port}"

    def figures(self) -> Figures:
        """Its memory and its tables now."""
        if self.process.stdin is None:
            raise SystemExit("no input")
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return cast("Figures", self._read())

    async def settled(self, like: Figures) -> Figures:
        """Its figures once no connection is left that was not there before."""
        limit = time.monotonic() + LIMIT
        while True:
            now = self.figures()
            open_now = [key for key in now if key.endswith(".connections")]
            if all(now[key] <= like[key] for key in open_now) or time.monotonic() > limit:
                return now
            await asyncio.sleep(0.2)


@contextmanager
def running(backend: str) -> Iterator[Relay]:
    """A relay, for as long as the block lasts."""
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).resolve()), "relay", "--backend", backend],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Relay(process)
    finally:
        process.kill()
        process.communicate()


def grown(before: Figures, after: Figures) -> dict[str, tuple[int, int]]:
    """Tables that are larger than before."""
    return {
        key: (before.get(key, 0), size)
        for key, size in after.items()
        if key not in {"resident", "objects"} and size > before.get(key, 0) + ROWS
    }


def tell(title: str, figures: Figures) -> None:
    """One line."""
    rows = sum(size for key, size in figures.items() if key not in {"resident", "objects"})
    print(
        f"{title:12} {figures['resident'] / 2**20:7.1f} MiB resident, "
        f"{figures['objects']:7d} objects, {rows:5d} rows in all tables",
        flush=True,
    )


# Churn


async def churn(found: Relay, cycles: int) -> bool:
    """Clients that come, read one object and go."""
    import laps_sdk  # noqa: PLC0415 - as above

    async def one(number: int) -> None:
        async with (
            asyncio.timeout(LIMIT),
            laps_sdk.connect(found.url(), ca_file=found.ca_file, reconnect=False) as session,
            session.subscribe("churn", "track") as subscription,
        ):
            if number % 2:
                async for _ in subscription:
                    break

    async def many(count: int) -> None:
        for start in range(0, count, 5):
            await asyncio.gather(*(one(start + at) for at in range(min(5, count - start))))

    async with laps_sdk.connect(found.url(), ca_file=found.ca_file) as publisher:
        track = await publisher.publish("churn", "track")

        async def write() -> None:
            while True:
                await track.write(bytes(200), end_of_group=True)
                await asyncio.sleep(0.02)

        await many(1)
        writing = asyncio.create_task(write())
        try:
            start = await found.settled(found.figures())
            tell("before", start)
            await many(max(10, cycles // 10))
            after = warm = await found.settled(start)
            tell("warm", warm)
            began = time.monotonic()
            for part in range(1, PARTS + 1):
                await many(cycles // PARTS)
                after = await found.settled(warm)
                tell(f"after {part}/{PARTS}", after)
                if part == 1:
                    warm["resident"] = after["resident"]
            took = time.monotonic() - began
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
    more = after["resident"] - warm["resident"]
    print(f"{cycles} cycles in {took:.1f} s: {more / cycles:+.0f} bytes of memory for each")
    larger = grown(warm, after)
    for key, (was, is_now) in larger.items():
        print(f"  {key}: {was} -> {is_now}")
    return not larger and more < GROWTH + 64 * cycles


# Forged Initials


def forgeries(count: int, valid: int) -> list[bytes]:
    """Initial packets: the first ``valid`` with a ClientHello, the others with noise."""
    from aioquic.quic.configuration import QuicConfiguration  # noqa: PLC0415 - as above
    from aioquic.quic.connection import QuicConnection  # noqa: PLC0415

    made = []
    for _ in range(valid):
        client = QuicConnection(
            configuration=QuicConfiguration(
                is_client=True, alpn_protocols=["moqt-16"], server_name="localhost"
            )
        )
        client.connect(("127.0.0.1", 4433), now=0.0)
        made += [data for data, _ in client.datagrams_to_send(now=0.0)]
    for _ in range(count - len(made)):
        head = b"\xc3\x00\x00\x00\x01\x08" + os.urandom(8) + b"\x08" + os.urandom(8) + b"\x00"
        made.append(head + (1200 - len(head) - 2 | 0x4000).to_bytes(2) + os.urandom(1200))
    return [data[:1200] for data in made]


async def initials(found: Relay, packets: int) -> bool:
    """Send them while a witness pair works; read every answer."""
    from testkit.witness import witness  # noqa: PLC0415 - as above

    before = await found.settled(found.figures())
    tell("before", before)
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(SOURCES)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
        each.setblocking(False)
        each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    sent = answered = 0

    def read() -> int:
        size = 0
        for each in sockets:
            try:
                while True:
                    size += len(each.recv(65536))
            except BlockingIOError:
                pass
        return size

    forged = forgeries(packets, min(packets // 10, 300))
    lossless = True
    try:
        async with witness(cast("Any", found)):
            for at, data in enumerate(forged):
                sockets[at % SOURCES].sendto(data, ("127.0.0.1", found.port))
                sent += len(data)
                if at % STEP == 0:
                    answered += read()
                    await asyncio.sleep(0.005)
            tell("flooded", found.figures())
    except AssertionError:
        lossless = False
    after = await found.settled(before)
    answered += read()
    for each in sockets:
        each.close()
    tell("after", after)
    print(
        f"{packets} packets, {sent} bytes sent, {answered} answered: "
        f"{answered / sent:.2f} times (3 are allowed); "
        f"the witness pair lost {'nothing' if lossless else 'objects'}"
    )
    larger = {
        key: sizes for key, sizes in grown(before, after).items() if sizes[1] > sizes[0] + ROWS
    }
    for key, (was, is_now) in larger.items():
        print(f"  {key}: {was} -> {is_now}")
    more = after["resident"] - before["resident"]
    return lossless and answered <= 3 * sent and not larger and more < 8 * GROWTH


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["churn", "initials", "relay"])
    parser.add_argument("--backend", default="aioquic", choices=["aioquic", "aioquic-stock", "qh3"])
    parser.add_argument("--cycles", type=int, default=500)
    parser.add_argument("--packets", type=int, default=5000)
    arguments = parser.parse_args()
    if arguments.what == "relay":
        asyncio.run(relay(arguments.backend))
        return 0
    with running(arguments.backend) as found:
        if arguments.what == "churn":
            good = asyncio.run(churn(found, min(arguments.cycles, MAX_CYCLES)))
        else:
            good = asyncio.run(initials(found, min(arguments.packets, MAX_PACKETS)))
    print("as it should be" if good else "NOT as it should be")
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
