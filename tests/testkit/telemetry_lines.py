"""Telemetry of a small network, made from a seed: what relays would have written, and its faults.

::

    publisher -> r0 -> r1 -> r2 -> viewers        regions: r0 eu, r1 eu, r2 us, r3 asia
                  \\-> r3 -> viewers               each relay also has viewers of its own

:func:`network` gives the truth, one list of events for each relay. What happens to lines (copies,
gaps, other clocks) is in :mod:`testkit.telemetry_book`; :data:`BAD_LINES` are no events at all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from random import Random

from laps_wire.telemetry import (
    AnnAdv,
    CacheStat,
    ClientReport,
    DeliverySample,
    Event,
    HopStat,
    MsHistogram,
    NodeWd,
    PathItem,
    PolicyApplied,
    QuicSample,
    SessionClose,
    SessionOpen,
    SnsAdv,
    SnsWd,
    SubAdv,
    SubWd,
    UnknownBody,
)
from testkit.telemetry_book import Book, advert, peer_open

__all__ = [
    "BAD_LINES",
    "HOUR_US",
    "REGIONS",
    "START_US",
    "bad_lines",
    "network",
    "node",
]

START_US = 1_795_000_000_000_000 // 3_600_000_000 * 3_600_000_000
"""The begin of an hour in November 2026."""
SECOND_US = 1_000_000
HOUR_US = 3600 * SECOND_US

REGIONS = ("eu", "eu", "us", "asia")
_UP: Mapping[int, int] = {1: 0, 2: 1, 3: 0}
"""Each relay's parent in the tree of every track."""
_DELAY_US: Mapping[tuple[int, int], int] = {(0, 1): 4_000, (1, 2): 41_000, (0, 3): 83_000}
"""One way, both directions alike."""


def node(number: int) -> str:
    """The node id of a relay."""
    return f"{number + 1}:{number + 1:x}"


def network(
    seed: int = 1,
    *,
    seconds: int = 600,
    start_us: int = START_US,
    tracks: int = 3,
    clients: int = 2,
    boot: int = 7,
) -> dict[str, list[Event]]:
    """What four relays wrote in some time, by relay, in order, with perfect clocks."""
    random = Random(seed)
    books = {number: Book(node(number), boot, REGIONS[number]) for number in range(len(REGIONS))}
    for number, book in books.items():
        _begin(book, number, start_us, tracks, clients, random)
    for second in range(10, seconds + 1, 10):
        at = start_us + second * SECOND_US - 1
        for number, book in books.items():
            _periodic(book, number, at, second, tracks, clients, random)
        for track in range(tracks):
            _deliver(books, track, second, at - 5 * SECOND_US, random)
    for number, book in books.items():
        _end(book, number, start_us + seconds * SECOND_US, seconds, random)
    return {node(number): book.in_order() for number, book in books.items()}


def track_hash(number: int) -> str:
    """The hash of a track's name."""
    return f"{0xFEED00000000 + number:016x}"


def _tenant(track: int) -> str | None:
    return ("acme", "globex", None)[track % 3]


def _links(number: int) -> list[int]:
    """The peers of a relay."""
    return [up for low, up in _UP.items() if low == number] + [
        low for low, up in _UP.items() if up == number
    ]


def delay_us(a: int, b: int) -> int:
    """One way between two peers."""
    return _DELAY_US[(min(a, b), max(a, b))]


def _begin(book: Book, number: int, at: int, tracks: int, clients: int, random: Random) -> None:
    for peer in _links(number):
        session = f"p{peer}"
        book.put(
            at + 1,
            peer_open(
                session,
                node(peer),
                outward=peer < number,
                handshake_ms=delay_us(number, peer) / 250.0,
            ),
        )
        way = (PathItem(node(peer), 2 * delay_us(number, peer)),)
        known = advert(node(peer), peer, way, random, via=peer == 1, boot=book.boot)
        book.put(at + 2, replace(known, session_id=session))
    for client in range(clients):
        book.put(
            at + 3 + client,
            SessionOpen(
                session_id=f"c{client}",
                kind="client",
                direction="in",
                alpn="moqt-16",
                handshake_ms=round(random.uniform(5, 60), 2),
                draft=16,
                addr_prefix="192.0.2.0/24",
            ),
        )
    for track in range(tracks):
        name = track_hash(track)
        if number == 0:
            book.put(
                at + 20,
                AnnAdv(scope="track", track=name, ns_depth=2, source_node=node(0), epoch=7, seq=1),
            )
        book.put(at + 30, SubAdv(track=name, ns_depth=2, source_node=node(number), epoch=7, seq=2))
        for low, up in _UP.items():
            if up == number:
                book.put(
                    at + 40,
                    SnsAdv(
                        session_id=f"p{low}",
                        sns_id=track,
                        direction="out",
                        added=(node(low),),
                        removed=(),
                        members=1,
                        track=name,
                    ),
                )
    book.put(at + 50, UnknownBody("future.thing", {"colour": "blue", "depth": {"a": [1, 2.5]}}))


