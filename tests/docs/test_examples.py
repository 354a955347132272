"""Every Python session that README and docs show (``pycon`` blocks) prints what it says."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = sorted(
    page
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    if "```pycon" in page.read_text(encoding="utf-8")
)


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
