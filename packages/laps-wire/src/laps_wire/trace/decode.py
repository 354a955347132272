"""Decoding with a trace: messages, their trees, and at most one fault.

A protocol is a name and a function that reads one message, or one whole unit, from a reader. For
any bytes, :func:`decode` returns the messages that were decoded, and at most one fault.

:func:`guess` reads the bytes as every protocol and ranks the results by :func:`evidence`::

    4  whole messages with consistent lengths, or a whole stream of objects
    3  the beginning of a message of a known type, more than half of it present
    2  a whole datagram: a header and an arbitrary payload
    1  any other beginning
    0  not this protocol

Among equal results the more specific framing ranks first, then the larger share of bytes in numeric
fields. Some bytes are valid in several protocols, so the first result is not a proof.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from laps_wire.buffer import QUIC, ByteSource, IntegerCoding
from laps_wire.errors import IncompleteError, MalformedError, RemoteError
from laps_wire.trace.reader import Node, Record, TracingReader, join
from laps_wire.trace.words import Words, annotate, apply_words

__all__ = ["Decoded", "Fault", "Protocol", "Status", "Traced", "decode", "evidence", "guess"]


class Status(Enum):
    """The result of a decoding; the value is the exit code of the command."""

    OK = 0
    BAD = 1
    INCOMPLETE = 3


@dataclass(frozen=True, slots=True)
class Protocol:
    """A way to read bytes."""

    name: str
    """The name for ``--as``."""
    title: str
    """A description for the help."""
    read: Callable[[TracingReader], Any]
    """A function that reads one message, or one whole unit."""
    integers: IntegerCoding = QUIC
    stream_of_messages: bool = True
    """Whether the input is a sequence of messages; otherwise it is one unit."""
    datagram: bool = False
    """Whether the input is always whole: then missing bytes are a fault, not incomplete."""
    words: Words = field(default_factory=dict, repr=False)
    """Names for numbers that are plain integers in messages."""
    weight: int = 0
    """The evidence of a successful parse: 2 for messages with a length, 1 for streams of objects,
    0 for a header with an arbitrary payload."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Why the decoding stopped."""

    status: Status
    path: str
    """The path of the faulty field."""
    reason: str
    offset: int
    """The beginning of the field."""
    end: int
    """The end of the faulty bytes; equal to ``offset`` if there are none."""
    code: int | None = None
    """The code with which a session would be closed."""
    missing: int = 0
    """The least number of missing bytes of a truncated input."""

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        return f"{where}{self.reason}"


@dataclass(frozen=True, slots=True)
class Traced:
    """One message, or the beginning of one."""

    root: Node
    message: Any = None
    """None if the message could not be decoded."""

    @property
    def name(self) -> str:
        """The name of the message: its first composite, or the class of the message."""
        for child in self.root.children or ():
            if not child.is_leaf:
                return child.label
        return "message" if self.message is None else type(self.message).__name__


@dataclass(frozen=True, slots=True)
class Decoded:
    """The result of decoding bytes as one protocol."""

    protocol: Protocol
    data: bytes
    messages: tuple[Traced, ...] = ()
    fault: Fault | None = None
    used: int = 0
    """The number of bytes of the whole messages."""

    @property
    def status(self) -> Status:
        """The status of the decoding."""
        return Status.OK if self.fault is None else self.fault.status


_EMPTY: Final = "there are no bytes"


def decode(protocol: Protocol, data: ByteSource) -> Decoded:
    """Decode ``data`` as ``protocol``; faults are returned, not raised."""
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
            # A fault in a truncated part may be a consequence of the missing bytes.
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
    """Return the fault of a truncated input."""
    needed = max(needed, record.missing)
    reason = f"the input ends here, at least {needed} more byte(s) belong to it"
    if record.ended is None:
        # All fields were read, but the frame is longer: the fault names the message.
        path = record.path or Traced(record.root).name
        return Fault(Status.INCOMPLETE, path, reason, size, size, missing=needed)
    label, start, _ = record.ended
    path = _path_of(record, label)
    return Fault(Status.INCOMPLETE, path, reason, start, size, missing=needed)


def _bad(record: Record, error: RemoteError, pos: int) -> Fault:
    """Return the fault of an error, at the error's offset or at the last field read."""
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
    """Return the path of a faulty field, which may be the open composite."""
    innermost = record.open[-1].label
    if not label or label == innermost or label.startswith(f"{innermost}["):
        return record.path
    return join(record.path, label)


_ENOUGH: Final = 8
"""The least number of bytes of a stream with which a guess has evidence."""


def guess(protocols: Iterable[Protocol], data: ByteSource) -> list[Decoded]:
    """Decode ``data`` as every protocol; return the best result first, ties in given order."""
    return sorted((decode(protocol, data) for protocol in protocols), key=_key, reverse=True)


def evidence(decoded: Decoded) -> int:
    """Return how well the bytes fit: the number in the table of this module."""
    fault = decoded.fault
    weight = decoded.protocol.weight
    if fault is None:
        return 4 if weight else 2
    if fault.status is Status.BAD:
        return 0
    size = len(decoded.data)
    # A framed message is named by its type; the header of a stream can begin with any byte.
    telling = _is_named(decoded) and (weight > 1 or (weight and size >= _ENOUGH))
    return 3 if telling and fault.missing <= size else 1


def _key(decoded: Decoded) -> tuple[int, bool, int, float]:
    return evidence(decoded), _is_named(decoded), decoded.protocol.weight, _meaning(decoded)


def _is_named(decoded: Decoded) -> bool:
    """Return whether each message has a name in its protocol."""
    return bool(decoded.messages) and all(
        any(not child.is_leaf for child in message.root.children or ())
        for message in decoded.messages
    )


def _meaning(decoded: Decoded) -> float:
    """Return the share of bytes in numeric fields: strings and payloads are arbitrary."""
    numbers = sum(
        leaf.end - leaf.start
        for message in decoded.messages
        for _, leaf in message.root.leaves()
        if not isinstance(leaf.value, bytes)
    )
    return numbers / max(len(decoded.data), 1)
