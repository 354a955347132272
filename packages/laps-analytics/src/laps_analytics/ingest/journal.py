"""The journal of a lake: the state of ingest.

::

    lake/_ingest/
      _log/00000000000000000001.json    files taken, batches begun, batches done (a log)
      lock                              held by the process that ingests
      spool/                            being copied; not in the journal yet
      inbox/                            complete lines that are not in a table yet
      stage/<batch>-<random>/           Parquet files of the batch in progress

The state is the last value of each key, as with the metadata of any table.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from laps_analytics.errors import ConflictError
from laps_analytics.lake import Lake, Snapshot, Table
from laps_analytics.lake.table import writing

__all__ = ["Journal"]


class Journal:
    """State of ingest. Read and write it only under its lock."""

    def __init__(self, lake: Lake) -> None:
        self.home: Path = lake.root / "_ingest"
        self.spool = self.home / "spool"
        self.inbox = self.home / "inbox"
        self.stage = self.home / "stage"
        self._table = Table(self.home, "_ingest")
        self._seen: Snapshot | None = None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of ingest; it is released when the process dies.

        Raises :class:`ConflictError` if another process holds it.
        """
        with writing(self.home):
            for folder in (self.spool, self.inbox, self.stage):
                folder.mkdir(parents=True, exist_ok=True)
            file = (self.home / "lock").open("w")
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ConflictError(
                    f"another ingest holds the lock of {self.home.parent}: wait for it, or stop it"
                ) from None
            self._seen = None
            yield

    @property
    def state(self) -> Mapping[str, Any]:
        """Last value of each key."""
        return self._snapshot().meta

    def note(self, **meta: Any) -> None:
        """Set keys in one commit."""
        self.note_all(meta)

    def note_all(self, meta: Mapping[str, Any]) -> None:
        """Set keys in one commit; keys may be any text."""
        base = self._snapshot()
        self._table.commit(None, base=base, meta=meta)
        # What is null is not kept: files come and go as long as a stream lives.
        merged = {key: value for key, value in {**base.meta, **meta}.items() if value is not None}
        self._seen = Snapshot(base.version + 1, base.files, base.batches, merged)

    def sweep(self, *, older_than: float) -> None:
        """Delete old log entries that two checkpoints cover."""
        self._table.sweep(older_than=older_than)

    def _snapshot(self) -> Snapshot:
        if self._seen is None:
            self._seen = self._table.snapshot()
        return self._seen
