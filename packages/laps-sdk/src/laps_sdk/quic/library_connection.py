"""What connections of aioquic and of qh3 have in common: nearly everything.

qh3 is a fork of aioquic with the same methods and the same events. The two backends only add what
differs: private figures, how packets are collected, and guards against a library's own faults.

::

    feed / on_timer --> library --> _pull(): events of the library --> our events, joined
    close by either side, seen in the library's state --> Closed, at once
                                  (the libraries tell it only after the draining period)

Life::

    handshake --> open --> closing or draining --> terminated
                      ^Closed                      ^nothing left to send or to wait for

While closing, each packet that still arrives is answered with the close packet again, but ever
more rarely (RFC 9000, 10.2.1): a peer that lost it need not wait for its idle timeout.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from types import ModuleType
from typing import Any, ClassVar, Final

from laps_sdk.errors import StreamLimitError
from laps_sdk.quic.base import Address
from laps_sdk.quic.close_reasons import explain
from laps_sdk.quic.engine import Burst, EngineConnection
from laps_sdk.quic.events import (
    Closed,
    Connected,
    DatagramReceived,
    Event,
    StopSending,
    StreamData,
    StreamReset,
    StreamsAvailable,
)
from laps_sdk.quic.library_types import Ending, LibraryQuic, Setup, bursts_of
from laps_sdk.quic.tls import key_hash

__all__ = ["LibraryConnection"]

_MAX_ACK_DELAY: Final = 0.025
_CLOSING_UNKNOWN: Final = 0.6
"""Three probe timeouts before there was an answer."""


class LibraryConnection(EngineConnection):
    """The common part; see the module."""

    __slots__ = (
        "_alpn",
        "_blocked",
        "_closed",
        "_events",
        "_final",
        "_final_answers",
        "_heard",
        "_ids",
        "_ids_tuple",
        "_linger",
        "_open",
        "_quic",
        "_server_name",
        "_setup",
        "_stopped",
        "_terminated",
    )

    library_events: ClassVar[ModuleType]
    """The library's module of events."""
    stream_faults: ClassVar[tuple[type[Exception], ...]]
    """What the library raises for a call on a stream that is finished or unknown."""

    def __init__(self, quic: LibraryQuic, setup: Setup, now: float) -> None:
        self._quic: LibraryQuic = quic
        self._setup = setup
        self._server_name = setup.server_name
        self._alpn = ""
        self._open = False
        self._closed = False
        self._terminated = False
        self._heard = now
        self._events: list[Event] = []
        self._blocked = [False, False]
        self._stopped: set[int] = set()
        self._final: list[Burst] | None = None
        self._final_answers = 0
        self._linger: float | None = None
        self._ids: dict[bytes, None] = {quic.host_cid: None}
        if setup.initial_id is not None:
            self._ids[setup.initial_id] = None
        self._ids_tuple = tuple(self._ids)

    # What a backend adds

    @abstractmethod
    def _receive(self, datagrams: Sequence[bytes], address: Address, now: float) -> None:
        """Hand UDP payloads to the library."""

    @abstractmethod
    def _transmit(self, now: float) -> list[tuple[bytes, Address]]:
        """What the library wants to send."""

    @abstractmethod
    def _ending(self) -> Ending | None:
        """Whether the library's connection is closing, and why."""

    @abstractmethod
    def _allowance(self, unidirectional: bool) -> int:
        """How many more streams the peer allows."""

    @abstractmethod
    def _open_stream(self, unidirectional: bool) -> int:
        """Open one that the peer allows."""

    @abstractmethod
    def _receiving(self, stream_id: int) -> bool:
        """Whether the peer's half of a stream is not finished."""

    @abstractmethod
    def _client_server_name(self) -> str:
        """A server: the name that the client asked for, "" if none."""

    @abstractmethod
    def _server_certificate(self) -> bytes:
        """A client: what the server showed, DER; b"" before."""

    @abstractmethod
    def _end_trace(self) -> None:
        """Have the qlog file written, if there is one."""

    @abstractmethod
    def _submit_datagram(self, data: bytes) -> None:
        """Send a datagram that fits."""

    # From the endpoint

    def feed(self, datagrams: Sequence[bytes], address: Address, now: float) -> None:
        """See the base class."""
        if self._closed:
            self._final_answers += 1
            return
        self._heard = now
        self._receive(datagrams, address, now)
        self._pull()
        self._look_for_end(now)
        if (self._blocked[0] and self._allowance(False) > 0) or (
            self._blocked[1] and self._allowance(True) > 0
        ):
            self._blocked = [False, False]
            if self._open and not self._closed:
                self._events.append(StreamsAvailable())

    def events(self) -> list[Event]:
        """See the base class."""
        taken = self._events
        if taken:
            self._events = []
        return taken

    def flush(self, now: float) -> list[Burst]:
        """See the base class."""
        if self._final is not None:
            answers = self._final_answers
            # 1, 2, 4, 8, ... packets that arrived after the close packet
            if answers and answers & (answers - 1) == 0 and not self._terminated:
                self._final_answers += 1
                return self._final
            return []
        bursts = bursts_of(self._transmit(now))
        self._pull()
        if self._closed:
            self._final, self._final_answers = bursts, 0
            self._linger = now + self._closing_period()
            self._end_trace()
        else:
            self._look_for_end(now)
        return bursts

    def next_timer(self) -> float | None:
        """See the base class."""
        if self._terminated:
            return None
        if self._closed:
            return self._heard if self._linger is None else self._linger
        return self._quic.get_timer()

    def on_timer(self, now: float) -> None:
        """See the base class."""
        if self._terminated:
            return
        if self._closed:
            # Ours and not the library's: qh3 counts its closing period from the last packet.
            if self._linger is None:
                self._linger = now + self._closing_period()
            elif now >= self._linger:
                self._terminated = True
            return
        self._quic.handle_timer(now)
        self._pull()
        self._look_for_end(now)

    @property
    def connection_ids(self) -> Sequence[bytes]:
        """See the base class. The same object as long as nothing changes."""
        return self._ids_tuple

    @property
    def terminated(self) -> bool:
        """Whether the closing or draining period is over too."""
        return self._terminated

    # Getters

    @property
    def handshake_complete(self) -> bool:
        """See the base class."""
        return self._open

    @property
    def alpn(self) -> str:
        """See the base class."""
        return self._alpn

    @property
    def server_name(self) -> str:
        """See the base class."""
        return self._server_name

    @property
    def server_key_hash(self) -> bytes:
        """See the base class."""
        if not self._setup.is_client:
            return self._setup.server_key_hash
        certificate = self._server_certificate()
        return key_hash(certificate) if certificate else b""

    # Sending

    def streams_left(self, unidirectional: bool) -> int:
        """See the base class."""
        left = self._allowance(unidirectional) if self._open and not self._closed else 0
        if left <= 0:
            self._blocked[unidirectional] = True
            return 0
        return left

    def open_stream(self, unidirectional: bool) -> int:
        """See the base class."""
        if self.streams_left(unidirectional) == 0:
            kind = "unidirectional" if unidirectional else "bidirectional"
            raise StreamLimitError(f"the peer allows no more {kind} streams now")
        return self._open_stream(unidirectional)

    def write(self, stream_id: int, data: bytes, fin: bool) -> None:
        """See the base class."""
        if self._closed:
            return
        try:
            self._quic.send_stream_data(stream_id, data, fin)
        except self.stream_faults:
            return

    def datagram(self, data: bytes) -> None:
        """See the base class. One that no longer fits, because the path shrank, is dropped."""
        if not self._closed and len(data) <= self.max_datagram_size:
            self._submit_datagram(data)

    def reset(self, stream_id: int, code: int) -> None:
        """See the base class."""
        if self._closed:
            return
        try:
            self._quic.reset_stream(stream_id, code)
        except self.stream_faults:
            return

    def stop(self, stream_id: int, code: int) -> None:
        """See the base class. Data that still arrives is not reported."""
        if self._closed or stream_id in self._stopped or not self._receiving(stream_id):
            return
        try:
            self._quic.stop_stream(stream_id, code)
        except self.stream_faults:
            return
        self._stopped.add(stream_id)

    def close(self, code: int, reason: str, *, application: bool = True) -> None:
        """See the base class. ``Closed`` is told at once, the packet goes with the next flush."""
        if self._closed:
            return
        self._pull()
        frame_type = None if application else 0
        self._quic.close(error_code=code, frame_type=frame_type, reason_phrase=reason)
        self._finish(Closed(code, reason, False, application))

    # Translation

    def _pull(self) -> None:
        """Translate the library's events; join adjacent data of one stream."""
        next_event = self._quic.next_event
        event = next_event()
        if event is None:
            return
        data_kind = self.library_events.StreamDataReceived
        stream_id = -1
        parts: list[bytes] = []
        fin = False
        while event is not None:
            if type(event) is data_kind:
                if event.stream_id != stream_id:
                    if parts:
                        self._report_data(stream_id, parts, fin)
                        parts = []
                    stream_id = event.stream_id
                parts.append(event.data)
                fin = event.end_stream
            else:
                if parts:
                    self._report_data(stream_id, parts, fin)
                    parts = []
                stream_id = -1
                self._translate(event)
            event = next_event()
        if parts:
            self._report_data(stream_id, parts, fin)

    def _report_data(self, stream_id: int, parts: list[bytes], fin: bool) -> None:
        if self._closed:
            return
        if stream_id in self._stopped:
            if fin:
                self._stopped.discard(stream_id)
            return
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        self._events.append(StreamData(stream_id, data, fin))

    def _translate(self, event: Any) -> None:
        """All events but data of streams."""
        kinds = self.library_events
        kind = type(event)
        if kind is kinds.DatagramFrameReceived:
            self._report(DatagramReceived(event.data))
        elif kind is kinds.StreamReset:
            self._stopped.discard(event.stream_id)
            self._report(StreamReset(event.stream_id, event.error_code))
        elif kind is kinds.StopSendingReceived:
            self._report(StopSending(event.stream_id, event.error_code))
        elif kind is kinds.ConnectionIdIssued:
            self._ids[event.connection_id] = None
            self._ids_tuple = tuple(self._ids)
        elif kind is kinds.ConnectionIdRetired:
            self._ids.pop(event.connection_id, None)
            self._ids_tuple = tuple(self._ids)
        elif kind is kinds.HandshakeCompleted:
            self._handshake_completed(event.alpn_protocol or "")
        elif kind is kinds.ConnectionTerminated:
            self._terminated = True

    def _report(self, event: Event) -> None:
        if not self._closed:
            self._events.append(event)

    def _handshake_completed(self, alpn: str) -> None:
        setup = self._setup
        if not setup.is_client:
            self._server_name = self._client_server_name()
            if setup.initial_id is not None:
                self._ids.pop(setup.initial_id, None)
                self._ids.setdefault(self._quic.host_cid)
                self._ids_tuple = tuple(self._ids)
        self._open = True
        self._alpn = alpn
        self._report(Connected(alpn))

    def _look_for_end(self, now: float) -> None:
        """Tell a close as soon as the library knows of it, not after its draining period."""
        if self._closed:
            return
        ending = self._ending()
        if ending is None:
            return
        setup = self._setup
        if not ending.by_peer and ending.reason == "Idle timeout":
            quiet = f"{now - self._heard:.0f} s"
            told = (
                f"idle timeout: nothing arrived for {quiet}"
                if self._open
                else f"idle timeout: no answer to the handshake within {quiet}"
            )
            self._finish(Closed(0, told, False, False))
            return
        application = ending.frame_type is None
        reason = ending.reason
        if not application:
            reason = explain(ending.code, reason, ending.by_peer, setup.is_client, setup.alpn)
        self._finish(Closed(ending.code, reason, ending.by_peer, application))

    def _closing_period(self) -> float:
        """About three probe timeouts (RFC 9000, 10.2)."""
        rtt = self.stats().rtt
        return _CLOSING_UNKNOWN if rtt is None else 3 * (2 * rtt + _MAX_ACK_DELAY)

    def _finish(self, closed: Closed) -> None:
        self._events.append(closed)
        self._closed = True
        self._stopped.clear()
