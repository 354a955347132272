"""With ``pytest -n 2``: what needs Spark in one process, with one session, all else in the other.

The marks of pytest-xdist for this (``--dist loadgroup``) do nothing with pytest 9.2, and say so to
nobody: they rename tests, and tests have other names now.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling

__all__ = ["SparkApart"]


class SparkApart(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
    """Files of tests with the mark ``spark`` are one piece of work; each other file is one, too."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "spark" if _has_mark(self.config.rootpath / file) else file


@cache
def _has_mark(file: Path) -> bool:
    return "pytest.mark.spark" in file.read_text(encoding="utf-8")
