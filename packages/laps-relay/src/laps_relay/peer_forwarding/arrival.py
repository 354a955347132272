"""How a stream of a peer begins: its header is whole, and its set is known.

::

    begin --> Opening       the header comes in pieces
          --> HeldStream    its set did not come yet (laps-2, 6.2)
          --> RelayedStream under way                            (relayed_stream)
          '-> stopped       nobody wants it, or it is not for us

What waits is kept here, and its size is told to the session's ``hold`` chunk by chunk; the session
decides how much may wait and how long. A stream of which one chunk is dropped is given up as a
whole, and a stream comes to life with all that it has.
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
from laps_wire.peering.laps2.limits import DATA_HEADER_BYTES
from laps_wire.peering.session import SnsStanding

__all__ = ["HeldDatagram", "HeldStream", "Opening", "begin", "hold_datagram"]

_STREAM: Final = int(DataKind.STREAM)
_UNKNOWN_SNS: Final = int(StreamCode.UNKNOWN_SNS)
_UNKNOWN_KIND: Final = int(StreamCode.UNKNOWN_KIND)
_NO_SUBSCRIBERS: Final = int(StreamCode.NO_SUBSCRIBERS)
_LATE_BYTES: Final = 256 * 1024
"""What a waiting stream may still bring between the coming of its set and its release."""


def begin(
    now: float, state: State, sender: Session, stream_id: int, data: bytes, fin: bool
) -> None:
    """The first chunks of a stream, joined."""
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
    """There is no whole header of a stream: wait for the rest of it, or say what is wrong."""
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
    """A stream has everything that it needs."""
    if fin:
        sender.streams.pop(stream_id, None)
        pass_whole(now, state, entry, data)
    elif entry.targets or entry.sink is not None:
        RelayedStream(state, sender, stream_id, entry, data).start(now, data)
    else:
        pass_whole(now, state, entry, data)
        sender.stop(stream_id, _NO_SUBSCRIBERS)


def _stop(sender: Session, stream_id: int, code: int, fin: bool) -> None:
    """Give a stream up; if all of it is here there is nobody to tell."""
    if fin:
        sender.streams.pop(stream_id, None)
    else:
        sender.stop(stream_id, code)


class Opening:
    """A stream whose header is not whole; at most 254 bytes."""

    __slots__ = ("_data", "_sender", "_state", "_stream_id", "direct", "size")

    def __init__(self, state: State, sender: Session, stream_id: int, data: bytes) -> None:
        self._state = state
        self._sender = sender
        self._stream_id = stream_id
        self._data = data
        self.direct: Callable[[bytes, bool], None] | None = None
        self.size = 0

    def data(self, now: float, data: bytes, fin: bool) -> None:
        """Perhaps the rest of the header."""
        begin(now, self._state, self._sender, self._stream_id, self._data + data, fin)

    def finish(self, now: float) -> None:
        """Not before it has a header."""

    def reset(self, now: float, code: int) -> None:
        """Nothing was forwarded yet."""


class HeldStream:
    """A stream that waits for its set; also what ``hold`` is given for each chunk of it."""

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
        """More of it: behind what waits."""
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
        """The set came."""
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
        """The set does not come."""
        if not self._over:
            self._end()
            self._state.unknown_streams += 1
            _stop(self._sender, self._stream_id, code, self._fin)

    def finish(self, now: float) -> None:
        """Not before it goes on."""

    def reset(self, now: float, code: int) -> None:  # noqa: ARG002 - Incoming
        """Nothing was forwarded yet; what the session still holds of it means nothing."""
        self._end()

    def _end(self) -> None:
        self._over = True
        self._state.held_bytes -= self.size
        self._sender.held.pop(self, None)


class HeldDatagram:
    """A datagram that waits for its set; what ``hold`` is given."""

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
        """The set came."""
        if self._over:
            return
        entry = self._sender.entries.get(self._sns_id)
        if entry is None:
            self.give_up()
            return
        self._end()
        forward(now, self._state, entry, self._data)

    def give_up(self, code: int = _UNKNOWN_SNS) -> None:  # noqa: ARG002 - like HeldStream
        """The set does not come."""
        if not self._over:
            self._end()
            self._state.unknown_datagrams += 1

    def reset(self, now: float, code: int) -> None:  # noqa: ARG002 - like HeldStream
        """Its session is gone."""
        self._end()

    def _end(self) -> None:
        self._over = True
        self._state.held_bytes -= len(self._data)
        self._sender.held.pop(self, None)


def hold_datagram(now: float, state: State, sender: Session, sns_id: int, data: bytes) -> None:
    """A datagram came whose set is not in the FIB."""
    item = HeldDatagram(state, sender, sns_id, data)
    if not sns_id or sender.hold(now, sns_id, item, len(data)) is not SnsStanding.UNKNOWN:
        item.give_up()
