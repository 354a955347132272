"""A table: a folder of Parquet files, and a log of which files belong to it.

::

    lake/
      lake.json                              marks a lake, and has its format version
      silver/hop_stat/
        _log/00000000000000000001.json       commit 1: files added, files removed, metadata
        _log/00000000000000000064.sum        checkpoint: the state after all entries up to here
        _staging/<random>/                   written and not committed; no reader looks here
        dt=2026-11-17/hour=05/<random>.parquet

A writer stages its files, moves them beside the others, and then creates the next entry of the log.
Creating the entry is atomic, and only one writer can create number N. So a reader sees all of a
commit or nothing of it. Files of a killed writer are not in the log; :meth:`Table.vacuum` removes
them.

Files never change. A commit that replaces partitions names the files that it removes. They stay for
readers of older snapshots, and :meth:`Table.sweep` deletes them an hour later. It also deletes log
entries that two checkpoints cover. A reader starts from the newest checkpoint; the older one stays
for readers that have already opened it.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from laps_analytics.errors import ConflictError, LakeError, OutputError

__all__ = [
    "DataFile",
    "Horizon",
    "Lake",
    "Snapshot",
    "Table",
    "create_file",
    "horizon_of",
    "move_horizon",
    "writing",
]

_FORMAT: Final = 1
_MARK: Final = "lake.json"
_DIGITS: Final = 20
_SUM_EVERY: Final = 64
"""Commits between two checkpoints of the log."""
_BATCHES: Final = 1000
"""Number of batches that a snapshot remembers. Older batches are never retried."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of a table."""

    path: str
    """Path below the folder of the table."""
    partition: Mapping[str, str]
    """Partition column to value."""
    bytes: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """State of a table after a commit."""

    version: int
    """Number of the commit; 0 before the first one."""
    files: Mapping[str, DataFile] = field(default_factory=dict)
    batches: Mapping[str, int] = field(default_factory=dict)
    """Batch to the version that holds it. A batch is committed once, however often it is tried."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """Metadata of the writers: the last value of each key."""

    def partitions(self, *columns: str) -> set[tuple[str, ...]]:
        """Return the distinct values of some partition columns."""
        return {tuple(file.partition[column] for column in columns) for file in self.files.values()}


class Lake:
    """A folder with tables."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._tables: dict[str, Table] = {}

    @classmethod
    def open(cls, root: Path, *, create: bool = False) -> Lake:
        """Open the lake at ``root``; with ``create``, make one in a new or empty folder.

        Raises :class:`LakeError` or :class:`OutputError`.
        """
        mark = root / _MARK
        if root.is_file():
            raise LakeError(f"{root} is a file, and a lake is a folder: name another path")
        if not _exists(mark):
            if not create:
                raise LakeError(
                    f"{root} is not a lake, because it has no {mark.name}:"
                    " run `laps-analytics ingest` to create one"
                )
            if root.exists() and any(root.iterdir()):
                raise OutputError(f"{root} is neither empty nor a lake: name a new or empty folder")
            with writing(root):
                root.mkdir(parents=True, exist_ok=True)
                create_file(mark, json.dumps({"laps_lake": _FORMAT}), again=True)
        try:
            found = json.loads(mark.read_text())
        except (OSError, ValueError) as error:
            raise LakeError(f"{mark} cannot be read: {error}") from None
        if not isinstance(found, dict) or found.get("laps_lake") != _FORMAT:
            raise LakeError(f"{mark} has another format than {_FORMAT}: upgrade laps-analytics")
        return cls(root)

    def notes(self) -> Mapping[str, Any]:
        """Return the metadata of the lake, from ``lake.json``."""
        path = self.root / _MARK
        try:
            found: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise LakeError(f"{path} cannot be read: {error}") from None
        return found

    def note(self, key: str, value: object) -> None:
        """Set a key of the metadata. Of two concurrent writers, one may overwrite the other."""
        self.put(_MARK, json.dumps({**self.notes(), key: value}))

    def put(self, name: str, text: str) -> None:
        """Write a small file beside the tables atomically, replacing an existing one."""
        with writing(self.root):
            create_file(self.root / name, text, again=True)

    def table(self, name: str) -> Table:
        """Return a table, such as ``silver/hop_stat``; it may have no commit yet."""
        # The same one each time: a table remembers what it read of its log.
        return self._tables.setdefault(name, Table(self.root / name, name))

    def tables(self) -> list[str]:
        """Return the names of the tables that have commits."""
        logs = self.root.glob("**/_log")
        return sorted(str(log.parent.relative_to(self.root)) for log in logs if any(log.iterdir()))


