"""What sending and receiving share: busy streams, parked streams, and the way back to the parent.

Takes over the making of streams (``_get_or_create_stream`` and ``..._for_send``: the parent makes
them, then their halves are adopted), ``send_stream_data`` for streams that exist, and the three
places where the peer gives credit (streams without it wait outside of the queue).

``_streams_queue``, the parent's list of all streams in order of service, is kept empty while the
fast path sends, because taking finished streams out of it costs time in proportion to the open
ones. It can be made from ``_streams`` and the busy queue at any time; :meth:`FastBase._parent_send`
does so before the parent sends. So the parent always sees every stream, the busy ones first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from aioquic.quic.connection import QuicConnectionState
from aioquic.tls import Epoch

from laps_sdk.quic.aioquic.fast.frames import FrameCollector
from laps_sdk.quic.aioquic.fast.pacing import BurstPacer
from laps_sdk.quic.aioquic.fast.protection import AES_SUITES, Opener, Sealer
from laps_sdk.quic.aioquic.fast.streams import FastStream, Ready, adopt
from laps_sdk.quic.aioquic.fixes import MendedConnection

if TYPE_CHECKING:
    from aioquic._buffer import Buffer
    from aioquic.quic.connection import QuicReceiveContext
    from aioquic.quic.crypto import CryptoPair
    from aioquic.quic.recovery import QuicPacketSpace
    from aioquic.quic.stream import QuicStream

__all__ = ["Address", "FastBase"]

Address = Any
"""Whatever the caller uses as one, as in aioquic."""

_CONNECTED = QuicConnectionState.CONNECTED


class FastBase(MendedConnection):
    """A connection that knows which of its streams are busy."""

    _data_window = 0
    _stream_window = 0
    """Receive windows of a subclass that writes its own limits: they are due when less than half
    of the window is left. 0: aioquic's way, half of all that was ever granted."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._loss._pacer = BurstPacer(max_datagram_size=self._max_datagram_size)
        self._ready: Ready = Ready()
        self._parked: dict[int, None] = {}
        """Ids of streams that wait for the connection's credit (MAX_DATA)."""
        self._queue_is_ours = False
        self._collector = FrameCollector()
        self._own_uni = 2 if self._is_client else 3
        self._peer_uni = 3 if self._is_client else 2
        self._pair: CryptoPair | None = None
        """The 1-RTT keys, once the handshake is confirmed and if they are of a kind we handle."""
        self._space: QuicPacketSpace = cast("QuicPacketSpace", None)
        """The 1-RTT packet number space, set with ``_pair``."""
        self._crypto_stream: QuicStream = cast("QuicStream", None)
        """The CRYPTO stream of 1-RTT packets (session tickets), set with ``_pair``."""
        self._sealer: Sealer | None = None
        self._opener: Opener | None = None

    # Keys

    def _take_keys(self) -> bool:
        """Whether 1-RTT packets can be handled here at all; looks again until it is so."""
        if not self._handshake_confirmed or self._quic_logger is not None:
            return False
        if self._pair is None:
            pair = self._cryptos[Epoch.ONE_RTT]
            if pair.send.cipher_suite not in AES_SUITES:
                return False
            if pair.recv.cipher_suite not in AES_SUITES:
                return False
            self._pair = pair
            self._space = self._spaces[Epoch.ONE_RTT]
            self._crypto_stream = self._crypto_streams[Epoch.ONE_RTT]
        return True

    # Streams

    def _get_or_create_stream(self, frame_type: int, stream_id: int) -> QuicStream:
        stream = self._streams.get(stream_id)
        if stream is None:
            known = len(self._streams_queue)
            stream = super()._get_or_create_stream(frame_type, stream_id)
            self._adopt_new(known)
        return stream

    def _get_or_create_stream_for_send(self, stream_id: int) -> QuicStream:
        known = len(self._streams_queue)
        stream = super()._get_or_create_stream_for_send(stream_id)
        self._adopt_new(known)
        return stream

    def _adopt_new(self, known: int) -> None:
        """Streams that the parent has just made are those at the end of its list."""
        made = self._streams_queue[known:]
        if made:
            for stream in made:
                adopt(stream, self._ready)
            if self._queue_is_ours:
                self._streams_queue.clear()

    def _next_of_peer(self, stream_id: int) -> QuicStream | None:
        """Make the peer's next stream of its kind; None if it is any other.

        As ``_get_or_create_stream`` makes it, of which the checks for this case are left.
        """
        if stream_id & 2:
            limit = self._local_max_streams_uni
            local, remote = self._local_max_stream_data_uni, 0
        else:
            limit = self._local_max_streams_bidi
            local = self._local_max_stream_data_bidi_remote
            remote = self._remote_max_stream_data_bidi_local
        index = stream_id >> 2
        if index != limit.used or index >= limit.value or not self._queue_is_ours:
            return None
        if (stream_id & 1 == 0) == self._is_client:
            return None
        limit.used = index + 1
        stream = FastStream(stream_id, local, remote, (True, not stream_id & 2), self._ready)
        self._streams[stream_id] = stream
        return stream

    def _next_of_ours(self, stream_id: int) -> QuicStream | None:
        """Make our next one-way stream; None if it is any other or has to wait.

        As ``_get_or_create_stream_for_send`` makes it.
        """
        if (
            stream_id != self._local_next_stream_id_uni
            or stream_id >> 2 >= self._remote_max_streams_uni
            or not self._queue_is_ours
        ):
            return None
        self._local_next_stream_id_uni = stream_id + 4
        remote = self._remote_max_stream_data_uni
        stream = FastStream(stream_id, 0, remote, (False, True), self._ready)
        self._streams[stream_id] = stream
        return stream

    def send_stream_data(self, stream_id: int, data: bytes, end_stream: bool = False) -> None:
        """Send data on a stream, opening it if it is ours and new."""
        stream = self._streams.get(stream_id) or self._next_of_ours(stream_id)
        if stream is None or stream_id & 3 == self._peer_uni:
            super().send_stream_data(stream_id, data, end_stream)
        else:
            stream.sender.write(data, end_stream)

    # Credit

    def _unblock_streams(self, is_unidirectional: bool) -> None:
        waiting = self._streams_blocked_uni if is_unidirectional else self._streams_blocked_bidi
        before = list(waiting)
        super()._unblock_streams(is_unidirectional)
        for stream in before:
            if not stream.is_blocked:
                self._ready[cast("int", stream.stream_id)] = None

    def _unpark(self) -> None:
        """The connection has credit again."""
        if self._parked:
            self._ready.update(self._parked)
            self._parked.clear()

    def _handle_max_data_frame(
        self, context: QuicReceiveContext, frame_type: int, buf: Buffer
    ) -> None:
        super()._handle_max_data_frame(context, frame_type, buf)
        self._unpark()

    def _handle_max_stream_data_frame(
        self, context: QuicReceiveContext, frame_type: int, buf: Buffer
    ) -> None:
        start = buf.tell()
        stream_id = buf.pull_uint_var()
        buf.seek(start)
        super()._handle_max_stream_data_frame(context, frame_type, buf)
        self._ready[stream_id] = None

    def _on_max_stream_data_delivery(self, delivery: Any, stream: QuicStream) -> None:
        super()._on_max_stream_data_delivery(delivery, stream)
        if stream.max_stream_data_local_sent != stream.max_stream_data_local:
            self._ready[cast("int", stream.stream_id)] = None

    # The way back

    def _parent_send(self, now: float) -> list[tuple[bytes, Address]]:
        """Let the parent send, with its list of streams in place."""
        if self._queue_is_ours:
            streams = self._streams
            queue = [streams[key] for key in self._ready if key in streams]
            queue += [stream for key, stream in streams.items() if key not in self._ready]
            self._streams_queue = queue
            self._queue_is_ours = False
        return super().datagrams_to_send(now)

    def _take_queue(self) -> None:
        """From here on the fast path sends: all that is busy is in ``_ready`` already."""
        self._streams_queue = []
        self._queue_is_ours = True

    def _needs_parent(self) -> bool:
        """Whether something waits that only the parent's sending code handles."""
        pair = self._pair
        paths = self._network_paths
        if (
            pair is None
            or self._state is not _CONNECTED
            or self._close_pending
            or self._probe_pending
            or self._ping_pending
            or pair._update_key_requested
            or self._handshake_done_pending
            or self._retire_connection_ids
            or self._streams_blocked_pending
            or self._remote_preferred_address is not None
            or self._quic_logger is not None
            or not paths[0].is_validated
            or paths[0].remote_challenges
            or not self._crypto_stream.sender.buffer_is_empty
        ):
            return True
        for connection_id in self._host_cids:
            if not connection_id.was_sent:
                return True
        return len(paths) > 1 and any(
            path.remote_challenges or not (path.is_validated or path.local_challenge_sent)
            for path in paths[1:]
        )
