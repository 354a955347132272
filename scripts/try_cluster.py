"""Ingest on a cluster: a standalone Spark with two workers, spark-submit, and Spark Connect.

    python scripts/try_cluster.py            all of them
    python scripts/try_cluster.py connect    one of them: local, master, submit or connect

Everything runs on this machine, from the wheel of pyspark, in up to seven JVMs: about 6 GiB, and
two minutes of CPU for each way. Each way ingests the same files into a lake of its
own, and the rows must be the same. What does not end in time is ended, with the last lines of every
log.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from difflib import unified_diff
from itertools import islice
from pathlib import Path
from typing import Final

import pyspark

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from laps_analytics.java import find_java  # noqa: E402 - after the path of the tests
from laps_analytics.lake import Lake, read_rows  # noqa: E402
from testkit.telemetry_book import lines_of  # noqa: E402
from testkit.telemetry_lines import HOUR_US, network  # noqa: E402

SPARK: Final = Path(pyspark.__file__).parent
WAYS: Final = ("local", "master", "submit", "connect")
COMMAND: Final = "from laps_analytics.cli import main; main()"
DAY_US: Final = 24 * HOUR_US
PATIENCE: Final = 1200
"""Seconds for one way: a cluster that has no room for an application waits for ever."""


def environment() -> dict[str, str]:
    """What every process needs: Java, the same Python, and our packages on its path."""
    return {
        **os.environ,
        "JAVA_HOME": str(find_java()),
        "SPARK_HOME": str(SPARK),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
    }


def free_port() -> int:
    """A port that nobody has."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    """Until somebody listens."""
    for _ in range(600):
        if process.poll() is not None:
            raise SystemExit(f"{process.args!r} ended with {process.returncode}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.2)
    raise SystemExit(f"nobody listens on {port}")


@contextlib.contextmanager
def started(*words: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends with this block."""
    with log.open("wb") as out:
        process = subprocess.Popen(words, env=environment(), stdout=out, stderr=out)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(30)


@contextlib.contextmanager
def cluster(root: Path) -> Iterator[str]:
    """A master and two workers; the URL of the master."""
    port, page = free_port(), free_port()
    klass = str(SPARK / "bin" / "spark-class")
    deploy = "org.apache.spark.deploy"
    with contextlib.ExitStack() as stack:
        words = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page)]
        master = stack.enter_context(
            started(klass, f"{deploy}.master.Master", *words, log=root / "master.log")
        )
        wait_for(port, master)
        url = f"spark://127.0.0.1:{port}"
        for number in range(2):
            words = ["--cores", "1", "--memory", "1g", "--host", "127.0.0.1", "--webui-port", "0"]
            work = ("--work-dir", str(root / f"worker-{number}"), url)
            stack.enter_context(
                started(
                    klass,
                    f"{deploy}.worker.Worker",
                    *words,
                    *work,
                    log=root / f"worker-{number}.log",
                )
            )
        yield url


def ingest(way: str, root: Path, source: Path, master: str) -> list[str]:
    """Ingest one way; the rows of all tables, as text."""
    lake = root / way
    words = ["ingest", str(source), "--lake", str(lake), "--no-progress"]
    python = [sys.executable, "-c", COMMAND]
    if way == "local":
        run([*python, *words])
    elif way == "master":
        run([*python, *words, "--master", master])
    elif way == "submit":
        program = root / "ingest.py"
        program.write_text(COMMAND + "\n")
        submit = [str(SPARK / "bin" / "spark-submit"), "--master", master, str(program)]
        run([*submit, *words])
    else:
        port = free_port()
        serve = [str(SPARK / "bin" / "spark-submit"), "--master", master]
        serve += ["--conf", f"spark.connect.grpc.binding.port={port}"]
        serve += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
        with started(*serve, "spark-internal", log=root / "connect.log") as server:
            wait_for(port, server)
            run([*python, *words, "--remote", f"sc://127.0.0.1:{port}"])
    found = Lake.open(lake)
    return sorted(
        f"{name} {sorted((key, str(value)) for key, value in row.items() if key != 'seen_us')}"
        for name in found.tables()
        if not name.startswith("_")
        for row in read_rows(found.table(name))
    )


def run(words: list[str]) -> None:
    """A command that must succeed."""
    try:
        ended = subprocess.run(
            words,
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
    except subprocess.TimeoutExpired:
        raise SystemExit(f"{words} did not end in {PATIENCE} s") from None
    if ended.returncode:
        raise SystemExit(f"{words}:\n{ended.stderr[-3000:]}")


def show_logs(root: Path) -> None:
    """The end of what every process of the cluster wrote."""
    for log in sorted((*root.glob("*.log"), *root.glob("worker-*/app-*/*/stderr"))):
        lines = log.read_text(errors="replace").splitlines()[-10:]
        print(f"--- {log.relative_to(root)}", *lines, sep="\n", file=sys.stderr)


def main(ways: list[str]) -> None:
    """Try them, and compare."""
    root = Path(tempfile.mkdtemp(prefix="laps-cluster-"))
    rows: dict[str, list[str]] = {}
    try:
        source = root / "in"
        source.mkdir()
        # Of yesterday: what is from the future is not believed, and the words of that have a time.
        start = (time.time_ns() // 1000 - DAY_US) // HOUR_US * HOUR_US
        for relay, events in network(seconds=60, start_us=start).items():
            name = f"telemetry-{relay.replace(':', '_')}-7-000000.jsonl"
            (source / name).write_text("\n".join(lines_of(events)) + "\n")
        with cluster(root) as master:
            for way in ways:
                begin = time.monotonic()
                rows[way] = ingest(way, root, source, master)
                seconds = time.monotonic() - begin
                print(f"{way:8} {len(rows[way]):6,} rows  {seconds:6.1f} s", flush=True)
    except SystemExit:
        show_logs(root)
        raise
    finally:
        shutil.rmtree(root, ignore_errors=True)
    first = rows[ways[0]]
    for way, found in rows.items():
        if found != first:
            lines = unified_diff(first, found, ways[0], way, n=0, lineterm="")
            shown = "\n".join(islice(lines, 8))
            raise SystemExit(f"the rows are not the same:\n{shown}")
    print("the rows are the same")


if __name__ == "__main__":
    main(sys.argv[1:] or list(WAYS))
