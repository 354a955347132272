"""``make demo``: a small network of relays on this machine, and what becomes of it when one dies.

::

    publisher                    control server (knows who wants what)
        |                          :            :
    [seattle, Edge] --- [new-york, Via] --- [london, Edge] --- [home, Stub]
        |                                       |                |      |
    subscriber                              subscriber        app one  app two

A moving picture is published at seattle and heard at three places, by four subscribers. Then the
Via is killed with SIGKILL. seattle and london notice it and connect directly; what the Via had
not forwarded is sent again from the log at seattle. The figures at the end were measured.

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
from asyncio import to_thread
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import laps_sdk

NAMESPACE = "demo/clock"
NAME = "picture"
FRAMES_A_SECOND = 15
ENOUGH = 45
"""Pictures that every subscriber must have before the Via is killed, and again afterwards."""
PATIENCE = 120.0
"""Seconds for each step: far more than it takes, for a machine that has other things to do."""


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


class DemoError(Exception):
    """Something did not come about; says what, in one line."""


# Relays


@dataclass(slots=True)
class Relay:
    """One ``laps-relay serve``."""

    name: str
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
        """Rows of one of the admin's tables."""
        url = f"{self.facts['admin']}/v1/{table}?limit=1000"
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:  # noqa: S310 - on loopback
            rows: list[dict[str, Any]] = json.load(answer)["items"]
        return rows


# Clients


@dataclass(slots=True)
class Tally:
    """What one subscriber has received."""

    name: str
    frames: dict[int, int] = field(default_factory=dict)
    """Each picture's group, by the number that is written in it."""
    doubled: int = 0
    last: float = 0.0
    longest: float = 0.0
    """The longest time without a picture, in seconds."""
    latencies: list[float] = field(default_factory=list)
    gaps: list[laps_sdk.Gap] = field(default_factory=list)
    """What the SDK said is missing."""

    def take(self, now: float, obj: laps_sdk.Object) -> None:
        """A picture came."""
        frame = frame_of(obj.payload)
        self.doubled += frame in self.frames
        self.frames[frame] = obj.group
        if self.last:
            self.longest = max(self.longest, now - self.last)
        self.last = now
        if obj.latency is not None:
            self.latencies.append(obj.latency)

    def missing(self, since: int = 0) -> list[int]:
        """Pictures between the first and the last, from ``since`` on, that did not come."""
        if not self.frames:
            return []
        begin = max(since, min(self.frames))
        return [frame for frame in range(begin, max(self.frames)) if frame not in self.frames]

    def told(self, frame: int) -> bool:
        """Whether the SDK has reported a picture as missing: each is a group of its own."""
        some, group = next(iter(self.frames.items()))
        wanted = group + frame - some
        return any(gap.first.group <= wanted <= gap.last.group for gap in self.gaps)

    def line(self) -> str:
        """One line of the summary."""
        ordered = sorted(self.latencies)
        delay = f"{ordered[len(ordered) // 2] * 1000:7.1f} ms" if ordered else "  unknown"
        return (
            f"  {self.name:<20} {len(self.frames):>8} {len(self.missing()):>8}"
            f" {self.doubled:>8} {delay:>13}"
        )


async def publish(url: str) -> None:
    """Draw and send until cancelled."""
    async with laps_sdk.connect(url, timeout=PATIENCE) as session:
        track = await session.publish(NAMESPACE, NAME)
        loop = asyncio.get_running_loop()
        begin, frame = loop.time(), 0
        while True:
            await track.write(picture(frame), end_of_group=True)
            frame += 1
            await asyncio.sleep(max(0.0, begin + frame / FRAMES_A_SECOND - loop.time()))


async def subscribe(url: str, tally: Tally) -> None:
    """Receive until cancelled; the publisher may come later."""
    loop = asyncio.get_running_loop()
    async with (
        laps_sdk.connect(url, timeout=PATIENCE) as session,
        session.subscribe(
            NAMESPACE, NAME, follow=True, wait=PATIENCE, on_gap=tally.gaps.append
        ) as heard,
    ):
        async for obj in heard:
            tally.take(loop.time(), obj)
    raise DemoError("the track ended")


# What is shown


@dataclass(slots=True)
class Recovery:
    """What was measured from the death of the Via on."""

    noticed: dict[str, float] = field(default_factory=dict)
    """Seconds until a relay took the Via for gone."""
    since: dict[str, int] = field(default_factory=dict)
    """The last picture that each subscriber had when it happened."""


