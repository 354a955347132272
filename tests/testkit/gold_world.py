"""Telemetry of a small network over three days, with everything that gold tables are about.

::

    publisher -> e0 (eu) --> v1 (eu) --> e2 (us) -> viewers      track a goes down this tree
                    \\-----> e3 (us) -> viewers                   and enters us twice
                     \\----> e4 (no region, other clock) -> viewers

A quarter of an hour around two midnights, and forty minutes at noon between them, with a gap and
clocks that are wrong. The files that come of it are in :mod:`testkit.gold_files`.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import Final

from laps_wire.telemetry import (
    CacheStat,
    ClientReport,
    DeliverySample,
    Event,
    HopStat,
    MsHistogram,
    NodeAdv,
    NodeWd,
    PathItem,
    QuicSample,
    RouteChange,
    SessionClose,
    SnsAdv,
    SnsWd,
    SubAdv,
    SubWd,
    UnknownBody,
)
from testkit.telemetry_book import (
    Book,
    advert,
    peer_open,
    with_gaps,
    with_skew,
)

__all__ = ["BOOT", "CLASSES", "DAYS", "NIGHT", "REGIONS", "SKEW_US", "TRACKS", "micros", "written"]

RELAYS: Final = ("e0:1", "v1:1", "e2:1", "e3:1", "e4:1")
REGIONS: Final = dict(zip(RELAYS, ("eu", "eu", "us", "us", None), strict=True))
SKEW_US: Final = {"e4:1": 7_250_000, "e2:1": -1_500}
"""By how much a clock is ahead."""
TRACKS: Final = ("00000000000000aa", "00000000000000bb", "00000000000000cc")
TENANTS: Final = ("acme", None, "globex")
"""The second track's tenant is known by its dimension only."""
CLASSES: Final = {TRACKS[0]: "gold", TRACKS[1]: "bronze"}
DAYS: Final = ("2026-11-16", "2026-11-17", "2026-11-18")
EDGES: Final = {
    TRACKS[0]: (("e0:1", "v1:1"), ("v1:1", "e2:1"), ("e0:1", "e3:1"), ("e0:1", "e4:1")),
    TRACKS[1]: (("e2:1", "v1:1"), ("v1:1", "e0:1")),
    TRACKS[2]: (("e3:1", "e2:1"),),
}
LINKS: Final = (
    *(("e0:1", "v1:1", 9_000), ("v1:1", "e2:1", 80_000), ("e0:1", "e3:1", 95_000)),
    *(("e0:1", "e4:1", 40_000), ("e2:1", "e3:1", 6_000)),
)
BOOT: Final = 3
SECOND: Final = 1_000_000


