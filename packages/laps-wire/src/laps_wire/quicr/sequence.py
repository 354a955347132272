"""The order of FRAGMENT messages in stream mode (seed 001, Fragment Message).

A media stream that runs over the control stream sends everything in order, so that exactly one of
three things may follow a fragment::

              previous was not the last of its object           previous was the last
              -------------------------------------             ---------------------------
     1.       same group, same object,
              offset = previous offset + previous length
     2.                                                         same group, object + 1, offset 0
     3.                                                         group + 1, object 0, offset 0

The first fragment stands at the START_POINT, or at group 0 object 0 if there was none. Here the
peer itself answers for the order, so a break is its fault and ends the session; datagrams, which
relays pass on out of order, go to :mod:`laps_wire.quicr.reassembly` instead.

The seeds have no error codes. A break closes the session with MoQT's "protocol violation", 0x3.
"""

from __future__ import annotations

from laps_wire.errors import ProtocolViolation

__all__ = ["FragmentSequence", "FragmentSequenceError"]


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


class FragmentSequence:
    """Checks the fragments of one media stream as they come.

    Command: ``start_at`` (a START_POINT came). Input: ``check``. State: ``allowed``,
    ``at_boundary``.
    """

    __slots__ = ("_begun", "allowed")

    def __init__(self) -> None:
        self._begun = False
        self.allowed: tuple[tuple[int, int, int], ...] = ((0, 0, 0),)
        """Where the next fragment may stand: (group id, object id, offset), one place or two."""

    @property
    def at_boundary(self) -> bool:
        """Whether the stream may end here: no object is half sent."""
        return not self._begun or len(self.allowed) == 2

    def start_at(self, group_id: int, object_id: int) -> None:
        """Begin at a START_POINT; it stands before the first fragment (seed 001, Start Point)."""
        if self._begun:
            raise ProtocolViolation("START_POINT after the first fragment")
        self.allowed = ((group_id, object_id, 0),)

    def check(
        self, group_id: int, object_id: int, offset: int, length: int, is_last_fragment: bool
    ) -> None:
        """Accept a fragment that follows the one before it, or raise and change nothing."""
        place = (group_id, object_id, offset)
        if place not in self.allowed:
            raise FragmentSequenceError(place, self.allowed)
        self._begun = True
        if is_last_fragment:
            self.allowed = ((group_id, object_id + 1, 0), (group_id + 1, 0, 0))
        else:
            self.allowed = ((group_id, object_id, offset + length),)
