"""One shell for a page that starts a relay: what it shows runs in order, as a reader would run it.

::

    page:   $ laps-relay serve            the relay listens on free ports
            $ laps sub ... &              runs beside; `$ wait` waits for it and shows what it said
            $ laps pub moqt://localhost:33435 ...

The ports that the page names are replaced by the relay's own, and back in what is printed. A page
may start several relays, each with ports of its own; who gets the ports of an earlier one takes its
place. The shell's directory holds links to the files of the checkout: what a page writes stays out
of it.
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

_PORTS: Final = (
    ("--port", "relay", "33435"),
    ("--peer-port", "peers", ""),
    ("--admin-port", "admin", "33480"),
)
"""Flags that name ports, the lines that tell them, and what they are without a flag."""
_MARK: Final = "-- the shell has come so far:"
_END: Final = 30.0
_COVERAGE: Final = "COVERAGE_PROCESS_CONFIG"
"""How coverage tells the processes of a run to be measured too."""

# The relay's first lines go through a pipe with a name: reading waits until they are there, and
# ends if the relay does. Whoever is still connected at the end of a page is not waited for.
_SERVE: Final = """
if [ -n "${{RELAY[{place}]}}" ]; then kill ${{RELAY[{place}]}}; wait ${{RELAY[{place}]}}; fi
rm -f relay.{place}.lines; mkfifo relay.{place}.lines
LAPS_LISTEN__DRAIN_TIMEOUT=100ms \\
  {command} >relay.{place}.lines 2>relay.{place}.log </dev/null &
RELAY[{place}]=$!
exec {{LINES_{place}}}<relay.{place}.lines
READY=1
while IFS= read -r line <&$LINES_{place}; do
  printf '%s\\n' "$line"
  case "$line" in {last}*) READY=0; break;; esac
done
[ $READY = 0 ] || cat relay.{place}.log
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
    """A reader's, with ``python`` and the commands being those under test.

    Coverage does not go along: what a page shows is no test of the lines that it runs, and a
    command that is measured takes more than half as long again to start.
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    own = {name: value for name, value in os.environ.items() if name != _COVERAGE}
    return {**own, "PATH": path, "NO_COLOR": "1", "COLUMNS": "100"}


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
        self._places: dict[str, int] = {}
        """Relays by the client port that the page shows, or by the admin's if it has none."""
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
        self._say("declare -a RELAY; JOBS=''; COUNT=0\n")

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
                self._say("kill ${RELAY[@]} $JOBS 2>/dev/null; wait; exit\n")
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
            return self._serve(step.text.partition(" #")[0].rstrip(" &\n"))
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

    def _serve(self, command: str) -> Ended:
        shown = {
            label: found[1] if (found := re.search(rf"{flag} (\d+)", command)) else default
            for flag, label, default in _PORTS
        }
        for flag, _, _ in _PORTS:
            command = re.sub(rf" {flag} \d+", "", command)
        for port in shown.values():
            self._ports.pop(port, None)
        command = self._with_own_ports(command) + " --port 0 --admin-port 0"
        if shown["peers"]:
            command += " --peer-port 0"
        apart = re.search(r"--type (via|control)", command)
        place = self._places.setdefault(shown["admin" if apart else "relay"], len(self._places))
        ended = self._until_done(
            _SERVE.format(command=command, place=place, last="admin" if apart else "with")
        )
        for label, port in shown.items():
            own = re.search(rf"^{label} +\S+:(\d+)/?$", ended.printed, re.MULTILINE)
            if own is not None and port:
                self._ports[port] = own[1]
        return Ended(ended.code, self._with_shown_ports(ended.printed))

    def _with_own_ports(self, text: str) -> str:
        for shown, own in self._ports.items():
            text = re.sub(rf"\b{shown}\b", own, text)
        return text

    def _with_shown_ports(self, text: str) -> str:
        for shown, own in self._ports.items():
            text = re.sub(rf"(?<=:){own}\b", shown, text)
        return text
