"""Sections of the report, and the context of all chapters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

from laps_analytics.report.gold import Gold
from laps_analytics.report.places import Places
from laps_analytics.report.plots import Picture

__all__ = ["Context", "Section"]

_NAMES = ("at", "kind", "node", "region", "longitude", "latitude")


@dataclass(frozen=True, slots=True)
class Section:
    """A chapter: paragraphs, plots and tables."""

    key: str
    title: str
    question: str
    paragraphs: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    """Name to table, as ``--csv`` and ``--json`` write them."""
    answer: str = ""
    """The chapter in a sentence, for the head of the page."""


@dataclass(frozen=True, slots=True)
class Context:
    """The gold tables, and the names of relays."""

    gold: Gold
    places: Places

    @classmethod
    def of(cls, gold: Gold) -> Context:
        """Return the context, with names from the last snapshots of the topology."""
        last = gold.last_seen("topology_snapshot")
        days = {*gold.days("topology_snapshot"), *(() if last is None else (last,))}
        snapshot = gold.of_days("topology_snapshot", _NAMES, days=days, where={"kind": ("node",)})
        return cls(gold, Places(snapshot.sort_values("at").drop_duplicates("node", keep="last")))

    def empty_section(self, key: str, title: str, question: str, table: str) -> Section:
        """Return a chapter about a table without rows in the time of the page."""
        last = self.gold.last_seen(table)
        if last is None:
            paragraphs = (
                f"The table {table} has no rows: either nothing of that kind happened, or it was"
                " not built."
            )
            return Section(key, title, question, (paragraphs,))
        answer = f"Nothing since {last}."
        paragraphs = f"{answer} That is the last day of which the table {table} has rows."
        return Section(key, title, question, (paragraphs,), answer=answer)
