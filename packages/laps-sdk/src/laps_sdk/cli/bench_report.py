"""The report of ``laps bench``: percentiles, a histogram for terminals, a picture."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from laps_sdk.cli.output import install_extra
from laps_wire.errors import LapsError

__all__ = ["Sample", "Summary", "buckets", "draw", "histogram", "need_plotting", "percentile"]

WIDTH: Final = 50
"""Characters of the longest bar."""
PERCENTILES: Final = (50, 90, 99, 99.9)


@dataclass(slots=True)
class Sample:
    """What one subscriber received."""

    objects: int = 0
    bytes: int = 0
    delays: list[float] = field(default_factory=list)

    def note(self, size: int, delay: float | None) -> None:
        """Count an object."""
        self.objects += 1
        self.bytes += size
        if delay is not None:
            self.delays.append(delay)


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return the nearest-rank percentile of values in ascending order."""
    rank = math.ceil(len(ordered) * percent / 100) - 1
    return ordered[min(len(ordered) - 1, max(0, rank))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The figures of one run."""

    written: int
    seconds: float
    size: int
    subscribers: int
    delivered: int
    least: int
    """Objects at the subscriber that received the fewest."""
    delays: tuple[float, ...]
    """Delays of all objects in seconds, in ascending order."""

    @classmethod
    def of(cls, samples: Sequence[Sample], *, written: int, seconds: float, size: int) -> Summary:
        """Sum up the samples of all subscribers."""
        return cls(
            written=written,
            seconds=seconds,
            size=size,
            subscribers=len(samples),
            delivered=sum(sample.objects for sample in samples),
            least=min(sample.objects for sample in samples),
            delays=tuple(sorted(delay for sample in samples for delay in sample.delays)),
        )

    @property
    def missing(self) -> int:
        """Objects that were not delivered, summed over the subscribers."""
        return self.written * self.subscribers - self.delivered

    def record(self) -> dict[str, Any]:
        """Return the figures for JSON."""
        record: dict[str, Any] = {
            "written": self.written,
            "delivered": self.delivered,
            "missing": self.missing,
            "least": self.least,
            "subscribers": self.subscribers,
            "size": self.size,
            "seconds": round(self.seconds, 3),
            "written_per_second": round(self.written / self.seconds, 1),
            "delivered_bytes_per_second": round(self.delivered * self.size / self.seconds),
        }
        if self.delays:
            record["delay_ms"] = {
                f"p{percent:g}": round(percentile(self.delays, percent) * 1000, 3)
                for percent in PERCENTILES
            }
        return record

    def lines(self) -> Iterator[str]:
        """Yield the figures as lines of text."""
        rate = self.written / self.seconds
        carried = self.delivered * self.size * 8 / self.seconds / 1e6
        yield (
            f"{self.written} objects of {self.size} bytes in {self.seconds:.1f} s: {rate:.0f}/s; "
            f"delivered {self.delivered} to {self.subscribers}, {carried:.1f} Mbit/s; "
            f"missing {self.missing}"
        )
        if self.delays:
            shown = ", ".join(
                f"p{percent:g} {percentile(self.delays, percent) * 1000:.2f}"
                for percent in PERCENTILES
            )
            yield f"delay in ms: {shown}, worst {self.delays[-1] * 1000:.2f}"


def buckets(delays: Sequence[float]) -> list[tuple[float, float, int]]:
    """Return lower bound, upper bound and count of each bucket; steps of the square root of 2."""
    if not delays:
        return []
    low = max(delays[0], 1e-6)
    first = math.floor(math.log2(low) * 2)
    last = max(first, math.floor(math.log2(max(delays[-1], 1e-6)) * 2))
    counts = [0] * (last - first + 1)
    for delay in delays:
        counts[max(0, math.floor(math.log2(max(delay, 1e-6)) * 2) - first)] += 1
    return [
        (2 ** ((first + number) / 2), 2 ** ((first + number + 1) / 2), count)
        for number, count in enumerate(counts)
    ]


def histogram(delays: Sequence[float]) -> Iterator[str]:
    """Yield one bar per bucket for a terminal."""
    found = buckets(delays)
    most = max((count for _, _, count in found), default=0)
    for low, high, count in found:
        bar = "#" * round(count / most * WIDTH)
        yield f"{low * 1000:9.2f} - {high * 1000:9.2f} ms  {count:7}  {bar}"


def need_plotting() -> None:
    """Raise ``LapsError`` if matplotlib is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        raise LapsError(f"--png needs matplotlib: {install_extra('plot')}")


def draw(summary: Summary, path: Path) -> None:
    """Draw the distribution of delays into a PNG file."""
    # Optional, and slow to load.
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(8, 4.5), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    delays = [delay * 1000 for delay in summary.delays]
    shares = [(number + 1) / len(delays) * 100 for number in range(len(delays))]
    axes.step(delays, shares, where="post", color="#205080")
    for percent in PERCENTILES[:3]:
        if delays:
            at = percentile(delays, percent)
            axes.axvline(at, color="#c04020", linewidth=0.8, linestyle="--")
            axes.annotate(f"p{percent:g}\n{at:.1f} ms", (at, 3), fontsize=8, color="#c04020")
    axes.set_xscale("log")
    axes.set_xlabel("delay from writing to receiving, ms")
    axes.set_ylabel("objects received by then, %")
    axes.set_title(
        f"{summary.written} objects of {summary.size} bytes, {summary.subscribers} subscribers, "
        f"{summary.written / summary.seconds:.0f}/s"
    )
    axes.grid(visible=True, which="both", alpha=0.25)
    figure.savefig(path)
