"""The errors of ``laps-2`` peering: one class for each code that a session is closed with.

::

    RemoteError                       0x1   INTERNAL_ERROR
    ├── PeeringError                  0x1   (the root of those below)
    │   ├── NotAuthorizedError        0x2   the proof does not hold, or the node may not peer here
    │   ├── VersionMismatchError      0x4   no version in common
    │   ├── NodeIdConflictError       0x5   the node ID is bound to another key
    │   ├── StaleEpochError           0x6   an earlier life of a node that has restarted since
    │   ├── HashMismatchError         0x7   names are hashed in another way or with another key
    │   ├── ModeRefusedError          0x8   not this mode or direction with this type of relay
    │   ├── UnknownMessageError       0x9   a message type that must be understood and is not
    │   ├── MessageTooLargeError      0xa   a message over the agreed size
    │   ├── LimitExceededError        0xb   more entries, sets or streams than were agreed
    │   ├── HoldExpiredError          0xc   nothing heard for the hold time
    │   ├── RedundantControlError     0xd   another connection carries control
    │   ├── HandshakeTimeoutError     0xe   the handshake was not finished in time
    │   ├── OverloadedError           0xf   no capacity now
    │   ├── DrainedError              0x10  going away, as announced
    │   ├── PolicyError               0x11  administrative policy says no
    │   ├── SupersededError           0x12  the same node came back with a newer epoch
    │   ├── WrongNodeError            0x13  somebody else was meant to be reached
    │   ├── SnsViolationError         0x14  an SNS ID or version that breaks the rules
    │   └── BadNodeError              0x15  node information that cannot be true
    ├── ProtocolViolation             0x3   (laps_wire.errors)
    │   └── MalformedError            0x3   (laps_wire.errors)
    └── UnknownKindError              0x4c04  ends one stream or datagram; the session goes on

Every class but the last can be raised by us (we close with its code) and can describe what the peer
closed with (:func:`error_class`). 0x0 is a close without any error and has no class.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, unique
from typing import ClassVar, Final

from laps_wire.errors import ProtocolViolation, RemoteError

__all__ = [
    "BadNodeError",
    "CloseCode",
    "DrainedError",
    "HandshakeTimeoutError",
    "HashMismatchError",
    "HoldExpiredError",
    "LimitExceededError",
    "MessageTooLargeError",
    "ModeRefusedError",
    "NodeIdConflictError",
    "NotAuthorizedError",
    "OverloadedError",
    "PeeringError",
    "PolicyError",
    "RedundantControlError",
    "SnsViolationError",
    "StaleEpochError",
    "StreamCode",
    "SupersededError",
    "UnknownKindError",
    "UnknownMessageError",
    "VersionMismatchError",
    "WrongNodeError",
    "error_class",
]


@unique
class CloseCode(IntEnum):
    """Codes of CONNECT_REFUSED and of the QUIC application close."""

    NO_ERROR = 0x0
    INTERNAL_ERROR = 0x1
    NOT_AUTHORIZED = 0x2
    PROTOCOL_VIOLATION = 0x3
    VERSION_MISMATCH = 0x4
    NODE_ID_CONFLICT = 0x5
    STALE_EPOCH = 0x6
    HASH_MISMATCH = 0x7
    MODE_REFUSED = 0x8
    UNKNOWN_MESSAGE = 0x9
    MESSAGE_TOO_LARGE = 0xA
    LIMIT_EXCEEDED = 0xB
    HOLD_EXPIRED = 0xC
    REDUNDANT_CONTROL = 0xD
    HANDSHAKE_TIMEOUT = 0xE
    OVERLOADED = 0xF
    DRAINED = 0x10
    POLICY = 0x11
    SUPERSEDED = 0x12
    WRONG_NODE = 0x13
    SNS_VIOLATION = 0x14
    BAD_NODE = 0x15


@unique
class StreamCode(IntEnum):
    """Codes with which one stream is reset or stopped while the session goes on.

    They begin above the codes of client protocols: a reset that a publisher made travels through
    the relays with the publisher's own code.
    """

    LATCHED = 0x4C00
    """A newer control stream has taken over."""
    EXPIRED = 0x4C01
    """The ttl ran out before the data could be sent."""
    NO_SUBSCRIBERS = 0x4C02
    """The set is empty or withdrawn: nobody wants this stream any more."""
    UNKNOWN_SNS = 0x4C03
    """The set was not advertised within the buffer time, or the buffer is full."""
    UNKNOWN_KIND = 0x4C04
    """A stream that does not begin with a header that the receiver knows."""
    OVERLOADED = 0x4C05
    """The receiver or a relay behind it cannot keep up."""
    LOST = 0x4C06
    """The session that brought the stream has ended; another path can bring the rest."""


class PeeringError(RemoteError):
    """The root of what can go wrong between two relays beyond a plain violation."""

    code: ClassVar[int] = CloseCode.INTERNAL_ERROR


class NotAuthorizedError(PeeringError):
    """The proof does not hold, or the node may not peer here."""

    code: ClassVar[int] = CloseCode.NOT_AUTHORIZED


class VersionMismatchError(PeeringError):
    """No protocol version in common."""

    code: ClassVar[int] = CloseCode.VERSION_MISMATCH


class NodeIdConflictError(PeeringError):
    """The node ID is bound to another key."""

    code: ClassVar[int] = CloseCode.NODE_ID_CONFLICT


class StaleEpochError(PeeringError):
    """The peer is an earlier life of a node that has restarted since."""

    code: ClassVar[int] = CloseCode.STALE_EPOCH


class HashMismatchError(PeeringError):
    """The peer hashes names in another way or with another key."""

    code: ClassVar[int] = CloseCode.HASH_MISMATCH


class ModeRefusedError(PeeringError):
    """This mode or direction is not for this type of relay."""

    code: ClassVar[int] = CloseCode.MODE_REFUSED


class UnknownMessageError(PeeringError):
    """A message type that must be understood, and is not."""

    code: ClassVar[int] = CloseCode.UNKNOWN_MESSAGE

    def __init__(self, message_type: int) -> None:
        super().__init__(f"message type {message_type:#x} is even and unknown")
        self.message_type = message_type


class MessageTooLargeError(PeeringError):
    """A message whose body is longer than was agreed; seen before any byte of it is kept."""

    code: ClassVar[int] = CloseCode.MESSAGE_TOO_LARGE

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"a message body of {size} bytes, at most {limit} were agreed")
        self.size = size
        self.limit = limit


class LimitExceededError(PeeringError):
    """The peer made us hold more than was agreed."""

    code: ClassVar[int] = CloseCode.LIMIT_EXCEEDED


class HoldExpiredError(PeeringError):
    """Nothing was heard from the peer for the hold time."""

    code: ClassVar[int] = CloseCode.HOLD_EXPIRED


class RedundantControlError(PeeringError):
    """A connection that would carry control only, while another one carries it."""

    code: ClassVar[int] = CloseCode.REDUNDANT_CONTROL


class HandshakeTimeoutError(PeeringError):
    """The handshake was not finished in time."""

    code: ClassVar[int] = CloseCode.HANDSHAKE_TIMEOUT


class OverloadedError(PeeringError):
    """No capacity for this session now."""

    code: ClassVar[int] = CloseCode.OVERLOADED


class DrainedError(PeeringError):
    """The relay goes away, as DRAIN had announced."""

    code: ClassVar[int] = CloseCode.DRAINED


class PolicyError(PeeringError):
    """Administrative policy forbids this session."""

    code: ClassVar[int] = CloseCode.POLICY


class SupersededError(PeeringError):
    """The same node came back with a newer epoch, or over a connection granted later."""

    code: ClassVar[int] = CloseCode.SUPERSEDED


class WrongNodeError(PeeringError):
    """The listener is not the node that the dialler meant to reach."""

    code: ClassVar[int] = CloseCode.WRONG_NODE


class SnsViolationError(PeeringError):
    """An SNS ID that goes back or is in use, or a set version that does not follow."""

    code: ClassVar[int] = CloseCode.SNS_VIOLATION


class BadNodeError(PeeringError):
    """Node information that cannot be true: a bad signature, or our own ID under another key."""

    code: ClassVar[int] = CloseCode.BAD_NODE


class UnknownKindError(RemoteError):
    """A data header of a kind that we do not know: a later version may have more of them.

    The stream is stopped with ``code`` and the datagram is dropped; the session goes on.
    """

    code: ClassVar[int] = StreamCode.UNKNOWN_KIND

    def __init__(self, kind: int, known: Mapping[int, str]) -> None:
        names = ", ".join(f"{number} {name}" for number, name in known.items())
        super().__init__(f"kind: {kind} is not one of: {names}")
        self.kind = kind


_BY_CODE: Final[dict[int, type[RemoteError]]] = {
    CloseCode.INTERNAL_ERROR: PeeringError,
    CloseCode.PROTOCOL_VIOLATION: ProtocolViolation,
    **{cls.code: cls for cls in PeeringError.__subclasses__()},
}


def error_class(code: int) -> type[RemoteError] | None:
    """What a close code stands for; ``None`` for 0, the root for a code that we do not know."""
    if code == CloseCode.NO_ERROR:
        return None
    return _BY_CODE.get(code, PeeringError)
