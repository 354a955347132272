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
from laps_sdk.cli.output import NothingCameError, Voice, run
from laps_sdk.client.core.names import track_path
from laps_sdk.client.core.objects import Object
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
"""Seconds until a track that nobody publishes is asked for again."""
PATIENCE: Final = 1.0
"""Seconds that the relay may wait for a publisher before it says that there is none."""
_NOT_YET: Final = (RequestErrorCode.DOES_NOT_EXIST, RequestErrorCode.TIMEOUT)


@dials
def sub(
    link: Link,
    *,
    namespace: NamespaceText,
    name: Name,
    start: Annotated[
        str, typer.Option("--start", help="latest, next-group, a group, or GROUP.OBJECT.")
    ] = "latest",
    join: Annotated[
        int | None,
        typer.Option("--join", min=0, help="First fetch so many groups before the present one."),
    ] = None,
    lines: Lines = None,
    count: Count = None,
    seconds: Limit = None,
    wait: Wait = None,
    must_exist: Annotated[
        bool, typer.Option("--must-exist", help="Fail if nobody publishes the track yet.")
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Subscribe to a track and write its objects to stdout.

    A track that nobody publishes yet is waited for.
    """
    track = track_of(namespace, name)
    voice = Voice(as_json=as_json, quiet=quiet)
    show = Show(voice, track, lines=voice.lines(lines), count=count, wait=wait)
    options = SubOptions(start_of(start), join, seconds, must_exist)
    run(_sub(link, show, options))


def start_of(text: str) -> Start:
    """What ``--start`` says."""
    if text in ("latest", "next-group"):
        return text  # type: ignore[return-value]  # one of the two literals
    return location_of("--start", text, words="latest, next-group, ")


@dataclass(slots=True)
class Show:
    """Writes objects out as they come, and counts them."""

    voice: Voice
    track: FullTrackName
    lines: bool = False
    count: int | None = None
    wait: float | None = None
    received: int = 0
    size: int = 0

    async def all(self, objects: Subscription | Fetch) -> None:
        """Until there are no more, or enough."""
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
                    raise  # a request of the subscription's own
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
            self.voice.status(f"{self.received} objects, {self.size:,} bytes, {rate:.0f} objects/s")


class SubOptions(NamedTuple):
    """What and how long to subscribe."""

    start: Start
    join: int | None
    seconds: float | None
    must_exist: bool


async def _sub(link: Link, show: Show, options: SubOptions) -> None:
    voice = show.voice
    try:
        async with link.session() as session:
            over = asyncio.timeout(options.seconds)  # from here on: dialling has its own limit
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
    voice.remark(f"{show.received} objects, {show.size:,} bytes")


async def _subscribe(
    session: Session, stack: AsyncExitStack, show: Show, options: SubOptions
) -> Subscription:
    """A subscription that stands; asks again while nobody publishes the track."""
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
                    f"{track_path(show.track)}: nobody published it within {show.wait:g} s"
                ) from None
        if not waited:
            waited = True
            voice.remark(f"waiting for somebody to publish {track_path(show.track)}")
        await asyncio.sleep(RETRY)


@dials
def fetch(
    link: Link,
    *,
    namespace: NamespaceText,
    name: Name,
    start: Annotated[str, typer.Option("--from", help="The first group, or GROUP.OBJECT.")] = "0",
    end: Annotated[
        str | None,
        typer.Option("--to", help="The last group or GROUP.OBJECT; without it, the latest object."),
    ] = None,
    lines: Lines = None,
    count: Count = None,
    wait: Wait = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Fetch objects that were published before, and write them to stdout."""
    track = track_of(namespace, name)
    voice = Voice(as_json=as_json, quiet=quiet)
    show = Show(voice, track, lines=voice.lines(lines), count=count, wait=wait)
    first = location_of("--from", start)
    last = None if end is None else location_of("--to", end)
    run(_fetch(link, show, first, last))


async def _fetch(link: Link, show: Show, start: LocationLike, end: LocationLike | None) -> None:
    async with link.session() as session:
        with as_typed(show.track):
            if end is None:
                status = await session.track_status(show.track)
                if status.largest is None:
                    raise LapsError(f"{track_path(show.track)}: nothing was published yet")
                end = status.largest
            try:
                async with session.fetch(show.track, start=start, end=end) as objects:
                    await show.all(objects)
            finally:
                show.voice.end_status()
    show.voice.remark(f"{show.received} objects, {show.size:,} bytes")


def record_of(obj: Object) -> dict[str, Any]:
    """An object as JSON: the payload as text where it is text, as base64 where it is not."""
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
