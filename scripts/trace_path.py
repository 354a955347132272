"""Count the modules that an object and a SUBSCRIBE pass inside the relays.

Whole relays (``RelayApp``) and real clients run in one process, on a memory network and in virtual
time, so that each run gives the same figures::

    publisher --- Edge --- Via --- Edge --- subscriber        SUBSCRIBE: all three relays
        '------- subscriber                                   object: one Edge

Each path has been taken before it is counted: what is seen is the path, not its set-up. Only code
of the relays is counted. A relay's code is told from the clients' by the context in which asyncio
runs it. ``laps_sdk.quic.memory`` stands in for a socket and a QUIC library; its modules are shown
and not counted.

- *modules*: those of which at least one function ran.
- *changes*: calls from a function of one module to one of another, and the returns from them.
- *at the end of the turn*: a relay settles everything at the end of each turn of the loop, before
  packets leave. Modules that ran only there carry no object, but run once for all of a turn.

::

    python scripts/trace_path.py              # figures
    python scripts/trace_path.py --list       # and the modules in the order of their first call
    python scripts/trace_path.py --json
"""

from __future__ import annotations

import argparse
import asyncio
import contextvars
import json
import selectors
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from io import StringIO
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple
from unittest import mock

import laps_sdk
from laps_relay.config import Loaded, RelayConfig
from laps_relay.server import RelayApp
from laps_relay.telemetry.logs import configure
from laps_sdk.quic.endpoint import open_endpoint
from laps_sdk.quic.memory.network import MemoryNetwork, MemoryPort

STAND_IN: Final = ("laps_sdk.quic.memory",)
TURN_END: Final = "TurnServer.settle"
GOALS: Final = {"object": 25, "subscribe": 80}
TRIALS: Final = 5
DELAY: Final = 0.002
QUIET: Final = 3.0
"""Seconds before each trial: everything that the one before it caused is over."""
NAMESPACE: Final = "example/trace"

_relay: contextvars.ContextVar[str] = contextvars.ContextVar("relay", default="")


class Trace(NamedTuple):
    """What ran at the relays between a request and its result."""

    modules: tuple[str, ...]
    """In the order of their first call."""
    changes: int
    stand_in: tuple[str, ...]
    turn_end: tuple[str, ...]
    """Those of ``modules`` that ran only at the end of turns."""
    by_relay: dict[str, int]
    """How many modules ran at each relay."""


class Recorder:
    """Notes which modules run while it is on, for ``sys.setprofile``."""

    def __init__(self) -> None:
        self._seen: dict[str, set[str]] = {}
        self._carrying: set[str] = set()
        self._changes = 0
        self._settling = 0

    @contextmanager
    def on(self) -> Iterator[None]:
        """Record what runs in the block."""
        self._seen, self._carrying, self._changes, self._settling = {}, set(), 0, 0
        sys.setprofile(self._profile)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _profile(self, frame: FrameType, event: str, _argument: object) -> None:
        if event not in ("call", "return"):
            return
        module = _module(frame)
        relay = _relay.get()
        if not module or not relay:
            return
        if frame.f_code.co_qualname == TURN_END:
            self._settling += 1 if event == "call" else -1
        self._seen.setdefault(module, set()).add(relay)
        if not self._settling:
            self._carrying.add(module)
        if module.startswith(STAND_IN):
            return
        caller = frame.f_back
        while caller is not None and (not _module(caller) or _module(caller).startswith(STAND_IN)):
            caller = caller.f_back
        if caller is not None and _module(caller) != module:
            self._changes += 1

    def result(self) -> Trace:
        """What was recorded."""
        own = tuple(module for module in self._seen if not module.startswith(STAND_IN))
        counted = Counter(relay for module in own for relay in self._seen[module])
        return Trace(
            modules=own,
            changes=self._changes,
            stand_in=tuple(module for module in self._seen if module.startswith(STAND_IN)),
            turn_end=tuple(module for module in own if module not in self._carrying),
            by_relay=dict(sorted(counted.items())),
        )


