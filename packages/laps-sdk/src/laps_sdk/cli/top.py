"""``laps top``: show what a relay is doing, from its admin API."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from laps_sdk.cli.options import AsJson
from laps_sdk.cli.output import UsageFault, Voice, counted, one_line, printable
from laps_wire.errors import LapsError

if TYPE_CHECKING:
    from rich.console import Console, Group

__all__ = ["Rates", "screen", "terminal", "top"]

DEFAULT_ADMIN: Final = "http://127.0.0.1:33480"
ROWS: Final = 15
LIMIT: Final = 10.0
"""Seconds to wait for an answer."""
TOTALS: Final = ("objects_in", "objects_out", "bytes_in", "bytes_out", "dropped_objects")
TRACK_ROW: Final = frozenset((*TOTALS, "track", "subscribers", "cached_bytes"))
CONNECTION: Final = ("address", "draft", "webtransport", "rtt_ms", "queued_bytes")
SESSION_ROW: Final = frozenset((*CONNECTION, "session", "publishes", "subscriptions"))
"""The columns that are shown."""


def top(
    admin: Annotated[
        str, typer.Argument(metavar="ADMIN", help="Admin address of the relay.")
    ] = DEFAULT_ADMIN,
    *,
    interval: Annotated[
        float, typer.Option("--interval", "-i", min=0.1, help="Seconds between two updates.")
    ] = 1.0,
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, help="Stop after this many updates.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a relay is doing: sessions, tracks, throughput, drops.

    LAPS_ADMIN_TOKEN holds the admin token.
    """
    if not admin.startswith(("http://", "https://")):
        admin = f"http://{admin}"
    with one_line("top"):
        try:
            _watch(admin.rstrip("/"), interval, count, Voice(as_json=as_json))
        except KeyboardInterrupt:
            return


class _StayHere(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the admin token is for this address only."""

    def redirect_request(self, *_: object) -> None:
        """Return None, so that the redirect is reported as the answer."""


# No proxies: the admin API is on this machine or in the same network.
_OPENER: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}), _StayHere)


def _get(admin: str, path: str) -> dict[str, Any]:
    token = os.environ.get("LAPS_ADMIN_TOKEN")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        request = urllib.request.Request(f"{admin}{path}", headers=headers)  # noqa: S310 - checked
        with _OPENER.open(request, timeout=LIMIT) as answer:
            found = json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 401:
                raise LapsError(f"{admin}: needs the admin token in LAPS_ADMIN_TOKEN") from None
            raise LapsError(f"{admin}{path}: answered with status {error.code}") from None
    except OSError as error:  # URLError is one
        reason = getattr(error, "reason", error)
        raise LapsError(
            f"{admin}: {reason}; is the relay running? It prints its address after 'admin'"
        ) from None
    except (ValueError, http.client.HTTPException):
        raise _no_admin(admin) from None
    if not isinstance(found, dict):
        raise _no_admin(admin)
    return found


def _no_admin(admin: str) -> UsageFault:
    return UsageFault(f"{admin}: is not the admin address of a relay")


class Rates:
    """Rates of counters between two updates."""

    def __init__(self) -> None:
        self._before: dict[str, float] = {}
        self._at: float | None = None

    def of(self, counters: dict[str, float], now: float) -> dict[str, float]:
        """Return the growth of each counter per second; 0 at the first update."""
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
    try:
        return _summary(info, sessions, tracks, rates, now)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise _no_admin(admin) from None


def _summary(
    info: dict[str, Any],
    sessions: dict[str, Any],
    tracks: dict[str, Any],
    rates: Rates,
    now: float,
) -> dict[str, Any]:
    items: list[dict[str, Any]] = tracks["items"]
    for keys, rows in ((SESSION_ROW, sessions["items"]), (TRACK_ROW, items)):
        if any(not keys <= row.keys() for row in rows):
            raise ValueError
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


def terminal() -> Console:
    """Return the console. Rich is imported here because no other command needs it."""
    from rich.console import Console  # noqa: PLC0415

    return Console()


def _watch(admin: str, interval: float, count: int | None, voice: Voice) -> None:
    from rich.live import Live  # noqa: PLC0415 - see terminal()

    rates = Rates()
    console = terminal()
    in_place = console.is_terminal and not console.is_dumb_terminal and not voice.as_json
    live = Live(console=console, auto_refresh=False) if in_place else None
    with live or contextlib.nullcontext():
        for looks in itertools.count(1):
            look = _look(admin, rates, time.monotonic())
            if voice.as_json:
                voice.record(look)
            elif live is None:
                console.print(screen(look))
            else:
                live.update(screen(look), refresh=True)
            if looks == count:
                return
            time.sleep(interval)


def screen(look: dict[str, Any]) -> Group:
    """Return one update as tables. Names are shown as text, never as markup."""
    from rich.console import Group  # noqa: PLC0415 - see terminal()
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    rate = look["per_second"]
    head = Text(
        f"{printable(str(look['url']))}  laps-relay {printable(str(look['version']))}  "
        f"up {look['uptime_seconds']:.0f} s  {counted(look['sessions'], 'session')}  "
        f"{counted(look['tracks'], 'track')}\n"
        f"in {rate['objects_in']:.0f} objects/s, {rate['bytes_in'] * 8 / 1e6:.2f} Mbit/s   "
        f"out {rate['objects_out']:.0f} objects/s, {rate['bytes_out'] * 8 / 1e6:.2f} Mbit/s   "
        f"dropped {rate['dropped_objects']:.0f}/s"
    )
    tracks = Table(title="tracks", title_justify="left", expand=True)
    for column in ("track", "subscribers", "objects in", "objects out", "dropped", "cached KiB"):
        tracks.add_column(column, justify="left" if column == "track" else "right")
    for row in look["track_rows"]:
        tracks.add_row(
            Text(printable(str(row["track"])), overflow="ellipsis", no_wrap=True),
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
            Text(printable(str(row["address"]))),
            Text(f"{printable(str(row['draft']))}{' wt' if row['webtransport'] else ''}"),
            str(row["publishes"]),
            str(row["subscriptions"]),
            "-" if rtt is None else f"{rtt:.1f}",
            "-" if row["queued_bytes"] is None else str(row["queued_bytes"]),
        )
    return Group(head, tracks, sessions)
