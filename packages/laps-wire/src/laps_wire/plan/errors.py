"""The one error of plans as data: what is wrong, and in which field."""

from __future__ import annotations

from laps_wire.errors import TextFormError

__all__ = ["PlanFormatError"]


class PlanFormatError(TextFormError):
    """A text that is not a plan.

    ``plan.entries[3].via: "x" is not a node ID``: the place is a path into the document.
    """

    def __init__(self, reason: str, *, where: str = "") -> None:
        super().__init__(f"{where}: {reason}" if where else reason)
        self.reason = reason
        """What is wrong, without the place."""
        self.where = where
        """The path of the field; empty for the whole text."""
