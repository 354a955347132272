"""``laps ping``: whether a relay answers, what it speaks, and how long it takes."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated

import typer

from laps_sdk.cli.options import AsJson, Link, Quiet, dials
from laps_sdk.cli.output import Voice, run
from laps_sdk.errors import RequestRefusedError
from laps_wire.names import FullTrackName, Namespace

__all__ = ["ping"]

_NOBODY = FullTrackName(Namespace((b"laps-ping",)), b"nobody")
"""A track that nobody publishes: asking for its status makes the relay answer."""


@dials
def ping(
    link: Link,
    *,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="How many requests.")] = 4,
    interval: Annotated[
        float,
        typer.Option("--interval", "-i", min=0.0, metavar="SECONDS", help="Between two requests."),
    ] = 0.2,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Connect, and measure how long the relay takes to answer a request."""
    voice = Voice(as_json=as_json, quiet=quiet)

    async def work() -> None:
        began = time.perf_counter()
        async with link.session() as session:
            connected = time.perf_counter() - began
            if voice.as_json:
                voice.record(
                    {
                        "connected_ms": round(connected * 1000, 3),
                        "draft": session.draft,
                        "relay": session.relay,
                    }
                )
            else:
                voice.line(
                    f"connected in {connected * 1000:.1f} ms: {session.draft}, "
                    f"{session.relay or 'a relay that does not say its name'}"
                )
            for number in range(count):
                if number:
                    await asyncio.sleep(interval)
                began = time.perf_counter()
                try:
                    await session.track_status(_NOBODY)
                    answer = "OK"
                except RequestRefusedError as refusal:
                    answer = refusal.code_name
                took = time.perf_counter() - began
                rtt = session.rtt
                if voice.as_json:
                    voice.record(
                        {
                            "request": number,
                            "answer_ms": round(took * 1000, 3),
                            "answer": answer,
                            "srtt_ms": None if rtt is None else round(rtt * 1000, 3),
                        }
                    )
                else:
                    shown = "" if rtt is None else f", smoothed round trip {rtt * 1000:.2f} ms"
                    voice.line(f"answer {number}: {took * 1000:.2f} ms ({answer}){shown}")

    run(work())
