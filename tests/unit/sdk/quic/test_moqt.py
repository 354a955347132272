"""A MoQT session on a connection: control to the session, everything else to the application."""

from __future__ import annotations

from typing import Any

import pytest

from laps_sdk.quic.events import (
    Closed,
    DatagramReceived,
    DropReason,
    StopSending,
    StreamData,
    StreamDropped,
    StreamReset,
    StreamsAvailable,
    Writable,
)
from laps_sdk.quic.moqt import DRAFTS, MoqtPeer
from laps_wire.moqt.codepoints import SessionCode
from laps_wire.moqt.data import SubgroupHeader, SubgroupWriter
from laps_wire.moqt.data.types import StreamKind
from laps_wire.moqt.session import Event as SessionEvent
from laps_wire.moqt.session import (
    RequestAccepted,
    RequestReceived,
    Role,
    SetupReceived,
    Terminated,
)
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from testkit.fake_connection import FakePair

TRACK = FullTrackName(Namespace((b"a",)), b"t")


class Application:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.session_events: list[SessionEvent] = []
        self.calls: list[tuple[Any, ...]] = []

    def session_event(self, peer: MoqtPeer, event: SessionEvent) -> None:
        self.session_events.append(event)

    def stream_opened(
        self, peer: MoqtPeer, stream_id: int, kind: StreamKind, data: bytes, fin: bool
    ) -> None:
        self.calls.append(("opened", stream_id, kind, data, fin))

    def stream_data(self, peer: MoqtPeer, stream_id: int, data: bytes, fin: bool) -> None:
        self.calls.append(("data", stream_id, data, fin))

    def stream_reset(self, peer: MoqtPeer, stream_id: int, code: int) -> None:
        self.calls.append(("reset", stream_id, code))

    def datagram(self, peer: MoqtPeer, data: bytes) -> None:
        self.calls.append(("datagram", data))

    def out_stream_stopped(self, peer: MoqtPeer, event: StopSending) -> None:
        self.calls.append(("stopped", event))

    def out_stream_dropped(self, peer: MoqtPeer, event: StreamDropped) -> None:
        self.calls.append(("dropped", event))

    def writable(self, peer: MoqtPeer) -> None:
        self.calls.append(("writable",))

    def closed(self, peer: MoqtPeer, event: Closed) -> None:
        self.calls.append(("closed", event))


class Joined:
    """A client and a server over a pair of connections."""

    def __init__(self, draft: Draft) -> None:
        self.pair = FakePair()
        self.client_app, self.server_app = Application(), Application()
        self.client = MoqtPeer(self.pair.client, self.client_app, draft=draft)
        self.server = MoqtPeer(self.pair.server, self.server_app, draft=draft)
        self.pair.handlers = {self.pair.client: self.client, self.pair.server: self.server}
        self.pair.run()


@pytest.fixture(params=list(Draft), ids=lambda draft: draft.alpn)
def joined(request: pytest.FixtureRequest) -> Joined:
    return Joined(request.param)


def subgroup(draft: Draft, *payloads: bytes) -> bytes:
    writer = SubgroupWriter(SubgroupHeader(7, 1, 0, 128), draft)
    return writer.start + b"".join(
        writer.object_header(number, len(payload)) + payload
        for number, payload in enumerate(payloads)
    )


def test_the_newest_draft_is_preferred() -> None:
    assert DRAFTS == ("moqt-18", "moqt-16")
    assert [Draft.from_alpn(alpn) for alpn in DRAFTS] == sorted(Draft, reverse=True)


def test_both_sides_become_established(joined: Joined) -> None:
    assert joined.client.session.role is Role.CLIENT
    assert joined.server.session.role is Role.SERVER
    for app in (joined.client_app, joined.server_app):
        assert [type(event) for event in app.session_events] == [SetupReceived]


def test_a_request_and_its_answer(joined: Joined) -> None:
    request = joined.client.session.subscribe(TRACK)
    joined.client.settle()
    joined.pair.run()
    received = joined.server_app.session_events[-1]
    assert isinstance(received, RequestReceived)
    joined.server.session.accept_subscribe(received.request_id, 7)
    joined.server.settle()
    joined.pair.run()
    accepted = joined.client_app.session_events[-1]
    assert isinstance(accepted, RequestAccepted)
    assert accepted.request_id == request


def test_data_streams_go_past_the_session(joined: Joined) -> None:
    draft = joined.client.session.draft
    data = subgroup(draft, b"hello")
    out = joined.pair.client.open_unidirectional()
    out.write(data)
    joined.pair.run()
    out.write(b"more")
    out.write(b"end", True)
    joined.pair.run()
    stream_id = out.stream_id
    assert joined.server_app.calls == [
        ("opened", stream_id, StreamKind.SUBGROUP, data, False),
        ("data", stream_id, b"more", False),
        ("data", stream_id, b"end", True),
    ]
    joined.pair.handlers[joined.pair.server].handle_events([DatagramReceived(b"d")])
    assert joined.server_app.calls[-1] == ("datagram", b"d")


