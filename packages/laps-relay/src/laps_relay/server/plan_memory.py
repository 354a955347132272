"""Which plans a relay has followed, kept over a restart: an old one must not come back.

A file for each node in the state directory, which relays of one machine may share::

    {"world": {"version": 7, "plan": "SHA-256 of its text while it is followed, or empty"}}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from laps_relay.server.kept import keep, recall
from laps_wire.nodeid import NodeId

__all__ = ["Followed", "PlanMemory"]


class Followed(NamedTuple):
    """The newest plan of a series that was followed."""

    version: int
    digest: str
    """Of the plan, while it is in force; empty once it was dropped or has expired."""


@dataclass(frozen=True, slots=True)
class PlanMemory:
    """A file that is read once and replaced as a whole."""

    path: Path

    @classmethod
    def of(cls, state_dir: Path, node: NodeId) -> PlanMemory:
        """That of a node."""
        return cls(state_dir / f"plans-{int(node):016x}.json")

    def load(self) -> dict[str, Followed]:
        """What was kept; ``StartError`` if that is not what we wrote."""
        return recall(
            self.path,
            lambda name, row: (name, Followed(int(row["version"]), str(row["plan"]))),
            "is not a record of plans: remove it, and a plan that is older than the one that was"
            " followed may be taken until it expires",
        )

    def save(self, followed: Mapping[str, Followed]) -> str | None:
        """Keep it, all or nothing; why that was not possible."""
        plain = {
            name: {"version": row.version, "plan": row.digest} for name, row in followed.items()
        }
        return keep(self.path, json.dumps(plain))
