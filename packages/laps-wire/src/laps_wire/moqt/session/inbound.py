"""From the bytes of streams to messages: the purpose of each stream, and its messages.

::

    bytes of a stream --> which purpose? --> whole messages --> shape.on_message
                            |                     ^
                            | data, padding       | held until SETUP has come
                            v                     | (request streams can overtake it)
                    handed over, dropped     buffer: less than one message

What a peer sent raises nothing here: a violation closes the session with the draft's code.
"""

from __future__ import annotations

from collections.abc import Callable

from laps_wire.errors import IncompleteError, ProtocolViolation, RemoteError
from laps_wire.moqt.data.types import StreamKind, peek_stream_kind
from laps_wire.moqt.session.core import Core
from laps_wire.moqt.session.events import DataStreamOpened
from laps_wire.moqt.session.state import Control, State
from laps_wire.moqt.session.tables import Purpose, Stream, is_unidirectional, opened_by

__all__ = ["Inbound"]


class Inbound:
    """Reads what the transport receives and passes messages to the shape."""

    __slots__ = ("_core",)

    def __init__(self, core: Core) -> None:
        self._core = core

    def data(self, stream_id: int, data: bytes, *, fin: bool) -> None:
        """Read bytes of a stream, and its end if ``fin``."""
        if self._core.closed:
            return
        stream = self._core.streams.incoming(stream_id)
        if stream is not None:
            self._guard(lambda: self._on_data(stream, data, fin=fin))

    def reset(self, stream_id: int, code: int) -> None:
        """Handle RESET_STREAM: the peer abandoned its half of a stream."""
        stream = self._touched(stream_id)
        if stream is not None:
            self._guard(lambda: self._on_reset(stream, code))

    def stop(self, stream_id: int, code: int) -> None:
        """Handle STOP_SENDING: the peer asks us to abandon our half of a stream."""
        stream = self._touched(stream_id)
        if stream is not None:
            self._guard(lambda: self._on_stop(stream, code))

    def _touched(self, stream_id: int) -> Stream | None:
        """Return the stream of a RESET_STREAM or STOP_SENDING; None if the data plane owns it.

        Frames overtake each other, so this may be the first frame of a stream of the peer.
        """
        if self._core.closed:
            return None
        if opened_by(stream_id) is self._core.role:
            return self._core.streams.find(stream_id)
        return self._core.streams.incoming(stream_id)

    def _guard(self, action: Callable[[], None]) -> None:
        """Run ``action``; an error of the peer closes the session."""
        try:
            action()
        except RemoteError as error:
            self._core.fail(error)
        self._core.shape.grant()

    # Bytes

    def _on_data(self, stream: Stream, data: bytes, *, fin: bool) -> None:
        if stream.purpose is Purpose.UNKNOWN:
            stream.buffer += data
            data = b""
            self._settle(stream, fin=fin)
        if stream.purpose in (Purpose.CONTROL, Purpose.REQUEST):
            stream.buffer += data
            self._read(stream, fin=fin)
        elif fin:
            self._core.streams.received_all(stream)
            if stream.purpose is Purpose.UNKNOWN:
                # The stream ended without a message.
                self._core.streams.finish(stream)

    def _settle(self, stream: Stream, *, fin: bool) -> None:
        """Set the purpose of a new stream of the peer, once its first integer is complete."""
        core = self._core
        buffer = bytes(stream.buffer)
        try:
            if not is_unidirectional(core.streams.stream_id(stream.ref)):
                message_type, _ = core.draft.integers.decode(buffer, 0, len(buffer))
                core.shape.first_message(stream, message_type)
                if stream.purpose is Purpose.CONTROL and stream.stopped is not None:
                    raise ProtocolViolation("the control stream was refused with STOP_SENDING")
                return
            kind = peek_stream_kind(buffer, core.draft)
        except IncompleteError:
            return
        if kind is StreamKind.SETUP:
            if core.control_in is not None:
                raise ProtocolViolation("a second control stream")
            stream.purpose = Purpose.CONTROL
            core.control_in = stream
        elif kind is StreamKind.PADDING:
            stream.purpose = Purpose.IGNORED
            stream.buffer.clear()
        else:
            stream_id = core.streams.stream_id(stream.ref)
            stream.purpose = Purpose.IGNORED
            stream.receiving = False
            core.streams.hand_over(stream)
            core.events.append(
                DataStreamOpened(stream_id=stream_id, kind=kind, data=buffer, fin=fin)
            )

    # Messages

    def _read(self, stream: Stream, *, fin: bool) -> None:
        core = self._core
        if core.control is Control.AWAITING_SETUP and stream.purpose is Purpose.REQUEST:
            self._hold(stream, fin=fin)
            return
        waiting = core.control is Control.AWAITING_SETUP
        if fin or len(stream.buffer) >= stream.wanted:
            self._read_messages(stream)
        if fin:
            self._on_fin(stream)
        if waiting and core.control is not Control.AWAITING_SETUP:
            self._release()

    def _read_messages(self, stream: Stream) -> None:
        """Handle every whole message in the buffer and keep the rest."""
        core = self._core
        data = bytes(stream.buffer)
        pos = 0
        while stream.purpose is not Purpose.IGNORED:
            try:
                message, pos = core.codec.decode(data, pos=pos)
            except IncompleteError as error:
                # The buffer is not parsed again before the message can be whole.
                stream.wanted = len(data) - pos + error.needed
                stream.buffer[:] = data[pos:]
                return
            core.shape.on_message(stream, message)

    def _on_fin(self, stream: Stream) -> None:
        core = self._core
        if stream.purpose is Purpose.CONTROL:
            raise ProtocolViolation("the control stream was closed")
        if stream.purpose is Purpose.REQUEST and stream.buffer:
            raise ProtocolViolation("a stream ends in the middle of a message")
        core.streams.received_all(stream)
        request = stream.request if stream.purpose is Purpose.REQUEST else None
        if request is not None and request.shadow is not State.TERMINATED:
            self._core.on_fin(request)

    # Before SETUP

    def _hold(self, stream: Stream, *, fin: bool) -> None:
        """Keep the bytes of a request stream until SETUP has come (moq-transport-16, 3.3)."""
        core = self._core
        core.early_bytes += len(stream.buffer) - core.early.get(stream, 0)
        core.early[stream] = len(stream.buffer)
        stream.finished = fin
        limit = core.config.limits.max_early_bytes
        if core.early_bytes > limit:
            # A request that was cancelled meanwhile has dropped its bytes.
            core.early = {held: len(held.buffer) for held in core.early}
            core.early_bytes = sum(core.early.values())
        if core.early_bytes > limit:
            self._let_go(stream)
            if stream.request is not None and not stream.request.over:
                core.give_up(stream.request, "its replies overtook SETUP")
            else:
                core.streams.reset(stream, core.overload)
                core.streams.stop(stream, core.overload)
            if fin:
                core.streams.received_all(stream)

    def _let_go(self, stream: Stream) -> None:
        """Stop holding the bytes of a stream."""
        self._core.early_bytes -= self._core.early.pop(stream, 0)

    def _release(self) -> None:
        """Read the held bytes, oldest stream first."""
        core = self._core
        early, core.early = core.early, {}
        core.early_bytes = 0
        for stream in early:
            self._read(stream, fin=stream.finished)

    # Ends

    def _on_reset(self, stream: Stream, code: int) -> None:
        core = self._core
        if stream.purpose is Purpose.CONTROL:
            raise ProtocolViolation("the control stream was reset")
        self._let_go(stream)
        stream.buffer.clear()
        core.streams.received_all(stream)
        self._cancelled(stream, code)

    def _on_stop(self, stream: Stream, code: int) -> None:
        core = self._core
        if stream.purpose is Purpose.CONTROL:
            raise ProtocolViolation("the control stream was refused with STOP_SENDING")
        if stream.request is None:
            stream.stopped = code
        self._cancelled(stream, code)
        core.streams.reset(stream, core.cancelled)

    def _cancelled(self, stream: Stream, code: int) -> None:
        """Cancel the request of a stream of which the peer abandoned one half."""
        request = stream.request
        if request is None:
            self._core.streams.reset(stream, self._core.cancelled)
        elif request.shadow is not State.TERMINATED:
            self._core.on_cancel(request, code)
