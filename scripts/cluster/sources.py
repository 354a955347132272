"""What all ways begin with: telemetry of a small world, and of what else occurs some of each.

A relay's line that another program wrote, lines that are no events, a body that does not fit, a
trace: these are looked at in Python, on the workers. All of it is of the hour a day before the end,
so that the hour which a plan is made from is sound.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from laps_analytics.synth.dataset import DAY_US, END_US, Size, make_config
from laps_analytics.synth.telemetry import write_present
from testkit.telemetry_book import as_others_write
from testkit.telemetry_lines import bad_lines

__all__ = ["Sources", "make_sources"]

_SIZE: Final = Size(
    edges=5,
    vias=2,
    tracks=3,
    viewers=20,
    days=1,
    step_hours=24,
    dense_minutes=15,
    after_minutes=5,
)
_CONSTRAINTS: Final = """\
[class.silver]
slack = 3.0
extra_ms = 300

[link."0.1:0.1>0.1:0.3"]
price = 9.0

[link."0.1:0.2>0.1:0.3"]
price = 9.0

[link."0.1:0.1>0.1:0.4"]
price = 9.0

[link."0.1:0.1>0.1:0.5"]
price = 9.0
"""
"""Links that are dear: of so few relays none would otherwise go over a Via."""
_TRACE: Final = {
    "traces": [
        {
            "vantage_point": {"type": "server"},
            "common_fields": {"group_id": "7-1"},
            "events": [{"time": number, "name": "moqt:stream_created"} for number in range(20)],
        }
    ]
}


@dataclass(frozen=True, slots=True)
class Sources:
    """Where it is."""

    telemetry: Path
    late: Path
    dimensions: Path
    constraints: Path
    key: Path


def make_sources(folder: Path) -> Sources:
    """The same files each time; only the key is new."""
    found = Sources(
        folder / "telemetry",
        folder / "late",
        folder / "dimensions.toml",
        folder / "constraints.toml",
        folder / "key.pem",
    )
    if found.key.exists():
        return found
    write_present(make_config(7, _SIZE), folder)
    foreign = min(found.telemetry.glob("*-again.jsonl"))
    lines = foreign.read_text(encoding="ascii").splitlines()
    foreign.write_text("".join(f"{as_others_write(line)}\n" for line in lines), encoding="ascii")
    bad = [line for line in bad_lines(END_US - DAY_US).values() if len(line) < 10_000]
    (found.telemetry / "9_9-1-000001.jsonl").write_bytes(b"\n".join(bad) + b"\n")
    (found.telemetry / "1-a_server.qlog").write_text(json.dumps(_TRACE))
    (found.telemetry / "1-b_server.qlog").write_text('{"traces": 7}')
    found.constraints.write_text(_CONSTRAINTS)
    keygen = "from laps_analytics.cli import main; main()"
    subprocess.run([sys.executable, "-c", keygen, "plan", "keygen", str(found.key)], check=True)
    return found
