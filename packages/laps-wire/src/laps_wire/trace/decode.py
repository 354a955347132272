"""Decoding with a trace: messages, their trees, and what stopped the reading.

A protocol here is a name and a function that reads one message, or one whole unit, from a reader.
Whatever the bytes are, the answer is a list of what was understood, and at most one fault.

:func:`guess` reads the bytes as every protocol and ranks the results by :func:`evidence`::

    4  whole messages behind lengths that add up, or a whole stream of objects
    3  the beginning of a message of a known type, more than half of it there
    2  a whole datagram: a header, and behind it a payload that may be anything
    1  any other beginning
    0  not this protocol

Among equals the more specific framing wins, then the larger share of bytes with a meaning. Some
bytes are valid messages of several protocols, so the first result is no proof.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from laps_wire.errors import IncompleteError, MalformedError, RemoteError
from laps_wire.trace.annotate import annotate
from laps_wire.trace.reader import TracingReader
from laps_wire.trace.tree import Node, Record, join
from laps_wire.trace.words import Words, apply_words
from laps_wire.varint import QUIC, ByteSource, IntegerCoding

__all__ = ["Decoded", "Fault", "Protocol", "Status", "Traced", "decode", "evidence", "guess"]


class Status(Enum):
    """How a decoding ended; the value is the exit code of the command."""

    OK = 0
    BAD = 1
    INCOMPLETE = 3


@dataclass(frozen=True, slots=True)
class Protocol:
    """A way to read bytes."""

    name: str
    """As ``--as`` takes it."""
    title: str
    """What it is, for the help."""
    read: Callable[[TracingReader], Any]
    """Reads one message, or all of one unit."""
    integers: IntegerCoding = QUIC
    stream_of_messages: bool = True
    """Whether messages follow each other; otherwise the input is one unit."""
    datagram: bool = False
    """Whether the unit is whole by nature: then too short is bad, and not incomplete."""
    words: Words = field(default_factory=dict, repr=False)
    """Names for numbers that its messages keep as numbers."""
    weight: int = 0
    """How much a parse proves: 2 for messages behind a length, 1 for streams of objects, 0 for a
    header before any payload."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Why the reading stopped."""

    status: Status
    path: str
    """The field that was being read."""
    reason: str
    offset: int
    """Where that field begins."""
    end: int
    """Where what is wrong ends; the same as ``offset`` if there is nothing."""
    code: int | None = None
    """What a session would be closed with."""
    missing: int = 0
    """How many bytes are missing at least, of an input that ends too early."""

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        return f"{where}{self.reason}"


@dataclass(frozen=True, slots=True)
class Traced:
    """One message, or the beginning of one."""

    root: Node
    message: Any = None
    """None if it could not be read."""

    @property
    def name(self) -> str:
        """What to call it: its first composite, or else the class of the message."""
        for child in self.root.children or ():
            if not child.is_leaf:
                return child.label
        return "message" if self.message is None else type(self.message).__name__


@dataclass(frozen=True, slots=True)
class Decoded:
    """All that bytes gave, read as one protocol."""

    protocol: Protocol
    data: bytes
    messages: tuple[Traced, ...] = ()
    fault: Fault | None = None
    used: int = 0
    """How many bytes the whole messages take."""

    @property
    def status(self) -> Status:
        """How it ended."""
        return Status.OK if self.fault is None else self.fault.status


_EMPTY: Final = "there are no bytes"


def decode(protocol: Protocol, data: ByteSource) -> Decoded:
    """Read ``data`` as ``protocol``; never raises because of what the bytes are."""
    data = bytes(data)
    if not data:
        return Decoded(protocol, data, fault=Fault(Status.INCOMPLETE, "", _EMPTY, 0, 0, missing=1))
    reader = TracingReader(data, integers=protocol.integers, partial=not protocol.datagram)
    messages: list[Traced] = []
    fault = None
    used = 0
    while fault is None and not reader.at_end:
        reader.restart()
        record = reader.record
        message = None
        try:
            message = protocol.read(reader)
            if not protocol.stream_of_messages:
                reader.expect_end(protocol.name)
        except IncompleteError as error:
            fault = _incomplete(record, error.needed, len(data))
        except RemoteError as error:
            # Of a part that is cut nobody knows whether the rest would have made it good.
            if record.missing:
                fault = _incomplete(record, record.missing, len(data))
            else:
                fault = _bad(record, error, reader.pos)
        else:
            if record.missing:
                fault, message = _incomplete(record, record.missing, len(data)), None
            elif reader.pos == used:
                raise AssertionError(f"{protocol.name}: a message of no bytes")
            else:
                used = reader.pos
        annotate(record.root, message)
        apply_words(record.root, protocol.words)
        messages.append(Traced(record.root, message))
    return Decoded(protocol, data, tuple(messages), fault, used)


def _incomplete(record: Record, needed: int, size: int) -> Fault:
    """The input ends: which field was it in."""
    needed = max(needed, record.missing)
    reason = f"the input ends here, at least {needed} more byte(s) belong to it"
    if record.ended is None:
        # Where all fields were read and the frame promised more, that is said of the message.
        path = record.path or Traced(record.root).name
        return Fault(Status.INCOMPLETE, path, reason, size, size, missing=needed)
    label, start, _ = record.ended
    path = _path_of(record, label)
    return Fault(Status.INCOMPLETE, path, reason, start, size, missing=needed)


def _bad(record: Record, error: RemoteError, pos: int) -> Fault:
    """Where and why: from the error if it says, else from how far the reading came."""
    if isinstance(error, MalformedError) and error.offset is not None:
        end = max(record.root.end, error.offset)
        if record.ended is not None and record.ended[1] == error.offset:
            end = record.ended[2]
        path = _path_of(record, error.field)
        return Fault(Status.BAD, path, error.reason, error.offset, end, error.code)
    last = None
    for last in record.root.leaves():  # noqa: B007 - the last one is what is wanted
        pass
    if last is None:
        return Fault(Status.BAD, record.path, str(error), pos, pos, error.code)
    path, leaf = last
    return Fault(Status.BAD, path, str(error), leaf.start, leaf.end, error.code)


def _path_of(record: Record, label: str) -> str:
    """The path of a field that failed; it may be the composite that is open."""
    innermost = record.open[-1].label
    if not label or label == innermost or label.startswith(f"{innermost}["):
        return record.path
    return join(record.path, label)


_ENOUGH: Final = 8
"""How many bytes of a stream say something about what it is."""


def guess(protocols: Iterable[Protocol], data: ByteSource) -> list[Decoded]:
    """``data`` read as every protocol, the best fit first; ties keep the given order."""
    return sorted((decode(protocol, data) for protocol in protocols), key=_key, reverse=True)


def evidence(decoded: Decoded) -> int:
    """How well the bytes fit: the number in the table above."""
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
