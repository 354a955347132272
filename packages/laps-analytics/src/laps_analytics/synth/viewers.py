"""Viewers: their sessions, and the reports of their players.

The latency of a player is the delay through the relays, the last mile and its buffer. Loss causes
missing objects and stalls.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from laps_analytics.synth import events
from laps_analytics.synth.conditions import WindowConditions
from laps_analytics.synth.dataset import CarriedTrack, Window
from laps_analytics.synth.writer import TelemetryFiles

__all__ = ["BUFFER_MS", "Viewers"]

BUFFER_MS: Final = {"gold": 60, "silver": 500, "bronze": 2500}
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
                buffer = BUFFER_MS[track.qos]
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
