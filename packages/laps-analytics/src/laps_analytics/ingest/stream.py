r"""Continuous ingest with Structured Streaming, with the same steps as a batch.

::

    sources --take--> inbox/                  each trigger: complete lines, also of open files
                 \--> stream/N.json           list of these files of the inbox
                          |
             Spark's file source, checkpoint: which lists are in which micro-batch
                          |
                  foreachBatch(id) --journal: batch of ingest for this id, once--> bronze, silver

Spark streams the lists and not the lines. So a micro-batch is a batch of :mod:`.run`, and nothing
is written twice. Duplicates are found by event numbers (:mod:`.silver_hours`). An hour is rebuilt
when it is over.

The state does not grow. A list is deleted when the next batch begins, because Spark has then
committed it. Spark's file source remembers every file, so after some hundred batches the stream
starts a new checkpoint and a new folder of lists. :mod:`.compaction` limits files and logs of
tables.
"""

from __future__ import annotations

import json
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from laps_analytics.ingest.compaction import UpkeepLimits, remove_unused
from laps_analytics.ingest.hours import hour_at
from laps_analytics.ingest.intake import find_sources, recover, take
from laps_analytics.ingest.journal import Journal
from laps_analytics.ingest.run import Progress, Summary, begin_batch, finish, inbox_files
from laps_analytics.ingest.silver_hours import is_over
from laps_analytics.lake import Lake, spark_path

__all__ = ["follow"]

_MAX_AGE: Final = "100000d"
"""Age limit of lists: none. Spark would skip lists much older than the newest."""
_OFTEN_MS: Final = 50
"""Least time between two searches of Spark for lists."""
_RETAINED: Final = "10"
"""Batches that Spark's checkpoint keeps; it needs the last two."""


def follow(
    spark: SparkSession,
    lake: Lake,
    places: Iterable[Path],
    *,
    trigger: float = 10.0,
    rounds: int | None = None,
    stop: threading.Event | None = None,
    now_us: Callable[[], int] = lambda: time.time_ns() // 1000,
    progress: Progress = lambda _: None,
    report: Callable[[Summary], None] = lambda _: None,
    upkeep: UpkeepLimits | None = None,
    each_day: Callable[[Journal], None] = lambda _: None,
) -> None:
    """Ingest continuously until ``stop`` is set or ``rounds`` are over, then rebuild open hours.

    With ``rounds`` each round processes all available data (``availableNow``). ``each_day`` is
    called after the first batch of each day, between batches.
    """
    places = list(places)
    ended = stop or threading.Event()
    limits = upkeep or UpkeepLimits()
    journal = Journal(lake)
    with journal.locked():
        recover(journal)
        finish(lambda: spark, lake, journal, Summary(), progress, limits)
        remove_unused(lake, journal, limits, deep=True)
        stream = _Stream(spark, lake, journal, now_us, progress, report, limits, each_day)
        stream.list_left()
        if rounds is None:
            stream.run(places, trigger, ended)
        else:
            for _ in range(rounds):
                stream.take(places)
                stream.start(None).awaitTermination()
                if stream.is_old:
                    stream.renew()
        stream.settle()


