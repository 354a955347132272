"""Which protocol are these bytes: try all, rank by what fits.

::

    4  whole messages behind lengths that add up, or a whole stream of objects
    3  the beginning of a message of a known type, more than half of it there
    2  a whole datagram: a header, and behind it a payload that may be anything
    1  any other beginning
    0  not this protocol

Among equals the more telling framing wins, then the larger share of bytes with a meaning. It is a
guess: some bytes are good messages of several protocols.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from laps_wire.trace.decode import Decoded, Protocol, Status, decode
from laps_wire.varint import ByteSource

__all__ = ["evidence", "guess"]

_ENOUGH: Final = 8
"""How many bytes of a stream say something about what it is."""


def guess(protocols: Iterable[Protocol], data: ByteSource) -> list[Decoded]:
    """``data`` read as every protocol, the best fit first; ties keep the given order."""
    return sorted((decode(protocol, data) for protocol in protocols), key=_key, reverse=True)


def evidence(decoded: Decoded) -> int:
    """How well the bytes fit: the number in the drawing above."""
    fault = decoded.fault
    weight = decoded.protocol.weight
    if fault is None:
        return 4 if weight else 2
    if fault.status is Status.BAD:
        return 0
    size = len(decoded.data)
    # A framed message is named by its type; the header of a stream begins with any byte.
    telling = _is_named(decoded) and (weight > 1 or (weight and size >= _ENOUGH))
    return 3 if telling and fault.missing <= size else 1


def _key(decoded: Decoded) -> tuple[int, bool, int, float]:
    return evidence(decoded), _is_named(decoded), decoded.protocol.weight, _meaning(decoded)


def _is_named(decoded: Decoded) -> bool:
    """Whether each message is one that its protocol has a name for."""
    return bool(decoded.messages) and all(
        any(not child.is_leaf for child in message.root.children or ())
        for message in decoded.messages
    )


def _meaning(decoded: Decoded) -> float:
    """The share of bytes that are numbers: strings and payloads may be anything."""
    numbers = sum(
        leaf.end - leaf.start
        for message in decoded.messages
        for _, leaf in message.root.leaves()
        if not isinstance(leaf.value, bytes)
    )
    return numbers / max(len(decoded.data), 1)
