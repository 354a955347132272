"""``laps sub`` and ``laps fetch``: write the objects of a track to stdout, new or past ones."""

from __future__ import annotations

import asyncio
import base64
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Annotated, Any, Final, NamedTuple

import typer

from laps_sdk.cli.options import (
    AsJson,
    Count,
    Limit,
    Lines,
    Link,
    Name,
    NamespaceText,
    Quiet,
    Wait,
    as_typed,
    dials,
    location_of,
    track_of,
)
from laps_sdk.cli.output import NothingCameError, Voice, counted, run
from laps_sdk.client.core.objects import Object, track_path
from laps_sdk.client.core.subscribe_options import LocationLike, Start
from laps_sdk.client.fetch import Fetch
from laps_sdk.client.session import Session
from laps_sdk.client.subscription import Subscription
from laps_sdk.errors import RequestRefusedError
from laps_wire.errors import LapsError
from laps_wire.moqt.codepoints import RequestErrorCode
from laps_wire.names import FullTrackName

__all__ = ["Show", "fetch", "record_of", "start_of", "sub"]

RETRY: Final = 0.25
"""Seconds between two requests for a track without a publisher."""
PATIENCE: Final = 1.0
"""Seconds that the relay may wait for a publisher before it answers."""
_NOT_YET: Final = (RequestErrorCode.DOES_NOT_EXIST, RequestErrorCode.TIMEOUT)


