"""``laps-relay serve`` as its own process, on free ports, for tests that need the whole of it."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["RunningRelay", "relay_process"]

LIMIT = 120.0
"""Seconds in which the relay must have started, or ended; a busy machine takes half a minute."""

COMMAND = (sys.executable, "-c", "from laps_relay.cli import main; main()", "serve", "--json")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningRelay:
    """Where it is."""

    url: str
    """For raw QUIC: ``moqt://127.0.0.1:port``."""
    admin: str
    """``http://127.0.0.1:port``."""
    certificate_sha256: str
    process: subprocess.Popen[bytes]
    log: Path
    """What it writes to standard error."""
    peers: str = ""
    """Where other relays connect, if it is one of a network."""
    told: dict[str, Any] = field(default_factory=dict)
    """All that it said when it had started."""

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def ended(self) -> int:
        """Wait for its end; the status."""
        return self.process.wait(LIMIT)

    @property
    def web_url(self) -> str:
        """For WebTransport."""
        return f"https://{self.url.removeprefix('moqt://')}/"


@contextmanager
def relay_process(
    *flags: str, patience: float = LIMIT, **environment: str
) -> Generator[RunningRelay]:
    """A relay, for as long as the block lasts; other keywords go into its environment."""
    with tempfile.TemporaryDirectory(prefix="laps-relay-") as state:
        log = Path(state, "relay.log")
        with log.open("wb") as written:
            process = subprocess.Popen(
                [*COMMAND, "--port", "0", "--admin-port", "0", "--state-dir", state, *flags],
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=written,
            )
        assert process.stdout is not None
        try:
            ready, _, _ = select.select([process.stdout], [], [], patience)
            line = process.stdout.readline() if ready else b""
            assert line, f"the relay did not start (status {process.poll()}): {log.read_text()}"
            told = json.loads(line)
            yield RunningRelay(
                url=told["url"],
                admin=told["admin"],
                certificate_sha256=told["certificate_sha256"],
                process=process,
                log=log,
                peers=told.get("peers", ""),
                told=told,
            )
        finally:
            process.terminate()
            try:
                process.wait(LIMIT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()
