"""What a QuicR peer can do wrong beyond bytes that do not parse.

::

    ProtocolViolation               0x3
    ├── MalformedError              0x3   (laps_wire.errors) bytes that are no message
    └── FragmentSequenceError       0x3   a FRAGMENT that breaks the order of a media stream

The seeds have no error codes. We close with MoQT's "protocol violation", as ``laps-2`` does.
"""

from __future__ import annotations

from laps_wire.errors import ProtocolViolation

__all__ = ["FragmentSequenceError"]


class FragmentSequenceError(ProtocolViolation):
    """A FRAGMENT in stream mode that none of the three order conditions allows (seed 001)."""

    def __init__(
        self, got: tuple[int, int, int], allowed: tuple[tuple[int, int, int], ...]
    ) -> None:
        wanted = " or ".join(_place(*place) for place in allowed)
        super().__init__(f"fragment at {_place(*got)} where only {wanted} may follow")
        self.got = got
        """(group id, object id, offset) of the fragment that was refused."""
        self.allowed = allowed
        """The places at which a fragment would have been right."""


def _place(group_id: int, object_id: int, offset: int) -> str:
    return f"group {group_id} object {object_id} offset {offset}"
