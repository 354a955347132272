"""The drafts of MoQT that are spoken here, and how a peer names them.

From draft 15 on a version is chosen by ALPN (or WebTransport's protocol list), not in SETUP
(moq-transport-16, 3.1). What differs between two drafts comes in three strategies::

    strategy        draft 16                          draft 18                     where
    integers        RFC 9000 varint, 62 bits          vi64, 64 bits                laps_wire.buffer
    parameters      Key-Value-Pairs                   typed for each parameter     .parameters
    session shape   one bidirectional control stream  a uni stream each way, a     .session
                                                      bidi stream for each request
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, Self

from laps_wire.buffer import QUIC, VI64, IntegerCoding

__all__ = ["Draft"]


class Draft(IntEnum):
    """A draft of MoQT; a larger value is a newer draft."""

    D16 = 16
    """What the C++ LAPS relay and most public stacks speak."""
    D18 = 18
    """What the public interop runner aims at."""

    @property
    def integers(self) -> IntegerCoding:
        """How this draft writes variable-length integers."""
        return _INTEGERS[self]

    @property
    def alpn(self) -> str:
        """The name of this draft in ALPN and in WebTransport's protocol negotiation."""
        return f"moqt-{self.value}"

    @classmethod
    def from_alpn(cls, alpn: str) -> Self | None:
        """The draft that ``alpn`` names, or None if it is not one that we speak."""
        for draft in cls:
            if draft.alpn == alpn:
                return draft
        return None


_INTEGERS: Final = {Draft.D16: QUIC, Draft.D18: VI64}
