"""What chapters of the report are made of: sections, plots, and names and numbers for readers.

A chapter is a function of the :class:`Context` that returns a :class:`Section`.

Plots are inline SVG, readable on a light and on a dark background. Axes and text use one colour
that becomes the page's ``currentColor``. Lines and bars have colours that stand out on both
backgrounds. Text stays text, so that it can be read aloud, searched and copied.

Relays are named by the city that is nearest to their coordinates, from ``topohub`` if it is
installed.
"""

from __future__ import annotations

import html
import io
import math
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from laps_analytics.report.gold import Gold

__all__ = [
    "BAD",
    "COLOURS",
    "FAINT",
    "GOOD",
    "INK",
    "Context",
    "Picture",
    "Places",
    "Section",
    "bits",
    "bytes_",
    "cell",
    "cities",
    "clean",
    "clock",
    "draw",
    "percent",
    "ratio",
    "short",
    "span",
    "time_axis",
]

# Numbers, times and names

_STEPS: Final = ("", "k", "M", "G", "T", "P", "E")
_LONGEST: Final = 200


def _scaled(value: float, unit: str) -> str:
    size, step = float(value), 0
    while abs(size) >= 1000 and step < len(_STEPS) - 1:
        size /= 1000
        step += 1
    digits = 0 if step == 0 or abs(size) >= 100 else 1
    return f"{size:.{digits}f} {_STEPS[step]}{unit}"


def bytes_(value: float) -> str:
    """Return ``12.3 GB``, with powers of ten as in bills."""
    return _scaled(value, "B")


def bits(value: float) -> str:
    """Return ``1.2 Gbit/s``."""
    return _scaled(value, "bit/s")


def percent(share: float, digits: int = 1) -> str:
    """Return ``4.2 %``."""
    return f"{share * 100:.{digits}f} %"


def ratio(value: float) -> str:
    """Return ``2.41``."""
    return f"{value:.2f}"


def clock(moment: pd.Timestamp) -> str:
    """Return ``18 Jun 19:05``."""
    return f"{moment:%d %b %H:%M}"


def span(first: pd.Timestamp, last: pd.Timestamp) -> str:
    """Return ``18 Jun 19:05 to 19:30``."""
    same = first.date() == last.date()
    return f"{clock(first)} to {last:%H:%M}" if same else f"{clock(first)} to {clock(last)}"


def clean(text: object) -> str:
    """Return untrusted text as one printable line of limited length."""
    shown = "".join(
        char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in str(text)
    )
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"


def short(text: object, length: int = 34) -> str:
    """Return the same for a plot, with a shorter limit."""
    shown = clean(text)
    return shown if len(shown) <= length else f"{shown[: length - 1]}\N{HORIZONTAL ELLIPSIS}"


def cell(value: Any) -> str:
    """Return a value of a table as text."""
    if value is None or value is pd.NA or value is pd.NaT:
        return "\N{EN DASH}"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, float | np.floating):
        number = float(value)
        if math.isnan(number):
            return "\N{EN DASH}"
        if number == int(number) and abs(number) < 1e15:
            return f"{number:,.0f}"
        return f"{number:,.2f}" if abs(number) >= 0.1 else f"{number:.4f}"
    if isinstance(value, int | np.integer):
        return f"{value:,}"
    if isinstance(value, pd.Timestamp):
        return f"{value:%Y-%m-%d %H:%M}"
    return clean(value)


# Plots

INK: Final = "#010203"
"""Placeholder for the text colour of the page."""
FAINT: Final = "#8a8f98"
GOOD: Final = "#2a9d63"
BAD: Final = "#d1495b"
COLOURS: Final = ("#3b82c4", "#e08e2b", "#2a9d63", "#d1495b", "#8f6bc9", "#17a2b1", "#a3742f")

_STYLE: Final[Any] = {
    "svg.fonttype": "none",
    # A tenant may be called $x$, and that is no formula.
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.alpha": 0.25,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
}


@dataclass(frozen=True, slots=True)
class Picture:
    """A plot and its description."""

    svg: str
    alt: str


def draw(
    name: str,
    alt: str,
    paint: Callable[[Figure], None],
    *,
    size: tuple[float, float] = (9.0, 3.6),
) -> Picture:
    """Return the plot that ``paint`` draws; ``name`` is unique in the page."""
    with mpl.rc_context({**_STYLE, "svg.hashsalt": name}):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        paint(figure)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None})
    return Picture(_inline(out.getvalue(), name, alt), alt)


