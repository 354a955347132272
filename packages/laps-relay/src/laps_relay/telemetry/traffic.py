"""Telemetry records of traffic: tracks on each path through the relay, clients, and the cache.

``hop.stat`` and ``delivery.sample``::

    Plane       clients, Stubs     payload               in_peer  None | node of a Stub
    PeerPlane   other relays       bytes on the link     out_peer None | node of a peer

For every source of a track that sent something there is one row to clients, with the bytes that
came, even if no client got any. So the bytes of each window are exact, however paths change. Bytes
between relays are those of data streams with their header, the same at both ends. What clients got
is in the row of the source that sent most, because an object has no mark of its source.

``client.report`` and ``cache.stat``: the Edge measures objects that it could not send (gaps), the
time to the first object, the rate, and whether sending stalled while data was waiting. The own
report of a player (:mod:`laps_sdk.edge.reports`) is a record of its own: the player knows its
buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final, TypeAlias

from laps_relay.peer_forwarding.forwarding import LOCAL
from laps_relay.peer_forwarding.traffic import Arrival, Departure
from laps_relay.telemetry.network import hash_text
from laps_sdk.edge.reports import PlayerWindow
from laps_sdk.forwarding.cache import CacheTraffic
from laps_sdk.forwarding.samples import Sample
from laps_sdk.forwarding.traffic import ClientTraffic, TrackTraffic
from laps_sdk.quic.base import ConnectionStats
from laps_wire.names import FullTrackName
from laps_wire.reports import Playback
from laps_wire.telemetry import CacheStat, ClientReport, DeliverySample, HopStat, MsHistogram

__all__ = [
    "ClientReports",
    "Hop",
    "HopRecords",
    "NodeOf",
    "cache_stat",
    "delivery",
    "player_report",
]

Hop: TypeAlias = tuple[str, str | None, str | None]
"""Track, node that it came from, node that it went to."""
NodeOf: TypeAlias = Callable[[int], str | None]
"""Returns the node behind a session, or None."""

_MOST: Final = 100_000
"""Tracks whose last source is remembered."""
_LONG_MAX: Final = (1 << 63) - 1


class _Track:
    """One track in one window."""

    def __init__(self) -> None:
        self.came: dict[str | None, int] = {}
        """Bytes by source."""
        self.hops: dict[tuple[str | None, str], list[int]] = {}
        """Units, bytes and drops by source and peer."""
        self.clients = [0, 0, 0]
        self.groups: tuple[int | None, int | None] = None, None
        self.foreign: list[tuple[str, int, int]] = []
        self.weight: dict[str | None, int] = {}
        """Payload that sources brought for clients."""
        self.network = 0

    def main(self, before: str | None) -> str | None:
        """Return the source of most that clients got; the one before, if nothing came."""
        weight = dict(self.weight)
        peers = [source for source in self.came if source not in weight]
        if self.network and peers:
            weight[max(peers, key=lambda peer: self.came[peer])] = self.network
        return max(weight, key=lambda source: weight[source], default=before)


class HopRecords:
    """Makes the records of a window; remembers where tracks came from."""

    def __init__(self) -> None:
        self._main: dict[str, str | None] = {}

    def records(
        self,
        window_ms: int,
        tracks: Iterable[TrackTraffic],
        came: Iterable[Arrival],
        sent: Iterable[Departure],
        *,
        text: Callable[[FullTrackName], str],
        peer: NodeOf,
        foreign: NodeOf,
        waits: Mapping[Hop, Sequence[float]] = MappingProxyType({}),
    ) -> Iterator[HopStat]:
        """Yield the records of a window.

        ``peer`` returns the node of a peer's session, ``foreign`` that of a session of the Edge.
        ``waits`` are the milliseconds for which timed objects waited.
        """
        found: dict[str, _Track] = {}
        for arrival in came:
            node = peer(arrival.source)
            if arrival.source != LOCAL and node is not None:
                track = found.setdefault(hash_text(arrival.key), _Track())
                track.came[node] = track.came.get(node, 0) + arrival.bytes
        for gone in sent:
            source, target = peer(gone.source), peer(gone.target)
            if target is not None and (source is not None or gone.source == LOCAL):
                track = found.setdefault(hash_text(gone.key), _Track())
                sums = track.hops.setdefault((source, target), [0, 0, 0])
                for index, value in enumerate(gone[3:]):
                    sums[index] += value
        for traffic in tracks:
            self._clients(found.setdefault(text(traffic.name), _Track()), traffic, foreign)
        for name, track in found.items():
            for row in self._records(window_ms, name, track):
                waited = waits.get((name, row.in_peer, row.out_peer))
                yield replace(row, queue_ms=MsHistogram.of(waited)) if waited else row

    def _clients(self, track: _Track, traffic: TrackTraffic, foreign: NodeOf) -> None:
        for index, value in enumerate((traffic.objects_out, traffic.bytes_out, traffic.dropped)):
            track.clients[index] += value
        track.groups = _fits(traffic.first_group), _fits(traffic.last_group)
        if traffic.bytes_in:
            track.came[None] = track.came.get(None, 0) + traffic.bytes_in
            track.weight[None] = track.came[None]
        for link in traffic.links:
            node = foreign(link.session)
            if node is None:
                track.network += link.bytes_in
                continue
            if link.bytes_in:
                track.came[node] = track.came.get(node, 0) + link.bytes_in
                track.weight[node] = link.bytes_in
            if link.bytes_out:
                track.foreign.append((node, link.objects_out, link.bytes_out))

    def _records(self, window_ms: int, name: str, track: _Track) -> Iterator[HopStat]:
        main = track.main(self._main.get(name))
        if len(self._main) < _MOST or name in self._main:
            self._main[name] = main
        for node, objects, size in track.foreign:
            sums = track.hops.setdefault((main, node), [0, 0, 0])
            sums[0] += objects
            sums[1] += size

        def record(source: str | None, target: str | None, sums: list[int], why: str) -> HopStat:
            return HopStat(
                track=name,
                window_ms=window_ms,
                objects=sums[0],
                in_bytes=track.came.get(source, 0),
                out_bytes=sums[1],
                drops={why: sums[2]} if sums[2] else {},
                in_peer=source,
                out_peer=target,
                first_group_id=track.groups[0],
                last_group_id=track.groups[1],
            )

        if any(track.clients) and main not in track.came:
            track.came[main] = 0
        for source in track.came:
            sums = track.clients if source == main else [0, 0, 0]
            yield record(source, None, sums, "cap")
        for (source, target), sums in track.hops.items():
            yield record(source, target, sums, "cc")


def _fits(group: int | None) -> int | None:
    return None if group is None or group > _LONG_MAX else group


def delivery(
    sample: Sample,
    one_in: int,
    zero: float,
    *,
    peer: NodeOf,
    foreign: NodeOf,
) -> DeliverySample | None:
    """Return the record of a timed object; ``zero`` is the time of day when its clock was 0.

    None for an object that the other plane records, such as one for the upstream session, and for a
    peer that is not known any more.
    """
    in_peer = out_peer = None
    if sample.source is not None:
        in_peer = peer(sample.source)
        if in_peer is None:
            return None
    elif sample.client is not None:
        in_peer = foreign(sample.client)
    if sample.target is not None:
        out_peer = peer(sample.target)
        if out_peer is None:
            return None
    elif sample.viewer is not None:
        out_peer = foreign(sample.viewer)
        if out_peer is None:
            return None
    return DeliverySample(
        track=hash_text(sample.key),
        one_in=one_in,
        in_us=int((zero + sample.came) * 1e6),
        out_us=int((zero + sample.sent) * 1e6),
        size_bytes=sample.size,
        group_id=sample.group_id if sample.group_id <= _LONG_MAX else None,
        object_id=sample.object_id if sample.object_id <= _LONG_MAX else None,
        in_peer=in_peer,
        out_peer=out_peer,
    )


class ClientReports:
    """Makes the reports of a window; remembers the byte counters of each connection."""

    def __init__(self) -> None:
        self._before: dict[int, tuple[int, int]] = {}
        """Bytes sent and bytes waiting, by session."""

    def records(
        self,
        window_ms: int,
        clients: Iterable[ClientTraffic],
        connections: Mapping[int, ConnectionStats],
        text: Callable[[FullTrackName], str],
        ids: Callable[[int], Playback] = lambda _: Playback(),
    ) -> Iterator[ClientReport]:
        """Yield one report for each client that has a subscription.

        ``ids`` returns the hashed ids that a player gave when it connected. Reports that the player
        sends elsewhere can be joined by them.
        """
        before, self._before = self._before, {}
        for client in clients:
            stats = connections.get(client.session)
            if stats is None:
                continue
            self._before[client.session] = stats.bytes_sent, stats.queued_bytes
            sent, waited = before.get(client.session, (0, 0))
            playback = ids(client.session)
            stalled = waited > 0 and stats.queued_bytes > 0 and stats.bytes_sent == sent
            yield ClientReport(
                session_id=str(client.session),
                window_ms=window_ms,
                gaps=client.gaps,
                stalled=stalled,
                stall_ms=window_ms if stalled else None,
                startup_ms=None if client.startup is None else int(client.startup * 1000),
                bitrate_kbps=(
                    (stats.bytes_sent - sent) * 8 // window_ms
                    if window_ms and client.session in before
                    else None
                ),
                player_session=playback.session,
                content=playback.content,
                track=None if client.track is None else text(client.track),
                measured_by="relay",
            )


def player_report(
    said: PlayerWindow, track: str | None, hashed: Callable[[str], str]
) -> ClientReport:
    """Return the record of a player's own report; ids that the player chose are hashed."""
    return ClientReport(
        session_id=str(said.session),
        window_ms=int(said.window * 1000),
        gaps=said.gaps,
        stalled=said.stalled,
        stall_ms=said.stall_ms,
        startup_ms=said.startup_ms,
        buffer_ms=said.buffer_ms,
        latency_ms=said.latency_ms,
        bitrate_kbps=said.bitrate_kbps,
        max_throughput_kbps=said.asked_kbps,
        playback_rate=said.rate,
        state=said.state,
        player_session=hashed(said.playback),
        content=None if said.content is None else hashed(said.content),
        track=track,
        measured_by="player",
        error=said.error,
    )


def cache_stat(
    window_ms: int, traffic: CacheTraffic, stored: int, joins: int = 0
) -> CacheStat | None:
    """Return the record of the cache; None if it is empty and unused."""
    if traffic.is_idle and not stored and not joins:
        return None
    return CacheStat(
        window_ms=window_ms,
        hit_bytes=traffic.hits.bytes,
        miss_bytes=traffic.missed,
        expired_bytes=traffic.expired,
        evicted_bytes=traffic.evicted,
        fetch_joins=joins,
        stored_bytes=stored,
        hit_age_ms=traffic.hits.histogram() if traffic.hits.bytes else None,
        late_age_ms=traffic.late.histogram() if traffic.late.bytes else None,
    )
