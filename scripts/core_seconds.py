"""Measure the CPU time of a command and of all its descendants; Linux only.

::

    python scripts/core_seconds.py make test

``time`` does not count the JVM of a Spark session: it ends after the Python that started it, and no
process waits for it. This script adopts such orphans and waits for them.
"""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
import time

SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of ``<sys/prctl.h>``."""


def main(words: list[str]) -> int:
    """Run a command and print its CPU time; return its exit code."""
    if not words or words[0] in ("-h", "--help"):
        print(__doc__)
        return 0 if words else 2
    if ctypes.CDLL(None, use_errno=True).prctl(SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    began = time.monotonic()
    code = subprocess.run(words, check=False).returncode
    while True:
        try:
            os.wait()
        except ChildProcessError:
            break
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"core-seconds: {used.ru_utime + used.ru_stime:.0f}"
        f" (user {used.ru_utime:.0f}, system {used.ru_stime:.0f})"
        f" in {time.monotonic() - began:.0f} s",
        file=sys.stderr,
    )
    return code


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
