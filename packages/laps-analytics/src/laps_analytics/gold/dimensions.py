"""Dimensions: tenants, classes and capacities, which telemetry does not have.

A dimension file is TOML, and every part of it is optional:

::

    [class.gold]                    # limits of a class of service
    latency_ms = 320                # behind live
    stall_ratio = 0.005             # time stalled by time watched
    startup_ms = 1000
    allowed = 0.01                  # share of reports that may be over a limit

    [track.1f0e3dad99908345]        # hash of the full track name
    class = "gold"
    tenant = "acme"                 # for events without a tenant

    [relay."a:1"]
    capacity_bps = 1e10

    [link."a:1>b:2"]
    capacity_bps = 2e9

A CSV file for lists of other systems has the columns ``kind`` (track, relay or link), ``name``,
``class``, ``tenant`` and ``capacity_bps``.

``build --dimensions`` stores the dimensions in the lake, so that later commands use the same ones:

::

    lake/lake.json                          {"dimensions": {"sha256": "1f0e...", ...}}
    lake/dimensions-1f0e3dad99908345.json   the last dimensions

The file is written before its digest, so a reader finds either the old or the new dimensions.
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from laps_analytics.errors import InputError, LakeError
from laps_analytics.lake import Lake

__all__ = [
    "CLASSES",
    "ClassLimits",
    "Dimensions",
    "TrackFacts",
    "dimensions_for",
    "store_dimensions",
    "stored_dimensions",
]


_EMPTY_FILE: Final = "{where} has no class, track, relay or link: name another file"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassLimits:
    """Limits of a class of service."""

    latency_ms: int
    """Latency behind live."""
    stall_ratio: float
    """Time stalled by time watched."""
    startup_ms: int
    """Time from the subscribe to the first frame."""
    allowed: float
    """Share of reports that may be over a limit."""


CLASSES: Final[Mapping[str, ClassLimits]] = {
    # Conversation: VIA found calls poor above 320 ms; LiveNet starts 95 % of views within 1 s.
    "gold": ClassLimits(latency_ms=320, stall_ratio=0.005, startup_ms=1000, allowed=0.01),
    # Interaction with an audience.
    "silver": ClassLimits(latency_ms=1000, stall_ratio=0.01, startup_ms=2000, allowed=0.05),
    # Watching: a few seconds behind live are nobody's trouble.
    "bronze": ClassLimits(latency_ms=4000, stall_ratio=0.02, startup_ms=4000, allowed=0.10),
}
"""Default limits."""


@dataclass(frozen=True, slots=True)
class TrackFacts:
    """Dimensions of a track."""

    service: str = ""
    """Class of service; empty for none."""
    tenant: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimensions:
    """Dimensions of tracks, relays, links and classes."""

    tracks: Mapping[str, TrackFacts] = field(default_factory=dict)
    relays: Mapping[str, float] = field(default_factory=dict)
    """Relay to its capacity in bits a second."""
    links: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """Link to its capacity in bits a second."""
    classes: Mapping[str, ClassLimits] = field(default_factory=lambda: dict(CLASSES))

    @classmethod
    def read(cls, path: Path) -> Dimensions:
        """Read a TOML or CSV file; raise :class:`InputError` with the place of a fault."""
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"{path} cannot be read: {getattr(error, 'strerror', None) or error}; name"
                " another file"
            ) from None
        if path.suffix.lower() == ".csv":
            return _from_csv(text.splitlines(), str(path))
        try:
            plain = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"{path} is not TOML: {error}") from None
        if not plain:
            raise InputError(_EMPTY_FILE.format(where=path))
        return _from_plain(plain, str(path))

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-compatible data in a fixed order."""
        return {
            "tracks": {
                name: [facts.service, facts.tenant] for name, facts in sorted(self.tracks.items())
            },
            "relays": dict(sorted(self.relays.items())),
            "links": {">".join(link): bps for link, bps in sorted(self.links.items())},
            "classes": {name: asdict(limits) for name, limits in sorted(self.classes.items())},
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Dimensions:
        """Return the dimensions from the data of :meth:`as_dict`."""
        return cls(
            tracks={name: TrackFacts(*facts) for name, facts in plain["tracks"].items()},
            relays=dict(plain["relays"]),
            links={_link(name, "links"): bps for name, bps in plain["links"].items()},
            classes={name: ClassLimits(**limits) for name, limits in plain["classes"].items()},
        )


def _from_plain(plain: Mapping[str, Any], where: str) -> Dimensions:
    known = {"class", "track", "relay", "link"}
    if unknown := sorted(set(plain) - known):
        raise InputError(f"{where}: [{unknown[0]}] is unknown; known: {', '.join(sorted(known))}")
    classes = dict(CLASSES)
    for name, row in _tables(plain, "class", where):
        place = f"{where}: [class.{name}]"
        _only(row, {item.name for item in fields(ClassLimits)}, place)
        base = asdict(classes.get(name, CLASSES["bronze"]))
        numbers = {key: _number(value, f"{place} {key}") for key, value in row.items()}
        merged = base | numbers
        classes[name] = ClassLimits(
            latency_ms=int(merged["latency_ms"]),
            stall_ratio=merged["stall_ratio"],
            startup_ms=int(merged["startup_ms"]),
            allowed=merged["allowed"],
        )
    tracks = {}
    for name, row in _tables(plain, "track", where):
        _only(row, {"class", "tenant"}, f"{where}: [track.{name}]")
        tracks[name] = TrackFacts(str(row.get("class", "")), row.get("tenant"))
    relays, links = {}, {}
    for name, row in _tables(plain, "relay", where):
        relays[name] = _capacity(row, f"{where}: [relay.{name}]")
    for name, row in _tables(plain, "link", where):
        links[_link(name, where)] = _capacity(row, f"{where}: [link.{name}]")
    return _checked(Dimensions(tracks=tracks, relays=relays, links=links, classes=classes), where)


def _from_csv(lines: Iterable[str], where: str) -> Dimensions:
    tracks: dict[str, TrackFacts] = {}
    relays: dict[str, float] = {}
    links: dict[tuple[str, str], float] = {}
    reader = csv.DictReader(lines)
    if not {"kind", "name"} <= set(reader.fieldnames or ()):
        raise InputError(f"{where}: the first line must name the columns kind and name")
    for row in reader:
        place = f"{where}: line {reader.line_num}"
        kind, name = row["kind"], row["name"]
        if kind == "track":
            tracks[name] = TrackFacts(row.get("class") or "", row.get("tenant") or None)
        elif kind == "relay":
            relays[name] = _number(row.get("capacity_bps"), f"{place}: capacity_bps")
        elif kind == "link":
            links[_link(name, place)] = _number(row.get("capacity_bps"), f"{place}: capacity_bps")
        else:
            raise InputError(f"{place}: kind {kind!r} is not track, relay or link")
    if not (tracks or relays or links):
        raise InputError(_EMPTY_FILE.format(where=where))
    return _checked(Dimensions(tracks=tracks, relays=relays, links=links), where)


def _checked(given: Dimensions, where: str) -> Dimensions:
    for name, facts in given.tracks.items():
        if facts.service and facts.service not in given.classes:
            raise InputError(
                f"{where}: track {name} has the unknown class {facts.service!r}: use one of"
                f" {', '.join(sorted(given.classes))}, or define [class.{facts.service}]"
            )
    return given


def _tables(plain: Mapping[str, Any], kind: str, where: str) -> list[tuple[str, Mapping[str, Any]]]:
    rows = plain.get(kind, {})
    if not isinstance(rows, Mapping) or not all(isinstance(row, Mapping) for row in rows.values()):
        raise InputError(f"{where}: [{kind}.NAME] must be a table")
    return list(rows.items())


def _only(row: Mapping[str, Any], known: set[str], place: str) -> None:
    if unknown := sorted(set(row) - known):
        raise InputError(f"{place}: {unknown[0]} is unknown; known: {', '.join(sorted(known))}")


def _capacity(row: Mapping[str, Any], place: str) -> float:
    _only(row, {"capacity_bps"}, place)
    return _number(row.get("capacity_bps"), f"{place} capacity_bps")


def _link(name: str, where: str) -> tuple[str, str]:
    begin, mark, end = name.partition(">")
    if not (begin and mark and end):
        raise InputError(f"{where}: a link is written as `from>to`, not {name!r}")
    return begin, end


def _number(value: object, place: str) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise InputError(f"{place}: {value!r} is not a number") from None
    if not math.isfinite(number) or number < 0:
        raise InputError(f"{place}: {value!r} is not a number of at least 0")
    return number


_KEY = "dimensions"


def store_dimensions(lake: Lake, dimensions: Dimensions) -> None:
    """Store dimensions in a lake; write nothing if they did not change."""
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


def stored_dimensions(lake: Lake) -> Dimensions | None:
    """Return the dimensions of a lake; None if it has none."""
    noted = lake.notes().get(_KEY)
    if noted is None:
        return None
    path = lake.root / _name(str(noted["sha256"]))
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise _unusable(path, str(error)) from None
    if hashlib.sha256(text.encode()).hexdigest() != noted["sha256"]:
        raise _unusable(path, "it is not what was written")
    return Dimensions.from_dict(json.loads(text))


def dimensions_for(lake: Lake, file: Path | None) -> Dimensions | None:
    """Return the dimensions of a file, or those of the lake without one."""
    return stored_dimensions(lake) if file is None else Dimensions.read(file)


def _name(digest: str) -> str:
    return f"dimensions-{digest[:16]}.json"


def _unusable(path: Path, why: str) -> LakeError:
    return LakeError(
        f"the dimensions of the lake, {path}, cannot be used: {why};"
        " give them to `laps-analytics build --dimensions` again"
    )
