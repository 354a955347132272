"""What a chapter of the report is made of, and what all chapters know."""

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
    """A chapter: words, pictures, and the numbers of both."""

    key: str
    title: str
    question: str
    paragraphs: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    """Name to numbers; the same that ``--csv`` and ``--json`` write."""
    answer: str = ""
    """The chapter in a sentence, for the head of the page."""


@dataclass(frozen=True, slots=True)
class Context:
    """The tables, and what relays are called."""

    gold: Gold
    places: Places

    @classmethod
    def of(cls, gold: Gold) -> Context:
        """Names come from the last snapshots of the topology."""
        last = gold.last_seen("topology_snapshot")
        days = {*gold.days("topology_snapshot"), *(() if last is None else (last,))}
        snapshot = gold.of_days("topology_snapshot", _NAMES, days=days, where={"kind": ("node",)})
        return cls(gold, Places(snapshot.sort_values("at").drop_duplicates("node", keep="last")))

    def empty_section(self, key: str, title: str, question: str, table: str) -> Section:
        """A chapter about a table without rows, or with none of the time of the page."""
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
