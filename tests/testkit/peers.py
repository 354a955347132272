"""Other people's MoQT implementations, as processes: what interop tests and benchmarks talk to.

Each peer is a small program run by this Python with the foreign package; it prints one JSON object
a line. ``available`` says whether the package is installed here.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

__all__ = ["MOQ_RS_PUBLISHER", "MOQ_RS_SUBSCRIBER", "Peer", "available", "peer_process"]

LIMIT = 60.0
"""Seconds that a peer has for anything: generous, since machines are busy."""

MOQ_RS_PUBLISHER = """
import asyncio, json, sys, moq
url, roots, path, name, groups, frames = sys.argv[1:7]
async def main():
    options = dict(tls_verify=False, websocket_enabled=False, reconnect=False)
    async with moq.Client(url, **options) as client:
        broadcast = client.create_broadcast(path)
        track = broadcast.publish_track(name)
        broadcast.announce()
        print(json.dumps({"ready": True}), flush=True)
        await track.used()
        print(json.dumps({"used": True}), flush=True)
        for number in range(int(groups)):
            group = track.append_group()
            for frame in range(int(frames)):
                group.write_frame(f"{number}.{frame}".encode())
            group.finish()
            await asyncio.sleep(0.01)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
asyncio.run(main())
"""

MOQ_RS_SUBSCRIBER = """
import asyncio, json, sys, moq
url, roots, path, name, wanted = sys.argv[1:6]
async def main():
    options = dict(tls_verify=False, websocket_enabled=False, reconnect=False)
    async with moq.Client(url, **options) as client:
        print(json.dumps({"ready": True}), flush=True)
        broadcast = await client.announced_broadcast(path)
        track = await broadcast.subscribe_track(name)
        print(json.dumps({"subscribed": True}), flush=True)
        count = 0
        async for group in track:
            async for frame in group:
                payload = getattr(frame, "payload", frame)
                text = bytes(payload).decode()
                print(json.dumps({"group": group.sequence, "payload": text}), flush=True)
                count += 1
            if count >= int(wanted):
                break
asyncio.run(main())
"""


def available(package: str) -> bool:
    """Whether a foreign package is installed."""
    return importlib.util.find_spec(package) is not None


class Peer:
    """A running peer."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def line(self) -> dict[str, Any]:
        """The next thing it says."""
        if self.process.stdout is None:
            raise RuntimeError("the peer has no output")
        async with asyncio.timeout(LIMIT):
            raw = await self.process.stdout.readline()
        if not raw:
            raise EOFError(
                f"the peer ended with {await self.process.wait()}: {await self.errors()}"
            )
        said = json.loads(raw)
        if not isinstance(said, dict):
            raise TypeError(f"the peer said {said!r}")
        return said

    async def until(self, key: str) -> dict[str, Any]:
        """Read on until it says something with this key."""
        while key not in (said := await self.line()):
            pass
        return said

    async def errors(self) -> str:
        """What it wrote to its standard error."""
        if self.process.stderr is None:
            return ""
        return (await self.process.stderr.read()).decode(errors="replace")[-2000:]


@asynccontextmanager
async def peer_process(program: str, *arguments: str) -> AsyncIterator[Peer]:
    """Run a program for as long as the block lasts."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        program,
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield Peer(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
