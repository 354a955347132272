"""Simulate a dataset, and write the telemetry of its relays.

All events derive from one state. The bytes that a relay sends equal the bytes that its peer
receives. A set has the same members at both ends, and stamps of an object are consistent except for
clock errors. Time advances in windows; relays write events within a window and sums at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from laps_analytics.synth import events
from laps_analytics.synth.conditions import Conditions, WindowConditions
from laps_analytics.synth.control_plane import ControlPlane
from laps_analytics.synth.dataset import (
    DAY_US,
    FIVE_MINUTES_US,
    HOUR_US,
    CarriedTrack,
    Dataset,
    Routing,
    Track,
    Tree,
    Window,
)
from laps_analytics.synth.incidents import Incidents
from laps_analytics.synth.viewers import Viewers
from laps_analytics.synth.writer import TelemetryFiles

__all__ = ["Simulation", "Totals"]

_FRAMES: Final = 30
"""Objects of a track in a second."""
_PACKET: Final = 1200
_KEY_FRAME: Final = 50_000
_USED_EVERY: Final = 2
_IDLE_EVERY: Final = 5
"""Dense windows between two transport samples of a link: used and idle."""
_PAST_EVERY: Final = 3
"""Windows of the history between two samples."""


@dataclass(slots=True)
class Totals:
    """Totals of a run, to compare tables with."""

    track_bytes: int = 0
    link_bytes: int = 0
    wan_bytes: int = 0
    client_bytes: dict[str, int] = field(default_factory=dict)
    """Bytes to clients, by tenant."""


class Simulation:
    """A run of a dataset with a routing, and the files it writes."""

    def __init__(
        self,
        dataset: Dataset,
        routing: Routing,
        incidents: Incidents,
        folder: Path,
        *,
        seed: int,
        boot: int = 1,
    ) -> None:
        self.dataset = dataset
        self.totals = Totals()
        self._routing = routing
        self._incidents = incidents
        self._conditions = Conditions(dataset, incidents, seed)
        self.files = TelemetryFiles(
            folder,
            {relay.node: relay.region for relay in dataset.relays},
            clock_error_us=incidents.clock_errors(),
            boot=boot,
        )
        self.control_plane = ControlPlane(dataset, self.files)
        self._viewers = Viewers(self.files, seed)
        self._sent: dict[tuple[str, str], list[int]] = {}
        self._load: dict[str, float] = dict.fromkeys(dataset.by_node, 0.0)
        self._steps = 0

    def run(
        self,
        windows: Iterable[Window],
        *,
        on_window: Callable[[Window], None] | None = None,
    ) -> Totals:
        """Run all windows in order, and return the totals."""
        last_hour: tuple[bool, int] | None = None
        for window in windows:
            # Of the past a file holds three days, of the present an hour.
            span = HOUR_US if window.dense else 3 * DAY_US
            hour = (window.dense, window.start_us // span)
            if hour != last_hour:
                self.files.close_all()
            last_hour = hour
            self._step(window)
            if on_window is not None:
                on_window(window)
        self.files.close_all()
        return self.totals

    def _step(self, window: Window) -> None:
        conditions = self._conditions.at(window)
        down = self._incidents.down(window.start_us)
        self.control_plane.nodes(window, conditions, down)
        carried = [
            self._carry(number, track, window, down)
            for number, track in enumerate(self.dataset.tracks)
            if track.origin not in down
        ]
        self.control_plane.interest(window, conditions, carried)
        for item in carried:
            for flap in self._incidents.of("flap"):
                if window.dense and flap.covers(window.start_us) and flap.relay in item.factor:
                    self.control_plane.flap(window, conditions, item, flap.relay)
        link_bytes = self._forward(window, conditions, carried)
        self._transport(window, conditions, link_bytes, down)
        self.control_plane.own(window, self._load, down, every=1 if not window.dense else 5)
        self._caches(window, carried)
        if window.dense:
            self._viewers.forget(down)
            for item in carried:
                arrivals = self._deliver(window, conditions, item)
                self._viewers.watch(window, conditions, item, arrivals)
        self._steps += 1

    # What is carried

    def _carry(
        self, number: int, track: Track, window: Window, down: frozenset[str]
    ) -> CarriedTrack:
        # Who watches changes every five minutes, so that tables of five minutes have whole ways.
        audience = self.dataset.audience(track, window.start_us - window.start_us % FIVE_MINUTES_US)
        moved = set()
        for relay in sorted(down & audience.keys()):
            # Its viewers find the next relay.
            other = self.control_plane.next_best(relay, down)
            audience[other] = audience.pop(relay) + audience.get(other, 0)
            moved.add(other)
        targets = frozenset(audience) - {track.origin}
        tree = self._routing.tree(track, targets)
        if down & tree.parent.keys():
            tree = _without(tree, down)
        size = int(track.bitrate_bps / 8 * window.seconds)
        factor = {
            flap.relay: 0.75
            for flap in self._incidents.of("flap")
            if window.dense
            and flap.track == track.track
            and flap.covers(window.start_us)
            and flap.relay in targets
        }
        return CarriedTrack(track, number, audience, tree, size, factor, frozenset(moved))

    def _forward(
        self, window: Window, conditions: WindowConditions, carried: list[CarriedTrack]
    ) -> dict[tuple[str, str], int]:
        """Write the sums of every relay and track, and return the bytes of every link."""
        links: dict[tuple[str, str], int] = {}
        sent: dict[str, int] = dict.fromkeys(self._load, 0)
        end, length = window.written_us, window.length_us // 1000
        objects = int(_FRAMES * window.seconds)
        group = window.start_us // 1_000_000
        for item in carried:
            children = item.tree.children()
            track, tenant = item.track.track, item.track.tenant
            self.totals.track_bytes += item.bytes
            for relay in item.tree.order():
                came = item.received(relay)
                in_peer = item.tree.parent.get(relay)
                watching = item.audience.get(relay, 0)
                rows: list[tuple[str | None, int, int, int]] = []
                for child in children.get(relay, ()):
                    size = item.received(child)
                    lost = conditions.loss(relay, child)
                    drops = int(objects * lost) if lost > 0.02 else 0
                    rows.append((child, size, objects, drops))
                    links[relay, child] = links.get((relay, child), 0) + size
                if watching or not rows:
                    rows.append((None, came * watching, objects * watching, 0))
                    of_tenant = self.totals.client_bytes.get(tenant, 0)
                    self.totals.client_bytes[tenant] = of_tenant + came * watching
                for out_peer, size, count, drops in rows:
                    sent[relay] += size
                    self.files.put(
                        relay,
                        end,
                        "hop.stat",
                        events.hop_stat(
                            track,
                            length,
                            count,
                            came,
                            size,
                            drops=drops,
                            in_peer=in_peer,
                            out_peer=out_peer,
                            queue_us=conditions.queue_us(self._load[relay])
                            if window.dense
                            else None,
                            group=group,
                        ),
                        tenant,
                    )
        for (one, other), size in links.items():
            self.totals.link_bytes += size
            if self.dataset.by_node[one].region != self.dataset.by_node[other].region:
                self.totals.wan_bytes += size
        for relay, size in sent.items():
            capacity = self.dataset.by_node[relay].capacity_bps
            self._load[relay] = min(1.0, size * 8 / window.seconds / capacity)
        return links

    def _transport(
        self,
        window: Window,
        conditions: WindowConditions,
        link_bytes: dict[tuple[str, str], int],
        down: frozenset[str],
    ) -> None:
        for dialler, answerer in self.control_plane.peers:
            if {dialler, answerer} & down:
                continue
            used = (dialler, answerer) in link_bytes or (answerer, dialler) in link_bytes
            every = _PAST_EVERY if not window.dense else _USED_EVERY if used else _IDLE_EVERY
            for one, other in ((dialler, answerer), (answerer, dialler)):
                counts = self._sent.setdefault((one, other), [0, 0, 0])
                session = self.control_plane.session(one, other)
                if session.fresh:
                    counts[:] = [0, 0, 0]
                    session.fresh = False
                size = link_bytes.get((one, other), 0) + 4_000
                packets = size // _PACKET + 40
                counts[0] += packets
                counts[1] += int(
                    conditions.rng.binomial(packets, min(0.9, conditions.loss(one, other)))
                )
                counts[2] += size
                if self._steps % every:
                    continue
                self.files.put(
                    one,
                    window.written_us - 1_000,
                    "quic.sample",
                    events.quic_sample(
                        session.name,
                        other,
                        conditions.rtt_us(one, other),
                        self.dataset.rtt_us[one, other],
                        sent_packets=counts[0],
                        lost_packets=counts[1],
                        sent_bytes=counts[2],
                    ),
                )

    def _caches(self, window: Window, carried: list[CarriedTrack]) -> None:
        """Write cache sums: viewers that join late request the current group."""
        asked: dict[str, list[int]] = {}
        for item in carried:
            for relay, watching in item.audience.items():
                counts = asked.setdefault(relay, [0, 0, 0, 0])
                group = int(item.track.bitrate_bps / 8)
                requests = 1 + watching // 3
                # The first to ask misses; the others find what the first one brought.
                counts[0] += (requests - 1) * group + group // 2
                counts[1] += group - group // 2
                counts[2] += requests // 4
                counts[3] += group * 4
        for relay, (hit, miss, joins, stored) in sorted(asked.items()):
            self.files.put(
                relay,
                window.written_us,
                "cache.stat",
                events.cache_stat(
                    window.length_us // 1000, hit, miss, joins, stored, late=miss * 2 // 3
                ),
            )

    def _deliver(
        self, window: Window, conditions: WindowConditions, item: CarriedTrack
    ) -> dict[str, int]:
        """Send one object down the tree; return its age when it leaves each relay with viewers."""
        track, tree = item.track, item.tree
        # Not all tracks at once.
        published_us = (
            window.start_us + 1_000_000 + (item.number * 1_370_000) % (window.length_us // 2)
        )
        children = tree.children()
        came = {tree.origin: published_us + conditions.publisher_us(item.number)}
        group = window.start_us // 1_000_000
        left: dict[str, int] = {}
        for relay in tree.order():
            outs: list[str | None] = [*children.get(relay, ())]
            if item.audience.get(relay):
                outs.append(None)
            gone = came[relay] + conditions.queue_us(self._load[relay])
            for out_peer in outs:
                self.files.put(
                    relay,
                    gone,
                    "delivery.sample",
                    events.delivery(
                        track.track,
                        int(_FRAMES * window.seconds),
                        self.files.clock(relay, came[relay]),
                        self.files.clock(relay, gone),
                        _KEY_FRAME,
                        group=group,
                        publisher_us=published_us,
                        in_peer=tree.parent.get(relay),
                        out_peer=out_peer,
                    ),
                    track.tenant,
                )
                if out_peer is not None:
                    came[out_peer] = gone + conditions.one_way_us(relay, out_peer)
                else:
                    left[relay] = gone - published_us
        return left


def _without(tree: Tree, down: frozenset[str]) -> Tree:
    """Return the tree without relays that are down; their children move to the origin."""
    parent = {
        child: tree.origin if above in down else above
        for child, above in tree.parent.items()
        if child not in down
    }
    return Tree(tree.origin, parent)
