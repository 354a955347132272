"""Telemetry files: records as JSON Lines, closed by size or age, written by a thread.

::

    loop --put, never waits--> queue (bounded) --thread--> .open.jsonl --rename--> relay-...-7.jsonl

A file gets its name when it is complete, so readers see complete files only. Records that do not
fit into the queue, or that the disk refuses, are counted as lost. An open file is locked: a relay
that starts in the same directory completes only the files of dead relays.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from laps_wire.errors import LapsError
from laps_wire.telemetry import Body, Event, dump_line

__all__ = ["TelemetryCounters", "TelemetrySettings", "TelemetryWriter"]

_POLL: Final = 1.0
"""Seconds between two checks of the file's age while no record comes."""
_BLOCK: Final = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetrySettings:
    """Where files are written, and when they are closed."""

    directory: Path
    relay: str
    """Node id of the relay."""
    boot: int
    region: str = ""
    file_bytes: int = 64 * 1024 * 1024
    file_age: float = 300.0
    queue: int = 10_000


class TelemetryCounters(NamedTuple):
    """Records and files of a writer."""

    written: int
    lost: int
    """Records that did not fit into the queue."""
    failed: int
    """Records that the disk refused."""
    files: int
    """Files that are complete."""
    last_error: str


class TelemetryWriter:
    """Writes records to files in a thread. ``start``, then ``stop``, which flushes."""

    def __init__(
        self,
        settings: TelemetrySettings,
        *,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings
        self._wall = wall
        self._monotonic = monotonic
        self._queue: queue.Queue[Event | None] = queue.Queue(settings.queue)
        self._thread: threading.Thread | None = None
        self._seq = 0
        self._lost = 0
        self._written = self._failed = self._files = 0
        self._error = ""
        self._file: IO[str] | None = None
        self._size = 0
        self._since = 0.0
        self._pending = 0
        self._safe = (0, 0)
        """Records and bytes of the file that the disk has taken."""
        self._opened = 0

    @property
    def counters(self) -> TelemetryCounters:
        """The counters of this moment."""
        return TelemetryCounters(self._written, self._lost, self._failed, self._files, self._error)

    @property
    def crowded(self) -> bool:
        """Whether the queue is half full: callers that can wait should."""
        return 2 * self._queue.qsize() > self.settings.queue

    def start(self) -> None:
        """Open a file and start the thread. Raises ``OSError`` if the directory is not usable."""
        directory = self.settings.directory
        directory.mkdir(parents=True, exist_ok=True)
        self._recover()
        self._open()
        self._thread = threading.Thread(target=self._run, name="laps-telemetry", daemon=True)
        self._thread.start()

    def put(self, body: Body, *, tenant: str | None = None, ago: float = 0.0) -> None:
        """Queue a record of something that happened ``ago`` seconds ago; never waits."""
        self._seq += 1
        event = Event.of(
            body,
            relay=self.settings.relay,
            boot=self.settings.boot,
            seq=self._seq,
            ts_us=int((self._wall() - ago) * 1e6),
            tenant=tenant,
            region=self.settings.region or None,
        )
        try:
            self._queue.put_nowait(event)
        except queue.Full:
            self._lost += 1

    def stop(self) -> None:
        """Write what is queued, complete the file, end the thread."""
        if self._thread is None:
            return
        while self._thread.is_alive():
            with contextlib.suppress(queue.Full):
                self._queue.put(None, timeout=_POLL)
                break
        self._thread.join()
        self._thread = None

    # The thread

    def _run(self) -> None:
        while True:
            try:
                event = self._queue.get(timeout=_POLL)
            except queue.Empty:
                self._rotate_if_due()
                continue
            if event is None:
                self._finish()
                return
            try:
                line = dump_line(event)
            except LapsError as error:
                self._failed += 1
                self._error = str(error)
            else:
                self._write(line)
            self._rotate_if_due()

    def _write(self, line: str) -> None:
        try:
            if self._file is None:
                self._open()
            if self._file is not None:
                self._pending += 1
                self._file.write(line + "\n")
                self._size += len(line.encode()) + 1
                if self._queue.empty():
                    self._flush(self._file)
        except OSError as error:
            self._give_up(error)

    def _flush(self, file: IO[str]) -> None:
        file.flush()
        self._written += self._pending - self._safe[0]
        self._safe = (self._pending, self._size)

    def _rotate_if_due(self) -> None:
        age = self._monotonic() - self._since
        if self._pending and (
            self._size >= self.settings.file_bytes or age >= self.settings.file_age
        ):
            self._finish()

    def _finish(self) -> None:
        """Close the file and give it its final name; remove it if it is empty."""
        file = self._file
        if file is None:
            return
        try:
            self._flush(file)
            self._name(Path(file.name))
            file.close()
        except OSError as error:
            self._give_up(error)
        self._forget()

    def _name(self, path: Path) -> None:
        """Give a file its final name while it is locked, so that no other relay completes it."""
        if self._pending:
            path.rename(self._final_name())
            self._files += 1
        else:
            path.unlink()

    def _give_up(self, error: OSError) -> None:
        """Keep what the disk has accepted; the next record opens a new file."""
        self._error = f"{self.settings.directory}: {error.strerror or error}"
        records, size = self._safe
        self._failed += max(1, self._pending - records)
        file = self._file
        if file is not None:
            path = Path(file.name)
            with contextlib.suppress(OSError):
                # Closing writes what was buffered, which is what failed already.
                file.close()
            self._pending = records
            try:
                os.truncate(path, size)
                self._name(path)
            except OSError:
                self._written -= records
                self._failed += records - (1 if records else 0)
        self._forget()

    def _forget(self) -> None:
        self._file = None
        self._pending = 0
        self._safe = (0, 0)

    def _open(self) -> None:
        self._file = None
        while self._file is None:
            self._opened += 1
            self._file = _locked(self._open_path())
        self._size = 0
        self._since = self._monotonic()

    def _open_path(self) -> Path:
        return self.settings.directory / f".{self._stem()}-{os.getpid()}-{self._opened}.part"

    def _final_name(self) -> Path:
        """Return a free name, also if the relay starts twice in a second."""
        number = self._files
        while (path := self.settings.directory / f"{self._stem()}-{number:06d}.jsonl").exists():
            number += 1
        return path

    def _stem(self) -> str:
        relay = self.settings.relay.replace(":", "_")
        return f"telemetry-{relay}-{self.settings.boot}"

    def _recover(self) -> None:
        """Complete the files of relays that died."""
        for left in self.settings.directory.glob(".telemetry-*.part"):
            # Another relay that starts now may have finished it first.
            with contextlib.suppress(FileNotFoundError), left.open("r+b") as file:
                if not _lock(file, left):
                    continue  # its relay lives
                size = _whole_lines(file)
                if size:
                    file.truncate(size)
                    left.rename(left.with_name(f"{left.name[1:].removesuffix('.part')}-left.jsonl"))
                else:
                    left.unlink()


def _locked(path: Path) -> IO[str] | None:
    """Return a new, locked file; None if another relay took it for one of a dead relay."""
    file = path.open("w", encoding="utf-8")
    if _lock(file, path):
        return file
    file.close()
    return None


def _lock(file: IO[Any], path: Path) -> bool:
    """Lock a file; return False if another process has it, or its name is another file's."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except (BlockingIOError, FileNotFoundError):
        return False


def _whole_lines(file: IO[bytes]) -> int:
    """Return the size up to the last end of a line: a relay may die within one."""
    end = file.seek(0, os.SEEK_END)
    while end:
        start = max(0, end - _BLOCK)
        file.seek(start)
        found = file.read(end - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0
