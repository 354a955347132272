"""Telemetry events as relays write them: bodies, and the files.

Bodies are dicts in the order of the schema and without null fields. The checks of
:func:`laps_wire.telemetry.dump_line` are skipped for speed. A test checks that it would write the
same bytes.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from laps_wire.telemetry.histogram import QUEUE_BOUNDS_MS
from laps_wire.telemetry.schema import VERSION

__all__ = [
    "TelemetryFiles",
    "announce",
    "cache_stat",
    "client_close",
    "client_open",
    "client_report",
    "delivery",
    "hop_stat",
    "node_adv",
    "node_wd",
    "peer_close",
    "peer_open",
    "quic_sample",
    "route_change",
    "sns_adv",
    "sns_wd",
    "subscribe",
]

# Bodies

NS_DEPTH: Final = 2
_DRAFT: Final = 18
_ALPN: Final = "moqt-18"


def peer_open(session: str, peer: str, direction: str, handshake_ms: float) -> dict[str, Any]:
    """Return ``session.open`` of a peer."""
    return {
        "session_id": session,
        "kind": "peer",
        "direction": direction,
        "alpn": "laps-2",
        "handshake_ms": handshake_ms,
        "peer": peer,
    }


def peer_close(session: str, peer: str, duration_ms: float, out_bytes: int) -> dict[str, Any]:
    """Return ``session.close`` of a peer that timed out."""
    return {
        "session_id": session,
        "kind": "peer",
        "duration_ms": duration_ms,
        "closed_by": "timeout",
        "in_bytes": 0,
        "out_bytes": out_bytes,
        "peer": peer,
    }


def client_open(session: str, handshake_ms: float, prefix: str) -> dict[str, Any]:
    """Return ``session.open`` of a viewer."""
    return {
        "session_id": session,
        "kind": "client",
        "direction": "in",
        "alpn": _ALPN,
        "handshake_ms": handshake_ms,
        "draft": _DRAFT,
        "addr_prefix": prefix,
    }


def client_close(session: str, duration_ms: float, out_bytes: int) -> dict[str, Any]:
    """Return ``session.close`` of a viewer that left."""
    return {
        "session_id": session,
        "kind": "client",
        "duration_ms": duration_ms,
        "closed_by": "remote",
        "in_bytes": 2_000,
        "out_bytes": out_bytes,
        "close_code": 0,
        "close_space": "application",
    }


def quic_sample(
    session: str,
    peer: str,
    rtt_us: int,
    min_rtt_us: int,
    *,
    sent_packets: int,
    lost_packets: int,
    sent_bytes: int,
) -> dict[str, Any]:
    """Return ``quic.sample`` of a peer."""
    return {
        "session_id": session,
        "srtt_us": rtt_us,
        "min_rtt_us": min_rtt_us,
        "rttvar_us": max(200, rtt_us // 25),
        "cwnd_bytes": 1_500_000,
        "sent_packets": sent_packets,
        "lost_packets": lost_packets,
        "pto_count": lost_packets // 200,
        "sent_bytes": sent_bytes,
        "in_flight_bytes": min(1_500_000, sent_bytes // 50),
        "peer": peer,
    }


def node_adv(
    node: str,
    node_type: str,
    place: tuple[float, float],
    path: list[tuple[str, int]],
    *,
    session: str | None,
    load: float,
    stamp: tuple[int, int],
) -> dict[str, Any]:
    """Return ``node.adv`` of the relay itself (no path), or of another."""
    body: dict[str, Any] = {
        "node_id": node,
        "node_type": node_type,
        "path": [{"node_id": via, "srtt_us": srtt} for via, srtt in path],
        "sum_srtt_us": sum(srtt for _, srtt in path),
        "best": True,
    }
    if session is not None:
        body["session_id"] = session
    body |= {
        "longitude": place[0],
        "latitude": place[1],
        "load": load,
        "epoch": stamp[0],
        "seq": stamp[1],
    }
    return body


def node_wd(node: str, session: str) -> dict[str, Any]:
    """Return ``node.wd`` after the session to the node was lost."""
    return {"node_id": node, "reason": "session_closed", "session_id": session}


def route_change(node: str, cost_us: int, next_hop: str | None, hops: int = 0) -> dict[str, Any]:
    """Return ``route.change``."""
    body: dict[str, Any] = {"node_id": node, "changes": 1, "hops": hops, "cost_us": cost_us}
    if next_hop is not None:
        body["next_hop"] = next_hop
    return body


def subscribe(
    track: str,
    source: str,
    stamp: tuple[int, int],
    session: str | None,
    *,
    delayed: bool | None = None,
) -> dict[str, Any]:
    """Return ``sub.adv``, or ``sub.wd`` if ``delayed`` is given."""
    body: dict[str, Any] = {"track": track, "ns_depth": NS_DEPTH, "source_node": source}
    if delayed is not None:
        body["delayed"] = delayed
    body |= {"epoch": stamp[0], "seq": stamp[1]}
    if session is not None:
        body["session_id"] = session
    return body


def announce(
    track: str, source: str, stamp: tuple[int, int], session: str | None
) -> dict[str, Any]:
    """Return ``ann.adv`` of a track."""
    return {"scope": "track", **subscribe(track, source, stamp, session)}


def sns_adv(
    session: str,
    sns_id: int,
    direction: str,
    added: list[str],
    removed: list[str],
    members: int,
    track: str,
) -> dict[str, Any]:
    """Return ``sns.adv``."""
    return {
        "session_id": session,
        "sns_id": sns_id,
        "direction": direction,
        "added": added,
        "removed": removed,
        "members": members,
        "track": track,
    }


def sns_wd(
    session: str, sns_id: int, direction: str, removed: list[str], track: str
) -> dict[str, Any]:
    """Return ``sns.wd``."""
    return {
        "session_id": session,
        "sns_id": sns_id,
        "direction": direction,
        "removed": removed,
        "track": track,
    }


def hop_stat(
    track: str,
    window_ms: int,
    objects: int,
    in_bytes: int,
    out_bytes: int,
    *,
    drops: int,
    in_peer: str | None,
    out_peer: str | None,
    queue_us: int | None,
    group: int,
) -> dict[str, Any]:
    """Return ``hop.stat``; without a histogram if ``queue_us`` is None."""
    body: dict[str, Any] = {
        "track": track,
        "window_ms": window_ms,
        "objects": objects,
        "in_bytes": in_bytes,
        "out_bytes": out_bytes,
        "drops": {"cc": drops} if drops else {},
    }
    if in_peer is not None:
        body["in_peer"] = in_peer
    if out_peer is not None:
        body["out_peer"] = out_peer
    if queue_us is not None:
        body["queue_ms"] = _histogram(objects, queue_us / 1000)
    body["first_group_id"] = group
    body["last_group_id"] = group + window_ms // 1000 - 1
    return body


def _histogram(objects: int, typical_ms: float) -> dict[str, Any]:
    """Return a histogram around a typical time.

    A quarter of the objects need half of it, and a twentieth need three times as long.
    """
    counts = [0] * (len(QUEUE_BOUNDS_MS) + 1)
    few = objects // 20
    half = objects // 4
    parts = ((objects - few - half, typical_ms), (half, typical_ms / 2), (few, typical_ms * 3))
    for number, value in parts:
        counts[bisect_left(QUEUE_BOUNDS_MS, value)] += number
    body: dict[str, Any] = {
        "bounds_ms": list(QUEUE_BOUNDS_MS),
        "counts": counts,
        "sum_ms": round(sum(number * value for number, value in parts), 3),
    }
    if objects:
        body["max_ms"] = round(typical_ms * 3, 3)
    return body


def delivery(
    track: str,
    one_in: int,
    in_us: int,
    out_us: int,
    size: int,
    *,
    group: int,
    publisher_us: int,
    in_peer: str | None,
    out_peer: str | None,
) -> dict[str, Any]:
    """Return ``delivery.sample``."""
    body: dict[str, Any] = {
        "track": track,
        "one_in": one_in,
        "in_us": in_us,
        "out_us": out_us,
        "size_bytes": size,
        "group_id": group,
        "object_id": 0,
        "publisher_us": publisher_us,
    }
    if in_peer is not None:
        body["in_peer"] = in_peer
    if out_peer is not None:
        body["out_peer"] = out_peer
    return body


def cache_stat(
    window_ms: int, hit: int, miss: int, joins: int, stored: int, late: int
) -> dict[str, Any]:
    """Return ``cache.stat``. Everything stored expires in the same window.

    ``late`` bytes of the misses had been cached and were expired when requested.
    """
    return {
        "window_ms": window_ms,
        "hit_bytes": hit,
        "miss_bytes": miss,
        "expired_bytes": stored,
        "evicted_bytes": 0,
        "fetch_joins": joins,
        "stored_bytes": stored,
        "hit_age_ms": _ages(hit, _YOUNG),
        "late_age_ms": _ages(late, _OLD),
    }


_AGE_BOUNDS_MS: Final = (500.0, 1000.0, 2000.0, 5000.0, 10000.0, 30000.0, 60000.0)
_YOUNG: Final = (0.45, 0.25, 0.2, 0.1, 0.0, 0.0, 0.0)
_OLD: Final = (0.0, 0.0, 0.0, 0.0, 0.5, 0.3, 0.2)
"""Shares of bytes by age, of hits (young) and of late requests (old). The ttl is five seconds."""


def _ages(total: int, shares: tuple[float, ...]) -> dict[str, Any]:
    """Return a histogram of bytes by age; the first bucket takes rounding errors."""
    counts = [int(total * share) for share in shares] + [0]
    first = next(number for number, share in enumerate(shares) if share)
    counts[first] += total - sum(counts)
    middle = (250.0, 750.0, 1500.0, 3500.0, 7500.0, 20000.0, 45000.0)
    body: dict[str, Any] = {
        "bounds_ms": list(_AGE_BOUNDS_MS),
        "counts": counts,
        "sum_ms": sum(count * age for count, age in zip(counts, middle, strict=False)),
    }
    if total:
        body["max_ms"] = 5000.0 if shares is _YOUNG else 60000.0
    return body


def client_report(
    session: str,
    window_ms: int,
    *,
    gaps: int,
    stall_ms: int,
    startup_ms: int | None,
    buffer_ms: int,
    latency_ms: int,
    bitrate_kbps: int,
    player: str,
    track: str,
) -> dict[str, Any]:
    """Return ``client.report``."""
    body: dict[str, Any] = {
        "session_id": session,
        "window_ms": window_ms,
        "gaps": gaps,
        "stalled": stall_ms > 0,
    }
    if stall_ms:
        body["stall_ms"] = stall_ms
    if startup_ms is not None:
        body["startup_ms"] = startup_ms
    body |= {
        "buffer_ms": buffer_ms,
        "latency_ms": latency_ms,
        "bitrate_kbps": bitrate_kbps,
        "playback_rate": 1.0,
        "state": "p",
        "player_session": player,
        "track": track,
    }
    return body


# Files

_dump: Final = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode


class TelemetryFiles:
    """Buffers the events of all relays, and writes a file for each relay on request."""

    def __init__(
        self,
        folder: Path,
        regions: Mapping[str, str],
        *,
        clock_error_us: Mapping[str, int],
        boot: int = 1,
    ) -> None:
        self._folder = folder
        self._regions = regions
        self._error = dict(clock_error_us)
        self._boot = dict.fromkeys(regions, boot)
        self._seq = dict.fromkeys(regions, 0)
        self._number = dict.fromkeys(regions, 0)
        self._held: dict[str, list[tuple[int, str, str | None, dict[str, Any]]]] = {
            relay: [] for relay in regions
        }
        self.lines = 0
        folder.mkdir(parents=True, exist_ok=True)

    def clock(self, relay: str, true_us: int) -> int:
        """Return the time that the clock of a relay shows."""
        return true_us + self._error.get(relay, 0)

    def boot(self, relay: str) -> int:
        """Return the boot epoch of a relay."""
        return self._boot[relay]

    def put(
        self, relay: str, true_us: int, kind: str, body: dict[str, Any], tenant: str | None = None
    ) -> None:
        """Add an event; ``body`` has the order of the schema and no null fields."""
        self._held[relay].append((true_us, kind, tenant, body))

    def restart(self, relay: str) -> None:
        """Restart a relay: increase its boot epoch, and number from one."""
        self.close(relay)
        self._boot[relay] += 1
        self._seq[relay] = 0

    def close(self, relay: str) -> Path | None:
        """Write the file of a relay; return None if it has no events."""
        held = self._held[relay]
        if not held:
            return None
        held.sort(key=lambda item: item[0])
        boot, seq = self._boot[relay], self._seq[relay]
        region, error = self._regions[relay], self._error.get(relay, 0)
        self._number[relay] += 1
        safe = relay.replace(":", "_")
        path = self._folder / f"{safe}-{boot}-{self._number[relay]:06d}.jsonl"
        lines = []
        for true_us, kind, tenant, body in held:
            seq += 1
            event: dict[str, Any] = {
                "v": VERSION,
                "event_id": f"{relay}:{boot}:{seq}",
                "ts_us": true_us + error,
                "relay": relay,
                "boot": boot,
                "type": kind,
            }
            if tenant is not None:
                event["tenant"] = tenant
            event["region"] = region
            event["body"] = body
            lines.append(_dump(event))
        path.write_text("\n".join(lines) + "\n", encoding="ascii")
        self.lines += len(lines)
        self._seq[relay] = seq
        held.clear()
        return path

    def close_all(self) -> list[Path]:
        """Write the files of all relays."""
        paths = [self.close(relay) for relay in self._regions]
        return [path for path in paths if path is not None]
