"""Patterns of node IDs: ``100.*:*`` is every node whose first 16 bits are 100.

The text is that of a node ID (:mod:`laps_wire.nodeid`) in which a whole number may be ``*``::

    100.2:9001.2001    one node
    100.2:*            all with this high half
    100.*:*            all with these upper 16 bits
    *:0.7              the same low half everywhere
    *                  all
"""

from __future__ import annotations

from typing import Final, NamedTuple, Self

from laps_wire.errors import TextFormError
from laps_wire.nodeid import NodeId

__all__ = ["NodePattern"]

_EXAMPLE: Final = "100.*:*"


class NodePattern(NamedTuple):
    """A pattern: some bits of a node id must have these values."""

    mask: int
    value: int
    text: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a pattern. Raises ``TextFormError`` that points at the fault."""
        if text == "*":
            return cls(0, 0, text)
        mask = 0
        start = 0
        for half in text.split(":"):
            # A half that is one number has 32 bits, each part of a dotted one has 16.
            parts = half.split(".")
            bits = 32 // len(parts)
            for part in parts:
                if "*" in part and part != "*":
                    raise TextFormError.at(
                        "node pattern",
                        text,
                        start,
                        "'*' stands for a whole number",
                        example=_EXAMPLE,
                    )
                mask = mask << bits | (0 if part == "*" else (1 << bits) - 1)
                start += len(part) + 1
        # The numbers are those of a node ID: too many dots or colons, too, are found here.
        return cls(mask, NodeId.parse(text.replace("*", "0")), text)

    def matches(self, node: int) -> bool:
        """Return whether a node matches."""
        return node & self.mask == self.value

    def __str__(self) -> str:
        return self.text
