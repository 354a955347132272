"""The scripts that measure the source: ``trace_path.py`` and ``house.py``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parents[3] / "scripts"


def run(script: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, SCRIPTS / script, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("script", ["trace_path.py", "house.py"])
def test_help_shows_how_to_call_it(script: str) -> None:
    assert f"python scripts/{script}" in run(script, "--help")


def test_an_object_and_a_subscribe_are_traced() -> None:
    found = json.loads(run("trace_path.py", "--json"))
    assert list(found) == ["object", "stream", "subscribe"]
    for path in found.values():
        assert path["modules"] == len(path["list"]) == sum(path["rooms"].values())
        assert path["changes"] > path["modules"]
        assert not any(name.startswith("laps_sdk.client") for name in path["list"])
        assert all(name.startswith("laps_sdk.quic.memory") for name in path["stand_in"])
    assert set(found["object"]["list"]) < set(found["stream"]["list"])
    assert found["object"]["relays"] == {"subscriber's Edge": found["object"]["modules"]}
    assert set(found["subscribe"]["relays"]) == {"publisher's Edge", "Via", "subscriber's Edge"}
    late = found["object"]["turn_end"]
    assert late
    assert not any(name.startswith("laps_sdk.forwarding") for name in late)
    assert "laps_relay.network.relay" not in found["object"]["list"]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    source = tmp_path / "packages" / "own" / "src" / "own"
    source.mkdir(parents=True)
    texts = {
        "__init__": "from own.base import Base as Root\n",
        "base": "class Base: ...\nclass OwnError(Exception): ...\n",
        "middle": "import own\nclass Middle(own.Root): ...\n",
        "leaf": "from own.middle import Middle\nclass Leaf(Middle): ...\n",
        "errors": (
            "from own.base import OwnError\n"
            "class SomeError(OwnError): ...\nclass OtherError(SomeError): ...\n"
        ),
        "first": "from own import second\n",
        "second": "if True:\n    from own.first import x\n",
    }
    for name, text in texts.items():
        (source / f"{name}.py").write_text(text)
    return tmp_path


def test_a_checkout_is_measured(checkout: Path) -> None:
    found: dict[str, Any] = json.loads(run("house.py", str(checkout), "--json"))
    assert found["modules"] == 7
    assert found["lines"] == 13
    assert found["largest_folder"] == ["own", 7]
    assert found["largest_module"] == ["own.errors", 3]
    assert found["small"] == [
        ["own.first", 1, "own.second"],
        ["own.middle", 2, "own.leaf"],
        ["own.second", 2, "own.first"],
    ]
    assert found["cycles"] == [["own.first", "own.second"]]
    assert found["deep"] == [["own.leaf.Leaf", "own.middle.Middle", "own.base.Base"]]


def test_the_names_are_printed_on_demand(checkout: Path) -> None:
    assert "own.leaf.Leaf" not in run("house.py", str(checkout))
    text = run("house.py", str(checkout), "own.l", "--list")
    assert "modules: 1, lines: 2" in text
    assert "3: own.leaf.Leaf < own.middle.Middle < own.base.Base" in text
