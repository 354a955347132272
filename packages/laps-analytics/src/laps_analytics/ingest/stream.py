r"""Ingest that goes on: Structured Streaming over what is taken, with the same steps as a batch.

::

    sources --take--> inbox/                  each trigger: whole lines of files, open ones too
                 \--> stream/N.json           which files of the inbox these are
                          |
             Spark's file source, checkpoint: which N are in which micro-batch, also after a crash
                          |
                  foreachBatch(id) --journal: batch of ingest for this id, once--> bronze, silver

Spark streams the lists and not the lines, so a micro-batch is a batch of :mod:`.ingest.run` and
nothing is written twice. It keeps no events between batches: copies are found by the numbers that
relays give their events (:mod:`.ingest.append`), and an hour is made as a whole when it is over.

What is kept does not grow. A list is deleted when the batch after it begins, for then Spark has
committed it. Spark's file source never forgets a file that it has seen, in memory and in its
checkpoint; so after some hundred batches, when all that was listed is done, the stream goes on with
a new checkpoint and a new folder of lists. Files and logs of tables: :mod:`.ingest.upkeep`.
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
from laps_analytics.ingest.intake import recover, take
from laps_analytics.ingest.journal import Journal
from laps_analytics.ingest.rebuild import is_over
from laps_analytics.ingest.run import Progress, Summary, begin_batch, finish, inbox_files
from laps_analytics.ingest.sources import find_sources
from laps_analytics.lake import Lake, spark_path

__all__ = ["follow"]

_MAX_AGE: Final = "100000d"
"""Lists are never too old: Spark would skip what is much older than the newest."""
_OFTEN_MS: Final = 50
"""How often Spark looks for lists at most."""
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
    """Ingest what comes, until ``stop`` is set or ``rounds`` are over; then make open hours whole.

    With ``rounds`` each round handles all that is there (``availableNow``) before the next begins.
    ``each_day`` is called after the first batch of each day, while no batch is under way.
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
    """The parts of a stream, and what they share."""

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
        """Go on with the lists and the checkpoint of this name, and forget others."""
        if self._journal.state.get("stream_id") != name:
            self._journal.note(stream_id=name)
        home = self._journal.home
        self._name = name
        self._checkpoint = home / f"checkpoint-{name}"
        self._lists = home / f"stream-{name}"
        self._handled = 0
        self._read: set[str] = set()
        """Lists of the batch that was handled last."""
        for folder in (self._checkpoint, self._lists):
            folder.mkdir(parents=True, exist_ok=True)
        for folder in (*home.glob("checkpoint-*"), *home.glob("stream-*")):
            if folder not in {self._checkpoint, self._lists}:
                shutil.rmtree(folder, ignore_errors=True)

    def run(self, places: list[Path], trigger: float, ended: threading.Event) -> None:
        """Take and handle what comes, until ``ended`` is set."""
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
        """Whether Spark has seen so many lists that it should forget them."""
        return self._handled >= self._limits.renew_every

    def renew(self) -> None:
        """Begin a new checkpoint, while no query runs; what is left is listed again."""
        remove_unused(self._lake, self._journal, self._limits, deep=True)
        self._open(uuid.uuid4().hex)
        self.list_left()

    def take(self, places: list[Path]) -> None:
        """Take what is new, and list it; also if only an hour has to be closed."""
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
        """List what a killed process took and did not list."""
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
        """Start the query: with a trigger, or once for all that is there."""
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
        """One micro-batch: a batch of ingest, once, however often Spark calls."""
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
        """Let the query handle what is listed, and end it."""
        query.processAllAvailable()
        query.stop()

    def settle(self) -> None:
        """Make the hours whole that are open, so that nothing is provisional any more."""
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
