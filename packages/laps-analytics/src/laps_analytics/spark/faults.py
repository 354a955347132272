"""Faults of a cluster in one line, where Spark has hundreds.

Some lines and traces are looked at in Python, on the workers (with Spark Connect also on its
server). Where that Python is not the one that it should be, Spark hands over the stacks of both
sides. What is known here is what the operator of a cluster can put right; anything else is shown as
it is.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["fault_of_workers"]

_HELP: Final = (
    "install laps-analytics there, and name that Python by PYSPARK_PYTHON (with --remote: where the"
    " Connect server is started); what was taken is kept, run again"
)
_KNOWN: Final = (
    (re.compile(r"Cannot run program \"([^\"\n]*python[^\"\n]*)\""), "Spark's workers have no {}"),
    (re.compile(r"No module named '([\w.]+)'"), "the Python of Spark's workers has no {}"),
    (
        re.compile(r"PYTHON_VERSION_MISMATCH"),
        "the Python of Spark's workers is of another version",
    ),
)


def fault_of_workers(text: str) -> str | None:
    """What an error of Spark says of the Python of its workers, and what to do; None if nothing."""
    for pattern, words in _KNOWN:
        if found := pattern.search(text):
            return f"{words.format(*found.groups())}: {_HELP}"
    return None