@dials
def sub(
    link: Link,
    *,
    namespace: NamespaceText,
    name: Name,
    start: Annotated[
        str,
        typer.Option(
            "--start", help="Where to start: latest, next-group, a group, or GROUP.OBJECT."
        ),
    ] = "latest",
    join: Annotated[
        int | None,
        typer.Option("--join", min=0, help="First fetch this many groups before the current one."),
    ] = None,
    lines: Lines = None,
    count: Count = None,
    seconds: Limit = None,
    wait: Wait = None,
    must_exist: Annotated[
        bool, typer.Option("--must-exist", help="Fail if the track has no publisher yet.")
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Subscribe to a track and write its objects to stdout.

    Waits for a publisher if the track has none yet.
    """
    track = track_of(namespace, name)
    voice = Voice(as_json=as_json, quiet=quiet)
    show = Show(voice, track, lines=voice.lines(lines), count=count, wait=wait)
    options = SubOptions(start_of(start), join, seconds, must_exist)
    run(_sub(link, show, options))


def start_of(text: str) -> Start:
    """Read the value of ``--start``."""
    if text in ("latest", "next-group"):
        return text  # type: ignore[return-value]  # one of the two literals
    return location_of("--start", text, words="latest, next-group, ")


@dataclass(slots=True)
class Show:
    """Writes objects to stdout and counts them."""

    voice: Voice
    track: FullTrackName
    lines: bool = False
    count: int | None = None
    wait: float | None = None
    received: int = 0
    size: int = 0

    async def all(self, objects: Subscription | Fetch) -> None:
        """Write objects until there are no more, or ``count`` of them."""
        began = time.monotonic()
        while self.count is None or self.received < self.count:
            limit = asyncio.timeout(self.wait)
            try:
                async with limit:
                    obj = await anext(objects)
            except StopAsyncIteration:
                return
            except TimeoutError:
                if not limit.expired():
                    raise  # the timeout of a request
                raise NothingCameError(
                    f"{track_path(self.track)}: nothing arrived for {self.wait:g} s"
                ) from None
            if obj.status:
                continue
            self.received += 1
            self.size += len(obj.payload)
            if self.voice.as_json:
                self.voice.record(record_of(obj))
            else:
                self.voice.data(obj.payload, newline=self.lines)
            rate = self.received / max(time.monotonic() - began, 1e-9)
            self.voice.status(f"{self.summary()}, {rate:.0f} objects/s")

    def summary(self) -> str:
        """Return the totals as text."""
        return f"{counted(self.received, 'object')}, {counted(self.size, 'byte')}"


class SubOptions(NamedTuple):
    """The options of ``laps sub``."""

    start: Start
    join: int | None
    seconds: float | None
    must_exist: bool


async def _sub(link: Link, show: Show, options: SubOptions) -> None:
    voice = show.voice
    try:
        async with link.connected(voice) as session:
            over = asyncio.timeout(options.seconds)  # --timeout limits dialling
            try:
                async with over, AsyncExitStack() as stack:
                    with as_typed(show.track):
                        subscription = await _subscribe(session, stack, show, options)
                        voice.remark(f"subscribed to {track_path(show.track)} ({session.draft})")
                        await show.all(subscription)
            except TimeoutError:
                if not over.expired():
                    raise
    finally:
        voice.end_status()
    voice.remark(show.summary())


async def _subscribe(
    session: Session, stack: AsyncExitStack, show: Show, options: SubOptions
) -> Subscription:
    """Return an accepted subscription; asks again while the track has no publisher."""
    voice, waited = show.voice, False
    loop = asyncio.get_running_loop()
    until = None if show.wait is None else loop.time() + show.wait
    while True:
        left = PATIENCE if until is None else until - loop.time()
        subscription = session.subscribe(
            show.track,
            start=options.start,
            join=options.join,
            wait=0.0 if options.must_exist else max(0.0, min(PATIENCE, left)),
            on_gap=lambda gap: voice.remark(f"gap: {gap}"),
        )
        try:
            return await stack.enter_async_context(subscription)
        except RequestRefusedError as refusal:
            if options.must_exist or refusal.code not in _NOT_YET:
                raise
            if until is not None and loop.time() >= until:
                raise NothingCameError(
                    f"{track_path(show.track)}: no publisher came within {show.wait:g} s"
                ) from None
        if not waited:
            waited = True
            voice.remark(f"waiting for a publisher of {track_path(show.track)}")
        await asyncio.sleep(RETRY)


@dials
def fetch(
    link: Link,
    *,
    namespace: NamespaceText,
    name: Name,
    start: Annotated[str, typer.Option("--from", help="First group, or GROUP.OBJECT.")] = "0",
    end: Annotated[
        str | None,
        typer.Option("--to", help="Last group, or GROUP.OBJECT. Default: the latest object."),
    ] = None,
    lines: Lines = None,
    count: Count = None,
    wait: Wait = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Fetch past objects of a track and write them to stdout."""
    track = track_of(namespace, name)
    voice = Voice(as_json=as_json, quiet=quiet)
    show = Show(voice, track, lines=voice.lines(lines), count=count, wait=wait)
    first = location_of("--from", start)
    last = None if end is None else location_of("--to", end)
    run(_fetch(link, show, first, last))


async def _fetch(link: Link, show: Show, start: LocationLike, end: LocationLike | None) -> None:
    async with link.connected(show.voice) as session:
        with as_typed(show.track):
            if end is None:
                status = await session.track_status(show.track)
                if status.largest is None:
                    raise LapsError(f"{track_path(show.track)}: nothing has been published yet")
                end = status.largest
            try:
                async with session.fetch(show.track, start=start, end=end) as objects:
                    await show.all(objects)
            finally:
                show.voice.end_status()
    show.voice.remark(show.summary())


def record_of(obj: Object) -> dict[str, Any]:
    """Return an object for JSON: a payload that is not UTF-8 becomes base64."""
    record: dict[str, Any] = {
        "group": obj.group,
        "object": obj.object,
        "subgroup": obj.subgroup,
        "size": len(obj.payload),
    }
    if obj.status:
        record["status"] = obj.status.name
    if obj.latency is not None:
        record["latency_ms"] = round(obj.latency * 1000, 3)
    try:
        record["text"] = obj.payload.decode()
    except UnicodeDecodeError:
        record["base64"] = base64.b64encode(obj.payload).decode()
    return record
