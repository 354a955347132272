"""The one error of the telemetry readers: what is wrong with a record, and where."""

from __future__ import annotations

from laps_wire.errors import TextFormError

__all__ = ["TelemetryError"]


class TelemetryError(TextFormError):
    """A line or a dict that is not a telemetry event.

    ``hop.stat: body.drops.ttl: "7" is not a long (line 12)``: the place is a path into the event,
    so that a quarantine can count faults by field.
    """

    def __init__(self, reason: str, *, where: str = "", line: int | None = None) -> None:
        place = f"{where}: " if where else ""
        at = "" if line is None else f" (line {line})"
        super().__init__(f"{place}{reason}{at}")
        self.reason = reason
        """What is wrong, without the place."""
        self.where = where
        """The path of the field, such as ``body.path[2].srtt_us``; empty for the whole line."""
        self.line = line
        """The number of the line in its file, from 1, if known."""

    def at_line(self, line: int) -> TelemetryError:
        """The same fault with the number of its line."""
        return TelemetryError(self.reason, where=self.where, line=line)
