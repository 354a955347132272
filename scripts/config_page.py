"""Write the reference page of the relay's configuration from its models.

Run it after a change of the models; a test says when.
"""

from __future__ import annotations

from pathlib import Path

from laps_relay.config import markdown

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "configuration.md"
MARK = "<!-- from the models: python scripts/config_page.py -->\n"


def main() -> None:
    words, _, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    PAGE.write_text(f"{words}{MARK}\n{markdown()}", encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