def _module(frame: FrameType) -> str:
    """The module of ours that a frame runs code of; empty: none."""
    name = frame.f_globals.get("__name__", "")
    return name if isinstance(name, str) and name.startswith("laps_") else ""


# The world


class _Selector(selectors.DefaultSelector):
    """Moves the clock to the next timer instead of waiting for it."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready; if nothing is, let ``timeout`` pass."""
        found = super().select(0)
        if not found and timeout is not None:
            self.now += max(0.0, timeout)
        return found


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now


class _Port(MemoryPort):
    """A port that is read in the context of the relay that opened it, as a socket would be."""

    def start(self, callback: Callable[[], None]) -> None:
        context = contextvars.copy_context()
        super().start(lambda: context.run(callback))


class _Network(MemoryNetwork):
    def bind(self, host: str, port: int) -> MemoryPort:
        made = super().bind(host, port)
        made.__class__ = _Port
        return made


@contextmanager
def in_memory() -> Iterator[None]:
    """Open all endpoints on one memory network in the block."""
    network = _Network(delay=DELAY)

    async def opened(**options: Any) -> Any:
        return await open_endpoint(**{**options, "backend": "memory", "network": network})

    users = [
        module
        for name, module in list(sys.modules.items())
        if name.startswith("laps_") and getattr(module, "open_endpoint", None) is open_endpoint
    ]
    patches = [mock.patch.object(module, "open_endpoint", opened) for module in users]
    for patch in patches:
        patch.start()
    try:
        yield
    finally:
        for patch in patches:
            patch.stop()


@asynccontextmanager
async def running(
    state: Path, name: str, kind: str, node: str, *peers: RelayApp
) -> AsyncIterator[RelayApp]:
    """A relay that dials others."""
    config = RelayConfig.model_validate(
        {
            "state_dir": state,
            "network": {
                "enabled": True,
                "type": kind,
                "port": 0,
                "node_id": node,
                "peers": [_contact(peer) for peer in peers],
            },
            "listen": {"client_port": 0, "drain_timeout": "0s"},
            "admin": {"enabled": False},
        }
    )
    context = contextvars.copy_context()
    context.run(_relay.set, name)

    async def start() -> RelayApp:
        made = RelayApp(Loaded(config), configure("json", "warning", StringIO()))
        await made.start()
        return made

    app = await asyncio.create_task(start(), context=context)
    try:
        yield app
    finally:
        await app.stop()


def _contact(app: RelayApp) -> str:
    if app.network is None:
        raise ValueError("the relay is in no network")
    return app.network.contact


async def _quietest(
    recorder: Recorder, trial: Callable[[int], Awaitable[Callable[[], Awaitable[None]]]]
) -> Trace:
    """The path of the trial in which the least ran besides: timers may fall into any."""
    results: list[Trace] = []
    for number in range(TRIALS):
        run = await trial(number)
        await asyncio.sleep(QUIET)
        with recorder.on():
            await run()
        results.append(recorder.result())
    return min(results, key=lambda each: (len(each.modules), each.changes))


async def trace_object(recorder: Recorder, edge: RelayApp, *, first: bool) -> Trace:
    """An object from a publisher to a subscriber of the same Edge.

    ``first``: it is the first of its stream; else the stream has brought objects before.
    """
    name = "first" if first else "object"
    async with laps_sdk.connect(edge.url) as publisher, laps_sdk.connect(edge.url) as subscriber:
        track = await publisher.publish(NAMESPACE, name)
        async with subscriber.subscribe(NAMESPACE, name) as objects:

            async def trial(_number: int) -> Callable[[], Awaitable[None]]:
                group = track.group()
                if not first:
                    for _ in range(2):
                        await group.write(b"before")
                        await anext(objects)

                async def run() -> None:
                    await group.write(b"traced")
                    await anext(objects)

                return run

            await (await trial(0))()
            return await _quietest(recorder, trial)


