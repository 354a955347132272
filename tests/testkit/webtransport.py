"""A WebTransport session between a client and a server of ours, and raw HTTP/3 bytes."""

from __future__ import annotations

from collections.abc import Sequence

from laps_sdk.quic.base import Connection
from laps_sdk.quic.events import Connected, StreamData
from laps_sdk.quic.webtransport.client import H3Client, dial_h3
from laps_sdk.quic.webtransport.h3 import (
    OPENING,
    Field,
    FieldCoder,
    FrameType,
    RecordReader,
    encode_record,
)
from laps_sdk.quic.webtransport.server import serve_h3
from testkit.fake_connection import FakeConnection, FakePair, Recorder

__all__ = ["CONNECT", "RawPeer", "SessionPair", "headers", "read_response"]

CONNECT: list[Field] = [
    (b":method", b"CONNECT"),
    (b":scheme", b"https"),
    (b":authority", b"host:443"),
    (b":path", b"/moq"),
    (b":protocol", b"webtransport"),
    (b"wt-available-protocols", b'"moqt-16", "moqt-18"'),
]


def headers(fields: Sequence[Field], stream_id: int = 0) -> bytes:
    return encode_record(FrameType.HEADERS, FieldCoder().encode(stream_id, fields))


def read_response(data: bytes) -> tuple[dict[bytes, bytes], bytes]:
    """The fields and the body of a response."""
    records = RecordReader({FrameType.HEADERS: 1 << 14, FrameType.DATA: 1 << 14}).feed(data)
    fields = dict(FieldCoder().decode(0, records[0].value))
    return fields, b"".join(record.value for record in records[1:])


class SessionPair:
    """Both ends are ours. Make it inside a running loop."""

    def __init__(
        self,
        offered: Sequence[str] = ("moqt-18", "moqt-16"),
        spoken: Sequence[str] = ("moqt-18", "moqt-16"),
    ) -> None:
        self.pair = FakePair()
        self.client_app, self.server_app = Recorder(), Recorder()
        self.dialling: H3Client = dial_h3(
            self.pair.client,
            listener=self.client_app,
            path="/moq?x=1",
            authority="relay:4433",
            protocols=offered,
        )
        self.pair.handlers = {
            self.pair.client: self.dialling,
            self.pair.server: serve_h3(self.pair.server, self.server_app, spoken),
        }

    def run(self) -> None:
        self.pair.run()

    def sessions(self) -> tuple[Connection, Connection]:
        """Establish; the client's and the server's session, their first event taken."""
        self.run()
        for app in (self.client_app, self.server_app):
            assert isinstance(app.take()[0], Connected)
        return self.client_app.session, self.server_app.session


class RawPeer:
    """One of our ends, and bytes of a peer that a test makes up."""

    def __init__(self, *, server: bool = True, protocols: Sequence[str] = ("moqt-18",)) -> None:
        self.connection = FakeConnection(is_client=not server)
        self.app = Recorder()
        self.dialling: H3Client | None = None
        if server:
            self.handler = serve_h3(self.connection, self.app, protocols)
        else:
            self.handler = self.dialling = dial_h3(
                self.connection, listener=self.app, path="/", authority="h", protocols=protocols
            )
        self.handler.handle_events([Connected("h3")])

    def data(self, stream_id: int, data: bytes, fin: bool = False) -> None:
        self.handler.handle_events([StreamData(stream_id, data, fin)])

    def settings(self) -> None:
        self.data(2 if not self.connection.is_client else 3, OPENING[0])

    def session(self, stream_id: int = 0) -> Connection:
        """Ask for a session as a client; our server's end of it."""
        self.settings()
        self.data(stream_id, headers(CONNECT, stream_id))
        assert isinstance(self.app.take()[0], Connected)
        return self.app.session

    def written(self, stream_id: int) -> bytes:
        return self.connection.streams[stream_id].written

    @property
    def close_code(self) -> int | None:
        return self.connection.closes[0][0] if self.connection.closes else None
