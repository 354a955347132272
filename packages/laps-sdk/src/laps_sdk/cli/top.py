"""``laps top``: what a relay does now, from its admin pages; refreshed in place on a terminal."""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from typing import Annotated, Any, Final

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from laps_sdk.cli.options import AsJson
from laps_sdk.cli.output import UsageFault, Voice, one_line
from laps_wire.errors import LapsError

__all__ = ["Rates", "screen", "top"]

DEFAULT_ADMIN: Final = "http://127.0.0.1:33480"
ROWS: Final = 15
TOTALS: Final = ("objects_in", "objects_out", "bytes_in", "bytes_out", "dropped_objects")


def top(
    admin: Annotated[
        str, typer.Argument(metavar="ADMIN", help="The relay's admin address.")
    ] = DEFAULT_ADMIN,
    *,
    interval: Annotated[
        float, typer.Option("--interval", "-i", min=0.1, help="Seconds between two looks.")
    ] = 1.0,
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, help="End after so many looks.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Watch a relay: sessions, tracks, throughput, drops. LAPS_ADMIN_TOKEN has the admin token."""
    if not admin.startswith(("http://", "https://")):
        admin = f"http://{admin}"
    with one_line("top"):
        try:
            _watch(admin.rstrip("/"), interval, count, Voice(as_json=as_json))
        except KeyboardInterrupt:
            return


def _get(admin: str, path: str) -> dict[str, Any]:
    request = urllib.request.Request(f"{admin}{path}")  # noqa: S310 - http(s) was checked
    token = os.environ.get("LAPS_ADMIN_TOKEN")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
            found = json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 401:
                raise LapsError(f"{admin}: set LAPS_ADMIN_TOKEN to the admin token") from None
            raise LapsError(f"{admin}{path}: answered {error.code}") from None
    except urllib.error.URLError as error:
        raise LapsError(
            f"{admin}: {error.reason}; is the relay running, with its admin pages there?"
        ) from None
    except ValueError:
        raise UsageFault(f"{admin}: that is not a relay's admin address") from None
    if not isinstance(found, dict):
        raise UsageFault(f"{admin}: that is not a relay's admin address")
    return found


class Rates:
    """How fast counters grow, from one look to the next."""

    def __init__(self) -> None:
        self._before: dict[str, float] = {}
        self._at: float | None = None

    def of(self, counters: dict[str, float], now: float) -> dict[str, float]:
        """Each counter's growth in a second; 0 at the first look."""
        passed = 0.0 if self._at is None else now - self._at
        grown = {
            name: max(0.0, value - self._before.get(name, value)) / passed if passed > 0 else 0.0
            for name, value in counters.items()
        }
        self._before, self._at = counters, now
        return grown


def _look(admin: str, rates: Rates, now: float) -> dict[str, Any]:
    info = _get(admin, "/v1/info")
    sessions = _get(admin, f"/v1/sessions?limit={ROWS}")
    tracks = _get(admin, "/v1/tracks?limit=1000")
    items: list[dict[str, Any]] = tracks["items"]
    totals = {name: float(sum(item[name] for item in items)) for name in TOTALS}
    return {
        "version": info["version"],
        "url": info["url"],
        "uptime_seconds": info["uptime_seconds"],
        "sessions": sessions["total"],
        "tracks": tracks["total"],
        "per_second": {name: round(rate, 1) for name, rate in rates.of(totals, now).items()},
        "session_rows": sessions["items"],
        "track_rows": sorted(items, key=lambda item: -item["bytes_out"])[:ROWS],
    }


def _watch(admin: str, interval: float, count: int | None, voice: Voice) -> None:
    rates = Rates()
    looks = 0
    console = Console()
    with Live(console=console, auto_refresh=False, screen=False) as live:
        while True:
            look = _look(admin, rates, time.monotonic())
            looks += 1
            if voice.as_json:
                voice.record(look)
            else:
                live.update(screen(look), refresh=True)
            if count is not None and looks >= count:
                return
            time.sleep(interval)


def screen(look: dict[str, Any]) -> Group:
    """One look as tables. Names come from strangers: they are text, never markup."""
    rate = look["per_second"]
    head = Text(
        f"{look['url']}  laps-relay {look['version']}  up {look['uptime_seconds']:.0f} s  "
        f"{look['sessions']} sessions  {look['tracks']} tracks\n"
        f"in {rate['objects_in']:.0f} objects/s, {rate['bytes_in'] * 8 / 1e6:.2f} Mbit/s   "
        f"out {rate['objects_out']:.0f} objects/s, {rate['bytes_out'] * 8 / 1e6:.2f} Mbit/s   "
        f"dropped {rate['dropped_objects']:.0f}/s"
    )
    tracks = Table(title="tracks", title_justify="left", expand=True)
    for column in ("track", "subscribers", "objects in", "objects out", "dropped", "cached KiB"):
        tracks.add_column(column, justify="left" if column == "track" else "right")
    for row in look["track_rows"]:
        tracks.add_row(
            Text(row["track"], overflow="ellipsis", no_wrap=True),
            str(row["subscribers"]),
            str(row["objects_in"]),
            str(row["objects_out"]),
            str(row["dropped_objects"]),
            f"{row['cached_bytes'] / 1024:.0f}",
        )
    sessions = Table(title="sessions", title_justify="left", expand=True)
    for column in ("session", "address", "draft", "publishes", "subscribes", "rtt ms", "queued"):
        sessions.add_column(column, justify="left" if column == "address" else "right")
    for row in look["session_rows"]:
        rtt = row["rtt_ms"]
        sessions.add_row(
            str(row["session"]),
            Text(str(row["address"])),
            Text(f"{row['draft']}{' wt' if row['webtransport'] else ''}"),
            str(row["publishes"]),
            str(row["subscriptions"]),
            "-" if rtt is None else f"{rtt:.1f}",
            str(row["queued_bytes"]),
        )
    return Group(head, tracks, sessions)
