"""Write the reference page of the gold tables from their contracts.

Run it after a change of a contract; a test says when.
"""

from __future__ import annotations

from pathlib import Path

from laps_analytics.gold.recipes import RECIPES
from laps_analytics.gold.tables import GOLD
from laps_analytics.schema import event_types

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "gold-tables.md"
MARK = "<!-- from the contracts: python scripts/gold_page.py -->\n"


def markdown() -> str:
    """Every table: its question, its grain, what it is made from, its columns."""
    parts = ["| table | question |", "|---|---|"]
    parts += [
        f"| [`{name}`](#{_anchor(name)}) | {table.question} |" for name, table in GOLD.items()
    ]
    for name, table in GOLD.items():
        recipe = RECIPES[name]
        lower = ", ".join(f"`{gold}`" for gold in recipe.gold)
        kinds = ", ".join(f"`{kind}`" for kind in table.inputs)
        source = lower or ("events of every type" if table.inputs == event_types() else kinds)
        parts += [
            "",
            f"({_anchor(name)})=",
            f"## `{name}`",
            "",
            table.question,
            "",
            f"One row: {table.grain}. Made from {source}.",
            "",
            "| column | type | |",
            "|---|---|---|",
        ]
        parts += [
            f"| `{item.name}`{' (key)' if item.key else ''} | `{item.type}` | {item.doc} |"
            for item in table.columns
        ]
    return "\n".join(parts) + "\n"


def _anchor(name: str) -> str:
    return f"gold-{name.replace('_', '-')}"


def main() -> None:
    words, _, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    PAGE.write_text(f"{words}{MARK}\n{markdown()}", encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
