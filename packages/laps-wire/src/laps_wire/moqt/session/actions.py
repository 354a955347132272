"""The actions of a session for its transport: the output of ``poll_transmit``.

The core cannot know a QUIC stream id before the transport has opened the stream. So a stream has a
:class:`StreamRef`, made here, and the shell binds ids to it::

    core                                    shell
    OpenStream(ref, unidirectional) ----->  stream_id = quic.open(...)
                                    <-----  session.bind_stream(ref, stream_id)
    SendData(ref, data, fin)        ----->  quic.send(session.stream_id(ref), data, fin)

Streams that the peer opened have a ref that is bound from the start. The transport carries out the
actions of one stream in their order; ``OpenStream`` is always the first of its stream.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

__all__ = [
    "Action",
    "CloseSession",
    "OpenStream",
    "ResetStream",
    "SendData",
    "StopSending",
    "StreamRef",
]


@dataclass(frozen=True, slots=True)
class StreamRef:
    """A stream as the session names it, before and after it has an id."""

    serial: int
    """A number that is unique among all streams of this session."""


@dataclass(frozen=True, slots=True)
class OpenStream:
    """Open a stream and tell the session its id with ``bind_stream``."""

    stream: StreamRef
    unidirectional: bool


@dataclass(frozen=True, slots=True)
class SendData:
    """Send bytes on a stream, in order and reliably."""

    stream: StreamRef
    data: bytes
    fin: bool = False
    """Whether our half of the stream ends after ``data``."""


@dataclass(frozen=True, slots=True)
class ResetStream:
    """Reset our half of a stream; unsent data can be discarded."""

    stream: StreamRef
    code: int


@dataclass(frozen=True, slots=True)
class StopSending:
    """Ask the peer to reset its half of a stream."""

    stream: StreamRef
    code: int


@dataclass(frozen=True, slots=True)
class CloseSession:
    """Close the connection (CONNECTION_CLOSE or CLOSE_WEBTRANSPORT_SESSION); always the last."""

    code: int
    reason: str


Action: TypeAlias = OpenStream | SendData | ResetStream | StopSending | CloseSession
