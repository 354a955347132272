"""``laps fetch``: objects of the past, to stdout."""

from __future__ import annotations

from typing import Annotated

import typer

from laps_sdk.cli.options import (
    AsJson,
    Count,
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
from laps_sdk.cli.output import Voice, run
from laps_sdk.cli.sub import Show
from laps_sdk.client.core.names import track_path
from laps_sdk.client.core.subscribe_options import LocationLike
from laps_wire.errors import LapsError

__all__ = ["fetch"]


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