def _periodic(
    book: Book, number: int, at: int, second: int, tracks: int, clients: int, random: Random
) -> None:
    for peer in _links(number):
        base = 2 * delay_us(number, peer)
        noise = int(base * random.uniform(0, 0.2))
        book.put(
            at,
            QuicSample(
                session_id=f"p{peer}",
                srtt_us=base + noise,
                min_rtt_us=base,
                rttvar_us=noise // 2,
                cwnd_bytes=120_000,
                sent_packets=second * 100,
                lost_packets=second * random.choice((0, 0, 1)),
                pto_count=0,
                sent_bytes=second * 100_000,
                peer=node(peer),
            ),
        )
    for track in range(tracks):
        size = 1_000 + 10 * track
        count = 100
        come = None if number == 0 else node(_UP[number])
        ways = [node(low) for low, up in _UP.items() if up == number]
        for way in (*ways, None):
            lost = random.choice((0, 0, 0, 2))
            book.put(
                at,
                HopStat(
                    track=track_hash(track),
                    window_ms=10_000,
                    objects=count - lost,
                    in_bytes=size * count,
                    out_bytes=size * (count - lost),
                    drops={"ttl": lost} if lost else {},
                    in_peer=come,
                    out_peer=way,
                    queue_ms=MsHistogram.of([random.expovariate(0.5) for _ in range(20)]),
                    first_group_id=second // 10,
                    last_group_id=second // 10,
                ),
                _tenant(track),
            )
    book.put(
        at,
        CacheStat(
            window_ms=10_000,
            hit_bytes=random.randrange(50_000),
            miss_bytes=random.randrange(20_000),
            expired_bytes=random.randrange(9_000),
            evicted_bytes=0,
            fetch_joins=random.randrange(3),
            stored_bytes=1_000_000,
        ),
    )
    for client in range(clients):
        stalled = random.random() < 0.1
        book.put(
            at,
            ClientReport(
                session_id=f"c{client}",
                window_ms=10_000,
                gaps=random.choice((0, 0, 0, 1)),
                stalled=stalled,
                stall_ms=random.randrange(50, 900) if stalled else None,
                startup_ms=random.randrange(200, 900) if second == 10 else None,
                buffer_ms=2_000,
                latency_ms=random.randrange(150, 900),
                bitrate_kbps=800,
                playback_rate=1.0,
                player_session=f"{number}-{client}",
                track=track_hash(client % tracks),
            ),
            _tenant(client % tracks),
        )
    if second % 60 == 30:
        name, source = track_hash(0), node(number)
        seq = 10 + second
        book.put(
            at + 1,
            SubWd(track=name, ns_depth=2, source_node=source, delayed=True, epoch=7, seq=seq),
        )
        book.put(
            at + 2 * SECOND_US,
            SubAdv(track=name, ns_depth=2, source_node=source, epoch=7, seq=seq + 1),
        )


def _deliver(books: Mapping[int, Book], track: int, second: int, at: int, random: Random) -> None:
    """An object's way down the tree; another track goes up it, so links have both directions."""
    way = [(0, 1), (1, 2), (0, 3)] if track % 2 == 0 else [(2, 1), (1, 0), (0, 3)]
    arrive: dict[int, tuple[int, int | None]] = {way[0][0]: (at + 700, None)}
    for sender, receiver in way:
        came, upstream = arrive[sender]
        sent = came + random.randrange(200, 3_000)
        books[sender].put(sent + 1, _sample(track, second, came, sent, at, upstream, receiver))
        arrive[receiver] = (
            sent + delay_us(sender, receiver) + int(random.expovariate(1 / 500)),
            sender,
        )
    for receiver, (came, upstream) in arrive.items():
        sent = came + random.randrange(200, 900)
        books[receiver].put(sent + 1, _sample(track, second, came, sent, at, upstream, None))


