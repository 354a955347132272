"""Find files of relays, and copy their complete lines into the inbox, each line once.

::

    source --read--> spool/N-0-name.lines --journal: intake N, offset of each file--> inbox/

    telemetry-<relay>-<boot>-000007.jsonl        finished
    telemetry-<relay>-<boot>-000007.jsonl.gz     finished and compressed
    .telemetry-<relay>-<boot>-<pid>-8.part       being written; its complete lines count
    <boot>-<session>_server.qlog, .mlog, .sqlog  traces

A file is identified by its first line, which has a unique event id, and by a digest of the bytes
taken so far. So it may grow, be renamed or be compressed: bytes that were taken are not taken
again. If the process is killed before the journal entry, the spool is discarded and read again. If
it is killed after the entry, the spool is moved to the inbox.

The last line of a finished file may lack its newline. A complete event is taken. Anything else goes
to quarantine, and is read again if the file grows.

:class:`Decoded` reads files block by block: plain or compressed, complete or not. A truncated or
damaged file yields everything before the fault, and then a reason. Spark would fail the whole job,
so files are decoded before Spark reads them.
"""

from __future__ import annotations

import bz2
import json
import os
import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any, Final, Literal

import zstandard

from laps_analytics.errors import InputError
from laps_analytics.ingest.journal import Journal
from laps_analytics.lake.table import writing
from laps_wire.telemetry import TelemetryError, load_line

__all__ = [
    "FAULTS_SUFFIX",
    "SUFFIX",
    "TRACE_SUFFIX",
    "Decoded",
    "Fault",
    "Kind",
    "Source",
    "Taken",
    "find_sources",
    "recover",
    "require_sources",
    "take",
]

# Files of relays

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


# Blocks of a file

_BLOCK: Final = 1 << 20

_MAGIC: Final[dict[bytes, tuple[str, Callable[[], Any]]]] = {
    # 31: with the header and the checksum of gzip.
    b"\x1f\x8b": ("gzip", lambda: zlib.decompressobj(31)),
    b"BZh": ("bzip2", bz2.BZ2Decompressor),
    b"\x28\xb5\x2f\xfd": ("zstd", lambda: zstandard.ZstdDecompressor().decompressobj()),
}
"""First bytes of a file to its compression. File names are less reliable."""


def _codec(head: bytes) -> tuple[str, Callable[[], Any]] | None:
    return next((codec for magic, codec in _MAGIC.items() if head.startswith(magic)), None)


def _is_plain(path: Path) -> bool:
    """Return whether a file is not compressed."""
    with _opened(path) as file:
        return _codec(file.read(4)) is None


class Decoded:
    """The bytes of a file as blocks.

    After the last one ``fault`` has the reason of an early end.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fault: str | None = None

    def __iter__(self) -> Iterator[bytes]:
        with _opened(self.path) as file:
            codec = _codec(file.read(4))
            file.seek(0)
            if codec is None:
                while block := file.read(_BLOCK):
                    yield block
            else:
                yield from self._unpacked(file, *codec)

    def _unpacked(self, file: IO[bytes], name: str, new: Callable[[], Any]) -> Iterator[bytes]:
        unpacker, begun = new(), False
        while block := file.read(_BLOCK):
            while block:
                try:
                    plain = unpacker.decompress(block)
                except (zlib.error, OSError, EOFError, zstandard.ZstdError) as error:
                    self.fault = f"damaged {name}: {str(error).strip()}"
                    return
                begun = True
                if plain:
                    yield plain
                if not unpacker.eof:
                    break
                # Files that were joined, as log rotation does, go on with another header.
                block, unpacker, begun = unpacker.unused_data, new(), False
        if begun:
            self.fault = f"the {name} file is cut off"


def _opened(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None


# Lines into the inbox

_PREFIX: Final = "file:"
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")
SUFFIX: Final = ".lines"
TRACE_SUFFIX: Final = ".trace"
FAULTS_SUFFIX: Final = ".faults"


@dataclass(frozen=True, slots=True)
class Fault:
    """A part of a file that is not a line, and the reason."""

    source: str
    line: str
    reason: str


@dataclass(slots=True)
class Taken:
    """Result of an intake."""

    files: int = 0
    """Number of files with new bytes."""
    unchanged: int = 0
    bytes: int = 0
    faults: list[Fault] = field(default_factory=list)


@dataclass(slots=True)
class _Read:
    """Result of reading a file once."""

    first: str
    begin: int = 0
    """Offset of the first new byte, after decompression."""
    end: int = 0
    """Offset of the end of the last complete line."""
    digest: str = ""
    tail: bytes = b""
    fault: str | None = None


def _source_name(path: Path) -> str:
    """Return the file name of a source without characters that are unsafe in a path."""
    return _UNSAFE.sub("_", path.name)[-150:]


def recover(journal: Journal) -> None:
    """Complete the intake of a killed process if the journal has it; discard it otherwise."""
    last: Mapping[str, Any] = journal.state.get("taken") or {}
    for name in last.get("names", ()):
        if (journal.spool / name).exists():
            (journal.spool / name).rename(journal.inbox / name)
    for left in journal.spool.iterdir():
        left.unlink()
    for name in journal.state.get("done", ()):
        (journal.inbox / name).unlink(missing_ok=True)


def take(
    journal: Journal, sources: Iterable[Source], *, progress: Callable[[str], None] = lambda _: None
) -> Taken:
    """Copy the new lines of some files into the inbox."""
    number = int((journal.state.get("taken") or {}).get("number", 0)) + 1
    known = _Known(journal.state)
    notes: dict[str, Any] = {}
    names: list[str] = []
    taken = Taken()
    for source in sources:
        key = _PREFIX + str(source.path.resolve())
        try:
            stat = source.path.stat()
        except FileNotFoundError:
            # Renamed since it was found: the next run sees it under its new name.
            continue
        mark = [stat.st_ino, stat.st_size, stat.st_mtime_ns]
        before = known.states.get(key)
        if before is not None and before["stat"] == mark:
            taken.unchanged += 1
            continue
        read = _read(source, known)
        name = f"{number:08d}-{len(names):05d}-{_source_name(source.path)}"
        name += TRACE_SUFFIX if source.kind == "trace" else SUFFIX
        tail = _tail(source, read)
        whole = tail is None and bool(read.tail) and source.kind != "open"
        end = read.end + (len(read.tail) if whole else 0)
        if end > read.begin:
            with writing(journal.spool):
                _spool(source, journal.spool / name, read.begin, end, add_end=whole)
            names.append(name)
            taken.files += 1
            taken.bytes += end - read.begin
        tail_mark = blake2b(read.tail, digest_size=8).hexdigest() if tail is not None else None
        if tail is not None and (before is None or before.get("tail") != tail_mark):
            taken.faults.append(tail)
        state = {"first": read.first, "stat": mark, "offset": end, "tail": tail_mark}
        state["digest"] = _digest(source, end) if whole else read.digest
        notes[key] = state
        known.add(key, state)
    for key, state in known.states.items():
        if key not in notes and state is not None and not Path(key[len(_PREFIX) :]).exists():
            notes[key] = None
    if taken.faults:
        names.append(f"{number:08d}-{len(names):05d}-faults{FAULTS_SUFFIX}")
        with writing(journal.spool):
            text = json.dumps([asdict(fault) for fault in taken.faults])
            (journal.spool / names[-1]).write_text(text)
    if notes:
        notes["taken"] = {"number": number, "names": names}
        progress("spooled")
        journal.note_all(notes)
        progress("taken")
    for name in names:
        (journal.spool / name).rename(journal.inbox / name)
    return taken


class _Known:
    """State of each file that was taken, by path and by first line."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        self.states: dict[str, Any] = {}
        self._by_first: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
        for key, value in state.items():
            if key.startswith(_PREFIX) and value is not None:
                self.add(key, value)

    def add(self, key: str, state: Mapping[str, Any]) -> None:
        self.states[key] = state
        self._by_first[state["first"]].append(state)

    def prefixes(self, first: str) -> dict[int, set[str]]:
        """Return digests of the bytes taken of files with this first line, by length."""
        found: defaultdict[int, set[str]] = defaultdict(set)
        for state in self._by_first.get(first, ()):
            found[state["offset"]].add(state["digest"])
        return found


