"""The streams that a session uses: their refs, ids, halves and buffers.

::

    stream id bits (RFC 9000, 2.1)         halves of a request stream that we opened
    ...x0  opened by the client            sending   until we send FIN or RESET_STREAM
    ...x1  opened by the server            receiving until the peer's FIN or RESET_STREAM
    ...0x  bidirectional                   when both are over the session forgets the stream,
    ...1x  unidirectional                  one poll_transmit later: its last actions name it

WebTransport streams keep the id of the QUIC stream below them, so the bits hold there too.

What is buffered for a stream is less than one control message: type, length and at most 65535
bytes. Streams of objects are never buffered here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

from laps_wire.errors import StateError
from laps_wire.moqt.session.actions import (
    Action,
    CloseSession,
    OpenStream,
    ResetStream,
    SendData,
    StopSending,
    StreamRef,
)
from laps_wire.moqt.session.config import Role
from laps_wire.moqt.session.recent import Recent

if TYPE_CHECKING:
    from laps_wire.moqt.session.requests import Request

__all__ = ["MAX_FORGOTTEN", "Purpose", "Stream", "Streams", "is_unidirectional", "opened_by"]

MAX_FORGOTTEN: Final = 1024
"""How many streams that are over are remembered, so that nothing late makes them new again."""


def opened_by(stream_id: int) -> Role:
    """Who opened a stream, from its id."""
    return Role.SERVER if stream_id & 1 else Role.CLIENT


def is_unidirectional(stream_id: int) -> bool:
    """Whether a stream has one direction only, from its id."""
    return bool(stream_id & 2)


class Purpose(Enum):
    """What a stream is for, as far as the session is concerned."""

    UNKNOWN = "unknown"
    """The peer's, and its first bytes have not said yet."""
    CONTROL = "control"
    REQUEST = "request"
    IGNORED = "ignored"
    """Padding, or a request that we cancelled: what still comes is dropped."""


@dataclass(slots=True, eq=False)
class Stream:
    """One stream; both halves of it if it is bidirectional."""

    ref: StreamRef
    stream_id: int | None
    """None until the shell has bound it."""
    sending: bool
    """Whether our half exists and is open."""
    receiving: bool
    """Whether the peer's half exists and is open."""
    purpose: Purpose = Purpose.UNKNOWN
    buffer: bytearray = field(default_factory=bytearray)
    """Bytes that do not make a whole message yet."""
    wanted: int = 0
    """How many bytes the buffer needs before it is worth another look."""
    request: Request | None = None
    """The request that lives on this stream."""
    finished: bool = False
    """Whether the peer's FIN came while its bytes were still held back."""
    stopped: int | None = None
    """The code of a STOP_SENDING that came before the stream said what it is for."""


