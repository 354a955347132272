"""One shell for a page that starts a relay: what it shows runs in order, as a reader would run it.

::

    page:   $ laps-relay serve            the relay listens on free ports
            $ laps sub ... &              runs beside; `$ wait` waits for it and shows what it said
            $ laps pub moqt://localhost:33435 ...

The ports that the page names are replaced by the relay's own, and back in what is printed. The
shell's directory holds links to the files of the checkout: what a page writes stays out of it.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import IO, Final, NamedTuple, Self

from testkit.pages import ROOT, Step, is_serve

__all__ = ["Ended", "PageShell", "environment"]

CLIENT_PORT: Final = "33435"
ADMIN_PORT: Final = "33480"
_MARK: Final = "-- the shell has come so far:"
_END: Final = 30.0

# The relay's first lines go through a pipe with a name: reading waits until they are there, and
# ends if the relay does. Whoever is still connected at the end of a page is not waited for.
_SERVE: Final = """
if [ -n "$RELAY" ]; then kill $RELAY; wait $RELAY; fi
rm -f relay.lines; mkfifo relay.lines
LAPS_LISTEN__DRAIN_TIMEOUT=100ms \\
  {command} --port 0 --admin-port 0 >relay.lines 2>relay.log </dev/null &
RELAY=$!
exec 9<relay.lines
READY=1
while IFS= read -r line <&9; do
  printf '%s\\n' "$line"
  case "$line" in with*) READY=0; break;; esac
done
[ $READY = 0 ] || cat relay.log
[ $READY = 0 ]
"""
_BESIDE: Final = """
{{ {command}
}} >beside.$((COUNT+1)) 2>&1 </dev/null &
JOBS="$JOBS $!"; COUNT=$((COUNT+1))
true
"""
_WAIT: Final = """
BAD=0
for job in $JOBS; do wait $job || BAD=$?; done
JOBS=""
for number in $(seq 1 $COUNT); do cat beside.$number; done
COUNT=0
[ $BAD = 0 ]
"""
_COMMAND: Final = """
{{ {command}
}} </dev/null
"""


class Ended(NamedTuple):
    """What a step printed, with the ports of the page, and its exit code."""

    code: int
    printed: str


def environment() -> dict[str, str]:
    """A reader's, with ``python`` and the commands being those under test."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "NO_COLOR": "1", "COLUMNS": "100"}


class PageShell:
    """Runs the steps of one page; a context manager that ends all that it started."""

    def __init__(self, directory: Path) -> None:
        work = directory / "work"
        work.mkdir()
        for entry in ROOT.iterdir():
            if not entry.name.startswith("."):
                (work / entry.name).symlink_to(entry)
        self._work = work
        self._ports: dict[str, str] = {}
        self._shell = subprocess.Popen(
            ["/bin/bash", "--noprofile", "--norc"],
            cwd=work,
            env=environment() | {"LAPS_STATE_DIR": str(directory / "state")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._into: IO[str] = self._shell.stdin
        self._out: IO[str] = self._shell.stdout
        self._say("RELAY=''; JOBS=''; COUNT=0\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            with contextlib.suppress(BrokenPipeError):
                self._say("kill $RELAY $JOBS 2>/dev/null; wait; exit\n")
                self._into.close()
            self._shell.wait(_END)
        finally:
            # The group is the shell's own; nobody is left in it if all went well.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._shell.pid, signal.SIGKILL)
            self._shell.wait(_END)
            self._out.close()

    def run(self, step: Step) -> Ended:
        """Run a step to its end, or start it if it goes on beside."""
        text = self._with_own_ports(step.text)
        if step.program:
            program = self._work / f"program-{step.line}.py"
            program.write_text(text, encoding="utf-8")
            return self._until_done(_COMMAND.format(command=f"python -W error {program.name}"))
        command = text.rstrip()
        if is_serve(step):
            command = command.partition(" #")[0].rstrip(" &")
            ended = self._until_done(_SERVE.format(command=command))
            return self._listening(ended)
        if command == "wait":
            return self._until_done(_WAIT)
        if command.endswith("&"):
            return self._until_done(_BESIDE.format(command=command.rstrip(" &")))
        return self._until_done(_COMMAND.format(command=command))

    def _say(self, text: str) -> None:
        self._into.write(text)
        self._into.flush()

    def _until_done(self, script: str) -> Ended:
        self._say(f"{script}printf '\\n%s %s\\n' '{_MARK}' $?\n")
        printed = ""
        for line in self._out:
            if line.startswith(_MARK):
                return Ended(int(line.split()[-1]), self._with_shown_ports(printed[:-1]))
            printed += line
        raise AssertionError(f"the shell ended:\n{printed}")

    def _listening(self, ended: Ended) -> Ended:
        for shown, label in ((CLIENT_PORT, "relay"), (ADMIN_PORT, "admin")):
            found = re.search(rf"^{label} +\S+:(\d+)/?$", ended.printed, re.MULTILINE)
            if found is not None:
                self._ports[shown] = found[1]
        return Ended(ended.code, self._with_shown_ports(ended.printed))

    def _with_own_ports(self, text: str) -> str:
        for shown, own in self._ports.items():
            text = re.sub(rf"\b{shown}\b", own, text)
        return text

    def _with_shown_ports(self, text: str) -> str:
        for shown, own in self._ports.items():
            text = re.sub(rf"(?<=:){own}\b", shown, text)
        return text