def test_a_data_stream_that_ends_at_once_is_not_kept(joined: Joined) -> None:
    data = subgroup(joined.client.session.draft, b"x")
    out = joined.pair.client.open_unidirectional()
    out.write(data, True)
    joined.pair.run()
    assert joined.server_app.calls == [("opened", out.stream_id, StreamKind.SUBGROUP, data, True)]
    assert out.stream_id is not None
    joined.server.handle_events([StreamReset(out.stream_id, 3)])
    assert len(joined.server_app.calls) == 1


def test_resets_and_stops_of_data_streams(joined: Joined) -> None:
    out = joined.pair.client.open_unidirectional()
    out.write(subgroup(joined.client.session.draft, b"x"))
    joined.pair.run()
    assert out.stream_id is not None
    out.reset(5)
    joined.pair.run()
    assert joined.server_app.calls[-1] == ("reset", out.stream_id, 5)
    stop = StopSending(out.stream_id, 9, out)
    joined.client.handle_events([stop])
    assert joined.client_app.calls == [("stopped", stop)]
    dropped = StreamDropped(out, DropReason.EXPIRED, 10)
    joined.client.handle_events([dropped, Writable()])
    assert joined.client_app.calls[1:] == [("dropped", dropped), ("writable",)]


def test_what_the_application_refuses_is_stopped(joined: Joined) -> None:
    out = joined.pair.client.open_unidirectional()
    out.write(subgroup(joined.client.session.draft, b"x"))
    joined.pair.run()
    assert out.stream_id is not None
    joined.server.stop_data(out.stream_id, 4)
    assert out.stream_id in joined.pair.server.stopped
    joined.server.stop_data(out.stream_id, 4)  # of a stream that is over: harmless


def test_garbage_closes_the_connection(joined: Joined) -> None:
    out = joined.pair.client.open_unidirectional()
    out.write(b"\x02\x02")
    joined.pair.run()
    ended = joined.server_app.session_events[-1]
    assert isinstance(ended, Terminated)
    assert ended.code == SessionCode.PROTOCOL_VIOLATION
    assert joined.client_app.calls[-1][0] == "closed"
    assert isinstance(joined.client_app.session_events[-1], Terminated)


def test_the_control_stream_belongs_to_the_session(joined: Joined) -> None:
    """Resetting it or stopping it ends the session, in both drafts."""
    control = next(s for s in joined.pair.client.streams.values() if s.written)
    assert control.stream_id is not None
    joined.client.handle_events([StopSending(control.stream_id, 1)])
    assert isinstance(joined.client_app.session_events[-1], Terminated)


def test_a_reset_of_the_control_stream_ends_the_session(joined: Joined) -> None:
    control = next(s for s in joined.pair.client.streams.values() if s.written)
    assert control.stream_id is not None
    joined.server.handle_events([StreamReset(control.stream_id, 1)])
    assert isinstance(joined.server_app.session_events[-1], Terminated)


def test_a_request_waits_for_a_stream_and_nothing_else_does() -> None:
    joined = Joined(Draft.D18)
    joined.pair.client.bidi_allowed = 0
    first = joined.client.session.subscribe(TRACK)
    joined.client.settle()
    joined.client.session.cancel(first)
    joined.client.settle()
    second = joined.client.session.subscribe(FullTrackName(Namespace((b"b",)), b"u"))
    joined.client.settle()
    joined.pair.run()
    assert len(joined.server_app.session_events) == 1
    joined.server.session.subscribe(TRACK)
    joined.server.settle()
    joined.pair.run()
    asked = joined.client_app.session_events[-1]
    assert isinstance(asked, RequestReceived)
    joined.client.session.accept_subscribe(asked.request_id, 3)
    joined.client.settle()
    joined.pair.run()
    assert isinstance(joined.server_app.session_events[-1], RequestAccepted)
    joined.pair.client.bidi_allowed = 10
    joined.client.handle_events([StreamsAvailable()])
    joined.pair.run()
    heard = [e for e in joined.server_app.session_events if isinstance(e, RequestReceived)]
    assert second in [event.request_id for event in heard]


def test_a_close_forgets_what_waits() -> None:
    joined = Joined(Draft.D18)
    joined.pair.client.bidi_allowed = 0
    joined.client.session.subscribe(TRACK)
    joined.client.settle()
    joined.client.session.close(0, "enough")
    joined.client.settle()
    joined.pair.run()
    assert joined.pair.client.closed
    joined.client.handle_events([StreamsAvailable(), StreamData(1, b"", False)])