def _read(source: Source, known: _Known) -> _Read:
    """Read a file once, and find its new bytes and the end of its last complete line."""
    decoded = Decoded(source.path)
    hasher = blake2b(digest_size=16)
    result: _Read | None = None
    prefixes: dict[int, set[str]] = {}
    rest = b""
    end = 0
    for block in decoded:
        data = rest + block
        # A trace is taken as a whole: its lines are no records.
        cut = len(data) if source.kind == "trace" else data.rfind(b"\n") + 1
        data, rest = data[:cut], data[cut:]
        if not data:
            continue
        if result is None:
            result = _Read(blake2b(data[: data.find(b"\n") + 1], digest_size=16).hexdigest())
            prefixes = known.prefixes(result.first)
        start = end
        for offset in sorted(prefixes):
            if start < offset <= end + len(data):
                hasher.update(data[start - end : offset - end])
                start = offset
                if hasher.hexdigest() in prefixes[offset]:
                    result.begin = offset
        hasher.update(data[start - end :])
        end += len(data)
    result = result or _Read(blake2b(rest, digest_size=16).hexdigest())
    if source.kind == "trace" and result.begin != end:
        result.begin = 0
    result.end, result.digest = end, hasher.hexdigest()
    result.tail, result.fault = rest, decoded.fault
    return result


def _digest(source: Source, end: int) -> str:
    hasher, left = blake2b(digest_size=16), end
    for block in Decoded(source.path):
        hasher.update(block[:left])
        left -= min(left, len(block))
    return hasher.hexdigest()


def _tail(source: Source, read: _Read) -> Fault | None:
    """Return the fault at the end of a file; None if it ends well or is still being written."""
    if read.fault is None and (source.kind == "open" or not read.tail.strip()):
        return None
    why = read.fault
    if why is None:
        try:
            load_line(read.tail.strip())
        except TelemetryError as error:
            why = f"the file ends within a line: {error}"
        else:
            return None
    text = read.tail.decode(errors="backslashreplace")
    return Fault(_source_name(source.path), text, why)


def _spool(source: Source, to: Path, begin: int, end: int, *, add_end: bool) -> None:
    """Copy a part of a file into the spool; make a hard link if the whole file is taken."""
    if begin == 0 and not add_end and source.kind != "open" and _is_plain(source.path):
        try:
            if source.path.stat().st_size == end:
                to.hardlink_to(source.path)
                return
        except OSError:
            pass  # another file system, or one without links
    with to.open("wb") as out:
        at = 0
        for block in Decoded(source.path):
            low, high = max(begin - at, 0), min(end - at, len(block))
            if low < high:
                out.write(block[low:high])
            at += len(block)
            if at >= end:
                break
        if add_end:
            out.write(b"\n")
        out.flush()
        os.fsync(out.fileno())
