"""Silver as a network of relays would fill it, written fast: nothing but numpy and pyarrow.

Three of four rows are ``hop.stat``, the others ``quic.sample``; where viewers are wanted too, they
take a quarter of all (``client.report``). Two in a hundred are copies. A partition for each hour of
a day, 40 relays in 8 regions. A track has a tree of seven relays and so
thirteen ways (see ``_TREE``), and each way writes a record every ten seconds as a relay does; more
rows mean more tracks: 6 for a million rows, 66 for ten, 333 for fifty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from laps_wire.telemetry.histogram import QUEUE_BOUNDS_MS

__all__ = ["DAY", "SHARES", "VIEWERS_TOO", "lines", "silver"]

DAY = "2026-11-17"
SHARES = {"hop.stat": 0.75, "quic.sample": 0.25}
"""Of all rows, by type."""
VIEWERS_TOO = {"hop.stat": 0.5625, "quic.sample": 0.1875, "client.report": 0.25}
"""The same with viewers."""
DAY_US = 86_400_000_000
RELAYS = 40
CHUNK = 500_000
_WINDOWS = DAY_US // 10_000_000
"""Records of a way, or a viewer, in a day."""
_BUCKETS = len(QUEUE_BOUNDS_MS) + 1

Arrays = dict[str, Any]

_NOBODY = -1
_TREE = np.array(
    # relay, from, to: as steps from the origin; nobody is the publisher, or clients of the relay.
    [
        *((0, _NOBODY, to) for to in (_NOBODY, 1, 2, 3)),
        *((near, 0, _NOBODY) for near in (1, 2, 3)),
        *((near, 0, near + 4) for near in (1, 2, 3)),
        *((near + 4, near, _NOBODY) for near in (1, 2, 3)),
    ]
)
"""The ways of a track: from its origin to three relays, from each of them to one more."""


def _names(prefix: str, numbers: np.ndarray[Any, Any]) -> pa.Array:
    kinds = pa.array([f"{prefix}{number}" for number in range(int(numbers.max()) + 1)])
    return kinds.take(pa.array(numbers))


def _numbers(random: np.random.Generator, count: int, first: int) -> np.ndarray[Any, Any]:
    """The numbers of events, some of them twice."""
    seq = np.arange(first, first + count)
    copies = random.random(count) < 0.02
    seq[1:][copies[1:]] = seq[:-1][copies[1:]]
    return seq


@dataclass(frozen=True, slots=True)
class _Day:
    """A day, and how many rows of a type it has."""

    day: str
    total: int

    def times(self, seq: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        begin = datetime.fromisoformat(self.day).replace(tzinfo=UTC)
        return int(begin.timestamp()) * 1_000_000 + seq * (DAY_US // self.total)


def _envelope(seq: np.ndarray[Any, Any], relay: np.ndarray[Any, Any], day: _Day) -> Arrays:
    count = len(seq)
    us = day.times(seq)
    names = _names("r", relay)
    text = pa.compute.cast(pa.array(seq), pa.string())
    return {
        "event_id": pa.compute.binary_join_element_wise(names, "1", text, ":"),
        "relay": names,
        "boot": pa.array(np.ones(count, dtype=np.int64)),
        "event_seq": pa.array(seq),
        "ts_us": pa.array(us),
        "ts": pa.array(us, pa.timestamp("us", "UTC")),
        "skew_us": pa.array(np.zeros(count, dtype=np.int64)),
        "late": pa.array(np.zeros(count, dtype=bool)),
        "tenant": _names("t", seq % 17),
        "region": _names("region", relay % 8),
    }


def _seeded(seq: np.ndarray[Any, Any], salt: int, limit: int) -> np.ndarray[Any, Any]:
    """The same for the same event: a copy is a copy."""
    mixed = (seq.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15 + 2 * salt)) >> np.uint64(33)
    return (mixed % np.uint64(limit)).astype(np.int64)


def _hops(random: np.random.Generator, count: int, first: int, day: _Day) -> pa.Table:
    seq = _numbers(random, count, first)
    # As many ways as make the rows of a day at one record in ten seconds each.
    way = seq % max(1, day.total // _WINDOWS)
    track = way // len(_TREE)
    steps = _TREE[way % len(_TREE)]
    home = track * 7
    relay = (home + steps[:, 0]) % RELAYS
    origin, clients = steps[:, 1] == _NOBODY, steps[:, 2] == _NOBODY
    base = _envelope(seq, relay, day)
    objects = 50 + _seeded(seq, 1, 100)
    size = 800 + _seeded(seq, 2, 700)
    drops = (_seeded(seq, 4, 50) == 0).astype(np.int64)
    counts = np.zeros((count, _BUCKETS), dtype=np.int64)
    counts[np.arange(count), _seeded(seq, 5, _BUCKETS)] = objects
    whole = pa.array(np.arange(0, (count + 1) * _BUCKETS, _BUCKETS, dtype=np.int32))
    part = pa.array(np.arange(0, (count + 1) * (_BUCKETS - 1), _BUCKETS - 1, dtype=np.int32))
    bounds = pa.array(np.tile(np.array(QUEUE_BOUNDS_MS), count))
    queue = pa.StructArray.from_arrays(
        [
            pa.ListArray.from_arrays(part, bounds),
            pa.ListArray.from_arrays(whole, pa.array(counts.ravel())),
            pa.array(objects * 1.5),
            pa.array(objects * 0.1),
        ],
        ["bounds_ms", "counts", "sum_ms", "max_ms"],
    )
    ends = pa.array(np.concatenate([[0], np.cumsum(drops)]).astype(np.int32))
    lost = int(drops.sum())
    reasons = pa.MapArray.from_arrays(
        ends, pa.array(["ttl"] * lost, pa.string()), pa.array(np.full(lost, 2, dtype=np.int64))
    )
    none = pa.scalar(None, pa.string())
    peers = _names("r", (home + steps[:, 2]) % RELAYS)
    sources = _names("r", (home + steps[:, 1]) % RELAYS)
    return pa.table(
        {
            **base,
            "tenant": _names("t", track % 17),
            "track": _names("track", track),
            "window_ms": pa.array(np.full(count, 10_000, dtype=np.int64)),
            "objects": pa.array(objects),
            "in_bytes": pa.array(objects * size),
            "out_bytes": pa.array(objects * size),
            "drops": reasons,
            "in_peer": pa.compute.if_else(pa.array(origin), none, sources),
            "out_peer": pa.compute.if_else(pa.array(clients), none, peers),
            "queue_ms": queue,
            "first_group_id": pa.array(seq),
            "last_group_id": pa.array(seq),
        }
    )


def _samples(random: np.random.Generator, count: int, first: int, day: _Day) -> pa.Table:
    seq = _numbers(random, count, first)
    relay = seq % RELAYS
    base = _envelope(seq, relay, day)
    peers = _names("r", (relay + 1 + _seeded(seq, 8, 3)) % RELAYS)
    return pa.table(
        {
            **base,
            "session_id": peers,
            "srtt_us": pa.array(20_000 + _seeded(seq, 9, 60_000)),
            "min_rtt_us": pa.array(np.full(count, 20_000, dtype=np.int64)),
            "rttvar_us": pa.array(_seeded(seq, 10, 4_000)),
            "cwnd_bytes": pa.array(np.full(count, 90_000, dtype=np.int64)),
            "sent_packets": pa.array(seq * 3),
            "lost_packets": pa.array(seq // 50),
            "pto_count": pa.array(np.zeros(count, dtype=np.int64)),
            "peer": peers,
        }
    )


def _reports(random: np.random.Generator, count: int, first: int, day: _Day) -> pa.Table:
    seq = _numbers(random, count, first)
    viewer = seq % max(1, day.total // _WINDOWS)
    stalled = np.where(_seeded(seq, 12, 40) == 0, 2_000, 0)
    startup = pa.array(200 + _seeded(seq, 14, 900), mask=seq >= day.total // _WINDOWS)
    return pa.table(
        {
            **_envelope(seq, viewer % RELAYS, day),
            "tenant": _names("t", viewer % 3),
            "session_id": _names("viewer", viewer),
            "track": _names("track", viewer % 5),
            "window_ms": pa.array(np.full(count, 10_000, dtype=np.int64)),
            "gaps": pa.array((_seeded(seq, 11, 30) == 0).astype(np.int64)),
            "stalled": pa.array(stalled > 0),
            "stall_ms": pa.array(stalled),
            "startup_ms": startup,
            "latency_ms": pa.array(150 + _seeded(seq, 13, 250)),
            "measured_by": pa.array(["player"] * count),
        }
    )


_MAKERS = {"hop.stat": _hops, "quic.sample": _samples, "client.report": _reports}


def silver(folder: Path, rows: int, day: str = DAY, shares: Mapping[str, float] = SHARES) -> None:
    """Parquet by type, some files for each hour of a day; what is there already stays."""
    random = np.random.default_rng(1)
    for kind, share in shares.items():
        if (folder / f"{kind}.done").exists():
            continue
        wanted = int(rows * share)
        edges = [wanted * hour // 24 for hour in range(25)]
        for hour, (begin, end) in enumerate(pairwise(edges)):
            place = folder / kind / f"dt={day}" / f"hour={hour:02}"
            place.mkdir(parents=True, exist_ok=True)
            for first in range(begin, end, CHUNK):
                count = min(CHUNK, end - first)
                made = _MAKERS[kind](random, count, first, _Day(day, wanted))
                pq.write_table(made, place / f"{first:012}.parquet", compression="zstd")
        (folder / f"{kind}.done").touch()


def lines(folder: Path, rows: int) -> Path:
    """Lines of telemetry as relays write them, ``quic.sample`` only: plain columns."""
    path = folder / "lines.jsonl"
    if (folder / "lines.done").exists():
        return path
    random = np.random.default_rng(2)
    with path.open("w", encoding="utf-8") as file:
        for first in range(0, rows, CHUNK):
            count = min(CHUNK, rows - first)
            table = _samples(random, count, first, _Day(DAY, rows)).to_pydict()
            columns = (
                *("event_id", "ts_us", "relay", "tenant", "region", "session_id"),
                *("srtt_us", "min_rtt_us", "rttvar_us", "sent_packets", "lost_packets", "peer"),
            )
            file.writelines(
                f'{{"v":"1.2","event_id":"{e}","ts_us":{ts},"relay":"{r}","boot":1,'
                f'"type":"quic.sample","tenant":"{t}","region":"{g}","body":{{"session_id":"{s}",'
                f'"srtt_us":{rtt},"min_rtt_us":{low},"rttvar_us":{var},"cwnd_bytes":90000,'
                f'"sent_packets":{sent},"lost_packets":{lost},"pto_count":0,"peer":"{p}"}}}}\n'
                for e, ts, r, t, g, s, rtt, low, var, sent, lost, p in zip(
                    *(table[name] for name in columns), strict=True
                )
            )
    (folder / "lines.done").touch()
    return path
