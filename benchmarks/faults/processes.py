"""Relays and clients as processes of this machine, each of which is stopped at the end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
import urllib.request
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Awaitable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from faults.client import Task

__all__ = ["ClientProcess", "FaultsError", "Processes", "Relay"]

T = TypeVar("T")

_BENCHMARKS: Final = Path(__file__).resolve().parent.parent
_PATIENCE: Final = 60.0
"""Seconds for a process to start or to drain; a busy machine takes long."""
_PORTS: Final = (("--port", "url"), ("--peer-port", "peers"), ("--admin-port", "admin"))
"""The options for ports, and what a relay prints about each of them."""
_RELAY: Final = (sys.executable, "-c", "from laps_relay.cli import main; main()", "serve", "--json")
_CLIENT: Final = (sys.executable, "-m", "faults.client")


class FaultsError(Exception):
    """A run cannot go on; the message says why."""


async def _in_time(waited: Awaitable[T], problem: str) -> T:
    """Wait, but not for ever; ``problem`` is the message of the error."""
    try:
        return await asyncio.wait_for(waited, _PATIENCE)
    except TimeoutError:
        raise FaultsError(f"{problem} in {_PATIENCE:.0f} s") from None


@dataclass(slots=True)
class Relay:
    """A relay, which keeps its ports and its node id when it is started again."""

    name: str
    type: str
    node: str
    peers: list[str]
    process: Process | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    """What the relay printed when it started."""

    @property
    def url(self) -> str:
        """Where clients connect."""
        return str(self.facts["url"])

    @property
    def peer_address(self) -> str:
        """Where other relays connect."""
        return str(self.facts["peers"])

    def send_signal(self, number: int) -> None:
        """Send a signal to the process."""
        if self.process is None:
            raise FaultsError(f"{self.name} does not run")
        self.process.send_signal(number)

    async def wait(self) -> None:
        """Wait for the end of the process."""
        if self.process is not None:
            await _in_time(self.process.wait(), f"{self.name} did not end")
            self.process = None

    async def table(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of one of the tables of the relay's admin."""
        try:
            return await asyncio.to_thread(self._table, name)
        except OSError as error:
            raise FaultsError(f"the admin of {self.name} does not answer: {error}") from None

    def _table(self, name: str) -> list[dict[str, Any]]:
        url = f"{self.facts['admin']}/v1/{name}?limit=1000"
        with urllib.request.urlopen(url, timeout=_PATIENCE) as answer:  # noqa: S310 - on loopback
            rows: list[dict[str, Any]] = json.load(answer)["items"]
        return rows

    def ports(self) -> Iterator[str]:
        """Return the options for the ports: any free ones at first, then those it had."""
        for option, fact in _PORTS:
            found = re.search(r":(\d+)/?$", str(self.facts.get(fact)))
            yield from (option, found[1] if found else "0")


@dataclass(slots=True)
class ClientProcess:
    """A client, its latest state, and its history."""

    name: str
    task: Task
    process: Process
    reader: asyncio.Task[None] | None = None
    state: dict[str, Any] = field(default_factory=dict)
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def history(self) -> Path:
        """The file with the history."""
        return Path(self.task.history)

    def order(self, **order: object) -> None:
        """Send an order."""
        if self.process.stdin is not None and self.process.returncode is None:
            self.process.stdin.write((json.dumps(order) + "\n").encode())

    def close(self) -> None:
        """Close standard input: the order to stop."""
        if self.process.stdin is not None:
            self.process.stdin.close()

    async def read(self) -> None:
        """Keep the latest state."""
        if self.process.stdout is not None:
            async for line in self.process.stdout:
                self.state |= json.loads(line)
                if "ready" in self.state:
                    self.ready.set()
        self.closed.set()
        self.ready.set()

    async def until_ready(self) -> None:
        """Wait until the client is connected."""
        await _in_time(self.ready.wait(), f"the client {self.name} is not ready")
        self.check()

    async def until_ended(self) -> None:
        """Wait until the client has ended by itself."""
        await _in_time(self.process.wait(), f"the client {self.name} did not end")
        await _in_time(self.closed.wait(), f"the client {self.name} did not end")
        self.check()

    def check(self) -> None:
        """Raise an error if the client ended early."""
        if self.closed.is_set() and "done" not in self.state:
            raise FaultsError(f"the client {self.name} ended early")


class Processes:
    """Starts relays and clients; a context manager that kills those that still run."""

    def __init__(self, folder: Path, settings: dict[str, str]) -> None:
        self.folder = folder
        state = folder / "state"
        state.mkdir(parents=True, exist_ok=True)
        path = os.pathsep.join([str(_BENCHMARKS), os.environ.get("PYTHONPATH", "")])
        self._environment = {**os.environ, "PYTHONPATH": path, "LAPS_STATE_DIR": str(state)}
        self._settings = settings
        self._running: list[Process] = []
        self._readers: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for process in self._running:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)
        await asyncio.gather(*(process.wait() for process in self._running))

    def log(self, name: str) -> Path:
        """Return the file with the standard error of a process."""
        return self.folder / f"{name}.log"

    async def _start(self, name: str, *command: str, stdin: int, **settings: str) -> Process:
        # In a session of its own: Ctrl-C reaches this program only, which then stops the others.
        with self.log(name).open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=stdin,
                stdout=PIPE,
                stderr=log,
                env=self._environment | settings,
                start_new_session=True,
            )
        self._running.append(process)
        return process

    async def start(self, relay: Relay) -> None:
        """Start a relay, and wait until it listens."""
        peers = [word for peer in relay.peers for word in ("--peer", peer)]
        process = relay.process = await self._start(
            relay.name,
            *_RELAY, "--type", relay.type, "--node-id", relay.node, *relay.ports(), *peers,
            "--log-level", "warning", "--log-format", "console",
            stdin=DEVNULL,
            **self._settings,
        )  # fmt: skip
        line = b""
        if process.stdout is not None:
            line = await _in_time(process.stdout.readline(), f"{relay.name} did not start")
        if not line:
            raise FaultsError(f"{relay.name} did not start: {self._last_words(relay.name)}")
        relay.facts = json.loads(line)

    async def start_client(self, name: str, role: str, task: Task) -> ClientProcess:
        """Start a client."""
        process = await self._start(name, *_CLIENT, role, stdin=PIPE)
        client = ClientProcess(name, task, process)
        client.reader = asyncio.create_task(client.read())
        self._readers.append(client.reader)
        client.order(**asdict(task))
        return client

    async def kill(self, relay: Relay) -> None:
        """Kill a relay without warning (SIGKILL)."""
        relay.send_signal(signal.SIGKILL)
        await relay.wait()

    async def drain(self, relay: Relay) -> None:
        """Let a relay drain and end (SIGTERM)."""
        relay.send_signal(signal.SIGTERM)
        await relay.wait()

    def _last_words(self, name: str) -> str:
        lines = self.log(name).read_text(encoding="utf-8", errors="replace").splitlines()
        words = [line for line in lines if any(map(str.isalpha, line))]
        return words[-1].strip("│ ") if words else "no message"