def _sample(
    track: int, group: int, came: int, sent: int, made: int, source: int | None, to: int | None
) -> DeliverySample:
    return DeliverySample(
        track=track_hash(track),
        one_in=100,
        in_us=came,
        out_us=sent,
        size_bytes=1_200,
        group_id=group,
        object_id=0,
        publisher_us=made,
        in_peer=None if source is None else node(source),
        out_peer=None if to is None else node(to),
    )


def _end(book: Book, number: int, at: int, seconds: int, random: Random) -> None:
    book.put(
        at,
        SessionClose(
            session_id="c0",
            kind="client",
            duration_ms=seconds * 1000.0,
            closed_by="remote",
            in_bytes=1_000,
            out_bytes=random.randrange(10**6),
            close_code=0,
            close_space="application",
        ),
    )
    if number == 3:
        book.put(at, NodeWd(node_id=node(2), reason="expired"))
        book.put(
            at, SnsWd(session_id="p0", sns_id=1, direction="in", removed=(node(2),), track=None)
        )
    if number == 0:
        book.put(at, PolicyApplied(plan_id="p-1", plan_version=1, outcome="accepted"))


# Lines that are no events


def bad_lines(ts_us: int) -> dict[str, bytes]:
    """Lines that are refused, of a time, and a part of the reason for each."""
    seqs = count(1)

    def line(**changes: object) -> str:
        event = Event.of(
            CacheStat(
                window_ms=1,
                hit_bytes=1,
                miss_bytes=1,
                expired_bytes=1,
                evicted_bytes=1,
                fetch_joins=1,
            ),
            relay="9:9",
            boot=1,
            seq=next(seqs),
            ts_us=ts_us,
        )
        return json.dumps(event.as_dict() | changes, separators=(",", ":"))

    return {
        "not JSON at column": b'{"v":"1.0","event_id":"9:9:1:1","ts_us',
        "version 2.0, but this reader knows 1.x": line(v="2.0").encode(),
        "is not a version such as": line(v="one").encode(),
        "ts_us: '5' is not a long": line(ts_us="5").encode(),
        "ts_us: 1.5 is not a long": line(ts_us=1.5).encode(),
        "relay: missing": line(relay=None).replace('"relay":null,', "").encode(),
        "relay: 9 is not a string": line(relay=9).encode(),
        "is not relay:boot:seq": line(event_id="9:9:2:1").encode(),
        "here '9:9:1:' and a number": line(event_id="9:9:1:01").encode(),
        "body: missing or not an object": line(body=[1]).encode(),
        "two fields are named 'v'": line().replace('"v":', '"v":"1.0","v":').encode(),
        "two fields are named 'hit_bytes'": line().replace('"hit', '"hit_bytes":2,"hit').encode(),
        "NaN is not JSON": line().replace('"hit_bytes":1', '"hit_bytes":NaN').encode(),
        "half a surrogate pair": line(region="x").replace('"x"', '"\\ud800"').encode(),
        "not UTF-8": line(region="x").encode().replace(b'"x"', b'"\xff"'),
        "nested deeper than 32": line()
        .replace('"window_ms"', f'"deep":{"[" * 40}{"]" * 40},"window_ms"')
        .encode(),
        "body.hit_bytes: '7' is not a long": line(
            body={
                "window_ms": 1,
                "hit_bytes": "7",
                "miss_bytes": 1,
                "expired_bytes": 1,
                "evicted_bytes": 1,
                "fetch_joins": 1,
            }
        ).encode(),
        "body.window_ms: missing": line(body={}).encode(),
        "is not an object": b"[1,2,3]",
        "over the limit of": line(deep="x" * (1 << 20)).encode(),
    }


BAD_LINES: Mapping[str, bytes] = bad_lines(START_US)
