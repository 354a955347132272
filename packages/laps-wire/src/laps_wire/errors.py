"""The errors of LAPS: one tree; whose fault it was is in the type, the wire code is on the class.

::

    LapsError
    ├── IncompleteError               no fault: the bytes so far are a strict prefix; wait for more
    ├── LocalError                    our side was used wrongly; nothing goes to the peer
    │   ├── EncodeError               (ValueError)   a value does not fit its field on the wire
    │   ├── TextFormError             (ValueError)   a textual name, id or URL does not parse
    │   └── StateError                (RuntimeError) a command that the session's state forbids
    └── RemoteError                   the peer broke the protocol; ``code`` is what to close with
        └── ProtocolViolation   0x3
            └── MalformedError  0x3   bytes that can never become a message

Protocol packages add their own classes below :class:`RemoteError`, one for each code that their
specification names (``laps_wire.moqt.errors``, ``laps_wire.peering.errors``). ``laps-2`` and our
completion of QuicR use MoQT's number for "protocol violation", so that the errors raised by the
shared readers carry the right code whatever protocol they were reading.

Codecs and sessions never raise anything else because of what a peer sent.
"""

from __future__ import annotations

from typing import ClassVar, Self

__all__ = [
    "EncodeError",
    "IncompleteError",
    "LapsError",
    "LocalError",
    "MalformedError",
    "ProtocolViolation",
    "RemoteError",
    "StateError",
    "TextFormError",
]


class LapsError(Exception):
    """The root of everything that LAPS raises on purpose."""


class IncompleteError(LapsError):
    """The input ends before the message does: not a fault, read more and try again."""

    def __init__(self, needed: int = 1) -> None:
        super().__init__(f"at least {needed} more byte(s) needed")
        self.needed = needed
        """A lower bound of how many bytes are missing; at least 1."""


class LocalError(LapsError):
    """Our own side was used wrongly. Nothing was sent and no state changed."""


class EncodeError(LocalError, ValueError):
    """A value cannot be written: it is out of the range that its field has on the wire."""


class TextFormError(LocalError, ValueError):
    """A text (node id, short name, URL, track name) that does not parse.

    The message says what was wrong, where, and what a good one looks like.
    """

    @classmethod
    def at(cls, kind: str, text: str, index: int, reason: str, *, example: str) -> Self:
        """Point at ``text[index]``, or at the end of ``text``; people count from 1."""
        where = f"at character {index + 1}" if index < len(text) else "at the end"
        # ascii() keeps control characters and look-alike letters visible, and logs on one line.
        shown = ascii(text if len(text) <= 80 else f"{text[:77]}...")
        return cls(f"{kind} {shown}: {reason}, {where}; a good one is {example!r}")


class StateError(LocalError, RuntimeError):
    """A command that the session's present state does not allow."""


class RemoteError(LapsError):
    """The peer broke the protocol. ``code`` is the code to close the session with."""

    code: ClassVar[int] = 0x1
    """The wire code; 0x1 is "internal error" in MoQT and in laps-2."""


class ProtocolViolation(RemoteError):  # noqa: N818 - the drafts' own name
    """The peer did what the specification forbids, and no more special code exists for it."""

    code: ClassVar[int] = 0x3


class MalformedError(ProtocolViolation):
    """Bytes that can never become a message, however many follow.

    The message names the field with everything around it: ``SUBSCRIBE.parameters.count: ...``.
    """

    def __init__(self, reason: str, *, field: str = "", offset: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.field = field
        """The field that was being read, as the specification names it."""
        self.path = field
        """The field and what it stands in, outermost first."""
        self.offset = offset
        """Where in the input the field starts, if known."""

    def inside(self, outer: str) -> None:
        """Say that the field stands in ``outer``; layouts do so on the way out."""
        # An index goes on its array, a field behind a dot; a structure may have failed as a whole.
        if not self.path or self.path == outer:
            self.path = outer
        else:
            self.path = f"{outer}{self.path}" if self.path[0] == "[" else f"{outer}.{self.path}"

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        at = "" if self.offset is None else f" (at byte {self.offset})"
        return f"{where}{self.reason}{at}"
