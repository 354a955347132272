"""``laps ls``: list namespaces and tracks."""

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
        str, typer.Argument(metavar="PREFIX", help="List only what is below this namespace.")
    ] = "",
    tracks: Annotated[
        bool, typer.Option("--tracks", "-t", help="List published tracks instead of namespaces.")
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep running and print additions and removals.")
    ] = False,
    settle: Annotated[
        float,
        typer.Option(
            "--settle",
            min=0.01,
            metavar="SECONDS",
            help="Stop when nothing new has arrived for this long.",
        ),
    ] = 0.5,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """List announced namespaces, or with --tracks published tracks."""  # fmt: skip
    voice = Voice(as_json=as_json, quiet=quiet)
    below = namespace_of(prefix)

    async def work() -> None:
        async with link.connected(voice) as session:
            news = session.tracks(below) if tracks else session.namespaces(below)
            async with news:
                count = await _print(news, voice, None if follow else settle)
        if not count:
            where = f" below {prefix}" if prefix else ""
            hint = "" if tracks else "; --tracks lists published tracks"
            voice.remark(f"no {'tracks' if tracks else 'namespaces'}{where}{hint}")

    run(work())


async def _print(news: Namespaces | Tracks, voice: Voice, settle: float | None) -> int:
    """Print events until nothing arrives for ``settle`` seconds; return their number."""
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
    return count