class _Stream:
    """A running stream."""

    def __init__(
        self,
        spark: SparkSession,
        lake: Lake,
        journal: Journal,
        now_us: Callable[[], int],
        progress: Progress,
        report: Callable[[Summary], None],
        limits: UpkeepLimits,
        each_day: Callable[[Journal], None],
    ) -> None:
        self._each_day = each_day
        self._day = ""
        self._spark = spark
        self._lake = lake
        self._journal = journal
        self._now_us = now_us
        self._progress = progress
        self._report = report
        self._limits = limits
        spark.conf.set("spark.sql.streaming.minBatchesToRetain", _RETAINED)
        # Spark calls handle() in a thread of its own.
        self._lock = threading.Lock()
        name = journal.state.get("stream_id")
        if name is None or not (journal.home / f"checkpoint-{name}").exists():
            name = uuid.uuid4().hex
        self._open(str(name))

    def _open(self, name: str) -> None:
        """Use the lists and the checkpoint of this name, and delete others."""
        if self._journal.state.get("stream_id") != name:
            self._journal.note(stream_id=name)
        home = self._journal.home
        self._name = name
        self._checkpoint = home / f"checkpoint-{name}"
        self._lists = home / f"stream-{name}"
        self._handled = 0
        self._read: set[str] = set()
        """Lists of the last batch."""
        for folder in (self._checkpoint, self._lists):
            folder.mkdir(parents=True, exist_ok=True)
        for folder in (*home.glob("checkpoint-*"), *home.glob("stream-*")):
            if folder not in {self._checkpoint, self._lists}:
                shutil.rmtree(folder, ignore_errors=True)

    def run(self, places: list[Path], trigger: float, ended: threading.Event) -> None:
        """Process new data until ``ended`` is set."""
        query = self.start(trigger)
        # A look each ``trigger`` seconds, or as soon as the batch before is done.
        due = time.monotonic()
        try:
            while not ended.wait(max(0.0, due - time.monotonic())) and query.isActive:
                due = time.monotonic() + trigger
                self.take(places)
                if self.is_old:
                    self.drain(query)
                    self.renew()
                    query = self.start(trigger)
        finally:
            if query.isActive:
                self.drain(query)
        if (error := query.exception()) is not None:
            raise error

    @property
    def is_old(self) -> bool:
        """Whether Spark has seen so many lists that the stream needs a new checkpoint."""
        return self._handled >= self._limits.renew_every

    def renew(self) -> None:
        """Start a new checkpoint while no query runs, and list the remaining files again."""
        remove_unused(self._lake, self._journal, self._limits, deep=True)
        self._open(uuid.uuid4().hex)
        self.list_left()

    def take(self, places: list[Path]) -> None:
        """Take new lines and list them; also write a list if an hour has to be closed."""
        sources = find_sources(places, without=self._lake.root)
        with self._lock:
            before = set(inbox_files(self._journal))
            take(self._journal, sources, progress=self._progress)
            new = sorted(set(inbox_files(self._journal)) - before)
            dirty = self._journal.state.get("dirty") or []
            over = any(is_over((dt, hour), self._now_us()) for dt, hour in dirty)
            if new or over:
                self._list(new)

    def list_left(self) -> None:
        """List files that a killed process took and did not list."""
        listed = {
            name for path in self._lists.glob("*.json") for name in json.loads(path.read_text())
        }
        left = sorted(set(inbox_files(self._journal)) - listed)
        if left:
            self._list(left)

    def _list(self, names: list[str]) -> None:
        beside = self._lists / f".{uuid.uuid4().hex}"
        beside.write_text(json.dumps(names) + "\n")
        beside.rename(self._lists / f"{uuid.uuid4().hex}.json")

    def start(self, trigger: float | None) -> StreamingQuery:
        """Start the query: with a trigger, or once for all available lists."""
        writer = (
            self._spark.readStream.option("maxFileAge", _MAX_AGE)
            .text(spark_path(self._lists))
            .select("value", "_metadata.file_name")
            .writeStream.option("checkpointLocation", spark_path(self._checkpoint))
            .foreachBatch(self.handle)
        )
        if trigger is None:
            return writer.trigger(availableNow=True).start()
        # What is listed should not wait for a second clock; to look for lists costs little.
        often = max(_OFTEN_MS, int(trigger * 100))
        return writer.trigger(processingTime=f"{often} milliseconds").start()

    def handle(self, lists: DataFrame, batch_id: int) -> None:
        """Process a micro-batch as a batch of ingest. Repeating it does nothing."""
        rows = lists.collect()
        names = {name for row in rows for name in json.loads(row["value"])}
        with self._lock:
            # Spark has committed the batch before this one: nobody reads its lists again.
            for name in self._read:
                (self._lists / name).unlink(missing_ok=True)
            self._handle(names, batch_id)
            self._read = {row["file_name"] for row in rows}
            self._handled += 1

    def _handle(self, names: set[str], batch_id: int) -> None:
        journal = self._journal
        position = journal.state.get("position") or {"stream": self._name, "batch": -1}
        summary = Summary()
        if position["stream"] != self._name or batch_id > position["batch"]:
            begin_batch(
                journal,
                names & set(inbox_files(journal)),
                self._now_us(),
                append=True,
                position={"stream": self._name, "batch": batch_id},
            )
        finish(lambda: self._spark, self._lake, journal, summary, self._progress, self._limits)
        self._report(summary)
        if (today := hour_at(self._now_us())[0]) != self._day:
            self._day = today
            self._each_day(journal)

    def drain(self, query: StreamingQuery) -> None:
        """Process all lists and stop the query."""
        query.processAllAvailable()
        query.stop()

    def settle(self) -> None:
        """Rebuild the open hours, so that no row is provisional."""
        with self._lock:
            if self._journal.state.get("dirty"):
                begin_batch(self._journal, [], self._now_us())
                summary = Summary()
                finish(
                    lambda: self._spark,
                    self._lake,
                    self._journal,
                    summary,
                    self._progress,
                    self._limits,
                )
                self._report(summary)
            for path in self._lists.glob("*.json"):
                names = json.loads(path.read_text())
                if not any((self._journal.inbox / name).exists() for name in names):
                    path.unlink()
