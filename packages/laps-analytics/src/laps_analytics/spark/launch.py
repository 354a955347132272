"""To start Spark: options looked at before, and what its JVM says while it starts.

A JVM that starts writes lines which ask nothing of anybody, and one that does not start writes a
hundred of which one matters. So what it writes comes to us first: harmless lines go no further,
all others do once Spark runs, and if it does not, the one that says why becomes the error.
"""

from __future__ import annotations

import os
import re
import socket
import threading
import warnings
from collections.abc import Iterable
from importlib.util import find_spec
from typing import Any, Final
from urllib.parse import urlsplit

from py4j.protocol import Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

from laps_analytics.errors import StartError, UsageError

__all__ = [
    "JvmOutput",
    "check_master",
    "check_memory",
    "check_remote",
    "failure_message",
    "fault_of_workers",
    "is_harmless",
    "start_context",
    "start_failure",
]

_MASTER: Final = re.compile(
    r"local(\[([1-9]\d*|\*)(,\s*[1-9]\d*)?\])?|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]"
    r"|yarn|k8s://.+|spark://[^/,\s]+:\d+(,[^/,\s]+:\d+)*"
)
_MEMORY: Final = re.compile(r"(\d+)([kmgt])", re.IGNORECASE)
_POWERS: Final = {"k": 10, "m": 20, "g": 30, "t": 40}
_LEAST_MEMORY: Final = 450 << 20
"""What Spark refuses to run below."""
_CONNECT_PORT: Final = 15002
_CONNECT_TIMEOUT_S: Final = 10.0
"""Seconds for a host to answer. Spark itself would ask for minutes."""

_HARMLESS: Final = re.compile(
    r"WARNING: Using incubator modules: "
    r"|WARNING: package [\w.]+ not in "
    # Java 24 and later, about libraries that Spark brings.
    r"|WARNING: (A (terminally deprecated|restricted) method in |(sun\.misc|java\.lang)\.\w+::"
    r"|Use --enable-native-access|Restricted methods will|Please consider reporting this)"
    r"|Using Spark's default log4j profile"
    r"|Setting default log level to "
    r"|To adjust logging level use "
    r"|\S+ \S+ WARN (NativeCodeLoader: Unable to load native-hadoop"
    r"|Utils: (Your hostname, |Set SPARK_LOCAL_IP ))"
)
_FRAME: Final = re.compile(r"\s+(at |\.\.\. \d+ more)")
_JVM_FAILED: Final = re.compile(
    r"Error: (Could not create the Java Virtual Machine|A fatal exception has occurred)"
)
_LOGGED: Final = re.compile(r"\S+ \S+ (?:ERROR|FATAL) \S+: (.+)")
_CAUSE: Final = re.compile(r"Caused by: (.+)")
_THROWN: Final = re.compile(r'Exception in thread "[^"]*" (.+)')
_CLASS: Final = re.compile(r"^(?:[a-z]\w*\.)+[\w$]+(?:Exception|Error): (?=\S)")


def check_memory(memory: str) -> None:
    """:class:`UsageError` for what a JVM does not take as its memory."""
    found = _MEMORY.fullmatch(memory)
    if found is None:
        raise UsageError(f"--memory {memory} is no size: write a number and a unit, such as 4g")
    if int(found[1]) << _POWERS[found[2].lower()] < _LEAST_MEMORY:
        raise UsageError(f"--memory {memory} is too little: Spark needs 450m, and 2g to be of use")


def check_master(master: str) -> None:
    """:class:`UsageError` for what is no master, :class:`StartError` if none is reached."""
    if _MASTER.fullmatch(master) is None:
        raise UsageError(
            f"--master {master} is no master of Spark:"
            " local[N], local[*], spark://host:port, yarn or k8s://host:port"
        )
    if master.startswith("spark://"):
        hosts = [part.rpartition(":") for part in master.removeprefix("spark://").split(",")]
        _require_reachable([(host, int(port)) for host, _, port in hosts], f"--master {master}")


def check_remote(remote: str) -> None:
    """The same for a server of Spark Connect."""
    try:
        parts = urlsplit(remote)
        host, port = parts.hostname, parts.port or _CONNECT_PORT
    except ValueError:
        host, port = None, 0
    if host is None or not remote.startswith("sc://"):
        raise UsageError(f"--remote {remote} is no server of Spark Connect: sc://host:port")
    if find_spec("grpc") is None:
        raise StartError("--remote needs the client: pip install 'laps-analytics[connect]'")
    _require_reachable([(host, port)], f"--remote {remote}")