class Table:
    """A table: reads its log and commits to it."""

    def __init__(self, root: Path, name: str) -> None:
        self.root = root
        self.name = name
        self._log = root / "_log"
        self._seen: Snapshot | None = None

    def snapshot(self, version: int | None = None) -> Snapshot:
        """Return the state of the table: the newest, or that of an earlier version."""
        begin = self._known(version)
        entries = [
            (number, entry)
            for number, entry in self._entries(after=begin.version)
            if version is None or number <= version
        ]
        if entries:
            begin = _after(begin, entries)
        if version is None:
            self._seen = begin
        return begin

    def _known(self, version: int | None) -> Snapshot:
        """Return the last snapshot read if the log continues from it, else the checkpoint."""
        seen = self._seen
        if seen is None or (version is not None and seen.version > version):
            return self._sum(version)
        # Entries are removed from the oldest on: while this one is there, so are all after it.
        return seen if self._entry(seen.version).exists() else self._sum(version)

    def _entry(self, version: int) -> Path:
        return self._log / f"{version:0{_DIGITS}}.json"

    def _sum(self, version: int | None) -> Snapshot:
        """Return the newest checkpoint, so that reading starts there."""
        found = [
            path for path in self._log.glob("*.sum") if version is None or int(path.stem) <= version
        ]
        if not found:
            return Snapshot(0)
        path = max(found)
        try:
            plain = json.loads(path.read_text())
            listed = [DataFile(f["path"], f["partition"], f["bytes"]) for f in plain["files"]]
        except (ValueError, KeyError, TypeError) as error:
            raise LakeError(f"{path} is not a checkpoint of a log: {error}") from None
        files = {file.path: file for file in listed}
        return Snapshot(int(path.stem), files, plain["batches"], plain["meta"])

    def _write_sum(self, version: int) -> None:
        """Write a checkpoint of the log."""
        seen = self.snapshot(version)
        plain = {
            "files": [
                {"path": f.path, "partition": dict(f.partition), "bytes": f.bytes}
                for f in seen.files.values()
            ],
            "batches": dict(seen.batches),
            "meta": dict(seen.meta),
        }
        create_file(self._log / f"{version:0{_DIGITS}}.sum", json.dumps(plain), again=True)

    def history(self) -> list[dict[str, Any]]:
        """Return the entries left in the log, oldest first, each with its version and time."""
        return [{"version": number, **entry} for number, entry in self._entries(self._oldest() - 1)]

    def files_of(self, batch: str) -> list[DataFile]:
        """Return the files that a batch added; none if the table lacks the batch."""
        version = self.snapshot().batches.get(batch)
        if version is None:
            return []
        try:
            entry = json.loads(self._entry(version).read_text())
        except FileNotFoundError:
            raise LakeError(f"{self.name}: the log entry of {batch} was deleted") from None
        return [DataFile(f["path"], f["partition"], f["bytes"]) for f in entry["add"]]

    def staging(self) -> Path:
        """Return the path of a new staging folder; Spark creates it."""
        return self.root / "_staging" / uuid.uuid4().hex

    def commit(
        self,
        staged: Path | None,
        *,
        base: Snapshot,
        remove: Iterable[str] = (),
        batch: str | None = None,
        meta: Mapping[str, Any] | None = None,
        now: float | None = None,
    ) -> int:
        """Add the staged files to the table atomically, and return the new version.

        ``base`` is the snapshot that the writer read. Raises :class:`ConflictError` and changes
        nothing if there is a later commit. A batch that the table already holds is skipped, and its
        version returned.
        """
        if batch is not None and batch in base.batches:
            return base.batches[batch]
        with writing(self.root):
            added = self._move_staged(staged) if staged is not None else []
            entry = {
                "ts": time.time() if now is None else now,
                "batch": batch,
                "add": [
                    {"path": f.path, "partition": dict(f.partition), "bytes": f.bytes}
                    for f in added
                ],
                "remove": sorted(remove),
                "meta": dict(meta or {}),
            }
            version = base.version + 1
            self._log.mkdir(parents=True, exist_ok=True)
            try:
                create_file(self._log / f"{version:0{_DIGITS}}.json", json.dumps(entry))
            except FileExistsError:
                for file in added:
                    (self.root / file.path).unlink(missing_ok=True)
                raise ConflictError(
                    f"{self.name}: another process committed version {version} first: run again"
                ) from None
            if version % _SUM_EVERY == 0:
                self._write_sum(version)
        return version

    def vacuum(self, *, older_than: float = 3600.0, now: float | None = None) -> list[str]:
        """Delete files of killed writers: not in the log, and older than ``older_than`` seconds.

        The method lists all files of the table, so it is meant for occasional use.
        """
        moment = time.time() if now is None else now
        for path in (self.root / "_staging").glob("*"):
            if moment - path.stat().st_mtime >= older_than:
                shutil.rmtree(path, ignore_errors=True)
        keep = self.snapshot().files
        gone: list[str] = []
        for path in sorted(self.root.rglob("*.parquet")):
            name = str(path.relative_to(self.root))
            if name not in keep and moment - path.stat().st_mtime >= older_than:
                path.unlink()
                gone.append(name)
        return gone

    def sweep(self, *, older_than: float = 3600.0, now: float | None = None) -> list[str]:
        """Delete files removed at least ``older_than`` seconds ago, and return their names.

        Log entries of that age are deleted as well if two checkpoints cover them. The method reads
        only the remaining log, so it is cheap enough for each run.
        """
        moment = time.time() if now is None else now
        sums = sorted(int(path.stem) for path in self._log.glob("*.sum"))
        held = sums[-2] if len(sums) > 1 else 0
        gone: list[str] = []
        for number, entry in self._entries(self._oldest() - 1):
            if moment - entry["ts"] < older_than:
                break
            for name in entry["remove"]:
                if (self.root / name).exists():
                    (self.root / name).unlink()
                    gone.append(name)
            if number <= held:
                self._entry(number).unlink()
        for number in sums[:-2]:
            (self._log / f"{number:0{_DIGITS}}.sum").unlink()
        return gone

    def purge(
        self,
        where: Callable[[str], bool],
        *,
        older_than: float = 3600.0,
        now: float | None = None,
    ) -> list[str]:
        """Delete removed files that ``where`` selects, ``older_than`` seconds after removal.

        ``where`` gets the path of a file below the table. Unlike :meth:`sweep`, other files and the
        log stay, so earlier versions of other partitions remain readable.
        """
        moment = time.time() if now is None else now
        keep = self.snapshot().files
        gone: list[str] = []
        for _, entry in self._entries(self._oldest() - 1):
            if moment - entry["ts"] < older_than:
                break
            for name in entry["remove"]:
                if name not in keep and where(name) and (self.root / name).exists():
                    (self.root / name).unlink()
                    gone.append(name)
        return gone

    def _oldest(self) -> int:
        """Return the version of the first entry left in the log; 1 if the log is empty."""
        return min((int(path.stem) for path in self._log.glob("*.json")), default=1)

    def _entries(self, after: int) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the entries after a version; raise :class:`LakeError` if one is missing."""
        if after > 0 and self._entry(after).exists() and not self._entry(after + 1).exists():
            return  # Nothing new, as nearly always: the folder need not be listed.
        expected = after + 1
        for path in sorted(self._log.glob("*.json")):
            try:
                if int(path.stem) <= after:
                    continue
                number, entry = int(path.stem), json.loads(path.read_text())
            except ValueError as error:
                raise LakeError(f"{path} is not a log entry: {error}") from None
            if number != expected:
                raise LakeError(f"{self._log}: version {expected} is missing")
            expected += 1
            yield number, entry

    def _move_staged(self, staged: Path) -> list[DataFile]:
        """Move staged files into the table under unique names."""
        added: list[DataFile] = []
        for path in sorted(staged.rglob("*.parquet")):
            folder = path.parent.relative_to(staged)
            target = self.root / folder / f"{uuid.uuid4().hex}.parquet"
            target.parent.mkdir(parents=True, exist_ok=True)
            size = path.stat().st_size
            path.rename(target)
            partition = dict(unquote(part).split("=", 1) for part in folder.parts)
            added.append(DataFile(str(target.relative_to(self.root)), partition, size))
        return added


def _after(begin: Snapshot, entries: Iterable[tuple[int, Mapping[str, Any]]]) -> Snapshot:
    """Apply log entries to a snapshot. A key whose value is null is removed."""
    files, batches, meta = dict(begin.files), dict(begin.batches), dict(begin.meta)
    last = begin.version
    for number, entry in entries:
        for path in entry["remove"]:
            files.pop(path, None)
        for item in entry["add"]:
            files[item["path"]] = DataFile(item["path"], item["partition"], item["bytes"])
        if entry["batch"] is not None:
            batches[entry["batch"]] = number
        meta |= entry["meta"]
        last = number
    newest = sorted(batches.items(), key=lambda item: item[1])[-_BATCHES:]
    kept = {key: value for key, value in meta.items() if value is not None}
    return Snapshot(last, files, dict(newest), kept)


@contextlib.contextmanager
def writing(root: Path) -> Iterator[None]:
    """Turn an ``OSError`` into an :class:`OutputError` with the path and the remedy."""
    try:
        yield
    except FileExistsError:
        raise
    except OSError as error:
        raise OutputError(
            f"{error.filename or root} cannot be written: {error.strerror or error}."
            f" {_advice(error)}; existing data did not change"
        ) from None


def _advice(error: OSError) -> str:
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return "Free space, or name another folder"
    if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
        return "Name a folder that you may write to"
    return "Name another folder"


def _exists(path: Path) -> bool:
    """Return whether a file exists; raise :class:`LakeError` if that cannot be checked."""
    try:
        return path.exists()
    except OSError as error:
        raise LakeError(f"{path} cannot be accessed: {error.strerror or error}") from None


def create_file(path: Path, text: str, *, again: bool = False) -> None:
    """Create a file atomically; raise ``FileExistsError`` if it exists and ``again`` is false."""
    aside = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with aside.open("x") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if again:
            aside.replace(path)
        else:
            # A link fails where a rename would silently take the place of another's entry.
            path.hardlink_to(aside)
    finally:
        aside.unlink(missing_ok=True)


_TABLE: Final = "_retention"
_APART: Final = timedelta(hours=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizon:
    """First day kept of each tier, yyyy-mm-dd; empty if nothing was removed yet.

    The table ``_retention`` holds it. Days before the horizon count as removed, whether or not
    their files are deleted yet: retention first moves the horizon in one commit, then removes
    files. A horizon never moves back.
    """

    bronze: str = ""
    silver: str = ""
    gold: str = ""
    bills: str = ""

    @property
    def accepted_from(self) -> tuple[str, str] | None:
        """First hour, as partitions name it, that still accepts events; None for any.

        An hour of silver needs all of its bronze rows, and those of the neighbouring hours if
        clocks were wrong. So the first two hours that are kept are not built again.
        """
        first = max(self.bronze, self.silver)
        if not first:
            return None
        at = datetime.fromisoformat(first) + _APART
        return f"{at:%Y-%m-%d}", f"{at:%H}"

    def moved(self, to: Horizon) -> Horizon:
        """Return the later day of both horizons for each tier."""
        ours, theirs = asdict(self), asdict(to)
        return Horizon(**{tier: max(day, theirs[tier]) for tier, day in ours.items()})


def horizon_of(lake: Lake) -> Horizon:
    """Return the horizon of a lake."""
    meta = lake.table(_TABLE).snapshot().meta
    return Horizon(**{tier: str(meta.get(tier, "")) for tier in asdict(Horizon())})


def move_horizon(lake: Lake, to: Horizon) -> None:
    """Commit a new horizon; do nothing if it is the same."""
    table = lake.table(_TABLE)
    if horizon_of(lake) != to:
        table.commit(None, base=table.snapshot(), meta=asdict(to))
