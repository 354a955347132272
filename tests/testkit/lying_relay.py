"""A relay that lies in its telemetry: honest lines go in, and come out with its lies among them.

Lines are plain dicts here, as a relay that does not keep to any schema's meaning could write them;
they keep to the schema itself, because what does not is quarantined and harms nobody.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

__all__ = ["LIES", "READ", "Telemetry", "poisoned"]

Line = dict[str, Any]

READ: Final = ("hop.stat", "quic.sample", "node.adv", "node.wd")
"""What plans are made from."""
_KEPT: Final = (*READ, "session.open", "session.close", "sns.adv", "sns.wd", "client.report")
"""What is left of a world: that, and what the quality gate compares."""
_VIA: Final = "0.2:"
"""How names of Vias begin in a synthetic world."""
_NODE: Final = re.compile(r'"0\.(\d+):0\.(\d+)')


@dataclass(slots=True)
class Telemetry:
    """What the relays of a world wrote: file by file, a file for each relay."""

    by_file: dict[str, list[Line]]
    """Who wrote a file, to its lines. Who is named in a line may be another."""
    lies: int = 0

    @classmethod
    def read(cls, folder: Path) -> Telemetry:
        """The lines of all files that plans and the gate look at."""
        found: dict[str, list[Line]] = {}
        for path in sorted(folder.glob("*.jsonl")):
            for text in path.read_text(encoding="ascii").splitlines():
                line = json.loads(text)
                if line["type"] in _KEPT:
                    found.setdefault(line["relay"], []).append(line)
        return cls(found)

    def read_lines(self) -> int:
        """Lines that plans read."""
        return sum(line["type"] in READ for lines in self.by_file.values() for line in lines)

    def write(self, folder: Path, world: int) -> None:
        """Write it; relays of different worlds have different names and never meet."""
        folder.mkdir(parents=True, exist_ok=True)
        numbers: dict[tuple[str, int], int] = {}
        for writer, lines in self.by_file.items():
            out = []
            for line in sorted(lines, key=lambda item: item["ts_us"]):
                key = line["relay"], line["boot"]
                numbers[key] = numbers.get(key, 0) + 1
                event_id = f"{line['relay']}:{line['boot']}:{numbers[key]}"
                plain = json.dumps({**line, "event_id": event_id}, separators=(",", ":"))
                out.append(_NODE.sub(rf'"{world}.\1:0.\2', plain))
            name = writer.replace(":", "_").replace("0.", f"{world}.", 1)
            (folder / f"{name}-1-000001.jsonl").write_text("\n".join(out) + "\n", encoding="ascii")


@dataclass(slots=True)
class _Liar:
    """What a lie may look at."""

    name: str
    own: list[Line]
    """Its own lines, newest first."""
    others: list[Line]
    """What the others wrote, newest first: it may have heard of it."""
    extra: list[Line] = field(default_factory=list)
    """Lines that it invents."""

    def of(self, kind: str) -> Iterator[Line]:
        return (line for line in self.own if line["type"] == kind)

    def invent(self, like: Line, body: Mapping[str, Any], **changes: Any) -> None:
        line = copy.deepcopy({key: like[key] for key in like if key != "body"})
        line |= {"relay": self.name, **changes}
        line["body"] = {**copy.deepcopy(like["body"]), **body}
        self.extra.append({key: line[key] for key in like if key in line})


def _measure(liar: _Liar, factor: float, lost: float) -> Iterator[None]:
    """All links of the liar are so many times as long, and lose so much."""
    for line in liar.of("quic.sample"):
        body = line["body"]
        for name in ("srtt_us", "min_rtt_us"):
            body[name] = max(1, int(body[name] * factor))
        body["lost_packets"] = int(body["sent_packets"] * lost)
        yield


def _far(liar: _Liar) -> Iterator[None]:
    return _measure(liar, 20.0, 0.5)


def _near(liar: _Liar) -> Iterator[None]:
    return _measure(liar, 0.05, 0.0)


def _crowd(liar: _Liar) -> Iterator[None]:
    """It has many times the viewers: bytes to clients, which nobody else counts."""
    for line in liar.of("hop.stat"):
        if "out_peer" not in line["body"]:
            line["body"]["out_bytes"] = line["body"]["out_bytes"] * 1000 + 10**9
            yield


def _bytes(liar: _Liar) -> Iterator[None]:
    """All tracks are as many times as large, as far as it has them."""
    for line in liar.of("hop.stat"):
        for name in ("in_bytes", "out_bytes"):
            line["body"][name] *= 50
        yield


def _tracks(liar: _Liar) -> Iterator[None]:
    """It publishes what others publish, and sends it to everybody."""
    for line in liar.others:
        if line["type"] == "hop.stat" and "in_peer" not in line["body"]:
            body = {"in_bytes": line["body"]["in_bytes"] * 3}
            liar.invent(line, body, region=liar.own[0].get("region"))
            yield


def _gossip(liar: _Liar) -> Iterator[None]:
    """Other relays are elsewhere, full, no Vias, or gone."""
    seen = [line for line in liar.others if line["type"] == "node.adv" and not line["body"]["path"]]
    for turn, line in enumerate(seen):
        region, node = liar.own[0].get("region"), line["body"]["node_id"]
        if turn % 2:
            body = {"node_id": node, "reason": "session_closed", "session_id": "p1"}
            gone = {**line, "type": "node.wd", "body": {}}
            liar.invent(gone, body, region=region, ts_us=line["ts_us"] + 1)
        else:
            body = {"node_type": "edge", "longitude": 0.0, "latitude": 0.0, "load": 1.0}
            liar.invent(line, body, region=region, ts_us=line["ts_us"] + 1)
        yield


def _forged(liar: _Liar) -> Iterator[None]:
    """Lines under the names of others: the links of Vias are long, as both their ends say."""
    for line in liar.others:
        if line["type"] == "quic.sample" and ":" in str(line["body"].get("peer")):
            ends = line["relay"], line["body"]["peer"]
            if any(end.startswith(_VIA) for end in ends) and liar.name not in ends:
                for _ in range(3):  # more than the true ones of these five minutes
                    liar.invent(line, {"srtt_us": 2_000_000}, relay=line["relay"])
                    yield


def _suffer(liar: _Liar) -> Iterator[None]:
    """Clients that nobody else has seen wait for ever."""
    for line in liar.others:
        if line["type"] == "client.report":
            body = {"latency_ms": 60_000, "stalled": True, "stall_ms": line["body"]["window_ms"]}
            liar.invent(line, body, region=liar.own[0].get("region"))
            yield


LIES: Final[Mapping[str, Callable[[_Liar], Iterator[None]]]] = {
    "far": _far,
    "near": _near,
    "crowd": _crowd,
    "bytes": _bytes,
    "tracks": _tracks,
    "gossip": _gossip,
    "forged": _forged,
    "suffer": _suffer,
}
"""Ways of lying."""


def poisoned(
    honest: Telemetry, liar: str, kinds: Sequence[str], *, share: float = 0.01
) -> Telemetry:
    """The same telemetry with lies of one relay, newest lines first, each kind as often as others.

    ``share`` is of the lines that plans read; where a kind has no more to lie about, others go on.
    """
    found = Telemetry(copy.deepcopy(honest.by_file))
    own = sorted(found.by_file[liar], key=lambda line: -line["ts_us"])
    others = sorted(
        (line for name, lines in found.by_file.items() if name != liar for line in lines),
        key=lambda line: -line["ts_us"],
    )
    who = _Liar(liar, own, others)
    left = int(share * honest.read_lines())
    ways = [LIES[kind](who) for kind in kinds]
    while left and ways:
        for way in list(ways):
            if left and next(way, ways) is ways:
                ways.remove(way)
            elif left:
                left -= 1
                found.lies += 1
    found.by_file[liar] += who.extra
    return found
