"""The dimensions of a lake: what was given once holds until somebody gives others.

::

    lake/lake.json                          {"dimensions": {"sha256": "1f0e...", ...}}
    lake/dimensions-1f0e3dad99908345.json   what `build --dimensions` read last

Whoever forgets a file would otherwise build, bill and plan without classes and capacities, and
nothing would say so. The file is there before its digest is; whoever reads finds the old one or the
new one, and neither in half.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from laps_analytics.errors import LakeError
from laps_analytics.gold.dimensions import Dimensions
from laps_analytics.lake import Lake

__all__ = ["dimensions_for", "keep", "kept"]

_KEY = "dimensions"


def keep(lake: Lake, dimensions: Dimensions) -> None:
    """Let these be the dimensions of a lake; nothing is written if they are already."""
    text = json.dumps(dimensions.as_dict(), sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()
    before = lake.notes().get(_KEY)
    if before == {"sha256": digest} and (lake.root / _name(digest)).exists():
        return
    lake.put(_name(digest), text)
    lake.note(_KEY, {"sha256": digest})
    # The one that was replaced stays for who is about to read it.
    stay = {_name(digest), "" if before is None else _name(before["sha256"])}
    for path in lake.root.glob(_name("*")):
        if path.name not in stay:
            path.unlink(missing_ok=True)


def kept(lake: Lake) -> Dimensions | None:
    """The dimensions of a lake; None if it was never given any."""
    noted = lake.notes().get(_KEY)
    if noted is None:
        return None
    path = lake.root / _name(str(noted["sha256"]))
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise _lost(path, str(error)) from None
    if hashlib.sha256(text.encode()).hexdigest() != noted["sha256"]:
        raise _lost(path, "it is not what was written")
    return Dimensions.from_dict(json.loads(text))


def dimensions_for(lake: Lake, file: Path | None) -> Dimensions | None:
    """Those of a file that was named, or else those of the lake."""
    return kept(lake) if file is None else Dimensions.read(file)


def _name(digest: str) -> str:
    return f"dimensions-{digest[:16]}.json"


def _lost(path: Path, why: str) -> LakeError:
    return LakeError(
        f"the dimensions of the lake, {path}, cannot be used: {why};"
        " give them to `laps-analytics build --dimensions` again"
    )