class Demo:
    """The relays, the clients, and the story."""

    def __init__(self) -> None:
        self.relays: dict[str, Relay] = {}
        self.processes: dict[str, Process] = {}
        self.killed = ""
        self.tallies = [
            Tally("seattle"),
            Tally("london"),
            Tally("home, application 1"),
            Tally("home, application 2"),
        ]
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.recovery = Recovery()

    async def begin(self, state: str) -> None:
        """Start all."""
        print("Starting five relays:")
        control, via = await asyncio.gather(
            self.start("control", state, "control"), self.start("new-york", state, "via")
        )
        _, london = await asyncio.gather(
            self.start("seattle", state, "edge", via.peers, control.peers),
            self.start("london", state, "edge", via.peers, control.peers),
        )
        await self.start("home", state, "stub", london.peers)
        admin = self.relays["london"].facts["admin"]
        print(f"\nadmin of london   {admin}/")
        print(f"player            {admin}/player.html?namespace={NAMESPACE}&name={NAME}")
        self.tasks["the publisher"] = asyncio.create_task(publish(self.relays["seattle"].url))
        for tally in self.tallies:
            url = self.relays[tally.name.partition(",")[0]].url
            self.tasks[f"the subscriber at {tally.name}"] = asyncio.create_task(
                subscribe(url, tally)
            )

    async def start(self, name: str, state: str, relay_type: str, *peers: str) -> Relay:
        """Start a relay on free ports; waits until it says where it listens."""
        command = [
            str(Path(sys.executable).parent / "laps-relay"),
            "serve", "--type", relay_type, "--port", "0", "--peer-port", "0", "--admin-port", "0",
            "--region", name, "--state-dir", state, "--json", "--log-level", "error",
        ]  # fmt: skip
        for peer in peers:
            command += ["--peer", peer]
        process = self.processes[name] = await asyncio.create_subprocess_exec(
            *command,
            stdout=PIPE,
            env={**os.environ, "LAPS_STATE_DIR": state},
        )
        if process.stdout is None:
            raise DemoError("a relay without output")
        line = await process.stdout.readline()
        if not line:
            raise DemoError(f"{name} did not start (exit code {await process.wait()})")
        relay = self.relays[name] = Relay(name, json.loads(line))
        where = f"peers at {relay.peers}" if "peers" in relay.facts else "takes no peers"
        print(f"  {name:<10} {relay_type:<8} node {relay.node:<24} {where}")
        return relay

    async def end(self) -> None:
        """Stop all."""
        for task in self.tasks.values():
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        await asyncio.gather(*(process.wait() for process in self.processes.values()))

    def check(self) -> None:
        """Whether all that should run still runs."""
        for name, task in self.tasks.items():
            if task.done():
                raise DemoError(f"{name} failed: {task.exception()}")
        for name, process in self.processes.items():
            if process.returncode is not None and name != self.killed:
                raise DemoError(f"the relay {name} ended with exit code {process.returncode}")

    async def until(self, what: str, done: Callable[[], bool | Awaitable[bool]]) -> None:
        """Wait for something to be so; what asks relays is awaited."""
        loop = asyncio.get_running_loop()
        limit = loop.time() + PATIENCE
        while True:
            answer = done()
            if answer if isinstance(answer, bool) else await answer:
                return
            self.check()
            if loop.time() > limit:
                raise DemoError(f"waited {PATIENCE:.0f} s for {what}")
            await asyncio.sleep(0.02)

    async def until_way(self, *way: str) -> None:
        """Wait until the picture goes that way."""
        await self.until(f"the way {' -> '.join(way)}", partial(to_thread, self.goes, list(way)))

    def goes(self, way: list[str]) -> bool:
        """Whether the picture leaves seattle that way and no other."""
        return self.hops() == [way]

    def hops(self) -> list[list[str]]:
        """The ways of the picture from seattle to other Edges, as its node sets say."""
        names = {relay.node: relay.name for relay in self.relays.values()}
        seattle = self.relays["seattle"]
        peers = {row["session"]: row["node"] for row in seattle.ask("network/peers")}
        ways = []
        for row in seattle.ask("network/sets"):
            hop = peers.get(row["session"])
            if row["direction"] == "out" and row["key"] and not row["retiring"] and hop:
                for target in row["targets"]:
                    between = [] if hop == target else [names.get(hop, hop)]
                    ways.append(["seattle", *between, names.get(target, target)])
        return ways

    def noticed(self, name: str) -> bool:
        """Whether a relay has taken the one that was killed for gone."""
        dead = self.relays[self.killed].node
        return all(row["node"] != dead for row in self.relays[name].ask("network/peers"))

    def show_way(self) -> None:
        """From the publisher to every subscriber, as the relays' own tables have it."""
        for way in self.hops():
            print(f"  {' -> '.join(way)}")
        for name in ("seattle", "london", "home"):
            rows = [row for row in self.relays[name].ask("subscriptions") if row["forward"]]
            clients = sum(row["session"] > 0 for row in rows)
            print(f"  {name} -> {clients} local subscriber{'s' * (clients != 1)}")
            if stubs := sum(row["session"] < 0 for row in rows):
                print(f"  {name} -> home (one Stub, {stubs} cop{'y' if stubs == 1 else 'ies'})")

    async def tell(self) -> None:
        """It works, the Via dies, it works again."""
        await self.until(
            "pictures at all places",
            lambda: all(len(tally.frames) >= ENOUGH for tally in self.tallies),
        )
        await self.until_way("seattle", "new-york", "london")
        print("\nThe picture is seen at three places. Its way, each link once:")
        await to_thread(self.show_way)

        print("\nNow the Via is killed (kill -9) ...", flush=True)
        for tally in self.tallies:
            self.recovery.since[tally.name] = max(tally.frames)
            tally.longest = 0.0
        self.killed = "new-york"
        self.processes["new-york"].kill()
        await self.processes["new-york"].wait()
        loop = asyncio.get_running_loop()
        began = loop.time()
        for name in ("seattle", "london"):
            await self.until(f"{name} to notice it", partial(to_thread, self.noticed, name))
            self.recovery.noticed[name] = loop.time() - began
        await self.until_way("seattle", "london")
        marks = {tally.name: max(tally.frames) for tally in self.tallies}
        await self.until(
            "pictures at all places again",
            lambda: all(max(t.frames) >= marks[t.name] + ENOUGH for t in self.tallies),
        )
        # The SDK waits ``gap_after`` seconds for what may still come before it calls it missing.
        await self.until("the SDK to report what is missing", self.all_told)
        print("... and the picture goes on. Its way now:")
        await to_thread(self.show_way)

    def all_told(self) -> bool:
        """Whether every subscriber has been told of each picture that it missed."""
        since = self.recovery.since
        return all(all(map(t.told, t.missing(since[t.name]))) for t in self.tallies)

    def summary(self) -> None:
        """What was measured."""
        print(f"\n  {'At':<20} {'pictures':>8} {'missing':>8} {'doubled':>8} {'median delay':>13}")
        for tally in self.tallies:
            print(tally.line())
        if not self.recovery.noticed:
            return
        print("\nWhen the Via died:")
        for name, seconds in self.recovery.noticed.items():
            print(f"  {name:<20} took it for gone after {seconds:.2f} s")
        for tally in self.tallies:
            lost = tally.missing(self.recovery.since[tally.name])
            told = sum(map(tally.told, lost))
            words = f"missed {len(lost)} pictures, {told} of them reported as a gap by the SDK"
            print(
                f"  {tally.name:<20} {words if lost else 'missed no picture'};"
                f" longest pause {tally.longest:.2f} s"
            )
        print(
            "Its port was closed, so the Edges noticed at once; a host that vanishes is noticed"
            " after network.hold, 1 s.\nThe Edges then connected to each other, and seattle sent"
            " again from its log what the Via had not forwarded."
        )


async def main() -> int:
    """Run it."""
    keep = os.environ.get("KEEP", "") not in ("", "0")
    demo = Demo()
    with tempfile.TemporaryDirectory(prefix="laps-demo-") as state:
        os.environ["LAPS_STATE_DIR"] = state
        try:
            await demo.begin(state)
            await demo.tell()
            if keep:
                print("\nIt goes on until Ctrl-C.", flush=True)
                await asyncio.wait(demo.tasks.values(), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            pass
        except (DemoError, OSError) as error:
            print(f"\nThe demo failed: {error}", file=sys.stderr)
            return 1
        finally:
            await demo.end()
    demo.summary()
    if not keep:
        print("KEEP=1 make demo goes on until Ctrl-C: open the player page then.")
    return 0


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        raise SystemExit(asyncio.run(main()))
