"""The beginning of a peer's stream: its header must be complete, and its set known.

::

    begin --> Opening       the header arrives in pieces
          --> HeldStream    its set is not known yet (laps-2, 6.2)
          --> RelayedStream under way                            (relayed_stream)
          '-> stopped       no receiver, or a fault

Waiting data is kept here, and its size is reported to the session's ``hold`` chunk by chunk. The
session decides how much may wait and how long. If one chunk of a stream is dropped, the whole
stream is given up; a released stream begins with all chunks that it has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from laps_relay.peer_forwarding.datagrams import forward
from laps_relay.peer_forwarding.relayed_stream import RelayedStream, pass_whole
from laps_relay.peer_forwarding.state import Entry, Session, State
from laps_wire.errors import IncompleteError, ProtocolViolation, RemoteError
from laps_wire.peering.errors import StreamCode, UnknownKindError
from laps_wire.peering.laps2 import DataKind, decode_data_header
from laps_wire.peering.laps2.codepoints import DATA_HEADER_BYTES
from laps_wire.peering.session import SnsStanding

__all__ = ["HeldDatagram", "HeldStream", "Opening", "begin", "hold_datagram"]

_STREAM: Final = int(DataKind.STREAM)
_UNKNOWN_SNS: Final = int(StreamCode.UNKNOWN_SNS)
_UNKNOWN_KIND: Final = int(StreamCode.UNKNOWN_KIND)
_NO_SUBSCRIBERS: Final = int(StreamCode.NO_SUBSCRIBERS)
_LATE_BYTES: Final = 256 * 1024
"""Bytes that a waiting stream may still receive between its set and its release."""


def begin(
    now: float, state: State, sender: Session, stream_id: int, data: bytes, fin: bool
) -> None:
    """Handle the first chunks of a stream, joined."""
    available = len(data)
    if (
        available < DATA_HEADER_BYTES
        or not DATA_HEADER_BYTES <= data[0] <= available
        or data[1] >> 4 != _STREAM
    ):
        _not_yet(state, sender, stream_id, data, fin)
        return
    sns_id = int.from_bytes(data[4:8], "big")
    entry = sender.entries.get(sns_id)
    if entry is not None:
        _start(now, state, sender, stream_id, entry, data, fin)
    elif sns_id:
        HeldStream(state, sender, stream_id, sns_id).data(now, data, fin)
    else:
        state.unknown_streams += 1
        _stop(sender, stream_id, _UNKNOWN_SNS, fin)


def _not_yet(state: State, sender: Session, stream_id: int, data: bytes, fin: bool) -> None:
    """Wait for the rest of a header, or raise what is wrong with it."""
    try:
        decode_data_header(data)
        raise ProtocolViolation("the header of a datagram stands at the start of a stream")
    except IncompleteError as error:
        if not fin:
            sender.streams[stream_id] = Opening(state, sender, stream_id, data)
            return
        sender.ignore(stream_id)
        raise ProtocolViolation(
            f"a stream ends inside its header: {error.needed} more byte(s) belong to it"
        ) from None
    except UnknownKindError:
        state.unknown_kinds += 1
        _stop(sender, stream_id, _UNKNOWN_KIND, fin)
    except RemoteError:
        sender.ignore(stream_id)
        raise


def _start(
    now: float,
    state: State,
    sender: Session,
    stream_id: int,
    entry: Entry,
    data: bytes,
    fin: bool,
) -> None:
    """Start a stream whose header is complete and whose set is known."""
    if fin:
        sender.streams.pop(stream_id, None)
        pass_whole(now, state, entry, data)
    elif entry.targets or entry.sink is not None:
        RelayedStream(state, sender, stream_id, entry, data).start(now, data)
    else:
        pass_whole(now, state, entry, data)
        sender.stop(stream_id, _NO_SUBSCRIBERS)


def _stop(sender: Session, stream_id: int, code: int, fin: bool) -> None:
    """Give a stream up; without a STOP_SENDING if it has ended already."""
    if fin:
        sender.streams.pop(stream_id, None)
    else:
        sender.stop(stream_id, code)


class Opening:
    """A stream whose header is not complete; at most 254 bytes."""

    __slots__ = ("_data", "_sender", "_state", "_stream_id", "direct", "size")

    def __init__(self, state: State, sender: Session, stream_id: int, data: bytes) -> None:
        self._state = state
        self._sender = sender
        self._stream_id = stream_id
        self._data = data
        self.direct: Callable[[bytes, bool], None] | None = None
        self.size = 0

    def data(self, now: float, data: bytes, fin: bool) -> None:
        """Add bytes to the header, and begin if it is complete."""
        begin(now, self._state, self._sender, self._stream_id, self._data + data, fin)

    def finish(self, now: float) -> None:
        """Do nothing: a stream without a complete header is never direct."""

    def reset(self, now: float, code: int) -> None:
        """Do nothing: nothing was forwarded yet."""


class HeldStream:
    """A stream that waits for its set; ``hold`` gets it for each chunk."""

    __slots__ = (
        "_chunks",
        "_fin",
        "_late",
        "_over",
        "_sender",
        "_sns_id",
        "_state",
        "_stream_id",
        "direct",
        "size",
    )

    def __init__(self, state: State, sender: Session, stream_id: int, sns_id: int) -> None:
        self._state = state
        self._sender = sender
        self._stream_id = stream_id
        self._sns_id = sns_id
        self._chunks: list[bytes] = []
        self._late = 0
        self._fin = False
        self._over = False
        self.direct: Callable[[bytes, bool], None] | None = None
        self.size = 0
        """Bytes that wait."""
        sender.streams[stream_id] = self
        sender.held[self] = None

    def data(self, now: float, data: bytes, fin: bool) -> None:
        """Add a chunk behind those that wait."""
        sender, sns_id, size = self._sender, self._sns_id, len(data)
        late = bool(self._chunks)
        self._chunks.append(data)
        self.size += size
        self._state.held_bytes += size
        if fin:
            self._fin = True
            sender.streams.pop(self._stream_id, None)
        entry = sender.entries.get(sns_id)
        if entry is not None:  # it came, and its release is on the way
            self.release(now)
            return
        if not size:
            return  # it waits with what is there
        standing = sender.hold(now, sns_id, self, size)
        if standing is SnsStanding.UNKNOWN or self._over:
            return
        if standing is SnsStanding.LIVE and late and self._late + size <= _LATE_BYTES:
            # What waits before it comes back in a moment.
            self._late += size
            return
        self.give_up(_NO_SUBSCRIBERS if standing is SnsStanding.LIVE else _UNKNOWN_SNS)

    def release(self, now: float) -> None:
        """Start the stream: its set is known now."""
        if self._over:
            return
        entry = self._sender.entries.get(self._sns_id)
        if entry is None:
            self.give_up(_NO_SUBSCRIBERS)
            return
        self._end()
        data = b"".join(self._chunks)
        _start(now, self._state, self._sender, self._stream_id, entry, data, self._fin)

    def give_up(self, code: int = _UNKNOWN_SNS) -> None:
        """Stop the stream: its set did not come."""
        if not self._over:
            self._end()
            self._state.unknown_streams += 1
            _stop(self._sender, self._stream_id, code, self._fin)

    def finish(self, now: float) -> None:
        """Do nothing: a held stream is never direct."""

    def reset(self, now: float, code: int) -> None:  # noqa: ARG002 - Incoming
        """Drop the stream; nothing was forwarded yet."""
        self._end()

    def _end(self) -> None:
        self._over = True
        self._state.held_bytes -= self.size
        self._sender.held.pop(self, None)


class HeldDatagram:
    """A datagram that waits for its set; ``hold`` gets it."""

    __slots__ = ("_data", "_over", "_sender", "_sns_id", "_state")

    def __init__(self, state: State, sender: Session, sns_id: int, data: bytes) -> None:
        self._state = state
        self._sender = sender
        self._sns_id = sns_id
        self._data = data
        self._over = False
        state.held_bytes += len(data)
        sender.held[self] = None

    def release(self, now: float) -> None:
        """Forward the datagram: its set is known now."""
        if self._over:
            return
        entry = self._sender.entries.get(self._sns_id)
        if entry is None:
            self.give_up()
            return
        self._end()
        forward(now, self._state, entry, self._data)

    def give_up(self, code: int = _UNKNOWN_SNS) -> None:  # noqa: ARG002 - like HeldStream
        """Drop and count the datagram: its set did not come."""
        if not self._over:
            self._end()
            self._state.unknown_datagrams += 1

    def reset(self, now: float, code: int) -> None:  # noqa: ARG002 - like HeldStream
        """Drop the datagram: its session has ended."""
        self._end()

    def _end(self) -> None:
        self._over = True
        self._state.held_bytes -= len(self._data)
        self._sender.held.pop(self, None)


def hold_datagram(now: float, state: State, sender: Session, sns_id: int, data: bytes) -> None:
    """Keep a datagram whose set is not in the FIB, or drop it."""
    item = HeldDatagram(state, sender, sns_id, data)
    if not sns_id or sender.hold(now, sns_id, item, len(data)) is not SnsStanding.UNKNOWN:
        item.give_up()
