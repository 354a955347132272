"""Plots as inline SVG, readable on a light and on a dark background.

Axes and text use one colour that becomes the page's ``currentColor``. Lines and bars have colours
that stand out on both backgrounds. Text stays text, so that it can be read aloud, searched and
copied.
"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

__all__ = ["BAD", "COLOURS", "FAINT", "GOOD", "INK", "Picture", "draw", "time_axis"]

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