def _require_reachable(places: Iterable[tuple[str, int]], option: str) -> None:
    said = []
    for host, port in places:
        try:
            socket.create_connection((host.strip("[]"), port), timeout=_CONNECT_TIMEOUT_S).close()
        except OSError as error:
            said.append(f"{host}:{port}: {error.strerror or error}")
        else:
            return
    raise StartError(f"{option} is not reached ({'; '.join(said)}): start it, or name another")


def is_harmless(line: str) -> bool:
    """Whether a line of a JVM that starts asks nothing of anybody."""
    return _HARMLESS.match(line) is not None


def failure_message(lines: Iterable[str]) -> str:
    """What says why a JVM ended, on one line; empty if there is nothing."""
    kept = [
        line.strip()
        for line in lines
        if line.strip() and not (is_harmless(line) or _FRAME.match(line) or _JVM_FAILED.match(line))
    ]
    for pattern in (_CAUSE, _LOGGED, _THROWN):
        found = [match[1] for line in kept if (match := pattern.match(line))]
        if found:
            return _plain(found[-1])
    # The JVM itself uses two: what it was about, and what was wrong.
    return ": ".join(_plain(line).rstrip(".") for line in kept[-2:])


def _plain(text: str) -> str:
    """A line of Java for people: without the name of a class before it, on one line."""
    return " ".join(_CLASS.sub("", text.strip()).split())


class JvmOutput:
    """What a JVM writes: kept while it starts, handed on to our error stream after that."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._buffering = True
        self._lock = threading.Lock()
        read, self.write_end = os.pipe()
        # Not joined at the end: the JVM outlives us by a moment.
        self._thread = threading.Thread(target=self._read, args=(read,), daemon=True)
        self._thread.start()

    def _read(self, read: int) -> None:
        with os.fdopen(read, "rb") as stream:
            for raw in stream:
                line = raw.decode(errors="replace")
                with self._lock:
                    if self._buffering:
                        self._lines.append(line)
                    elif not is_harmless(line):
                        os.write(2, raw)

    def forward(self) -> None:
        """Say what was kept and is not harmless, and from now on everything at once."""
        with self._lock:
            said = "".join(line for line in self._lines if not is_harmless(line))
            self._buffering = False
            if said:
                os.write(2, said.encode())

    def lines(self, timeout: float = 0.0) -> list[str]:
        """What was kept; after the JVM has ended, if it does within some seconds."""
        self._thread.join(timeout)
        with self._lock:
            return list(self._lines)


def start_context(conf: SparkConf, output: JvmOutput) -> None:
    """Start a JVM and its context; ``SparkSession.builder`` takes that one."""
    try:
        with warnings.catch_warnings():
            # PySpark forks before it starts the JVM; the listener does nothing that a fork harms.
            warnings.filterwarnings("ignore", "This process .* multi-threaded", DeprecationWarning)
            # What a JVM that cannot begin has to say, it says on its standard output. That is ours
            # for answers, so all of it is an error stream.
            streams = {"stdout": output.write_end, "stderr": output.write_end}
            gateway = launch_gateway(conf, streams)  # type: ignore[no-untyped-call]
    finally:
        os.close(output.write_end)
    SparkContext(conf=conf, gateway=gateway)


def start_failure(error: BaseException, lines: Iterable[str]) -> str:
    """Why Spark did not start, in a line: what Java threw, else what the JVM said last."""
    if isinstance(error, Py4JJavaError):
        thrown: Any = error.java_exception
        while thrown.getCause() is not None:
            thrown = thrown.getCause()
        if message := thrown.getMessage():
            return _plain(str(message).split("\n")[0])
    return failure_message(lines) or _plain(str(error).split("\n")[0]) or type(error).__name__


_WORKER_ADVICE: Final = (
    "install laps-analytics there, and name that Python by PYSPARK_PYTHON (with --remote: where the"
    " Connect server is started); what was taken is kept, run again"
)
_WORKER_FAULTS: Final = (
    (re.compile(r"Cannot run program \"([^\"\n]*python[^\"\n]*)\""), "Spark's workers have no {}"),
    (re.compile(r"No module named '([\w.]+)'"), "the Python of Spark's workers has no {}"),
    (
        re.compile(r"PYTHON_VERSION_MISMATCH"),
        "the Python of Spark's workers is of another version",
    ),
)


def fault_of_workers(text: str) -> str | None:
    """Return one line about the Python of Spark's workers and what to do; None for other errors.

    Workers (and the server of Spark Connect) run some of our Python. If their Python lacks a module
    or is of another version, Spark shows the stacks of both sides.
    """
    for pattern, words in _WORKER_FAULTS:
        if found := pattern.search(text):
            return f"{words.format(*found.groups())}: {_WORKER_ADVICE}"
    return None
