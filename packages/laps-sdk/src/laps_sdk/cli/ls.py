"""``laps ls``: which namespaces and tracks there are."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from laps_sdk.cli.options import AsJson, Link, Quiet, dials, namespace_of
from laps_sdk.cli.output import Voice, run
from laps_sdk.client.core.objects import NamespaceAdded, NamespaceRemoved, TrackAdded, TrackRemoved
from laps_sdk.client.discovery import Namespaces, Tracks

__all__ = ["ls"]


@dials
def ls(
    link: Link,
    *,
    prefix: Annotated[
        str, typer.Argument(metavar="PREFIX", help="Only below this namespace.")
    ] = "",
    tracks: Annotated[
        bool, typer.Option("--tracks", "-t", help="Tracks that are published, not namespaces.")
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on telling what comes and goes.")
    ] = False,
    settle: Annotated[
        float,
        typer.Option(
            "--settle",
            min=0.01,
            metavar="SECONDS",
            help="The list is complete when nothing new came for so long.",
        ),
    ] = 0.5,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """List namespaces, or tracks, that the relay knows."""  # fmt: skip
    voice = Voice(as_json=as_json, quiet=quiet)
    below = namespace_of(prefix)

    async def work() -> None:
        async with link.session() as session:
            news = session.tracks(below) if tracks else session.namespaces(below)
            async with news:
                await _tell(news, voice, None if follow else settle)

    run(work())


async def _tell(news: Namespaces | Tracks, voice: Voice, settle: float | None) -> None:
    count = 0
    while True:
        limit = asyncio.timeout(settle)
        try:
            async with limit:
                event = await anext(news)
        except StopAsyncIteration:
            break
        except TimeoutError:
            if limit.expired():
                break
            raise
        count += 1
        gone = isinstance(event, NamespaceRemoved | TrackRemoved)
        kind = "track" if isinstance(event, TrackAdded | TrackRemoved) else "namespace"
        if voice.as_json:
            record: dict[str, object] = {kind: event.path, "event": "removed" if gone else "added"}
            if isinstance(event, TrackAdded) and event.largest is not None:
                record["largest"] = [event.largest.group, event.largest.object]
            voice.record(record)
        elif settle is None:
            voice.line(f"{'-' if gone else '+'} {event.path}")
        elif isinstance(event, NamespaceAdded | TrackAdded):
            voice.line(event.path)
    if not count:
        voice.remark("nothing there")
