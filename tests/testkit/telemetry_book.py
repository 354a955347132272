"""What made-up networks share: relays that number what they write, and what happens to lines.

The networks are in :mod:`testkit.telemetry_lines`, for ingest, and :mod:`testkit.gold_world`. All
functions are pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from random import Random

from laps_wire.telemetry import (
    Body,
    DeliverySample,
    Event,
    NodeAdv,
    PathItem,
    SessionOpen,
    dump_line,
)

__all__ = [
    "Book",
    "advert",
    "as_others_write",
    "lines_of",
    "peer_open",
    "with_copies",
    "with_gaps",
    "with_skew",
]


class Book:
    """The events of one relay, before they are numbered."""

    def __init__(self, relay: str, boot: int, region: str | None) -> None:
        self.relay = relay
        self.boot = boot
        self.region = region
        self.entries: list[tuple[int, Body, str | None]] = []

    def put(self, at: int, body: Body, tenant: str | None = None) -> None:
        """Something happened."""
        self.entries.append((at, body, tenant))

    def in_order(self) -> list[Event]:
        """What it wrote, with a perfect clock."""
        ordered = sorted(self.entries, key=lambda entry: entry[0])
        return [
            Event.of(
                body,
                relay=self.relay,
                boot=self.boot,
                seq=seq,
                ts_us=at,
                tenant=tenant,
                region=self.region,
            )
            for seq, (at, body, tenant) in enumerate(ordered, 1)
        ]


def peer_open(session: str, peer: str, *, outward: bool, handshake_ms: float) -> SessionOpen:
    """A session with another relay begins."""
    return SessionOpen(
        session_id=session,
        kind="peer",
        direction="out" if outward else "in",
        alpn="laps-2",
        handshake_ms=handshake_ms,
        peer=peer,
    )


def advert(
    node: str, place: int, path: tuple[PathItem, ...], random: Random, *, via: bool, boot: int
) -> NodeAdv:
    """A relay learns of a node over a path; ``place`` is where the node stands."""
    return NodeAdv(
        node_id=node,
        node_type="via" if via else "edge",
        path=path,
        sum_srtt_us=sum(item.srtt_us for item in path),
        best=True,
        longitude=10.0 * place,
        latitude=50.0 - place,
        load=round(random.random(), 3),
        epoch=boot,
        seq=1,
    )


# What happens to lines


def lines_of(events: Iterable[Event]) -> list[str]:
    """The lines that a relay writes."""
    return [dump_line(event) for event in events]


def as_others_write(line: str) -> str:
    """The same event as another program might write it: with blanks, and in another order."""
    return json.dumps(json.loads(line), sort_keys=True)


def with_copies(lines: Sequence[str], random: Random, share: float = 0.1) -> list[str]:
    """Some lines twice, the second one anywhere after the first."""
    out = list(lines)
    for line in random.sample(list(lines), int(len(lines) * share)):
        out.insert(random.randrange(out.index(line) + 1, len(out) + 1), line)
    return out


def with_gaps(events: Sequence[Event], first: int, last: int) -> list[Event]:
    """Without some sequence numbers: a relay lost them, and its telemetry shows it."""
    return [event for event in events if not first <= event.seq <= last]


def with_skew(events: Iterable[Event], skew_us: int) -> list[Event]:
    """As a relay would have written them whose clock is ahead; its own stamps go with it."""
    out = []
    for event in events:
        body = event.body
        if isinstance(body, DeliverySample):
            body = replace(body, in_us=body.in_us + skew_us, out_us=body.out_us + skew_us)
        out.append(replace(event, ts_us=event.ts_us + skew_us, body=body))
    return out
