"""The server of WebTransport: answers requests and accepts one session.

::

    CONNECT, :protocol webtransport, a protocol in common         200 and wt-protocol
    ... no protocol in common                                     400 with our protocols
    ... a second session                                          429
    CONNECT with another :protocol, or with none                  501
    every other method                                            404
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from laps_sdk.quic.base import Connection, Handler, Listener
from laps_sdk.quic.events import Closed
from laps_sdk.quic.webtransport.h3 import (
    PROTOCOL,
    REQUEST_FRAMES,
    Field,
    FrameType,
    H3Code,
    H3Error,
    RecordReader,
    Request,
    choose_protocol,
    encode_record,
    format_strings,
    parse_request,
)
from laps_sdk.quic.webtransport.peer import H3Peer

__all__ = ["MAX_REQUESTS", "serve_h3"]

MAX_REQUESTS: Final = 256
"""The most requests on one connection, answered ones included."""


def serve_h3(connection: Connection, listener: Listener, protocols: Sequence[str]) -> Handler:
    """Return the handler of an accepted connection with ALPN ``h3``.

    The handler calls ``listener`` when it accepts a session. ``protocols`` are ours, the preferred
    one first; if empty, sessions have no protocol.
    """
    return _H3Server(connection, listener, protocols)


class _H3Server(H3Peer):
    __slots__ = ("_answered", "_protocols", "_requests")

    def __init__(
        self, connection: Connection, listener: Listener, protocols: Sequence[str]
    ) -> None:
        super().__init__(connection, listener)
        self._protocols = tuple(protocols)
        self._requests: dict[int, RecordReader] = {}  # that have no answer yet
        self._answered: set[int] = set()

    def _connected(self) -> None:
        pass

    def _settings_arrived(self) -> None:
        pass  # the session reads them when it sends datagrams

    def _streams_available(self) -> None:
        pass

    def _connection_over(self, event: Closed) -> None:
        pass

    def _is_request(self, stream_id: int) -> bool:
        return stream_id in self._requests or stream_id in self._answered

    def _request_reset(self, stream_id: int) -> None:
        if self._requests.pop(stream_id, None) is not None:
            self._answered.add(stream_id)
            self.connection.reply_stream(stream_id).reset(H3Code.REQUEST_CANCELLED)

    def _request_data(self, stream_id: int, data: bytes, fin: bool) -> None:
        if stream_id in self._answered:
            return
        reader = self._requests.get(stream_id)
        if reader is None:
            if len(self._requests) + len(self._answered) >= MAX_REQUESTS:
                raise H3Error(H3Code.EXCESSIVE_LOAD, f"more than {MAX_REQUESTS} requests")
            reader = self._requests[stream_id] = RecordReader(REQUEST_FRAMES)
        records = reader.feed(data)
        if records:
            if records[0].type != FrameType.HEADERS:
                raise H3Error(H3Code.FRAME_UNEXPECTED, "a request begins with HEADERS")
            fields = self.coder.decode(stream_id, records[0].value)
            try:
                request = parse_request(fields)
            except H3Error as error:  # of this request alone (RFC 9114, 4.1.2)
                self._reject(stream_id, error.h3_code, fin)
                return
            self._answer(stream_id, request, fin)
            if self._is_session_stream(stream_id):
                self._session_records(records[1:])
                if fin:
                    reader.finish()
                    self._session_finished()
        elif fin:
            reader.finish()
            self._reject(stream_id, H3Code.REQUEST_INCOMPLETE, fin)

    def _reject(self, stream_id: int, code: H3Code, fin: bool) -> None:
        del self._requests[stream_id]
        self._answered.add(stream_id)
        self._refuse_stream(stream_id, code, fin)

    # Answers

    def _answer(self, stream_id: int, request: Request, fin: bool) -> None:
        spoken = ", ".join(self._protocols)
        chosen = choose_protocol(request.available, self._protocols)
        if request.method != "CONNECT":
            self._respond(stream_id, request, 404, "Nothing here but WebTransport.", fin)
        elif not request.is_webtransport:
            self._respond(stream_id, request, 501, "CONNECT only for :protocol webtransport.", fin)
        elif self._session is not None:
            self._respond(stream_id, request, 429, "One session for each connection.", fin)
        elif chosen is None and self._protocols:
            offered = ", ".join(request.available) or "nothing"
            text = f"wt-available-protocols offers {offered}; spoken here: {spoken}."
            self._respond(stream_id, request, 400, text, fin)
        else:
            self._accept(stream_id, request, chosen or "")

    def _accept(self, stream_id: int, request: Request, protocol: str) -> None:
        fields: list[Field] = [(b":status", b"200")]
        if protocol:
            fields.append((PROTOCOL, format_strings([protocol])))
        if request.draft02:  # webtrans-http3-02, 3.2
            fields.append((b"sec-webtransport-http3-draft", b"draft02"))
        stream = self.connection.reply_stream(stream_id)
        stream.write(encode_record(FrameType.HEADERS, self.coder.encode(stream_id, fields)))
        self._establish(
            stream,
            self._requests.pop(stream_id),
            session_id=stream_id,
            protocol=protocol,
            authority=request.authority,
            path=request.path,
        )

    def _respond(self, stream_id: int, request: Request, status: int, text: str, fin: bool) -> None:
        """Answer a request with a short text and finish it."""
        body = text.encode() + b"\n"
        fields = [
            (b":status", str(status).encode()),
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", str(len(body)).encode()),
        ]
        data = encode_record(FrameType.HEADERS, self.coder.encode(stream_id, fields))
        if request.method != "HEAD":
            data += encode_record(FrameType.DATA, body)
        self.connection.reply_stream(stream_id).write(data, fin=True)
        del self._requests[stream_id]
        self._answered.add(stream_id)
        if not fin:
            self.connection.stop_sending(stream_id, H3Code.NO_ERROR)