def _inline(svg: str, name: str, alt: str) -> str:
    """Return the plot as an element of the page with a title, without prologue and metadata."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = body.replace(INK, "currentColor")
    # Names of parts are the figure's own; several pictures share a page.
    body = re.sub(
        r'id="((?:figure|axes|patch|line2d|text|matplotlib\.axis|xtick|ytick|legend|'
        r'[A-Za-z]+Collection)_\d+)"',
        r'class="\1"',
        body,
    )
    head = re.match(r"<svg[^>]*>", body)
    if head is None:  # pragma: no cover - matplotlib always writes one
        return body
    view = re.search(r'viewBox="[^"]*"', head[0])
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
        f' {view[0] if view else ""} role="img" aria-labelledby="{name}-alt">'
        f'<title id="{name}-alt">{html.escape(alt)}</title>'
    )
    return opening + body[head.end() :].strip()


def time_axis(axes: Axes, most: int = 9) -> None:
    """Format the time axis in UTC."""
    from matplotlib.dates import (  # noqa: PLC0415
        MINUTELY,
        AutoDateLocator,
        ConciseDateFormatter,
    )

    locator = AutoDateLocator(minticks=3, maxticks=most)  # type: ignore[no-untyped-call]
    # Five ticks are too few for two hours in its list of minutes.
    locator.intervald[MINUTELY] = [1, 5, 10, 15, 30, 60]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]


# Places

_NEAR_KM = 60.0


@cache
def cities() -> tuple[tuple[float, float, str], ...]:
    """Return longitude, latitude and name of cities; empty without ``topohub``."""
    try:
        import topohub  # noqa: PLC0415 - an extra, and half a second
    except ImportError:
        return ()
    with warnings.catch_warnings():
        # topohub leaves its file to the garbage collector.
        warnings.simplefilter("ignore", ResourceWarning)
        nodes: list[dict[str, Any]] = topohub.get("backbone/world")["nodes"]
    return tuple(
        sorted(
            (float(node["pos"][0]), float(node["pos"][1]), str(node["name"]))
            for node in nodes
            if node["type"] == "City"
        )
    )


class Places:
    """Display names of relays: the nearest city, and the node id."""

    def __init__(self, nodes: pd.DataFrame) -> None:
        """``nodes`` has the columns node, region, longitude and latitude."""
        self._names: dict[str, str] = {}
        self.regions: dict[str, str] = {}
        for row in nodes.itertuples():
            node = str(row.node)
            if isinstance(row.region, str) and row.region:
                self.regions[node] = row.region
            if pd.notna(row.longitude) and pd.notna(row.latitude):
                name = _city(float(row.longitude), float(row.latitude))
                if name:
                    self._names[node] = name

    def city(self, node: str) -> str:
        """Return the city of a relay; its node id if no city is near."""
        return self._names.get(node, node)

    def full(self, node: str) -> str:
        """Return ``Warsaw (0.1:0.7)``."""
        name = self._names.get(node)
        return node if name is None else f"{name} ({node})"

    def link(self, one: str, other: str) -> str:
        """Return ``Warsaw > Cairo``."""
        return f"{self.city(one)} > {self.city(other)}"


def _city(lon: float, lat: float) -> str | None:
    best, name = _NEAR_KM, None
    for there_lon, there_lat, there in cities():
        if abs(there_lat - lat) > 1:
            continue
        east = (there_lon - lon) * math.cos(math.radians(lat))
        km = math.hypot(east, there_lat - lat) * 111.2
        if km < best:
            best, name = km, there
    return name


# Sections

_NAMES = ("at", "kind", "node", "region", "longitude", "latitude")


@dataclass(frozen=True, slots=True)
class Section:
    """A chapter: paragraphs, plots and tables."""

    key: str
    title: str
    question: str
    paragraphs: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    """Name to table, as ``--csv`` and ``--json`` write them."""
    answer: str = ""
    """The chapter in a sentence, for the head of the page."""


@dataclass(frozen=True, slots=True)
class Context:
    """The gold tables, and the names of relays."""

    gold: Gold
    places: Places

    @classmethod
    def of(cls, gold: Gold) -> Context:
        """Return the context, with names from the last snapshots of the topology."""
        last = gold.last_seen("topology_snapshot")
        days = {*gold.days("topology_snapshot"), *(() if last is None else (last,))}
        snapshot = gold.of_days("topology_snapshot", _NAMES, days=days, where={"kind": ("node",)})
        return cls(gold, Places(snapshot.sort_values("at").drop_duplicates("node", keep="last")))

    def empty_section(self, key: str, title: str, question: str, table: str) -> Section:
        """Return a chapter about a table without rows in the time of the page."""
        last = self.gold.last_seen(table)
        if last is None:
            paragraphs = (
                f"The table {table} has no rows: either nothing of that kind happened, or it was"
                " not built."
            )
            return Section(key, title, question, (paragraphs,))
        answer = f"Nothing since {last}."
        paragraphs = f"{answer} That is the last day of which the table {table} has rows."
        return Section(key, title, question, (paragraphs,), answer=answer)
