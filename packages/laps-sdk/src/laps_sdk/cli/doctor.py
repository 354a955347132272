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
from laps_sdk.cli.output import FAILED, Voice, advice_for, install_extra, run
from laps_sdk.client.dial import state_directory
from laps_sdk.errors import RequestRefusedError
from laps_sdk.uri import DEFAULT_PORT, parse_address
from laps_wire.errors import LapsError
from laps_wire.names import FullTrackName, Namespace

__all__ = ["doctor", "ping"]


class Finding(NamedTuple):
    """The result of one check."""

    check: str
    ok: bool | None
    """None: information only."""
    found: str
    advice: str = ""


_EXTRAS: Final = {"cwt": "tokens", "qh3": "turbo", "uvloop": "uvloop", "matplotlib": "plot"}
"""Optional packages, each with the extra of laps-sdk that installs it."""

HERE: Final = f"moqt://127.0.0.1:{DEFAULT_PORT}"
"""The default address of a relay on this machine."""


@functools.partial(dials, url=HERE)
def doctor(
    link: Link,
    *,
    offline: Annotated[
        bool, typer.Option("--offline", help="Check only this machine; connect to nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check this machine and the connection to a relay, and say what to fix."""
    voice = Voice(as_json=as_json)
    link.session()  # raises for bad options
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
            source = f"-e packages/{package}" if package.startswith("laps-") else package
            advice = f"pip install {source}"
            yield Finding(package, False, "not installed", advice)
    for package, extra in _EXTRAS.items():
        there = importlib.util.find_spec(package) is not None
        advice = "" if there else f"optional: {install_extra(extra)}"
        yield Finding(
            package, True if there else None, "installed" if there else "not installed", advice
        )
    certificate = state_directory() / "dev-cert.pem"
    known = certificate.is_file()
    yield Finding(
        "development certificate",
        None,
        str(certificate) if known else "none",
        "" if known else "`laps-relay serve` makes one, and clients on this machine trust it",
    )


def _name(link: Link) -> Finding:
    address = parse_address(link.url)
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_DGRAM)
    except OSError as error:
        return Finding("name", False, f"{address.host}: {error}", "is the host name spelled right?")
    hosts = sorted({str(entry[4][0]) for entry in found})
    return Finding("name", True, f"{address.host} is {', '.join(hosts)}")


async def _dial(link: Link) -> Finding:
    try:
        async with link.session() as session:
            rtt = session.rtt
            shown = "" if rtt is None else f", round trip {rtt * 1000:.1f} ms"
            name = session.relay or "unnamed relay"
            return Finding("relay", True, f"{link.url}: {name}, {session.draft}{shown}")
    except LapsError as error:
        return Finding("relay", False, str(error), advice_for(error))


_NOBODY = FullTrackName(Namespace((b"laps-ping",)), b"nobody")
"""A track that nobody publishes; the relay answers a request for its status."""


@dials
def ping(
    link: Link,
    *,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="Number of requests.")] = 4,
    interval: Annotated[
        float,
        typer.Option(
            "--interval", "-i", min=0.0, metavar="SECONDS", help="Pause between two requests."
        ),
    ] = 0.2,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Connect to a relay and measure how long it takes to answer requests."""
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
                    f"{session.relay or 'unnamed relay'}"
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