class Streams:
    """All streams of a session, and the actions on them."""

    __slots__ = ("_actions", "_by_id", "_by_ref", "_forgotten", "_over", "_role", "_serial")

    def __init__(self, role: Role) -> None:
        self._role = role
        self._serial = 0
        self._by_ref: dict[StreamRef, Stream] = {}
        self._by_id: dict[int, Stream] = {}
        self._actions: list[Action] = []
        self._forgotten: Recent[bool] = Recent(MAX_FORGOTTEN)
        """Ids of streams that were forgotten, for a STOP_SENDING may come late."""
        self._over: list[Stream] = []
        """Streams whose last actions were not handed out yet, or are being carried out."""

    def __len__(self) -> int:
        return len(self._by_ref) - len(self._over)

    @property
    def is_idle(self) -> bool:
        """Whether :meth:`drain` has nothing to give, and nothing to forget."""
        return not self._actions and not self._over

    def drain(self) -> list[Action]:
        """Take all actions, in order."""
        if not self._actions and not self._over:
            return []
        actions, self._actions = self._actions, []
        # Refs in these actions must resolve while the shell works on them: forget those before.
        named = {action.stream for action in actions if not isinstance(action, CloseSession)}
        for stream in self._over:
            if stream.ref not in named:
                self.hand_over(stream)
        self._over = [stream for stream in self._over if stream.ref in named]
        return actions

    def close(self, code: int, reason: str) -> None:
        """Close the connection behind everything that was asked for before."""
        self._actions.append(CloseSession(code, reason))

    def _new(self, stream_id: int | None, *, sending: bool, receiving: bool) -> Stream:
        ref = StreamRef(self._serial)
        self._serial += 1
        stream = Stream(ref, stream_id, sending, receiving)
        self._by_ref[ref] = stream
        if stream_id is not None:
            self._by_id[stream_id] = stream
        return stream

    def open(self, purpose: Purpose, *, unidirectional: bool) -> Stream:
        """Open a stream of ours."""
        stream = self._new(None, sending=True, receiving=not unidirectional)
        stream.purpose = purpose
        self._actions.append(OpenStream(stream.ref, unidirectional))
        return stream

    def bind(self, ref: StreamRef, stream_id: int) -> None:
        """Give one of our streams the id that the transport gave it."""
        stream = self._by_ref.get(ref)
        if stream is None or stream.stream_id is not None or stream_id in self._by_id:
            raise StateError(f"{ref} cannot be bound to stream {stream_id}: one of them is taken")
        if opened_by(stream_id) is not self._role:
            raise StateError(f"stream {stream_id} is not one that a {self._role.name} opens")
        if is_unidirectional(stream_id) == stream.receiving:
            raise StateError(f"stream {stream_id} has the wrong number of directions for {ref}")
        stream.stream_id = stream_id
        self._by_id[stream_id] = stream

    def stream_id(self, ref: StreamRef) -> int:
        """The id that ``ref`` is bound to."""
        stream = self._by_ref.get(ref)
        if stream is None or stream.stream_id is None:
            raise StateError(f"{ref} is not bound to a stream")
        return stream.stream_id

    def find(self, stream_id: int) -> Stream | None:
        """The stream with this id, if the session knows it."""
        return self._by_id.get(stream_id)

    def incoming(self, stream_id: int) -> Stream | None:
        """The stream that something from the peer belongs to; a new one of the peer's is noted.

        None if the session is done with the stream.
        """
        stream = self._by_id.get(stream_id)
        if stream is not None or self._forgotten.get(stream_id):
            return stream
        if opened_by(stream_id) is self._role:
            raise StateError(f"stream {stream_id} is ours, but bind_stream was not called for it")
        return self._new(stream_id, sending=not is_unidirectional(stream_id), receiving=True)

    # Our half

    def send(self, stream: Stream, data: bytes, *, fin: bool = False) -> None:
        """Send bytes; nothing happens if our half is over."""
        if stream.sending and (data or fin):
            self._actions.append(SendData(stream.ref, data, fin))
            if fin:
                self._sent_all(stream)

    def finish(self, stream: Stream) -> None:
        """Close our half in good order, if it is open."""
        self.send(stream, b"", fin=True)

    def reset(self, stream: Stream, code: int) -> None:
        """Abandon our half, if it is open."""
        if stream.sending:
            self._actions.append(ResetStream(stream.ref, code))
            self._sent_all(stream)

    def _sent_all(self, stream: Stream) -> None:
        stream.sending = False
        self._forget_if_over(stream)

    # The peer's half

    def stop(self, stream: Stream, code: int) -> None:
        """Ask the peer to abandon its half, if it is open, and drop what still comes."""
        stream.purpose = Purpose.IGNORED
        stream.buffer.clear()
        if stream.receiving:
            self._actions.append(StopSending(stream.ref, code))

    def received_all(self, stream: Stream) -> None:
        """Note the end of the peer's half: its FIN or RESET_STREAM."""
        if stream.receiving:
            stream.receiving = False
            self._forget_if_over(stream)

    def hand_over(self, stream: Stream) -> None:
        """Forget a stream that the data plane takes over."""
        stream_id = self.stream_id(stream.ref)
        del self._by_ref[stream.ref]
        del self._by_id[stream_id]
        self._forgotten.put(stream_id, True)

    def _forget_if_over(self, stream: Stream) -> None:
        if not stream.sending and not stream.receiving:
            self._over.append(stream)
