"""``make demo``: a small network of relays on this machine, and what becomes of it when one dies.

::

    publisher                    control server (knows who wants what)
        |                          :            :
    [seattle, Edge] --- [new-york, Via] --- [london, Edge] --- [home, Stub]
        |                                       |                |      |
    subscriber                              subscriber        app one  app two

A moving picture is published at seattle and heard at four places. Then the Via is killed, without
a word to anybody: seattle and london find out, connect directly, and the picture goes on.

It ends by itself; ``KEEP=1 make demo`` goes on until Ctrl-C, so that there is time to open the
pages that it names.
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
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import laps_sdk

NAMESPACE = "demo/clock"
NAME = "picture"
FRAMES_A_SECOND = 15
HOLD = "1s"
"""A relay that has said nothing for so long is gone; the default is three seconds."""
ENOUGH = 45
"""Pictures that every subscriber must have before the Via is killed, and again afterwards."""
PATIENCE = 60.0


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


def frame_of(payload: bytes) -> int:
    """The number that is written in a picture."""
    return int(payload.rsplit(b"frame ", 1)[1].split(b"<", 1)[0])


# Relays


@dataclass(slots=True)
class Relay:
    """One ``laps-relay serve``."""

    name: str
    process: asyncio.subprocess.Process
    facts: dict[str, Any]

    @property
    def peers(self) -> str:
        """Where other relays connect."""
        return str(self.facts["peers"])

    @property
    def url(self) -> str:
        """Where clients connect."""
        return str(self.facts["url"])

    @property
    def node(self) -> str:
        """Who it is."""
        return str(self.facts["node"])

    def ask(self, table: str) -> list[dict[str, Any]]:
        """Rows of one of the network's tables, from the admin."""
        url = f"{self.facts['admin']}/v1/network/{table}?limit=1000"
        with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - on loopback
            rows: list[dict[str, Any]] = json.load(answer)["items"]
        return rows

    async def stop(self) -> None:
        """Let it end."""
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGTERM)
        await self.process.wait()


async def start(name: str, state: str, relay_type: str, *peers: str) -> Relay:
    """Start a relay on free ports; waits until it says where it listens."""
    command = [
        str(Path(sys.executable).parent / "laps-relay"),
        "serve", "--type", relay_type, "--port", "0", "--peer-port", "0", "--admin-port", "0",
        "--region", name, "--state-dir", state, "--json", "--log-level", "error",
    ]  # fmt: skip
    for peer in peers:
        command += ["--peer", peer]
    process = await asyncio.create_subprocess_exec(
        *command,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "LAPS_STATE_DIR": state, "LAPS_NETWORK__HOLD": HOLD},
    )
    if process.stdout is None:
        raise RuntimeError("a relay without output")
    line = await process.stdout.readline()
    if not line:
        raise SystemExit(f"{name} did not start (exit code {await process.wait()})")
    relay = Relay(name, process, json.loads(line))
    print(f"  {name:<10} {relay_type:<8} node {relay.node:<24} peers at {relay.peers}", flush=True)
    return relay


# Clients


@dataclass(slots=True)
class Tally:
    """What one subscriber has received."""

    name: str
    frames: set[int] = field(default_factory=set)
    doubled: int = 0
    last: float = 0.0
    longest: float = 0.0
    """The longest time without a picture, in seconds."""
    latencies: list[float] = field(default_factory=list)

    def take(self, now: float, payload: bytes, latency: float | None) -> None:
        """A picture came."""
        frame = frame_of(payload)
        self.doubled += frame in self.frames
        self.frames.add(frame)
        if self.last:
            self.longest = max(self.longest, now - self.last)
        self.last = now
        if latency is not None:
            self.latencies.append(latency)

    @property
    def missing(self) -> int:
        """Pictures between the first and the last that did not come."""
        return max(self.frames) - min(self.frames) + 1 - len(self.frames) if self.frames else 0

    def line(self) -> str:
        """One line for people."""
        if not self.latencies:
            return f"  {self.name:<22} nothing came"
        ordered = sorted(self.latencies)
        middle, late = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]
        return (
            f"  {self.name:<22} {len(self.frames):>4} pictures  {self.missing:>3} missing"
            f"  {self.doubled} doubled  delay p50 {middle * 1000:5.1f} ms"
            f"  p99 {late * 1000:6.1f} ms  longest pause {self.longest:4.2f} s"
        )


async def publish(url: str) -> None:
    """Draw and send until cancelled."""
    async with laps_sdk.connect(url) as session:
        track = await session.publish(NAMESPACE, NAME)
        loop = asyncio.get_running_loop()
        begin, frame = loop.time(), 0
        while True:
            await track.write(picture(frame), end_of_group=True)
            frame += 1
            await asyncio.sleep(max(0.0, begin + frame / FRAMES_A_SECOND - loop.time()))


