"""Everything in Python that README and docs show works.

``pycon`` blocks are sessions: they print what they say. ``python`` blocks run if their first line
says how: ``# with a relay`` (one that listens where the block connects) or ``# without a relay``;
those of a page that starts a relay itself run in that page's session (``test_commands.py``).
"""

from __future__ import annotations

import asyncio
import doctest
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from laps_sdk.client.dial import DEV_CERTIFICATE
from testkit import pages
from testkit.edge_task import edge_relay
from testkit.pages import ROOT

PAGES = [page for page in pages.PAGES if "```pycon" in page.read_text(encoding="utf-8")]


def sessions_of(page: Path) -> str:
    """A page's sessions in order, each line where it stands in the page, all else blank."""
    kept: list[str] = []
    inside = False
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            inside = line.strip() == "```pycon"
            kept.append("")
        else:
            kept.append(line if inside else "")
    return "\n".join(kept) + "\n"


@pytest.mark.docs
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_shown_session_works(page: Path) -> None:
    name = str(page.relative_to(ROOT))
    test = doctest.DocTestParser().get_doctest(sessions_of(page), {}, name, name, 0)
    assert test.examples
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    report: list[str] = []
    result = doctest.DocTestRunner(optionflags=flags).run(test, out=report.append)
    assert result.failed == 0, "".join(report)


def test_a_page_shows_a_session() -> None:
    assert PAGES


# Programs

ADDRESS = "localhost:33435"
"""Where the shown programs look for their relay; it runs on a free port here."""
FENCED = re.compile(r"^```python\n(# (with|without) a relay\n.*?)^```$", re.DOTALL | re.MULTILINE)
PROGRAMS = [
    pytest.param(found[1], found[2] == "with", id=f"{page.relative_to(ROOT)}-{index}")
    for page in pages.PAGES
    if not pages.serves(page)
    for index, found in enumerate(FENCED.finditer(page.read_text(encoding="utf-8")), 1)
]


async def run(program: str, state: Path) -> tuple[int, str]:
    """Run a program as its reader would; gives its exit code and all that it said."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-W", "error", "-c", program,
        env={**os.environ, "LAPS_STATE_DIR": str(state)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    said, _ = await process.communicate()
    return await process.wait(), said.decode()


@pytest.mark.docs
@pytest.mark.anyio
@pytest.mark.parametrize(("program", "relay"), PROGRAMS)
async def test_a_shown_program_works(program: str, relay: bool, tmp_path: Path) -> None:
    if not relay:
        code, said = await run(program, tmp_path)
        assert code == 0, said
        return
    async with edge_relay() as edge:
        # What a relay of the same user would have left in its state directory.
        shutil.copy(edge.ca_file, tmp_path / DEV_CERTIFICATE)
        assert ADDRESS in program
        code, said = await run(program.replace(ADDRESS, f"localhost:{edge.port}"), tmp_path)
        assert code == 0, said


def test_a_page_shows_a_program() -> None:
    assert PROGRAMS
