"""A process that ingests and is killed by itself at a step: ``python -m testkit.ingest_once``.

Arguments: folder of telemetry, lake, time in microseconds, and the step, such as ``bronze``, after
which SIGKILL ends it without a word to anybody. ``staging`` is within a job of Spark: as soon as
there is a file that is not committed. With ``follow`` as the last argument it is a stream.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from laps_analytics.ingest.compaction import UpkeepLimits
from laps_analytics.ingest.run import ingest
from laps_analytics.ingest.stream import follow
from laps_analytics.lake import Lake
from laps_analytics.spark.session import SessionSettings, spark_session

__all__ = ["EAGER", "main"]

EAGER = UpkeepLimits(open_files=1, closed_files=1, look_every=1, readers_s=0.0, renew_every=2)
"""Merges and removes after each batch, so that these steps are in the way, too."""


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _killer(step: str) -> Callable[[str], None]:
    return lambda done: _kill() if done == step else None


def _watch(stage: Path) -> None:
    # A file is written for longer than a millisecond; to look without a pause took a core from the
    # JVM that it waits for.
    while not any(path.suffix == ".parquet" for path in stage.rglob("*")):
        time.sleep(0.001)
    _kill()


def main(place: str, lake: str, now_us: str, step: str, how: str = "once") -> None:
    """Ingest until the step, with the session that users have, but for how Java compiles.

    It will not live long enough to gain from what a better compiler costs.
    """
    settings = SessionSettings(
        master="local[2]",
        driver_memory="1g",
        java_options="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    )
    found = Lake.open(Path(lake), create=True)
    if step == "staging":
        stage = found.root / "_ingest" / "stage"
        threading.Thread(target=_watch, args=(stage,), daemon=True).start()
    if how == "follow":
        follow(
            spark_session(settings),
            found,
            [Path(place)],
            trigger=0.1,
            now_us=lambda: int(now_us),
            progress=_killer(step),
            upkeep=EAGER,
        )
    else:
        ingest(
            lambda: spark_session(settings),
            found,
            [Path(place)],
            now_us=int(now_us),
            progress=_killer(step),
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