async def subscribe(url: str, tally: Tally) -> None:
    """Receive until cancelled."""
    loop = asyncio.get_running_loop()
    async with (
        laps_sdk.connect(url) as session,
        session.subscribe(NAMESPACE, NAME, follow=True) as heard,
    ):
        async for obj in heard:
            tally.take(loop.time(), obj.payload, obj.latency)


# What is shown


def way(origin: Relay, names: dict[str, str]) -> list[str]:
    """The links that an object takes from a relay, as its own sets and its peers' tables say."""
    peers = {row["session"]: row["node"] for row in origin.ask("peers")}
    links = []
    for row in origin.ask("sets"):
        if row["direction"] == "out" and row["key"] and not row["retiring"]:
            hop = names.get(peers[row["session"]], peers[row["session"]])
            for target in row["targets"]:
                end = names.get(target, target)
                links.append(f"{origin.name} -> {hop}" + (f" -> {end}" if end != hop else ""))
    return links


async def until(what: str, tasks: list[asyncio.Task[None]], done: Any) -> None:
    """Wait for something to be so; a client that fails ends the demo."""
    limit = asyncio.get_running_loop().time() + PATIENCE
    while not done():
        for task in tasks:
            if task.done():
                task.result()
        if asyncio.get_running_loop().time() > limit:
            raise SystemExit(f"gave up after {PATIENCE:.0f} s: {what}")
        await asyncio.sleep(0.05)


async def show(relays: dict[str, Relay], tallies: list[Tally], tasks: list[Any]) -> None:
    """The story: it works, the Via dies, it works again."""
    names = {relay.node: relay.name for relay in relays.values()}
    seattle, via = relays["seattle"], relays["new-york"]
    await until("pictures everywhere", tasks, lambda: all(len(t.frames) >= ENOUGH for t in tallies))
    print("\nThe picture is heard at four places. Its way, each link once:")
    for link in await asyncio.to_thread(way, seattle, names):
        print(f"  {link}   (and from london to the Stub, once for both applications)")
    before = {tally.name: max(tally.frames) for tally in tallies}
    for tally in tallies:
        tally.longest = 0.0
    print("\nNow the Via is killed (kill -9) ...", flush=True)
    via.process.kill()
    await via.process.wait()
    await until(
        "pictures everywhere again",
        tasks,
        lambda: all(sum(frame > before[t.name] for frame in t.frames) >= ENOUGH for t in tallies),
    )
    print("... and the picture goes on. Its way now:")
    for link in await asyncio.to_thread(way, seattle, names):
        print(f"  {link}   (dialled on demand)")


async def main() -> int:
    """Run it."""
    keep = os.environ.get("KEEP", "") not in ("", "0")
    tallies = [
        Tally("seattle"),
        Tally("london"),
        Tally("home, application 1"),
        Tally("home, application 2"),
    ]
    relays: dict[str, Relay] = {}
    tasks: list[asyncio.Task[None]] = []
    with tempfile.TemporaryDirectory(prefix="laps-demo-") as state:
        os.environ["LAPS_STATE_DIR"] = state
        try:
            print("Starting five relays:")
            control = relays["control"] = await start("control", state, "control")
            via = relays["new-york"] = await start("new-york", state, "via")
            for name in ("seattle", "london"):
                relays[name] = await start(name, state, "edge", via.peers, control.peers)
            relays["home"] = await start("home", state, "stub", relays["london"].peers)
            admin = relays["london"].facts["admin"]
            print(f"\nadmin of london   {admin}/")
            print(f"player            {admin}/player.html?namespace={NAMESPACE}&name={NAME}")
            urls = [relays[name].url for name in ("seattle", "london", "home", "home")]
            tasks = [
                asyncio.create_task(publish(relays["seattle"].url)),
                *(
                    asyncio.create_task(subscribe(url, tally))
                    for url, tally in zip(urls, tallies, strict=True)
                ),
            ]
            await show(relays, tallies, tasks)
            if keep:
                print("\nIt goes on until Ctrl-C.", flush=True)
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            pass
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.gather(*(relay.stop() for relay in relays.values()))
    gap = max(tally.longest for tally in tallies[1:])
    print("\nWhat came:")
    for tally in tallies:
        print(tally.line())
    print(
        f"\nThe Via was noticed to be gone after {HOLD}; the longest pause behind it was"
        f" {gap:.2f} s.\nWhoever subscribes at seattle itself noticed nothing."
    )
    if not keep:
        print("KEEP=1 make demo goes on until Ctrl-C: open the player page then.")
    return 0


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        raise SystemExit(asyncio.run(main()))
