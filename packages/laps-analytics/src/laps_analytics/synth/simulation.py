"""Simulate a dataset, and write the telemetry of its relays.

All events derive from one state. The bytes that a relay sends equal the bytes that its peer
receives. A set has the same members at both ends, and stamps of an object are consistent except for
clock errors. Time advances in windows; relays write events within a window and sums at its end.

::

    Simulation --each window--> ControlPlane    sessions, nodes, subscriptions and sets
                        |
                        +-----> Viewers         their sessions, and the reports of their players

The latency of a player is the delay through the relays, the last mile and its buffer. Loss causes
missing objects and stalls.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from laps_analytics.synth import events
from laps_analytics.synth.conditions import Conditions, Incidents, WindowConditions
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
from laps_analytics.synth.events import TelemetryFiles

__all__ = [
    "Simulation",
    "Totals",
]

# Control plane

_SECOND = 1_000_000
_IDLE_US = 4 * _SECOND
"""Idle time after which a peer counts as dead."""


@dataclass(slots=True)
class Session:
    """One end of a session."""

    name: str
    opened_us: int
    fresh: bool = True
    sets: int = 0


class ControlPlane:
    """State of the control plane, and its events."""

    def __init__(self, dataset: Dataset, files: TelemetryFiles) -> None:
        self._dataset = dataset
        self._files = files
        self.peers = list(dataset.peers)
        """Pairs with a session. A tree may add pairs."""
        self._sessions: dict[tuple[str, str], Session] = {}
        self._numbers: dict[str, int] = dict.fromkeys(dataset.by_node, 0)
        self._stamps: dict[str, int] = dict.fromkeys(dataset.by_node, 0)
        self._sets: dict[tuple[str, str, str], tuple[int, frozenset[str]]] = {}
        self._subs: set[tuple[str, str, str]] = set()
        """Track, s-relay and origin of each subscription."""
        self._announced: set[str] = set()
        self._down: frozenset[str] = frozenset()
        self._advertised_day: int | None = None
        self._owned = 0

    def session(self, one: str, other: str) -> Session:
        """Return the end of a session at a relay."""
        return self._sessions[one, other]

    def next_best(self, relay: str, down: frozenset[str]) -> str:
        """Return the nearest Edge that is up, which takes the viewers of a dead relay."""
        edges = [
            item.node
            for item in self._dataset.relays
            if item.kind == "edge" and item.node != relay and item.node not in down
        ]
        return min(edges, key=lambda node: (self._dataset.rtt_us[relay, node], node))

    # Nodes and sessions

    def nodes(self, window: Window, conditions: WindowConditions, down: frozenset[str]) -> None:
        """Open and close sessions, and write adverts of nodes."""
        at = window.start_us
        for relay in sorted(down - self._down):
            self._lose(relay, at, conditions)
        back = self._down - down
        for relay in sorted(back):
            self._files.restart(relay)
            self._numbers[relay] = self._stamps[relay] = 0
        self._down = down
        for one, other in self.peers:
            if not {one, other} & down and (one, other) not in self._sessions:
                self._open(
                    one, other, at + (2 * _SECOND if back else 0), conditions, announce=bool(back)
                )
        day = at // (86_400 * _SECOND) if not window.dense else at // (3_600 * _SECOND)
        if day != self._advertised_day:
            # Round trip times drift, and adverts with them.
            self._advertised_day = day
            for here, there in sorted(self._sessions):
                self._advert(here, there, at + 5 * _SECOND, conditions)

    def _open(
        self, one: str, other: str, at: int, conditions: WindowConditions, *, announce: bool
    ) -> None:
        """Open a session at both ends; with ``announce`` also write its adverts."""
        rtt = conditions.rtt_us(one, other)
        opened = at + rtt
        for here, there, direction in ((one, other, "out"), (other, one, "in")):
            self._numbers[here] += 1
            session = Session(f"p{self._numbers[here]}", opened)
            self._sessions[here, there] = session
            body = events.peer_open(session.name, there, direction, round(rtt * 1.5 / 1000, 3))
            self._files.put(here, opened, "session.open", body)
            if announce:
                self._advert(here, there, opened + _SECOND, conditions)
                change = events.route_change(there, rtt, there)
                self._files.put(here, opened + 2 * _SECOND, "route.change", change)

    def _lose(self, relay: str, at: int, conditions: WindowConditions) -> None:
        for one, other in sorted(self._sessions):
            if other != relay:
                continue
            session = self._sessions.pop((one, other))
            self._sessions.pop((other, one))
            noticed = at + _IDLE_US + conditions.rtt_us(one, other) * 3
            lived = (noticed - session.opened_us) / 1000
            close = events.peer_close(session.name, relay, lived, 0)
            self._files.put(one, noticed, "session.close", close)
            self._files.put(one, noticed + 1_000, "node.wd", events.node_wd(relay, session.name))
            self._files.put(
                one, noticed + _SECOND, "route.change", events.route_change(relay, 0, None)
            )
            for key in sorted(self._sets):
                if key[:2] == (one, relay):
                    number, members = self._sets.pop(key)
                    gone = events.sns_wd(session.name, number, "out", sorted(members), key[2])
                    self._files.put(one, noticed + 2_000, "sns.wd", gone)
        for key in [key for key in self._sets if key[0] == relay]:
            del self._sets[key]
        self._subs = {sub for sub in self._subs if sub[1] != relay}

    def _advert(self, here: str, there: str, at: int, conditions: WindowConditions) -> None:
        node = self._dataset.by_node[there]
        body = events.node_adv(
            there,
            node.kind,
            (node.longitude, node.latitude),
            [(there, conditions.rtt_us(here, there))],
            session=self._sessions[here, there].name,
            load=0.0,
            stamp=self._stamp(there),
        )
        self._files.put(here, at, "node.adv", body)

    def own(
        self, window: Window, load: Mapping[str, float], down: frozenset[str], *, every: int
    ) -> None:
        """Write the advert of every relay about itself: place and load."""
        self._owned += 1
        if self._owned % every:
            return
        for relay in self._dataset.relays:
            if relay.node not in down:
                body = events.node_adv(
                    relay.node,
                    relay.kind,
                    (relay.longitude, relay.latitude),
                    [],
                    session=None,
                    load=round(load[relay.node], 3),
                    stamp=self._stamp(relay.node),
                )
                self._files.put(relay.node, window.written_us, "node.adv", body)

    def _stamp(self, node: str) -> tuple[int, int]:
        self._stamps[node] += 1
        return self._files.boot(node), self._stamps[node]

    # Interest

    def interest(
        self, window: Window, conditions: WindowConditions, carried: list[CarriedTrack]
    ) -> None:
        """Write changed announcements, subscriptions and sets."""
        at = window.start_us + 6 * _SECOND
        wanted: set[tuple[str, str, str]] = set()
        sets: dict[tuple[str, str, str], frozenset[str]] = {}
        for item in carried:
            track, origin = item.track.track, item.track.origin
            if track not in self._announced:
                self._announced.add(track)
                stamp = self._stamp(origin)
                own = events.announce(track, origin, stamp, None)
                self._files.put(origin, at - 1_000, "ann.adv", own, item.track.tenant)
            targets = [relay for relay in item.audience if relay != origin]
            wanted |= {(track, relay, origin) for relay in targets}
            for relay, members in item.tree.below(targets).items():
                sets[item.tree.parent[relay], relay, track] = members
        for above, below, _ in sorted(sets):
            if (above, below) not in self._sessions:
                self.peers.append((above, below))
                self._open(above, below, at - 3 * _SECOND, conditions, announce=True)
        for track, relay, origin in sorted(self._subs - wanted):
            self._unsubscribe(track, relay, origin, at, conditions, delayed=True)
        for track, relay, origin in sorted(wanted - self._subs):
            self._subscribe(track, relay, origin, at + 100_000, conditions)
        self._subs = wanted
        for key in sorted(self._sets.keys() - sets.keys()):
            self._withdraw(key, at + 200_000, conditions)
        for key in sorted(sets):
            if key not in self._sets or self._sets[key][1] != sets[key]:
                self._advertise(key, sets[key], at + 200_000, conditions)

    def flap(
        self, window: Window, conditions: WindowConditions, item: CarriedTrack, relay: str
    ) -> None:
        """Unsubscribe and subscribe again, twice in the window."""
        track, origin = item.track.track, item.track.origin
        for turn in range(2):
            at = window.start_us + window.length_us * (2 + 5 * turn) // 10
            soon = at + window.length_us // 8
            self._unsubscribe(track, relay, origin, at, conditions, delayed=bool(turn))
            self._subscribe(track, relay, origin, soon, conditions)
            below = relay
            while below != origin:
                above = item.tree.parent[below]
                key = (above, below, track)
                members = self._sets[key][1]
                if members == {relay}:
                    self._withdraw(key, at + 50_000, conditions)
                else:
                    self._advertise(key, members - {relay}, at + 50_000, conditions)
                self._advertise(key, members, soon + 50_000, conditions)
                below = above

    def _subscribe(
        self, track: str, relay: str, origin: str, at: int, conditions: WindowConditions
    ) -> None:
        stamp = self._stamp(relay)
        self._files.put(relay, at, "sub.adv", events.subscribe(track, relay, stamp, None))
        seen = events.subscribe(track, relay, stamp, self._session_name(origin, relay))
        self._files.put(origin, at + conditions.rtt_us(origin, relay) // 2, "sub.adv", seen)

    def _unsubscribe(
        self,
        track: str,
        relay: str,
        origin: str,
        at: int,
        conditions: WindowConditions,
        *,
        delayed: bool,
    ) -> None:
        stamp = self._stamp(relay)
        own = events.subscribe(track, relay, stamp, None, delayed=delayed)
        self._files.put(relay, at, "sub.wd", own)
        seen = events.subscribe(
            track, relay, stamp, self._session_name(origin, relay), delayed=delayed
        )
        self._files.put(origin, at + conditions.rtt_us(origin, relay) // 2, "sub.wd", seen)

    def _session_name(self, origin: str, relay: str) -> str | None:
        session = self._sessions.get((origin, relay))
        return None if session is None else session.name

    def _advertise(
        self,
        key: tuple[str, str, str],
        members: frozenset[str],
        at: int,
        conditions: WindowConditions,
    ) -> None:
        above, below, track = key
        out, into = self._sessions[above, below], self._sessions[below, above]
        old_id, old = self._sets.get(key, (0, frozenset()))
        if not old_id:
            out.sets += 1
            old_id = out.sets
        self._sets[key] = old_id, members
        added, removed = sorted(members - old), sorted(old - members)
        later = at + conditions.rtt_us(above, below) // 2
        for relay, session, direction, when in (
            (above, out, "out", at),
            (below, into, "in", later),
        ):
            body = events.sns_adv(
                session.name, old_id, direction, added, removed, len(members), track
            )
            self._files.put(relay, when, "sns.adv", body)

    def _withdraw(self, key: tuple[str, str, str], at: int, conditions: WindowConditions) -> None:
        above, below, track = key
        number, members = self._sets.pop(key)
        later = at + conditions.rtt_us(above, below) // 2
        for relay, peer, direction, when in (
            (above, below, "out", at),
            (below, above, "in", later),
        ):
            name = self._sessions[relay, peer].name
            body = events.sns_wd(name, number, direction, sorted(members), track)
            self._files.put(relay, when, "sns.wd", body)

    def policy(self, plan_id: str, version: int, at: int) -> None:
        """Write that every relay accepted the plan."""
        body = {"plan_id": plan_id, "plan_version": version, "outcome": "accepted"}
        for relay in self._dataset.by_node:
            self._files.put(relay, at, "policy.applied", dict(body))


# Viewers

_BUFFER_MS: Final = {"gold": 60, "silver": 500, "bronze": 2500}
"""Buffer of players, by class."""


@dataclass(slots=True)
class _Watching:
    session: str
    player: str
    since_us: int
    out_bytes: int = 0
    new: bool = True


class Viewers:
    """All viewers of a simulation."""

    def __init__(self, files: TelemetryFiles, seed: int) -> None:
        self._files = files
        self._seed = seed
        self._numbers: dict[str, int] = {}
        self._watching: dict[tuple[str, str], list[_Watching]] = {}

    def watch(
        self,
        window: Window,
        conditions: WindowConditions,
        item: CarriedTrack,
        left_us: dict[str, int],
    ) -> None:
        """Write the reports of the viewers of a track in a window.

        ``left_us`` is the age of objects when they leave each relay.
        """
        track = item.track
        for relay in sorted(left_us):
            self._come_and_go(window, item, relay)
            here = self._watching[track.track, relay]
            loss = conditions.access_loss(relay)
            above = item.tree.parent.get(relay)
            if above is not None:
                loss += max(0.0, conditions.loss(above, relay) - 0.005)
            for number, viewer in enumerate(here):
                viewer.out_bytes += item.received(relay)
                mile = conditions.last_mile_us(item.number, relay, number)
                age = (left_us[relay] + mile) // 1000
                gaps = int(conditions.rng.poisson(20 * loss)) if loss > 0.005 else 0
                if item.factor.get(relay, 1.0) < 1:
                    gaps += 3
                buffer = _BUFFER_MS[track.qos]
                # An object that is older than usual by more than the buffer was missed.
                late = loss > 0.02 and conditions.rng.random() < 0.5
                stall = int(conditions.rng.integers(300, 2_500)) if late else 0
                startup = None
                if viewer.new:
                    viewer.new = False
                    startup = 2 * mile // 1000 + age + int(conditions.rng.integers(40, 160))
                    # Who had to find another relay has lost what came meanwhile.
                    if relay in item.moved:
                        gaps += 30
                self._files.put(
                    relay,
                    window.written_us - 1_000 * (number + 1) - item.number,
                    "client.report",
                    events.client_report(
                        viewer.session,
                        window.length_us // 1000,
                        gaps=gaps,
                        stall_ms=stall,
                        startup_ms=startup,
                        buffer_ms=max(0, buffer - stall),
                        latency_ms=age + buffer + stall // 4,
                        bitrate_kbps=int(track.bitrate_bps / 1000),
                        player=viewer.player,
                        track=track.track,
                    ),
                    track.tenant,
                )

    def forget(self, down: frozenset[str]) -> None:
        """Drop the viewers of relays that are down, without closing their sessions."""
        for key in [key for key in self._watching if key[1] in down]:
            del self._watching[key]

    def _come_and_go(self, window: Window, item: CarriedTrack, relay: str) -> None:
        track = item.track
        here = self._watching.setdefault((track.track, relay), [])
        wanted = item.audience[relay]
        while len(here) > wanted:
            gone = here.pop()
            at = window.start_us + 3_000_000
            self._files.put(
                relay,
                at,
                "session.close",
                events.client_close(gone.session, (at - gone.since_us) / 1000, gone.out_bytes),
                track.tenant,
            )
        while len(here) < wanted:
            number = self._numbers[relay] = self._numbers.get(relay, 0) + 1
            name = f"{self._seed}/{relay}/{self._files.boot(relay)}/{number}"
            player = hashlib.blake2b(name.encode(), digest_size=8).hexdigest()
            opened = window.start_us + 4_000_000
            self._files.put(
                relay,
                opened,
                "session.open",
                events.client_open(str(number), 12.5 + number % 40, f"198.51.{number % 200}.0/24"),
                track.tenant,
            )
            here.append(_Watching(str(number), player, opened))


# Simulation

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
