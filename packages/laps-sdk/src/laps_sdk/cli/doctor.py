"""``laps ping`` and ``laps doctor``: check a relay, and what this machine needs to reach it."""

from __future__ import annotations

import asyncio
import functools
import importlib.metadata
import importlib.util
import platform
import socket
import sys
import time
from collections.abc import Iterator
from typing import Annotated, Final, NamedTuple

import typer

from laps_sdk.cli.options import AsJson, Link, Quiet, dials
from laps_sdk.cli.output import FAILED, Voice, advice_for, run
from laps_sdk.client.dial import state_directory
from laps_sdk.errors import RequestRefusedError
from laps_sdk.uri import DEFAULT_PORT, parse_address
from laps_wire.errors import LapsError
from laps_wire.names import FullTrackName, Namespace

__all__ = ["doctor", "ping"]


class Finding(NamedTuple):
    """One thing that was looked at."""

    check: str
    ok: bool | None
    """None: worth knowing, neither good nor bad."""
    found: str
    advice: str = ""


_EXTRAS: Final = {"cwt": "tokens", "qh3": "turbo", "uvloop": "uvloop", "matplotlib": "plot"}
"""Optional packages, each with the extra of laps-sdk that installs it."""

HERE: Final = f"moqt://127.0.0.1:{DEFAULT_PORT}"
"""Where a relay of this machine is, if nobody moved it."""


@functools.partial(dials, url=HERE)
def doctor(
    link: Link,
    *,
    offline: Annotated[
        bool, typer.Option("--offline", help="Look only at this machine, dial nobody.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Look for what could keep LAPS from working here."""
    voice = Voice(as_json=as_json)
    link.session()  # what is wrong with the options is no finding
    findings = list(_machine())

    async def work() -> None:
        name = _name(link)
        findings.append(name)
        if name.ok:
            findings.append(await _dial(link))

    if not offline:
        run(work())
    for finding in findings:
        if as_json:
            voice.record(finding._asdict())
        else:
            mark = {True: "ok  ", False: "BAD ", None: "    "}[finding.ok]
            voice.line(f"{mark}{finding.check}: {finding.found}")
            if finding.advice:
                voice.line(f"      {finding.advice}")
    if any(finding.ok is False for finding in findings):
        raise typer.Exit(FAILED)


def _machine() -> Iterator[Finding]:
    yield Finding("python", True, f"{platform.python_version()} ({sys.executable})")
    for package in ("laps-sdk", "laps-wire", "aioquic", "cryptography"):
        try:
            yield Finding(package, True, importlib.metadata.version(package))
        except importlib.metadata.PackageNotFoundError:
            advice = f"pip install {package}"
            yield Finding(package, False, "not installed", advice)
    for package, extra in _EXTRAS.items():
        there = importlib.util.find_spec(package) is not None
        advice = "" if there else f"optional: pip install 'laps-sdk[{extra}]'"
        yield Finding(package, True if there else None, "installed" if there else "none", advice)
    certificate = state_directory() / "dev-cert.pem"
    known = certificate.is_file()
    yield Finding(
        "development certificate",
        None,
        str(certificate) if known else "none",
        "" if known else "laps-relay serve makes one; loopback relays are trusted by it",
    )


def _name(link: Link) -> Finding:
    address = parse_address(link.url)
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_DGRAM)
    except OSError as error:
        return Finding("name", False, f"{address.host}: {error}", "is the host spelled right?")
    hosts = sorted({str(entry[4][0]) for entry in found})
    return Finding("name", True, f"{address.host} is {', '.join(hosts)}")


async def _dial(link: Link) -> Finding:
    try:
        async with link.session() as session:
            rtt = session.rtt
            shown = "" if rtt is None else f", round trip {rtt * 1000:.1f} ms"
            name = session.relay or "a relay that does not say its name"
            return Finding("relay", True, f"{link.url}: {name}, {session.draft}{shown}")
    except LapsError as error:
        return Finding("relay", False, str(error), advice_for(error))


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
