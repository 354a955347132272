"""The gate that ``quality_1h`` makes: whether plans may be made from some hours."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from laps_analytics.errors import GateError

__all__ = ["Gate", "gate"]


@dataclass(frozen=True, slots=True)
class Gate:
    """Whether plans may be made from some hours."""

    hours: int
    """Hours that were checked; none is no reason to go on."""
    red: list[str]
    """Why not, worst first."""
    about: list[tuple[str, str]] = field(default_factory=list)
    """The same as checks and subjects: relays, or two with a ``>`` between them."""

    @property
    def open(self) -> bool:
        """Whether nothing is red."""
        return self.hours > 0 and not self.red

    def require(self) -> None:
        """Go on, or raise :class:`GateError` with the worst reasons."""
        if self.open:
            return
        if not self.hours:
            raise GateError("the quality of this data was never checked: run `build` first")
        more = f" (and {len(self.red) - 3} more)" if len(self.red) > 3 else ""
        raise GateError(f"the data-quality gate is red: {'; '.join(self.red[:3])}{more}")


def gate(rows: DataFrame) -> Gate:
    """The gate that rows of ``quality_1h`` make; choose their hours before."""
    hours = rows.select("window_start").distinct().count()
    worst = (F.col("error") - F.col("limit")) / (F.col("limit") + 1e-3)
    found = (
        rows.where("NOT ok")
        .orderBy(worst.desc(), "window_start", "check", "subject")
        .select(F.date_format("window_start", "yyyy-MM-dd HH:mm").alias("hour"), "*")
        .collect()
    )
    return Gate(
        hours,
        [
            f"{row['check']} of {row['subject']} at {row['hour']}:"
            f" {row['seen']:g} for {row['expected']:g}, off by {row['error']:.2%}"
            for row in found
        ],
        [(row["check"], row["subject"]) for row in found],
    )
