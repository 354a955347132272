"""Control plane of the simulated network: sessions, nodes, subscriptions and sets.

It keeps the last state and writes the events of each change, at both ends of a session.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from laps_analytics.synth import events
from laps_analytics.synth.conditions import WindowConditions
from laps_analytics.synth.dataset import CarriedTrack, Dataset, Window
from laps_analytics.synth.writer import TelemetryFiles

__all__ = ["ControlPlane", "Session"]

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
        self._scene = dataset
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
            for item in self._scene.relays
            if item.kind == "edge" and item.node != relay and item.node not in down
        ]
        return min(edges, key=lambda node: (self._scene.rtt_us[relay, node], node))

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
        node = self._scene.by_node[there]
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
        for relay in self._scene.relays:
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
        for relay in self._scene.by_node:
            self._files.put(relay, at, "policy.applied", dict(body))
