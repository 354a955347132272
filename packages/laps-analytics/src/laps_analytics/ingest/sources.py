"""Find files that relays wrote.

::

    telemetry-<relay>-<boot>-000007.jsonl        finished
    telemetry-<relay>-<boot>-000007.jsonl.gz     finished and compressed
    .telemetry-<relay>-<boot>-<pid>-8.part       being written; its complete lines count
    <boot>-<session>_server.qlog, .mlog, .sqlog  traces
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from laps_analytics.errors import InputError

__all__ = ["Kind", "Source", "find_sources", "require_sources"]

Kind = Literal["events", "open", "trace"]

_PACKED: Final = (".gz", ".zst", ".bz2")
_TRACES: Final = (".qlog", ".mlog", ".sqlog")


@dataclass(frozen=True, slots=True)
class Source:
    """A file and its kind."""

    path: Path
    kind: Kind


def find_sources(places: Iterable[Path], *, without: Path | None = None) -> list[Source]:
    """Return the files in some folders, and the files named directly, ordered by path.

    Folders are searched recursively, without the folder ``without`` (the lake). A file that is
    named directly may have any name. Raises :class:`InputError` if a place does not exist.
    """
    found: dict[Path, Source] = {}
    for place in places:
        if place.is_dir():
            for path in sorted(place.rglob("*")):
                kind = _kind(path)
                if kind is None or not path.is_file():
                    continue
                if without is not None and path.resolve().is_relative_to(without.resolve()):
                    continue
                found[path.resolve()] = Source(path, kind)
        elif place.is_file():
            found[place.resolve()] = Source(place, _kind(place) or "events")
        else:
            raise InputError(
                f"{place} does not exist: name telemetry files, or a folder that contains them"
            )
    return [found[path] for path in sorted(found)]


def require_sources(places: Iterable[Path], *, without: Path | None = None) -> list[Source]:
    """Return the same, and raise :class:`InputError` if there is no file."""
    named = list(places)
    found = find_sources(named, without=without)
    if not found:
        raise InputError(
            f"no telemetry in {', '.join(map(str, named))}: name files or folders with *.jsonl"
            " (.gz,"
            " .zst, .bz2), .telemetry-*.part, *.qlog or *.mlog"
        )
    return found


def _kind(path: Path) -> Kind | None:
    name = path.name
    for packed in _PACKED:
        name = name.removesuffix(packed)
    if name.startswith("."):
        return "open" if name.startswith(".telemetry-") and name.endswith(".part") else None
    if name.endswith(".jsonl"):
        return "events"
    return "trace" if name.endswith(_TRACES) else None
