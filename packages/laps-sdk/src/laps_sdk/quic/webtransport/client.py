"""The client of WebTransport: requests one session and reports the result.

::

    Connected          send control streams and SETTINGS
    SETTINGS           if the server accepts sessions: extended CONNECT (RFC 9220, 3)
    2xx, wt-protocol   the session exists: listener, Connected, result of the future
    anything else      the future raises ConnectError, and the QUIC connection is closed
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from laps_sdk.errors import ConnectError, StreamLimitError
from laps_sdk.quic.base import Connection, Listener, OutStream
from laps_sdk.quic.events import Closed, Event
from laps_sdk.quic.webtransport.h3 import (
    AVAILABLE_PROTOCOLS,
    REQUEST_FRAMES,
    Field,
    FrameType,
    H3Code,
    H3Error,
    Record,
    RecordReader,
    Response,
    encode_record,
    format_strings,
    offers_webtransport,
    parse_response,
)
from laps_sdk.quic.webtransport.peer import H3Peer, WebTransportConnection

__all__ = ["H3Client", "dial_h3"]

_MAX_TEXT: Final = 1024
"""Bytes of a refusal's text that the error quotes."""


def dial_h3(
    connection: Connection,
    *,
    listener: Listener,
    path: str,
    authority: str,
    protocols: Sequence[str],
) -> H3Client:
    """Return the handler of a dialled connection with ALPN ``h3``.

    Its ``established`` is the future of the session. Call the function inside a running loop.
    ``protocols`` are sent in ``wt-available-protocols``.
    """
    return H3Client(connection, listener, path=path, authority=authority, protocols=protocols)


class H3Client(H3Peer):
    """The ``Handler`` that requests one session."""

    __slots__ = (
        "_asked",
        "_authority",
        "_path",
        "_protocols",
        "_reader",
        "_refusal",
        "_request",
        "_text",
        "established",
    )

    def __init__(
        self,
        connection: Connection,
        listener: Listener,
        *,
        path: str,
        authority: str,
        protocols: Sequence[str],
    ) -> None:
        super().__init__(connection, listener)
        self.established: asyncio.Future[WebTransportConnection] = (
            asyncio.get_running_loop().create_future()
        )
        """The session; raises ``ConnectError`` with the server's response."""
        self._path = path
        self._authority = authority
        self._protocols = tuple(protocols)
        self._asked = False  # SETTINGS allow it: the request goes out, or waits for a stream
        self._request: OutStream | None = None
        self._reader = RecordReader(REQUEST_FRAMES)
        self._refusal: Response | None = None
        self._text = b""

    def handle_events(self, events: Sequence[Event]) -> None:
        """See :class:`Handler`."""
        super().handle_events(events)
        if self._refusal is not None:  # its text is used only if it arrives in the same turn
            self._refused(self._refusal)

    # The request

    def _connected(self) -> None:
        pass  # a client waits for the server's SETTINGS (webtrans-http3-07, 3.1)

    def _settings_arrived(self) -> None:
        if not offers_webtransport(self.settings or {}):
            self._give_up("it speaks HTTP/3, but its SETTINGS do not offer WebTransport")
            return
        self._asked = True
        self._streams_available()

    def _streams_available(self) -> None:
        if not self._asked or self._request is not None:
            return
        try:
            stream = self.connection.open_bidirectional()
        except StreamLimitError:
            return  # StreamsAvailable follows
        fields: list[Field] = [
            (b":method", b"CONNECT"),
            (b":scheme", b"https"),
            (b":authority", self._authority.encode()),
            (b":path", self._path.encode()),
            (b":protocol", b"webtransport"),
            (b"sec-webtransport-http3-draft02", b"1"),
        ]
        if self._protocols:
            fields.append((AVAILABLE_PROTOCOLS, format_strings(self._protocols)))
        self._request = stream
        section = self.coder.encode(self._request_id, fields)
        stream.write(encode_record(FrameType.HEADERS, section))

    @property
    def _request_id(self) -> int:
        stream_id = None if self._request is None else self._request.stream_id
        return -1 if stream_id is None else stream_id

    # The answer

    def _is_request(self, stream_id: int) -> bool:
        return stream_id == self._request_id

    def _request_data(self, stream_id: int, data: bytes, fin: bool) -> None:
        records = self._reader.feed(data)
        for index, record in enumerate(records):
            if self._session is not None:
                self._session_records(records[index:])
                break
            self._response(stream_id, record)
        if not fin:
            return
        self._reader.finish()
        if self._session is not None:
            self._session_finished()
        elif self._refusal is None:
            self._give_up("the server ended the request without an answer")

    def _response(self, stream_id: int, record: Record) -> None:
        if self._refusal is not None:
            if record.type == FrameType.DATA:
                self._text = (self._text + record.value)[:_MAX_TEXT]
            return  # or trailers
        if record.type != FrameType.HEADERS:
            raise H3Error(H3Code.FRAME_UNEXPECTED, "a response begins with HEADERS")
        response = parse_response(self.coder.decode(stream_id, record.value))
        if 100 <= response.status < 200:
            return
        if not 200 <= response.status < 300:
            self._refusal = response
        elif self._protocols and response.protocol not in self._protocols:
            named = "none" if response.protocol is None else ascii(response.protocol)
            self._give_up(f"it accepted the session, but wt-protocol names {named}")
        elif self._request is not None:
            session = self._establish(
                self._request,
                self._reader,
                session_id=stream_id,
                protocol=response.protocol or "",
                authority=self._authority,
                path=self._path,
            )
            if not self.established.done():
                self.established.set_result(session)

    def _request_reset(self, stream_id: int) -> None:  # noqa: ARG002 - there is only one
        if self._refusal is None:
            self._give_up("the server reset the request")

    def _refused(self, response: Response) -> None:
        text = self._text.decode(errors="replace").strip()
        self._give_up(f"it answered status {response.status}" + (f": {text}" if text else ""))

    def _give_up(self, reason: str) -> None:
        if self.established.done():
            return
        offered = ", ".join(self._protocols) or "none"
        self.established.set_exception(
            ConnectError(
                f"no WebTransport session at https://{self._authority}{self._path}: {reason} "
                f"(protocols offered: {offered})"
            )
        )
        self.established.exception()  # marks it as read, should the dialler have stopped waiting
        self._done = True
        self.connection.close(H3Code.NO_ERROR, "no session")

    def _connection_over(self, event: Closed) -> None:
        whose = "by the server" if event.by_peer else "by us"
        self._give_up(f"the connection was closed {whose}, code {event.code:#x} {event.reason!a}")
