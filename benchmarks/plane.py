"""What the forwarding plane costs for each object and receiver, without any network.

    python benchmarks/plane.py            every row
    python benchmarks/plane.py 16in       rows whose name contains one of the words
    python benchmarks/plane.py --json     one object a row

Times are CPU times, the best of several repeats. ``ratio`` is the time for one object and receiver
as a multiple of a baseline measured in turns with it: one call of a stream's ``write`` that only
counts, which is the least that handing bytes to one receiver can cost. Compare the ratios.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from sink import Sink

from laps_sdk.forwarding.interfaces import EgressEntry, Subscription
from laps_sdk.forwarding.plane import Plane
from laps_wire.moqt.data import (
    ObjectDatagram,
    StreamKind,
    SubgroupHeader,
    SubgroupWriter,
    encode_datagram,
)
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace

REPEATS = 5
OBJECTS = 600
CHUNK = 1200
"""Bytes that one packet brings."""


@dataclass(frozen=True, slots=True)
class Case:
    """One way to use the plane."""

    source: Draft
    target: Draft
    receivers: int
    size: int
    datagrams: bool = False

    @property
    def name(self) -> str:
        """How the row is called."""
        kind = "datagram" if self.datagrams else "stream"
        return f"{self.source}in-{self.target}out {kind} {self.size}B x{self.receivers}"


def cases() -> Iterator[Case]:
    d16, d18 = Draft.D16, Draft.D18
    for size in (100, 1200, 16384):
        for receivers in (1, 10, 100):
            yield Case(d16, d16, receivers, size)
    for receivers in (1, 10, 100):
        yield Case(d16, d18, receivers, 1200)
        yield Case(d18, d16, receivers, 1200)
        yield Case(d16, d16, receivers, 1100, datagrams=True)
        yield Case(d16, d18, receivers, 1100, datagrams=True)


def prepared(case: Case) -> Callable[[], float]:
    """A call that forwards ``OBJECTS`` objects, sixty in a group."""
    plane = Plane()
    plane.add_track(1, FullTrackName(Namespace((b"bench",)), b"plane"))
    plane.add_session(1, case.source, Sink())
    plane.add_ingress(0.0, 1, 7, 1, 128)
    for number in range(case.receivers):
        plane.add_session(number + 2, case.target, Sink())
        entry = EgressEntry(track=1, alias=5)
        plane.add_egress(0.0, Subscription(number + 2, 0), entry)
    payload = bytes(case.size)
    state: dict[str, Any] = {"group": 0, "now": 1.0}

    def streams() -> list[list[bytes]]:
        made = []
        for _ in range(OBJECTS // 60):
            writer = SubgroupWriter(SubgroupHeader(7, state["group"]), case.source)
            state["group"] += 1
            data = writer.start + b"".join(writer.object(each, payload) for each in range(60))
            made.append([data[at : at + CHUNK] for at in range(0, len(data), CHUNK)])
        return made

    def datagrams() -> list[bytes]:
        made = []
        for index in range(OBJECTS):
            if index % 60 == 0:
                state["group"] += 1
            made.append(
                encode_datagram(ObjectDatagram(7, state["group"], index % 60, payload), case.source)
            )
        return made

    def run_streams() -> float:
        made = streams()
        start = time.process_time()
        for stream in made:
            state["now"] += 1.0
            now = state["now"]
            first, *rest = stream
            plane.stream_opened(now, 1, 2, StreamKind.SUBGROUP, first, False)
            for chunk in rest:
                plane.stream_data(now, 1, 2, chunk, False)
            plane.stream_data(now, 1, 2, b"", True)
        return time.process_time() - start

    def run_datagrams() -> float:
        made = datagrams()
        start = time.process_time()
        for data in made:
            plane.datagram(state["now"], 1, data)
        return time.process_time() - start

    return run_datagrams if case.datagrams else run_streams


def baseline() -> float:
    """Seconds for one write."""
    write, data = Sink().write, bytes(CHUNK)
    start = time.process_time()
    for _ in range(20000):
        write(data, False)
    return (time.process_time() - start) / 20000


@dataclass(frozen=True, slots=True)
class Row:
    """What one case took."""

    name: str
    objects_per_second: float
    microseconds: float
    """For one object and receiver."""
    ratio: float


def measure(case: Case) -> Row:
    call = prepared(case)
    lowest, base = float("inf"), float("inf")
    for _ in range(REPEATS):
        base = min(base, baseline())
        lowest = min(lowest, call())
    each = lowest / OBJECTS / case.receivers
    return Row(case.name, OBJECTS / lowest, each * 1e6, each / base)


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
                f"{row.name:40} {row.objects_per_second:10,.0f} objects/s"
                f" {row.microseconds:8.3f} us/object/receiver {row.ratio:7.1f} x"
            )


if __name__ == "__main__":
    main()
