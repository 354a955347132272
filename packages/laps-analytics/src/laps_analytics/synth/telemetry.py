"""Write a dataset to a folder: telemetry, dimensions and the injected incidents.

::

    telemetry/0.1_0.7-1-000001.jsonl     telemetry of the relays
    late/0.1_0.9-1-000003.jsonl          a file that arrives after the others
    dimensions.toml                      classes of tracks, capacities of relays
    truth.json                           incidents and totals
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from laps_analytics.errors import OutputError
from laps_analytics.synth.conditions import Incident, Incidents, choose
from laps_analytics.synth.dataset import Dataset, DatasetConfig, Routing, Star, Window
from laps_analytics.synth.simulation import Simulation

__all__ = ["DatasetFiles", "dimensions_toml", "write_after", "write_present"]

_TRUTH: Final = 1


@dataclass(frozen=True, slots=True)
class DatasetFiles:
    """Files of a dataset."""

    telemetry: Path
    late: Path
    dimensions: Path
    truth: Path
    lines: int


def write_present(
    config: DatasetConfig,
    folder: Path,
    *,
    on_window: Callable[[Window], None] | None = None,
) -> DatasetFiles:
    """Write the network without a plan: star routing, with all incidents."""
    windows = config.present()
    incidents = choose(config.dataset, windows, config.seed)
    simulation = _simulation(config, Star(), incidents, folder, boot=1)
    simulation.run(windows, on_window=on_window)
    extra = _inject_file_faults(folder, config, windows)
    return _finish(config, folder, simulation, [*incidents.items, *extra])


def write_after(
    config: DatasetConfig,
    routing: Routing,
    folder: Path,
    *,
    plan: tuple[str, int],
    on_window: Callable[[Window], None] | None = None,
) -> DatasetFiles:
    """Write the quiet time of the next day, with a plan (id and version) in force.

    The clock error remains, so that a plan does not win because it is absent.
    """
    windows = config.after()
    present = choose(config.dataset, config.present(), config.seed)
    incidents = Incidents(present.of("clock"))
    # Relays were started again in the night: nothing of the first day is written again.
    simulation = _simulation(config, routing, incidents, folder, boot=3)
    simulation.control_plane.policy(*plan, windows[0].start_us + 1)
    simulation.run(windows, on_window=on_window)
    return _finish(config, folder, simulation, list(incidents.items))


def _simulation(
    config: DatasetConfig, routing: Routing, incidents: Incidents, folder: Path, *, boot: int
) -> Simulation:
    telemetry = folder / "telemetry"
    try:
        telemetry.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"{telemetry} cannot be written: {error.strerror}; name another folder"
        ) from None
    return Simulation(config.dataset, routing, incidents, telemetry, seed=config.seed, boot=boot)


def _inject_file_faults(
    folder: Path, config: DatasetConfig, windows: Sequence[Window]
) -> list[Incident]:
    """Duplicate half of a file, and move another one to ``late``."""
    rng = random.Random(f"files/{config.seed}")  # noqa: S311 - a world, not a secret
    files: dict[str, list[Path]] = {}
    for path in sorted((folder / "telemetry").glob("*.jsonl")):
        files.setdefault(path.name.split("-")[0], []).append(path)
    twice, late = rng.sample(sorted(files), 2)
    copied, held = files[twice][-1], files[late][0]
    lines = copied.read_text(encoding="ascii").splitlines(keepends=True)
    again = copied.with_name(f"{copied.stem}-again.jsonl")
    again.write_text("".join(lines[len(lines) // 2 :]), encoding="ascii")
    (folder / "late").mkdir(exist_ok=True)
    # Of the past: hours with late data are not planned with, and the last ones are needed for that.
    held.rename(folder / "late" / held.name)
    first, last = windows[0].start_us, windows[-1].end_us
    return [
        Incident(kind=kind, relay=name.replace("_", ":"), first_us=first, last_us=last)
        for kind, name in (("duplicates", twice), ("late", late))
    ]


def _finish(
    config: DatasetConfig, folder: Path, simulation: Simulation, incidents: list[Incident]
) -> DatasetFiles:
    files = DatasetFiles(
        folder / "telemetry",
        folder / "late",
        folder / "dimensions.toml",
        folder / "truth.json",
        simulation.files.lines,
    )
    truth: dict[str, Any] = {
        "truth": _TRUTH,
        "seed": config.seed,
        "lines": files.lines,
        "totals": asdict(simulation.totals),
        "incidents": [asdict(item) for item in incidents],
        "relays": {
            relay.node: {"city": relay.city, "region": relay.region, "kind": relay.kind}
            for relay in config.dataset.relays
        },
    }
    files.dimensions.write_text(dimensions_toml(config.dataset), encoding="utf-8")
    files.truth.write_text(json.dumps(truth, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return files


def dimensions_toml(dataset: Dataset) -> str:
    """Return the dimensions for ``laps-analytics build --dimensions``."""
    lines = ["# Of a synthetic world."]
    for track in dataset.tracks:
        lines += [
            "",
            f"[track.{track.track}]",
            f'class = "{track.qos}"',
            f'tenant = "{track.tenant}"',
        ]
    for relay in dataset.relays:
        lines += ["", f'[relay."{relay.node}"]', f"capacity_bps = {relay.capacity_bps:.0f}"]
    return "\n".join(lines) + "\n"
