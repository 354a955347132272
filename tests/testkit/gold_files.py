"""The files of :mod:`testkit.gold_world`, as an ingest finds them, with all that goes wrong.

Copies within a file and in others, lines out of order, events that come too late, that are of a
later version or written by another program, bodies that do not fit, clocks that are broken, and
lines that are no events.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import Any, Final, NamedTuple

from laps_wire.telemetry import (
    CacheStat,
    ClientReport,
    DeliverySample,
    Event,
    HopStat,
    MsHistogram,
    QuicSample,
    UnknownBody,
    dump_line,
)
from testkit.gold_world import BOOT, NIGHT, micros, written
from testkit.telemetry_book import as_others_write, with_copies
from testkit.telemetry_lines import bad_lines

__all__ = ["LATER_US", "NOW_US", "GoldFiles", "gold_files"]

SECOND: Final = 1_000_000
NOW_US: Final = micros("2026-11-18T00:10:00")
"""When the first files are read."""
LATER_US: Final = micros("2026-11-18T02:00:00")


class GoldFiles(NamedTuple):
    """What was written."""

    files: dict[str, bytes]
    """What the first ingest finds, by name."""
    later: dict[str, bytes]
    """What comes when all windows are closed."""
    events: list[Event]
    """Each once, in the order of relay and number: those that can be used."""
    late: frozenset[str]
    """Ids of events that are in ``later`` alone."""


def gold_files(seed: int = 1) -> GoldFiles:
    """All of it."""
    random = Random(seed)
    return _packed(written(random), random)


def _packed(books: dict[str, list[Event]], random: Random) -> GoldFiles:
    """What relays wrote, in files, and what else lies beside them."""

    def rare(share: float) -> bool:
        return random.random() < share

    torn = {event.event_id: line for event in books["e0:1"] if (line := _torn(event, random))}
    every = [event for mine in books.values() for event in mine]
    known = [e for e in every if e.event_id not in torn and not isinstance(e.body, UnknownBody)]
    night = micros(f"{NIGHT}:00:00")
    dull = [e.event_id for e in known if night <= e.ts_us < night + 3600 * SECOND]
    late = frozenset(random.sample(dull, 40))
    files: dict[str, bytes] = {}
    later: list[str] = []
    for relay, mine in books.items():
        lines = {
            event.event_id: torn.get(event.event_id)
            or dump_line(_of_later_version(event) if event.seq % 97 == 0 else event)
            for event in mine
        }
        later += [line for name, line in lines.items() if name in late]
        early = [line for name, line in lines.items() if name not in late]
        # A copy of what was in time makes nothing late.
        later += [lines[name] for name in dull if name in lines and name not in late][:5]
        middle = len(early) // 2
        for number, part in enumerate((early[:middle], early[middle - len(early) // 20 :])):
            bad = {*torn.values()}
            some = [as_others_write(x) if x not in bad and rare(0.01) else x for x in part]
            shuffled = with_copies(some, random, 0.05)
            random.shuffle(shuffled)
            name = f"telemetry-{relay.replace(':', '_')}-{BOOT}-{number:06d}.jsonl"
            files[name] = _bytes(shuffled)
    noon = micros("2026-11-17T12:20:00")
    files["bad.jsonl"] = b"\n".join(bad_lines(noon).values()) + b"\n\n"
    stat = CacheStat(
        window_ms=1, hit_bytes=2, miss_bytes=3, expired_bytes=4, evicted_bytes=5, fetch_joins=6
    )
    broken = {"x1:1": 60 * SECOND, "x2:1": NOW_US + 5 * 3600 * SECOND}
    files["clocks.jsonl"] = _bytes(
        dump_line(Event.of(stat, relay=relay, boot=1, seq=1, ts_us=at))
        for relay, at in broken.items()
    )
    return GoldFiles(files, {"late.jsonl": _bytes(later)}, known, late)


def _bytes(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _of_later_version(event: Event) -> Event:
    """With fields that nobody knows yet, in the envelope and in the body."""
    if isinstance(event.body, UnknownBody):
        return event
    body: Any = event.body  # any of them has a place for fields of later versions
    body = replace(body, extra={"colour": {"deep": [1, None]}})
    return replace(event, v="1.9", extra={"zone": "a"}, body=body)


def _torn(event: Event, random: Random) -> str | None:
    """A line of an event whose body does not fit; None for nearly all events."""
    if not 1_700 <= event.seq < 2_000 or random.random() < 0.95:
        return None
    plain = event.as_dict()
    body: dict[str, Any] = plain["body"]
    match event.body:
        case HopStat(queue_ms=MsHistogram()):
            body["queue_ms"]["counts"].pop()
        case QuicSample():
            body["srtt_us"] = random.choice((1.5, "7", None, True, 2**63))
        case ClientReport():
            del body["gaps"]
        case DeliverySample():
            body["track"] = ["a"]
        case _:
            return None
    return json.dumps(plain, separators=(",", ":"))