def micros(text: str) -> int:
    """A time, in UTC, as events have it."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * SECOND


SPANS: Final = (
    ("2026-11-16T23:48:00", 960),
    ("2026-11-17T12:00:00", 2400),
    ("2026-11-17T23:50:00", 900),
)


NIGHT: Final = "2026-11-17T05"


def written(random: Random) -> dict[str, list[Event]]:
    """What each relay wrote, in order."""
    books = {relay: Book(relay, BOOT, REGIONS[relay]) for relay in RELAYS}
    counters: dict[tuple[str, str], list[int]] = {}
    for number, (begin, seconds) in enumerate(SPANS):
        start = micros(begin)
        _greet(books, start, random)
        for second in range(10, seconds + 1, 10):
            at = start + second * SECOND - 1 - random.randrange(3) * SECOND
            _sample_links(books, counters, at, slow=number == 1 and second > 2000, random=random)
            _forward(books, at, second, burst=number == 2 and second > 800, random=random)
            if second % 30 == 0:
                _deliver(books, at - 5 * SECOND, second, number, random)
            _clients(books, at, second, number, random)
            _cache(books, at, random)
        _churn(books, start, random)
        _accident(books, start + 700 * SECOND, random)
    _night(books, random)
    for number, relay in enumerate(("e0:1", "v1:1")):
        # Of a version that is not there yet.
        at = micros("2026-11-17T12:10:00") + number
        books[relay].put(at, UnknownBody("new.thing", {"a": 1}))
    found = {
        relay: with_skew(book.in_order(), SKEW_US.get(relay, 0)) for relay, book in books.items()
    }
    # A gap of the telemetry itself, in the middle of a day.
    found["e3:1"] = with_gaps(found["e3:1"], 400, 439)
    return found


def _greet(books: dict[str, Book], start: int, random: Random) -> None:
    for place, relay in enumerate(RELAYS):
        books[relay].put(start, _advert(relay, (), place, None, random))
    for a, b, rtt in LINKS:
        for here, there in ((a, b), (b, a)):
            books[here].put(
                start + 1000,
                peer_open(f"p-{there}", there, outward=here == a, handshake_ms=rtt / 800),
            )
            path = (PathItem(there, rtt + random.randrange(2000)),)
            books[here].put(
                start + 2000, _advert(there, path, RELAYS.index(there), f"p-{there}", random)
            )
    # A way that is longer than it need be: e3 is known to v1 over e0, and e2 stands beside it.
    longer = (PathItem("e3:1", 95_000), PathItem("e0:1", 9_000))
    books["v1:1"].put(start + 3000, _advert("e3:1", longer, 3, "p-e0:1", random))
    for number, (track, edges) in enumerate(EDGES.items()):
        for sns_id, (a, b) in enumerate(edges):
            members = 1 + (a == "e0:1" and b == "v1:1")
            names = tuple(f"n{index}" for index in range(members))
            books[a].put(
                start + 4000 + number,
                SnsAdv(
                    session_id=f"p-{b}",
                    sns_id=10 * number + sns_id,
                    direction="out",
                    added=names,
                    removed=(),
                    members=members,
                    track=track,
                ),
            )
            # One set that the other end has otherwise.
            seen = 5 if (track, b) == (TRACKS[2], "e2:1") else members
            books[b].put(
                start + 90_000 + number,
                SnsAdv(
                    session_id=f"p-{a}",
                    sns_id=10 * number + sns_id,
                    direction="in",
                    added=names,
                    removed=(),
                    members=seen,
                    track=track,
                ),
            )


def _advert(
    node: str, path: tuple[PathItem, ...], place: int, session: str | None, random: Random
) -> NodeAdv:
    known = advert(node, place, path, random, via=node.startswith("v"), boot=BOOT)
    return replace(known, session_id=session)


def _night(books: dict[str, Book], random: Random) -> None:
    """An hour with little in it: to make it again, when something of it is late, is cheap."""
    for minute in range(10):
        at = micros(f"{NIGHT}:{minute:02d}:00")
        _clients(books, at, 60 * minute, 1, random)
        _cache(books, at, random)


def _sample_links(
    books: dict[str, Book],
    counters: dict[tuple[str, str], list[int]],
    at: int,
    *,
    slow: bool,
    random: Random,
) -> None:
    for a, b, rtt in LINKS:
        for here, there in ((a, b), (b, a)):
            sums = counters.setdefault((here, there), [1000, 3])
            sent = random.randrange(500, 900)
            ill = slow and {a, b} == {"v1:1", "e2:1"}
            sums[0] += sent
            sums[1] += random.randrange(sent // 10) if ill else random.choice((0, 0, 1))
            books[here].put(
                at + 17,
                QuicSample(
                    session_id=f"p-{there}",
                    srtt_us=int(rtt * (2.5 if ill else 1) * random.uniform(1, 1.05)),
                    min_rtt_us=rtt,
                    rttvar_us=random.randrange(rtt // 20),
                    cwnd_bytes=90_000,
                    sent_packets=sums[0],
                    lost_packets=sums[1],
                    pto_count=0,
                    peer=there,
                ),
            )
    books["e0:1"].put(
        at + 18,
        QuicSample(
            session_id="c-1",
            srtt_us=12_000,
            min_rtt_us=9_000,
            rttvar_us=800,
            cwnd_bytes=50_000,
            sent_packets=9,
            lost_packets=0,
            pto_count=0,
        ),
    )


def _forward(books: dict[str, Book], at: int, second: int, *, burst: bool, random: Random) -> None:
    for number, edges in enumerate(EDGES.values()):
        if number == 2 and second % 30:
            continue
        objects = 100 * (8 if burst and number == 0 else 1) + random.randrange(5)
        size = 900 + 40 * number
        origin = edges[0][0]
        carried = {origin: objects}
        come: dict[str, str | None] = {origin: None}
        for a, b in edges:
            drops = random.choice((0, 0, 0, 2, 5))
            carried[b] = carried[a] - drops
            come[b] = a
            _hop(books, at, number, (come[a], a, b), (carried[a], drops, size), random)
        for relay, count in carried.items():
            if number != 1 or relay != "v1:1":
                _hop(books, at, number, (come[relay], relay, None), (count, 0, size), random)


def _hop(
    books: dict[str, Book],
    at: int,
    number: int,
    way: tuple[str | None, str, str | None],
    amount: tuple[int, int, int],
    random: Random,
) -> None:
    objects, drops, size = amount
    waits = [random.expovariate(0.3) for _ in range(8)]
    usual = random.random() < 0.9
    reasons = {"ttl": drops - 1, "cc": 1} if drops == 5 else {"ttl": drops} if drops else {}
    queue = MsHistogram.of(waits) if usual else MsHistogram.of(waits, (1.0, 3.0, 30.0))
    books[way[1]].put(
        at + 40 + number,
        HopStat(
            track=TRACKS[number],
            window_ms=10_000,
            objects=objects - drops,
            in_bytes=objects * size,
            out_bytes=(objects - drops) * size,
            drops=reasons,
            in_peer=way[0],
            out_peer=way[2],
            queue_ms=queue if random.random() < 0.8 else None,
            first_group_id=1,
            last_group_id=2,
        ),
        TENANTS[number],
    )


def _deliver(books: dict[str, Book], at: int, second: int, number: int, random: Random) -> None:
    for index, (track, edges) in enumerate(EDGES.items()):
        group = number * 10_000 + second
        made = at - 30_000
        late = random.random() < 0.1
        arrived = {edges[0][0]: (at + (400_000 if late else 0), None)}
        rows: list[tuple[str, str | None, str | None, int, int]] = []
        for a, b in edges:
            came, source = arrived[a]
            held = random.randrange(200, 2_000)
            if a == "v1:1" and random.random() < 0.05:
                held += 350_000
            rows.append((a, source, b, came, came + held))
            flight = random.randrange(3_000, 50_000) + (500_000 if random.random() < 0.03 else 0)
            arrived[b] = (came + held + flight, a)  # type: ignore[assignment]
        for relay, (came, source) in arrived.items():
            rows.append((relay, source, None, came, came + random.randrange(100, 900)))
        for relay, source, target, came, sent in rows:
            # Now and then a record is missing, or a relay does a thing twice.
            if random.random() < 0.02:
                continue
            for _ in range(2 if random.random() < 0.01 else 1):
                books[relay].put(
                    sent + 5,
                    DeliverySample(
                        track=track,
                        one_in=50,
                        in_us=came,
                        out_us=sent,
                        size_bytes=1200,
                        group_id=group,
                        object_id=index,
                        publisher_us=made if random.random() < 0.95 else None,
                        in_peer=source,
                        out_peer=target,
                    ),
                )
        if random.random() < 0.02:  # it comes back
            a, b = edges[0]
            books[b].put(
                at + 60_000,
                DeliverySample(
                    track=track,
                    one_in=50,
                    in_us=at + 50_000,
                    out_us=at + 60_000,
                    size_bytes=1200,
                    group_id=group,
                    object_id=index,
                    in_peer=a,
                    out_peer=a,
                ),
            )


def _clients(books: dict[str, Book], at: int, second: int, number: int, random: Random) -> None:
    for relay in ("e0:1", "e2:1", "e3:1", "e4:1"):
        for client in range(3):
            track = client % 3
            ill = number == 1 and relay == "e2:1" and 900 < second <= 1200
            stalled = random.random() < (0.8 if ill else 0.05)
            books[relay].put(
                at + 60,
                ClientReport(
                    session_id=f"c-{client + (second // 600) * (client == 2)}",
                    window_ms=10_000,
                    gaps=random.choice((0, 0, 0, 0, 0, 1)) + (4 if ill else 0),
                    stalled=stalled,
                    stall_ms=random.randrange(20, 900) if stalled else None,
                    startup_ms=random.randrange(200, 1500) if second % 600 == 10 else None,
                    latency_ms=random.randrange(200, 320) + (900 if ill else 0)
                    if random.random() < 0.97
                    else None,
                    track=TRACKS[track] if random.random() < 0.95 else None,
                ),
                TENANTS[track],
            )
    _players(books, at, second, Random(at))


def _players(books: dict[str, Book], at: int, second: int, random: Random) -> None:
    """What the players of two of these clients say themselves; not always."""
    for relay, client in (("e2:1", 0), ("e3:1", 1)):
        if second % 200 >= 150 or random.random() < 0.2:
            continue
        stall = random.choice((None, 0, 0, 300, 2500))
        books[relay].put(
            at + 60,
            ClientReport(
                session_id=f"c-{client}",
                window_ms=random.choice((10_000, 10_000, 20_000)),
                gaps=random.choice((0, 0, 2)),
                stalled=bool(stall),
                stall_ms=stall,
                startup_ms=random.randrange(300, 2500) if second % 600 == 20 else None,
                buffer_ms=random.randrange(0, 4000),
                latency_ms=random.randrange(250, 900) if random.random() < 0.9 else None,
                state="r" if stall else "p",
                player_session=f"{client:016x}",
                track=TRACKS[client % 3] if random.random() < 0.95 else None,
                measured_by="player",
                error="decode" if random.random() < 0.02 else None,
            ),
            TENANTS[client % 3],
        )


AGES: Final = (100.0, 1000.0, 5000.0, 30_000.0)


def _cache(books: dict[str, Book], at: int, random: Random) -> None:
    for relay in ("e0:1", "e2:1"):
        hits = [random.randrange(4000) for _ in range(4)] + [0]
        expired = [0, 0, random.randrange(800), random.randrange(900), random.randrange(900)]
        told = relay == "e0:1"
        books[relay].put(
            at + 70,
            CacheStat(
                window_ms=10_000,
                hit_bytes=sum(hits),
                miss_bytes=sum(expired) + random.randrange(500),
                expired_bytes=random.randrange(9000),
                evicted_bytes=random.choice((0, 0, 100)),
                fetch_joins=random.randrange(3),
                stored_bytes=random.randrange(10**6) if random.random() < 0.9 else None,
                hit_age_ms=MsHistogram(AGES, tuple(hits), 1.0) if told else None,
                late_age_ms=MsHistogram(AGES, tuple(expired), 1.0)
                if told and random.random() < 0.7
                else None,
            ),
        )


def _churn(books: dict[str, Book], start: int, random: Random) -> None:
    at = start + 5 * SECOND
    for step in range(12):
        track = TRACKS[step % 2]
        books["v1:1"].put(at, SubAdv(track=track, ns_depth=2, source_node="e2:1"))
        at += random.choice((20, 45)) * SECOND
        books["v1:1"].put(
            at, SubWd(track=track, ns_depth=2, source_node="e2:1", delayed=step % 3 == 0)
        )
        at += random.choice((5, 30, 59, 90)) * SECOND


def _accident(books: dict[str, Book], at: int, random: Random) -> None:
    """e4 is lost: its neighbour notices at once, others later; it is back after some minutes."""
    books["e0:1"].put(
        at,
        SessionClose(
            session_id="p-e4:1",
            kind="peer",
            duration_ms=700_000.0,
            closed_by="timeout",
            in_bytes=5,
            out_bytes=6,
            peer="e4:1",
        ),
    )
    for number, relay in enumerate(("e0:1", "v1:1", "e2:1")):
        books[relay].put(
            at + 1000 + number * 150_000, NodeWd(node_id="e4:1", reason="session_closed")
        )
        books[relay].put(
            at + 400_000 + number * 90_000,
            RouteChange(node_id="e4:1", changes=1, hops=0, cost_us=0),
        )
    books["e0:1"].put(
        at + 700_000,
        SnsWd(session_id="p-e4:1", sns_id=3, direction="out", removed=("n0",), track=TRACKS[0]),
    )
    books["e0:1"].put(
        at + 800_000,
        SnsAdv(
            session_id="p-e3:1",
            sns_id=2,
            direction="out",
            added=(),
            removed=("n0",),
            members=0,
            track=TRACKS[0],
        ),
    )
    books["e0:1"].put(
        at + 400 * SECOND, _advert("e4:1", (PathItem("e4:1", 40_000),), 4, "p-e4:1", random)
    )
    books["e0:1"].put(
        at + 500 * SECOND,
        SessionClose(
            session_id="c-1",
            kind="client",
            duration_ms=1000.0,
            closed_by="remote",
            in_bytes=50,
            out_bytes=60_000,
            close_code=0,
            close_space="application",
        ),
    )
