"""Write the reference page of ``laps-analytics`` from its commands.

Run it after a change of a command; a test says when. Apart from ``cli_page.py``, since Spark is not
installed where the other commands are.
"""

from __future__ import annotations

import runpy
from pathlib import Path

import typer

from laps_analytics.cli import app

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "analytics-cli.md"
MARK = "<!-- from the commands: python scripts/analytics_page.py -->\n"


def markdown() -> str:
    """Everything behind the mark."""
    commands = runpy.run_path(str(Path(__file__).with_name("cli_page.py")))["commands"]
    root = typer.main.get_command(app)
    return "\n".join(commands(str(root.name), root, {})).rstrip() + "\n"


def main() -> None:
    words, _, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    PAGE.write_text(f"{words}{MARK}\n{markdown()}", encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
