"""``laps pub``: stdin, files or a message, as objects of a track."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

import typer

from laps_sdk.cli.options import (
    AsJson,
    Link,
    Name,
    NamespaceText,
    Quiet,
    as_typed,
    dials,
    track_of,
)
from laps_sdk.cli.output import NothingCameError, UsageFault, Voice, run
from laps_sdk.cli.stdin import Stdin, chunks, lines
from laps_sdk.client.core.names import track_path
from laps_sdk.client.publication import PublishedTrack

__all__ = ["pub"]


@dials
def pub(
    link: Link,
    *,
    namespace: NamespaceText,
    name: Name,
    message: Annotated[
        list[str] | None, typer.Option("--message", "-m", help="An object; may be repeated.")
    ] = None,
    file: Annotated[
        list[Path] | None,
        typer.Option("--file", "-f", help="A file as one object; may be repeated."),
    ] = None,
    chunk: Annotated[
        int | None,
        typer.Option("--chunk", min=1, help="Cut stdin into objects of so many bytes, not lines."),
    ] = None,
    per_group: Annotated[int, typer.Option("--per-group", min=1, help="Objects in a group.")] = 1,
    rate: Annotated[
        float | None, typer.Option("--rate", min=0.001, help="At most so many objects a second.")
    ] = None,
    wait: Annotated[
        float | None,
        typer.Option(
            "--wait-subscriber",
            min=0.01,
            metavar="SECONDS",
            help="Wait for a subscriber first; exit code 3 if none comes.",
        ),
    ] = None,
    linger: Annotated[
        float,
        typer.Option(
            "--linger",
            min=0.0,
            metavar="SECONDS",
            help="Stay so long behind the last object: a track ends with its publisher.",
        ),
    ] = 0.0,
    announce: Annotated[
        bool,
        typer.Option("--announce", help="Announce the namespace and publish when somebody asks."),
    ] = False,
    datagrams: Annotated[
        bool, typer.Option("--datagrams", help="Send objects as datagrams: they may be lost.")
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Publish a track: lines of stdin, messages or files, one object each."""  # fmt: skip
    track = track_of(namespace, name)
    if message and file:
        raise UsageFault("--message and --file do not go together")
    for path in file or ():
        if not path.is_file():
            raise UsageFault(f"--file {path}: there is no such file")
    voice = Voice(as_json=as_json, quiet=quiet)
    source = Source(message or [], file or [], chunk)
    pace = Pace(per_group=per_group, rate=rate, datagrams=datagrams)

    async def work() -> None:
        async with link.session() as session:
            with as_typed(track):
                # A relay takes what is pushed at once; who announces is asked when it is wanted.
                published = await session.publish(track, announce=announce or wait is not None)
                voice.remark(f"publishing {track_path(track)} ({session.draft})")
                if wait is not None:
                    await _subscriber(published, wait)
                try:
                    await pace.send(published, source, voice)
                    await asyncio.sleep(linger)
                finally:
                    voice.end_status()
                await published.end()
        voice.remark(f"{pace.sent} objects, {pace.size:,} bytes")

    run(work())


async def _subscriber(published: PublishedTrack, wait: float) -> None:
    try:
        async with asyncio.timeout(wait):
            await published.subscribed()
    except TimeoutError:
        words = f"{track_path(published.name)}: nobody subscribed within {wait:g} s"
        raise NothingCameError(words) from None


class Source:
    """Where objects come from."""

    def __init__(self, messages: list[str], files: list[Path], chunk: int | None) -> None:
        if chunk is not None and (messages or files):
            raise UsageFault("--chunk is for stdin")
        self._messages = messages
        self._files = files
        self._chunk = chunk

    async def objects(self) -> AsyncIterator[bytes]:
        """One after the other; reading never blocks the connection."""
        for text in self._messages:
            yield os.fsencode(text)  # the bytes that the shell handed over
        for path in self._files:
            yield await asyncio.to_thread(path.read_bytes)
        if self._messages or self._files:
            return
        stdin = Stdin()
        pieces = lines(stdin) if self._chunk is None else chunks(stdin, self._chunk)
        async for piece in pieces:
            yield piece


class Pace:
    """How fast, and in what portions."""

    def __init__(self, *, per_group: int, rate: float | None, datagrams: bool) -> None:
        self._per_group = per_group
        self._rate = rate
        self._datagrams = datagrams
        self.sent = 0
        self.size = 0

    async def send(self, track: PublishedTrack, source: Source, voice: Voice) -> None:
        """Write everything."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        async for payload in source.objects():
            if self._rate is not None:
                await asyncio.sleep(max(0.0, began + self.sent / self._rate - loop.time()))
            last = (self.sent + 1) % self._per_group == 0
            written = await track.write(payload, end_of_group=last, datagram=self._datagrams)
            self.sent += 1
            self.size += len(payload)
            if voice.as_json:
                voice.record({"group": written.group, "object": written.object})
            voice.status(f"{self.sent} objects, {self.size:,} bytes")
