"""``make demo`` does what it promises, and says what it has measured."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from testkit.pages import ROOT

WORDS = (
    r"  (control|new-york|seattle|london|home) +(control|via|edge|stub) +node ",
    r"  seattle -> new-york -> london$",
    r"  london -> home \(one Stub, 1 copy\)$",
    r"  home -> 2 local subscribers$",
    r"\.\.\. and the picture goes on",
    r"  seattle -> london$",
    r"  (seattle|london) +took it for gone after \d+\.\d\d s$",
    r"  (london|home, application 1) +missed no picture; longest pause",
)
"""What a newcomer must get to see."""


@pytest.mark.timeout(600)
def test_the_demo_tells_its_story_to_the_end() -> None:
    """No picture is missing although the Via was killed, and none came twice."""
    ended = subprocess.run(
        [sys.executable, "demo/network.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        encoding="utf-8",
    )
    told = ended.stdout
    assert ended.returncode == 0, told + ended.stderr
    assert "Traceback" not in ended.stderr
    for words in WORDS:
        assert re.search(words, told, re.MULTILINE), f"{words} is not in:\n{told}"
    rows = re.findall(r"^  (\w[\w, ]*?) +(\d+) +(\d+) +(\d+) +[\d.]+ ms$", told, re.MULTILINE)
    assert [row[0] for row in rows] == [
        "seattle", "london", "home, application 1", "home, application 2",
    ]  # fmt: skip
    for name, pictures, missing, doubled in rows:
        assert int(pictures) > 0, name
        assert (int(missing), int(doubled)) == (0, 0), name
