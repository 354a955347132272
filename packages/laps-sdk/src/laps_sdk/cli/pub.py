"""``laps pub``: publish stdin, files or messages as the objects of a track."""

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
from laps_sdk.cli.output import NothingCameError, UsageFault, Voice, counted, run
from laps_sdk.cli.stdin import Stdin, chunks, lines
from laps_sdk.client.core.objects import track_path
from laps_sdk.client.publication import PublishedTrack
from laps_sdk.errors import ConnectionLostError

__all__ = ["pub"]


@dials
def pub(
    link: Link,
    *,
    namespace: NamespaceText,
    name: Name,
    message: Annotated[
        list[str] | None,
        typer.Option("--message", "-m", help="Text of one object; may be repeated."),
    ] = None,
    file: Annotated[
        list[Path] | None,
        typer.Option("--file", "-f", help="File to send as one object; may be repeated."),
    ] = None,
    chunk: Annotated[
        int | None,
        typer.Option(
            "--chunk", min=1, help="Split stdin into objects of this many bytes, not lines."
        ),
    ] = None,
    per_group: Annotated[int, typer.Option("--per-group", min=1, help="Objects per group.")] = 1,
    rate: Annotated[
        float | None,
        typer.Option("--rate", min=0.001, help="Send at most this many objects per second."),
    ] = None,
    wait: Annotated[
        float | None,
        typer.Option(
            "--wait-subscriber",
            min=0.01,
            metavar="SECONDS",
            help="Wait for a subscriber first; exit code 3 if none comes in time.",
        ),
    ] = None,
    linger: Annotated[
        float,
        typer.Option(
            "--linger",
            min=0.0,
            metavar="SECONDS",
            help="Stay connected for this long after the last object; then the track ends.",
        ),
    ] = 0.0,
    announce: Annotated[
        bool,
        typer.Option(
            "--announce", help="Announce only the namespace; send when a subscriber asks."
        ),
    ] = False,
    datagrams: Annotated[
        bool, typer.Option("--datagrams", help="Send objects as datagrams, which may be lost.")
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Publish a track: each line of stdin, message or file becomes one object."""  # fmt: skip
    track = track_of(namespace, name)
    if message and file:
        raise UsageFault("use either --message or --file, not both")
    for path in file or ():
        if not path.is_file():
            raise UsageFault(f"--file {path}: no such file")
    voice = Voice(as_json=as_json, quiet=quiet)
    source = Source(message or [], file or [], chunk)
    pace = Pace(per_group=per_group, rate=rate, datagrams=datagrams)

    async def work() -> None:
        async with link.connected(voice) as session:
            with as_typed(track):
                # A relay accepts PUBLISH at once, but subscribes to an announced namespace only
                # when there is a subscriber.
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
        voice.remark(f"{counted(pace.sent, 'object')}, {counted(pace.size, 'byte')}")
        if published.resent:
            voice.remark(f"{counted(published.resent, 'object')} sent again on a new connection")
        if published.lost:
            raise ConnectionLostError(
                f"the connection was lost, and {counted(published.lost, 'object')} that had been"
                " sent may not have arrived"
            )

    run(work())


async def _subscriber(published: PublishedTrack, wait: float) -> None:
    try:
        async with asyncio.timeout(wait):
            await published.subscribed()
    except TimeoutError:
        words = f"{track_path(published.name)}: no subscriber came within {wait:g} s"
        raise NothingCameError(words) from None


class Source:
    """The objects to send: messages, files or stdin."""

    def __init__(self, messages: list[str], files: list[Path], chunk: int | None) -> None:
        if chunk is not None and (messages or files):
            raise UsageFault("--chunk splits stdin: use it without --message and --file")
        self._messages = messages
        self._files = files
        self._chunk = chunk

    async def objects(self) -> AsyncIterator[bytes]:
        """Yield the payloads; reading never blocks the event loop."""
        for text in self._messages:
            yield os.fsencode(text)  # the bytes of the shell
        for path in self._files:
            yield await asyncio.to_thread(path.read_bytes)
        if self._messages or self._files:
            return
        stdin = Stdin()
        pieces = lines(stdin) if self._chunk is None else chunks(stdin, self._chunk)
        async for piece in pieces:
            yield piece


class Pace:
    """Sends objects at a rate, in groups."""

    def __init__(self, *, per_group: int, rate: float | None, datagrams: bool) -> None:
        self._per_group = per_group
        self._rate = rate
        self._datagrams = datagrams
        self.sent = 0
        self.size = 0

    async def send(self, track: PublishedTrack, source: Source, voice: Voice) -> None:
        """Write every object of the source."""
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
            voice.status(f"{counted(self.sent, 'object')}, {counted(self.size, 'byte')}")
