"""``make demo``: a relay, a publisher with a moving picture, two subscribers and the web page.

::

    laps-relay serve  <--- QUIC --- publisher: a clock drawn anew fifteen times a second
      |  '------- QUIC ----------> two subscribers, who count and measure
      '---------- WebTransport --> your browser: the player page

It runs for twelve seconds and says what came through; ``KEEP=1 make demo`` goes on until Ctrl-C, so
that there is time to open the page.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import signal
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import laps_sdk

NAMESPACE = "demo/clock"
NAME = "picture"
FRAMES_A_SECOND = 15
FRAMES_A_GROUP = 15
SECONDS = 12.0


def picture(frame: int) -> bytes:
    """A dot on a circle and the number of the frame, as SVG: small, and every browser draws it."""
    angle = 2 * math.pi * frame / (4 * FRAMES_A_SECOND)
    x, y = 160 + 90 * math.sin(angle), 110 - 90 * math.cos(angle)
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 320 240">'
        '<rect width="320" height="240" fill="#102030"/>'
        '<circle cx="160" cy="110" r="90" fill="none" stroke="#406080" stroke-width="4"/>'
        f'<line x1="160" y1="110" x2="{x:.1f}" y2="{y:.1f}" stroke="#f0c040" stroke-width="6"/>'
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="12" fill="#f0c040"/>'
        f'<text x="160" y="230" fill="#fff" font-family="monospace" text-anchor="middle">'
        f"frame {frame}</text></svg>"
    ).encode()


@dataclass(slots=True)
class Tally:
    """What one subscriber has received."""

    name: str
    objects: int = 0
    bytes: int = 0
    latencies: list[float] = field(default_factory=list)

    def line(self) -> str:
        """One line for people."""
        if not self.latencies:
            return f"{self.name}: nothing yet"
        ordered = sorted(self.latencies)
        middle, late = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]
        return (
            f"{self.name}: {self.objects} pictures, {self.bytes:,} bytes, "
            f"delay p50 {middle * 1000:.1f} ms, p99 {late * 1000:.1f} ms"
        )


async def publish(url: str) -> None:
    """Draw and send until cancelled."""
    async with laps_sdk.connect(url) as session:
        track = await session.publish(NAMESPACE, NAME)
        loop = asyncio.get_running_loop()
        start = loop.time()
        frame = 0
        while True:
            await track.write(picture(frame), end_of_group=frame % FRAMES_A_GROUP == 14)
            frame += 1
            await asyncio.sleep(max(0.0, start + frame / FRAMES_A_SECOND - loop.time()))


async def subscribe(url: str, tally: Tally) -> None:
    """Receive until cancelled."""
    async with laps_sdk.connect(url) as session, session.subscribe(NAMESPACE, NAME) as heard:
        async for obj in heard:
            tally.objects += 1
            tally.bytes += len(obj.payload)
            if obj.latency is not None:
                tally.latencies.append(obj.latency)


async def start_relay(state: str) -> tuple[asyncio.subprocess.Process, dict[str, str]]:
    """``laps-relay serve`` on free ports; gives the process and what it said it listens on."""
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).parent / "laps-relay"),
        "serve", "--port", "0", "--admin-port", "0", "--state-dir", state, "--json",
        "--log-level", "warning",
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "LAPS_STATE_DIR": state},
    )  # fmt: skip
    if process.stdout is None:
        raise RuntimeError("the relay has no output")
    line = await process.stdout.readline()
    if not line:
        raise SystemExit(f"the relay did not start (exit code {await process.wait()})")
    return process, json.loads(line)


async def show(tallies: list[Tally], until: float | None) -> None:
    """Say how it goes, once a second on a terminal, else only at the end."""
    loop = asyncio.get_running_loop()
    while until is None or loop.time() < until:
        await asyncio.sleep(1.0)
        if sys.stdout.isatty():
            print("  " + " | ".join(tally.line() for tally in tallies), end="\r", flush=True)
    if sys.stdout.isatty():
        print()


async def main() -> int:
    """Run it; 1 if a subscriber got nothing."""
    keep = os.environ.get("KEEP", "") not in ("", "0")
    with tempfile.TemporaryDirectory(prefix="laps-demo-") as state:
        os.environ["LAPS_STATE_DIR"] = state
        relay, where = await start_relay(state)
        print(f"relay      {where['url']}   certificate sha256 {where['certificate_sha256']}")
        print(f"admin      {where['admin']}/")
        print(f"player     {where['admin']}/player.html?namespace={NAMESPACE}&name={NAME}")
        tallies = [Tally("subscriber one"), Tally("subscriber two")]
        tasks = [
            asyncio.create_task(publish(where["url"])),
            *(asyncio.create_task(subscribe(where["url"], tally)) for tally in tallies),
        ]
        until = None if keep else asyncio.get_running_loop().time() + SECONDS
        showing = asyncio.create_task(show(tallies, until))
        try:
            await asyncio.wait([*tasks, showing], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            pass
        finally:
            showing.cancel()
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            if relay.returncode is None:
                relay.send_signal(signal.SIGTERM)
            await relay.wait()
        for tally in tallies:
            print(tally.line())
        for fault in ended:
            if isinstance(fault, Exception):
                print(f"failed: {fault}", file=sys.stderr)
        if not keep:
            print("KEEP=1 make demo goes on until Ctrl-C: open the player page then.")
        return 0 if all(tally.objects for tally in tallies) else 1


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        raise SystemExit(asyncio.run(main()))
