"""A plan in force: trees as relays would build them that follow it.

An entry of a plan says which Via the copies of a track take towards a region. Where there is no
entry, and within the region of the origin, copies go directly.
"""

from __future__ import annotations

from laps_analytics.synth.dataset import Scene, Track, Tree
from laps_wire.plan import Plan

__all__ = ["Planned"]


class Planned:
    """Routing by a plan."""

    def __init__(self, plan: Plan, scene: Scene) -> None:
        self._scene = scene
        self._by_track: dict[tuple[str, str, int], str] = {}
        self._by_class: dict[tuple[str, str, str], str] = {}
        for entry in plan.entries:
            origin, via = str(entry.origin), str(entry.via)
            if entry.tracks is None:
                self._by_class[origin, entry.region, entry.scope] = via
            for key in entry.tracks or ():
                self._by_track[origin, entry.region, key] = via

    def via(self, track: Track, region: str) -> str | None:
        """The Via of a track's copies towards a region; None: none."""
        of_class = self._by_class.get((track.origin, region, track.qos))
        return self._by_track.get((track.origin, region, int(track.track, 16)), of_class)

    def tree(self, track: Track, targets: frozenset[str]) -> Tree:
        """Origin to Vias, Vias to the relays of their regions; the others directly."""
        parent: dict[str, str] = {}
        for target in sorted(targets):
            via = self.via(track, self._scene.by_node[target].region)
            direct = via is None or via in {target, track.origin}
            parent[target] = track.origin if via is None or direct else via
            if via is not None and not direct:
                parent.setdefault(via, track.origin)
        # A Via that has viewers itself hangs on the origin: no way goes round.
        for via in set(parent.values()) & parent.keys():
            parent[via] = track.origin
        return Tree(track.origin, parent)