async def trace_subscribe(recorder: Recorder, near: RelayApp, far: RelayApp) -> Trace:
    """A SUBSCRIBE from a client of ``near`` to a publisher at ``far``, until its answer is here."""
    async with laps_sdk.connect(far.url) as publisher, laps_sdk.connect(near.url) as subscriber:
        for number in range(TRIALS + 1):
            await publisher.publish(NAMESPACE, f"track{number}", announce=True)
        await asyncio.sleep(QUIET)

        async def trial(number: int) -> Callable[[], Awaitable[None]]:
            async def run() -> None:
                async with asyncio.timeout(10.0):
                    await stack.enter_async_context(
                        subscriber.subscribe(NAMESPACE, f"track{number + 1}")
                    )

            return run

        async with AsyncExitStack() as stack:
            await stack.enter_async_context(subscriber.subscribe(NAMESPACE, "track0"))
            return await _quietest(recorder, trial)


async def trace_all() -> dict[str, Trace]:
    """Trace each path once the network stands."""
    recorder = Recorder()
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder)
        async with (
            running(state, "publisher's Edge", "edge", "1:1") as far,
            running(state, "Via", "via", "2:1", far) as via,
            running(state, "subscriber's Edge", "edge", "3:1", via) as near,
        ):
            await asyncio.sleep(QUIET)
            return {
                "object": await trace_object(recorder, near, first=False),
                "stream": await trace_object(recorder, near, first=True),
                "subscribe": await trace_subscribe(recorder, near, far),
            }


TITLES: Final = {
    "object": "an object of an open stream at one Edge",
    "stream": "the first object of a stream at one Edge",
    "subscribe": "a SUBSCRIBE over Edge, Via and Edge until its answer",
}


def rooms(trace: Trace) -> dict[str, int]:
    """How many modules of each room (package and folder) the path has."""
    counted = Counter(".".join(module.split(".")[:2]) for module in trace.modules)
    return dict(sorted(counted.items()))


def show(name: str, trace: Trace, *, modules: bool) -> None:
    """Print one path."""
    goal = f" (goal: {GOALS[name]})" if name in GOALS else ""
    print(f"{TITLES[name]}:")
    print(f"  {len(trace.modules)} modules{goal}, {trace.changes} changes of module")
    if name != "subscribe":  # the network gets a SUBSCRIBE at the end of a turn
        print(f"  of these only at the end of a turn: {len(trace.turn_end)}")
    for package in ("laps_relay", "laps_sdk", "laps_wire"):
        own = [module for module in trace.modules if module.split(".")[0] == package]
        print(f"  {package}: {len(own)}")
        for room, count in rooms(trace).items():
            if room.split(".")[0] == package:
                print(f"    {room}: {count}")
    for relay, count in trace.by_relay.items():
        print(f"  modules at the {relay}: {count}")
    print(f"  not counted, in place of a socket and a QUIC library: {len(trace.stand_in)}")
    if modules:
        for number, module in enumerate(trace.modules, 1):
            late = name != "subscribe" and module in trace.turn_end
            mark = " (end of the turn)" if late else ""
            print(f"  {number:3} {module}{mark}")


def main() -> int:
    """Trace the paths and print them; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--list", action="store_true", help="print the modules too")
    parser.add_argument("--json", action="store_true", help="print JSON, modules included")
    options = parser.parse_args()
    with in_memory(), asyncio.Runner(loop_factory=_Loop) as runner:
        traces = runner.run(trace_all())
    if options.json:
        found = {
            name: {
                "modules": len(trace.modules),
                "changes": trace.changes,
                "turn_end": trace.turn_end,
                "rooms": rooms(trace),
                "relays": trace.by_relay,
                "list": trace.modules,
                "stand_in": trace.stand_in,
            }
            for name, trace in traces.items()
        }
        print(json.dumps(found, indent=2))
        return 0
    for name, trace in traces.items():
        show(name, trace, modules=options.list)
    return 0


if __name__ == "__main__":
    sys.exit(main())
