"""Run a plan in the relay simulator, if it is installed.

``laps-relay sim plan`` is a separate program. It gets the signed plan, the public key and a sample
topology. The sample has some groups of the plan with origins and targets, every Via that these
origins must know, and the measured links between them. Relays of different groups do not see each
other's entries, so a larger sample would only take longer.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from laps_analytics.errors import PlanError
from laps_analytics.plan.core.inputs import Group, Network
from laps_wire.plan import Plan, PlanEntry, SignedPlan, dumps

__all__ = ["SimulationResult", "sample_topology", "simulate_plan", "simulator"]

GROUPS: Final = 8
RELAYS: Final = 40
"""Limits of a sample: most groups, and the number of relays from which no group is added."""
TIMEOUT_S: Final = 600.0
"""Timeout of the simulator in seconds."""


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """Verdict of the simulator, or why there is none."""

    verdict: Mapping[str, Any] | None
    reason: str = ""
    """Why there is no verdict."""

    @property
    def summary(self) -> str:
        """The result in one line."""
        if self.verdict is None:
            return f"not simulated: {self.reason}"
        found = self.verdict
        return (
            f"{found['relays']} relays, {found['demands']} tracks: {found['accepted']} accepted it,"
            f" {found['planned_ways']} of {found['ways']} ways as planned, {found['lost']} of"
            f" {found['delivered'] + found['lost']} objects lost"
        )

    def require(self) -> None:
        """Raise :class:`PlanError` if the simulator found a fault."""
        if self.verdict is None or self.verdict["ok"]:
            return
        faults = self.verdict["faults"]
        first = faults[0]
        raise PlanError(
            f"the simulator found {len(faults)} faults, so nothing was written; the first:"
            f" {first['check']} at {first['where']}: {first['text']}"
        )


def simulator() -> Path | None:
    """Return the program ``laps-relay``: beside this Python, or on the path; None if missing."""
    beside = Path(sys.executable).with_name("laps-relay")
    if beside.is_file():
        return beside
    found = shutil.which("laps-relay")
    return None if found is None else Path(found)


def simulate_plan(
    program: Path | None,
    signed: SignedPlan,
    public_key: bytes,
    network: Network,
    groups: Sequence[Group],
    *,
    seed: int = 1,
) -> SimulationResult:
    """Run a plan in the simulator; ``public_key`` is the PEM text that relays trust."""
    if program is None:
        return SimulationResult(None, "laps-relay is not installed")
    topology = sample_topology(signed.plan, network, groups, seed=seed)
    if not topology["demand"]:
        return SimulationResult(None, "no entry of the plan has demand")
    with tempfile.TemporaryDirectory(prefix="laps-plan-") as folder:
        place = Path(folder)
        (place / "plan.json").write_text(dumps(signed), encoding="ascii")
        (place / "key.pem").write_bytes(public_key)
        (place / "stage.json").write_text(json.dumps(topology), encoding="utf-8")
        words = [str(program), "sim", "plan", str(place / "plan.json"), "--json"]
        words += ["--keys", str(place / "key.pem"), "--topology", str(place / "stage.json")]
        words += ["--seed", str(seed)]
        try:
            ended = subprocess.run(  # noqa: S603 - the program that was found
                words, capture_output=True, text=True, check=False, timeout=TIMEOUT_S
            )
        except OSError as error:
            return SimulationResult(None, f"{program} does not start: {error.strerror}")
        except subprocess.TimeoutExpired:
            return SimulationResult(None, f"the simulator did not end in {TIMEOUT_S:.0f} s")
    if ended.returncode not in (0, 1):
        last = (ended.stderr.strip().splitlines() or ["no message"])[-1]
        return SimulationResult(None, f"the simulator ended with code {ended.returncode}: {last}")
    try:
        return SimulationResult(json.loads(ended.stdout))
    except ValueError:
        return SimulationResult(None, "the simulator gave no verdict: upgrade laps-relay")


def sample_topology(
    plan: Plan, network: Network, groups: Sequence[Group], *, seed: int = 1
) -> dict[str, list[dict[str, Any]]]:
    """Return a sample of the topology and demand of a plan, drawn from a seed."""
    chosen = _Sample(plan, network)
    for number in np.random.default_rng(seed).permutation(len(groups)):
        if len(chosen.demands) >= GROUPS or (chosen.demands and len(chosen.rows) >= RELAYS):
            break
        chosen.add(groups[number])
    chosen.complete()
    return chosen.document()


class _Sample:
    def __init__(self, plan: Plan, network: Network) -> None:
        self.network = network
        self.members = plan.constraints.max_fanout + 1
        """Most targets of a group in a region: one more than the allowed copies."""
        self.rows: dict[int, None] = {}
        self.links: dict[tuple[int, int], None] = {}
        self.demands: list[dict[str, Any]] = []
        self._entries: dict[int, list[PlanEntry]] = {}
        for entry in plan.entries:
            row = network.index.get(str(entry.origin))
            if row is not None:
                self._entries.setdefault(row, []).append(entry)

    def add(self, group: Group) -> None:
        """Add a group, if the plan has entries for it."""
        key = group.keys[0]
        targets: list[int] = []
        for entry in self._entries.get(group.origin, ()):
            own = entry.scope == group.scope if entry.tracks is None else key in entry.tracks
            if own:
                members = [
                    row for row in group.targets if self.network.nodes[row].region == entry.region
                ][: self.members]
                targets += [row for row in members if row not in targets]
                for via in self._vias(entry):
                    for row in members:
                        self._link(via, row)
        if not targets:
            return
        self.rows |= dict.fromkeys((group.origin, *targets))
        for row in targets:
            self._link(group.origin, row)
        for entry in self._entries[group.origin]:
            for via in self._vias(entry):
                self._link(group.origin, via)
        self.demands.append(
            {
                "track": f"{key:016x}",
                "class": group.scope,
                "origin": self.network.nodes[group.origin].id,
                "at": [self.network.nodes[row].id for row in targets],
            }
        )

    def _vias(self, entry: PlanEntry) -> list[int]:
        ids = (entry.via, entry.fallback)
        rows = [self.network.index.get(str(via)) for via in ids if via is not None]
        found = [row for row in rows if row is not None]
        self.rows |= dict.fromkeys(found)
        return found

    def _link(self, a: int, b: int) -> None:
        pair = (min(a, b), max(a, b))
        if a != b and np.isfinite(self.network.rtt_ms[pair]):
            self.links[pair] = None

    def complete(self) -> None:
        """Add the Vias that relays must know. A relay refuses a plan with an unknown Via."""
        for row in list(self.rows):
            for entry in self._entries.get(row, ()):
                known = set(self.rows)
                for via in self._vias(entry):
                    if via not in known:
                        self._link(row, via)

    def document(self) -> dict[str, list[dict[str, Any]]]:
        """Return the topology as ``laps-relay sim plan --topology`` reads it."""
        nodes = self.network.nodes
        links = []
        for a, b in self.links:
            row: dict[str, Any] = {"a": nodes[a].id, "b": nodes[b].id}
            row["delay_ms"] = round(float(self.network.rtt_ms[a, b]) / 2, 3)
            if passed := self.network.path_countries(a, b):
                row["countries"] = sorted(passed)
            links.append(row)
        return {
            "relay": [
                {
                    "name": nodes[row].id,
                    "node_id": nodes[row].id,
                    "type": "via" if nodes[row].kind == "via" else "edge",
                    "region": nodes[row].region,
                    "country": nodes[row].country,
                }
                for row in self.rows
            ],
            "link": links,
            "demand": self.demands,
        }
