"""What a lake remembers of trials: what plans try, and what came of it.

::

    lake/trials.json    {"format": 1, "trials": [...]}

`laps-analytics plan` adds what it tries, and `plan measure` what came of it; the next plan reads
both. The file is replaced as a whole; of two who write at the same time one is forgotten.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any, Final

from laps_analytics.errors import LakeError
from laps_analytics.lake import Lake
from laps_analytics.lake.notes import put
from laps_analytics.plan.core.lessons import Judged, Lessons, Measured, Trial, Way

__all__ = ["remember", "remembered"]

_NAME: Final = "trials.json"
_FORMAT: Final = 1


def remembered(lake: Lake) -> list[Trial]:
    """All trials that a lake knows of."""
    path = lake.root / _NAME
    if not path.exists():
        return []
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["format"] != _FORMAT:
            raise ValueError(f"format {found['format']} is not {_FORMAT}")
        return [_trial(row) for row in found["trials"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LakeError(
            f"{path} cannot be used: {error!r}; without it nobody knows what was tried. Remove it"
            " to begin anew"
        ) from None


def remember(lake: Lake, trials: Iterable[Trial], *, now_us: int) -> None:
    """Add trials, or what came of them, to those that still count."""
    known = {_key(trial): trial for trial in remembered(lake)}
    new = {_key(trial): trial for trial in trials}
    if not new:
        return
    lasting = Lessons.at(now_us, (known | new).values()).trials.values()
    rows = [_row(trial) for trial in sorted(lasting, key=_key)]
    put(lake, _NAME, json.dumps({"format": _FORMAT, "trials": rows}))


def _key(trial: Trial) -> tuple[str, int, Way]:
    return trial.plan, trial.first, trial.way


def _row(trial: Trial) -> dict[str, Any]:
    row = asdict(replace(trial, tracks=()))
    return row | {"way": trial.way._asdict(), "tracks": [f"{key:016x}" for key in trial.tracks]}


def _trial(row: dict[str, Any]) -> Trial:
    judged = row["judged"]
    if judged is not None:
        parts = {
            name: None if judged[name] is None else Measured(**judged[name])
            for name in ("latency", "stalls")
        }
        judged = Judged(**judged | parts)
    tracks = tuple(int(key, 16) for key in row["tracks"])
    return Trial(**row | {"way": Way(**row["way"]), "tracks": tracks, "judged": judged})
