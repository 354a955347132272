"""The kinds of faults, and the load that each of them needs."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from faults.run import Run

__all__ = ["KINDS", "Kind", "Load"]

_DOWN: Final = 1.0
"""Seconds from the death of a relay until it is started again."""
_STOPPED: Final = 3.0
"""Seconds for which SIGSTOP holds a relay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What publishers write, and how many subscriptions there are."""

    tracks: int = 20
    subscriptions: int = 23
    rate: float = 50.0
    per_group: int = 25
    size: int = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of fault."""

    help: str
    act: Callable[[Run, int], Awaitable[None]]
    """Applies the fault; gets the number of the event, from 0."""
    once: bool = False
    """Whether the fault is applied once in a run, whatever ``--times`` says."""
    load: Load | None = None
    """The load, where the fault needs one of its own."""


async def _kill_via(run: Run, _: int) -> None:
    via = await run.via_in_use()
    run.note_event(via.name)
    await run.processes.kill(via)
    await asyncio.sleep(_DOWN)
    await run.processes.start(via)


async def _drain_via(run: Run, _: int) -> None:
    via = await run.via_in_use()
    run.note_event(via.name)
    await run.processes.drain(via)
    await run.processes.start(via)


async def _drain_edge(run: Run, number: int) -> None:
    edge = run.edge_of(run.publishers if number % 2 else run.subscribers)
    run.note_event(edge.name)
    await run.processes.drain(edge)
    await run.processes.start(edge)


async def _drain_control(run: Run, _: int) -> None:
    run.note_event(run.control.name)
    await run.processes.drain(run.control)
    await run.processes.start(run.control)


async def _stop_via(run: Run, _: int) -> None:
    via = await run.via_in_use()
    run.note_event(via.name)
    via.send_signal(signal.SIGSTOP)
    try:
        await asyncio.sleep(_STOPPED)
    finally:
        via.send_signal(signal.SIGCONT)


async def _kill_edge_of_subscribers(run: Run, _: int) -> None:
    edge = run.edge_of(run.subscribers)
    run.note_event(edge.name)
    await run.processes.kill(edge)
    await asyncio.sleep(_DOWN)
    await run.processes.start(edge)


async def _kill_edge_of_publishers(run: Run, _: int) -> None:
    edge = run.edge_of(run.publishers)
    run.note_event(edge.name)
    await run.processes.kill(edge)
    await asyncio.sleep(_DOWN)
    await run.processes.start(edge)


async def _pause_subscriber(run: Run, _: int) -> None:
    client = run.subscribers[0]
    run.note_event(client.name)
    client.order(pause=run.options.pause)
    await asyncio.sleep(run.options.pause)
    await run.until_recovered()


async def _write_rarely(run: Run, _: int) -> None:
    run.note_event("publishers")
    for client in run.publishers:
        client.order(rate=1 / run.options.quiet_every)
    # Half a period more, so that the last object is written before the end.
    await asyncio.sleep(run.options.quiet_for + min(1.0, run.options.quiet_every / 2))


KINDS: Final[dict[str, Kind]] = {
    "kill-via": Kind(help="kill -9 of the Via in use, which is started again", act=_kill_via),
    "drain-via": Kind(help="SIGTERM to the Via in use, which is started again", act=_drain_via),
    "drain-edge": Kind(
        help="SIGTERM to the Edge of the subscribers, and by turns of the publishers",
        act=_drain_edge,
    ),
    "drain-control": Kind(help="SIGTERM to the control server", act=_drain_control),
    "stop-via": Kind(help=f"SIGSTOP of the Via in use for {_STOPPED:g} s", act=_stop_via),
    "kill-edge-sub": Kind(help="kill -9 of an Edge of subscribers", act=_kill_edge_of_subscribers),
    "kill-edge-pub": Kind(help="kill -9 of the Edge of publishers", act=_kill_edge_of_publishers),
    "pause-groups": Kind(
        help="a subscriber that pauses for 30 s at 4 MB/s, in groups of 25",
        act=_pause_subscriber,
        once=True,
        load=Load(tracks=1, subscriptions=2, rate=250.0, size=16_000),
    ),
    "pause-one-group": Kind(
        help="the same in one group without end",
        act=_pause_subscriber,
        once=True,
        load=Load(tracks=1, subscriptions=2, rate=250.0, size=16_000, per_group=0),
    ),
    "quiet": Kind(
        help="one object every 40 s on each track, for two minutes", act=_write_rarely, once=True
    ),
}
