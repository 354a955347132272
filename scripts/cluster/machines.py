"""A standalone Spark on this machine, from the wheel of pyspark: a master, two workers, Connect.

What a way costs is CPU, since a machine that others use too has no meaning for time. A JVM outlives
the command that started it by a moment, so we adopt what is left behind (``prctl``, Linux): all
that was started and has ended is counted then, and of what still runs ``/proc`` tells.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pyspark

from laps_analytics.spark.launch import find_java

__all__ = ["SPARK", "Cluster", "adopt_orphans", "cluster", "connect_server", "environment"]

SPARK: Final = Path(pyspark.__file__).parent
_ADOPT: Final = 36
"""``PR_SET_CHILD_SUBREAPER``."""
_DEFAULTS: Final = {
    # What fits two workers of one core; results do not depend on it.
    "spark.sql.shuffle.partitions": "8",
    "spark.ui.enabled": "false",
    # JVMs that live for seconds.
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:+UseSerialGC",
}
"""``spark-defaults.conf`` of the cluster."""


@functools.cache
def _java() -> str:
    return str(find_java())


def environment(conf: Path | None = None) -> dict[str, str]:
    """What every process needs: Java, the same Python, and our packages on its path.

    With ``conf`` the settings of the cluster, and a zone that is not ours: times must not show it.
    """
    found = {
        **os.environ,
        "JAVA_HOME": _java(),
        # For programs that live for seconds the first compiler is the cheapest.
        "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1",
        "SPARK_HOME": str(SPARK),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
    }
    if conf is not None:
        found |= {"SPARK_CONF_DIR": str(conf), "TZ": "Asia/Kolkata"}
    return found


def free_port() -> int:
    """A port that nobody has."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    """Until somebody listens."""
    for _ in range(1500):
        if process.poll() is not None:
            raise SystemExit(f"{process.args!r} ended with {process.returncode}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.2)
    raise SystemExit(f"nobody listens on {port}")


@contextlib.contextmanager
def started(*words: str, log: Path, env: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends with this block."""
    with log.open("ab") as out:
        process = subprocess.Popen(words, env=env, stdout=out, stderr=out, cwd=log.parent)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)


class Cluster:
    """A master and its workers."""

    def __init__(self, url: str, conf: Path, processes: list[subprocess.Popen[bytes]]) -> None:
        self.url = url
        self.conf = conf
        self._processes = processes

    def cpu_seconds(self) -> float:
        """What all that we ever started has used, once what is about to end has ended."""
        mine = {process.pid for process in self._processes}
        for _ in range(300):
            left = _children(os.getpid()) - mine
            for pid in left:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
            # A worker without an executor has no children.
            if not left and not any(map(_children, mine)):
                break
            time.sleep(0.1)
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        return ended.ru_utime + ended.ru_stime + sum(map(_ticks, mine))


def adopt_orphans() -> None:
    """Let what a command leaves behind be our child; on other systems it is not counted."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_ADOPT, 1, 0, 0, 0)


def _children(pid: int) -> set[int]:
    found: set[int] = set()
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found |= set(map(int, task.read_text().split()))
    return found


def _ticks(pid: int) -> float:
    """CPU seconds of a process that runs, and of its children that ended."""
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        return 0.0
    # The name, in brackets, may have blanks. What follows it begins with the third field.
    fields = stat.read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def cluster(root: Path) -> Iterator[Cluster]:
    """A master and two workers of one core and 1 GiB, which is what one executor takes."""
    conf = root / "conf"
    conf.mkdir(exist_ok=True)
    lines = [f"{name} {value}" for name, value in _DEFAULTS.items()]
    (conf / "spark-defaults.conf").write_text("\n".join(lines) + "\n")
    port, env = free_port(), environment(conf)
    klass, deploy = str(SPARK / "bin" / "spark-class"), "org.apache.spark.deploy"
    with contextlib.ExitStack() as stack:

        def start(name: str, *words: str) -> subprocess.Popen[bytes]:
            return stack.enter_context(started(klass, *words, log=root / f"{name}.log", env=env))

        here = ("--host", "127.0.0.1", "--webui-port", "0")
        master = start("master", f"{deploy}.master.Master", *here, "--port", str(port))
        wait_for(port, master)
        url = f"spark://127.0.0.1:{port}"
        size = ("--cores", "1", "--memory", "1g")
        workers = [
            start(
                name,
                f"{deploy}.worker.Worker",
                *(*here, *size, "--work-dir", str(root / name), url),
            )
            for name in ("worker-0", "worker-1")
        ]
        yield Cluster(url, conf, [master, *workers])


@contextlib.contextmanager
def connect_server(root: Path, on: Cluster) -> Iterator[str]:
    """A server of Spark Connect on the cluster; its URL."""
    port = free_port()
    words = [
        *(str(SPARK / "bin" / "spark-submit"), "--master", on.url),
        *("--conf", f"spark.connect.grpc.binding.port={port}"),
        *("--conf", "spark.connect.grpc.binding.address=127.0.0.1"),
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"),
    ]
    with started(*words, log=root / "connect.log", env=environment(on.conf)) as server:
        wait_for(port, server)
        yield f"sc://127.0.0.1:{port}"
