"""Write what is derived from the telemetry schema: the reference tables and the released schema.

Run it after a change of the schema; the tests say when.
"""

from __future__ import annotations

import json
from pathlib import Path

from laps_wire.telemetry import markdown, schema

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "telemetry.md"
RELEASED = ROOT / "tests" / "vectors" / "telemetry-schema.json"
MARK = "<!-- from the schema: python scripts/telemetry_page.py -->\n"


def main() -> None:
    words, _, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    PAGE.write_text(f"{words}{MARK}\n{markdown()}", encoding="utf-8")
    RELEASED.write_text(json.dumps(schema(), indent=1) + "\n", encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)} and {RELEASED.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
