"""CPU time of a command and of all that it started, also of what outlived its parent.

``time`` does not see the JVM of a Spark session, which ends after the Python that started it and is
waited for by nobody. Here orphans come to this process, which waits for them: Linux.
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
    """Run it, and say what it took; its exit code."""
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
