"""Drives a server's MoQT session with bytes: what arrives on which stream, and what it answers.

::

    operation   1 byte    bits 0 to 2: the stream     bit 3: FIN
                          bit 4: a reset instead      bit 5: STOP_SENDING instead
                          bit 6: the application answers every open request first
    size        1 byte    how many bytes of the stream follow (not for a reset or a stop)
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from laps_wire.errors import LocalError
from laps_wire.moqt.codepoints import RequestErrorCode
from laps_wire.moqt.control import encode
from laps_wire.moqt.messages import (
    ClientSetup,
    Fetch,
    Message,
    Publish,
    PublishNamespace,
    RequestOk,
    RequestUpdate,
    Setup,
    StandaloneFetch,
    Subscribe,
    SubscribeNamespace,
    SubscribeOk,
    TrackStatus,
    Unsubscribe,
)
from laps_wire.moqt.session import (
    CloseSession,
    OpenStream,
    Role,
    Session,
    SessionConfig,
    SessionLimits,
    Terminated,
)
from laps_wire.moqt.setup import SetupOptions
from laps_wire.moqt.structures import Location
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace

LIMITS = SessionLimits(
    max_requests=8, max_updates=3, max_namespaces=3, max_early_bytes=200, max_ended=4
)
NS = Namespace.of(b"a")
TRACK = FullTrackName(NS, b"n")

PEER_STREAMS = (0, 2, 4, 6, 8, 12)
"""Streams of the client: the first of each kind, and some more."""
OWN_STREAMS = (1, 5)
"""Bidirectional streams of the server: its own requests in draft 18."""
STREAMS = PEER_STREAMS + OWN_STREAMS


class Harness:
    """A server and the transport around it."""

    def __init__(self, draft: Draft) -> None:
        self.session = Session(SessionConfig(draft=draft, role=Role.SERVER, limits=LIMITS))
        self.opened: set[int] = set()
        self.finished: set[int] = set()
        self.closed = False
        self.counts = {False: 0, True: 0}
        self.carry_out()

    def carry_out(self) -> None:
        """Do what the session asks for; every ref must resolve, and nothing follows a close."""
        for action in self.session.poll_transmit():
            assert not self.closed
            if isinstance(action, CloseSession):
                self.closed = True
            elif isinstance(action, OpenStream):
                uni = action.unidirectional
                stream_id = self.counts[uni] << 2 | uni << 1 | 1
                self.counts[uni] += 1
                self.session.bind_stream(action.stream, stream_id)
                self.opened.add(stream_id)
            else:
                self.session.stream_id(action.stream)
        ended = any(isinstance(event, Terminated) for event in self.session.poll_events())
        assert ended <= self.session.closed
        assert self.closed == self.session.closed

    def answer(self) -> None:
        """The application accepts what it can and ends what it accepted."""
        for request_id in self.session.open_requests:
            for command in self.commands(request_id):
                with contextlib.suppress(LocalError):
                    command()
                    break

    def commands(self, request_id: int) -> list[Callable[[], None]]:
        """What the application could say about a request, in the order that it tries."""
        session = self.session
        return [
            lambda: session.accept(request_id),
            lambda: session.accept_subscribe(request_id, request_id),
            lambda: session.accept_fetch(request_id, Location(9, 0)),
            lambda: session.publish_done(request_id, 0, 0),
            lambda: session.fetch_ended(request_id),
            lambda: session.reject(request_id, RequestErrorCode.NOT_SUPPORTED),
        ]

    def run(self, data: bytes) -> None:
        pos = 0
        while pos < len(data):
            operation = data[pos]
            pos += 1
            if operation & 0x40:
                self.answer()
            stream_id = STREAMS[operation & 7]
            possible = stream_id in PEER_STREAMS or stream_id in self.opened
            if operation & 0x20:
                if possible and not stream_id & 2:
                    self.session.receive_stop_sending(stream_id, operation)
            elif operation & 0x10:
                if possible and stream_id not in self.finished:
                    self.finished.add(stream_id)
                    self.session.receive_stream_reset(stream_id, operation)
            else:
                size = data[pos] if pos < len(data) else 0
                chunk = data[pos + 1 : pos + 1 + size]
                pos += 1 + size
                if possible and stream_id not in self.finished:
                    fin = bool(operation & 8)
                    if fin:
                        self.finished.add(stream_id)
                    self.session.receive_stream_data(stream_id, chunk, fin)
            self.carry_out()
            core = self.session._core
            assert core.requests.theirs <= LIMITS.max_requests
            assert sum(len(stream.buffer) for stream in core.early) <= LIMITS.max_early_bytes
            assert core.peer_tokens.size <= LIMITS.max_token_cache
            if self.closed:
                assert self.session.open_requests == ()


def one_input(draft: Draft, data: bytes) -> None:
    """Run ``data`` against a fresh server, and against one that has requests of its own."""
    Harness(draft).run(data)
    busy = Harness(draft)
    with contextlib.suppress(LocalError):  # draft 16 must wait for SETUP
        busy.session.subscribe(TRACK)
        busy.session.publish_namespace(NS)
    busy.carry_out()
    busy.run(data)


def step(stream: int, *messages: Message, draft: Draft, flags: int = 0) -> bytes:
    """One operation: these messages on the stream with this index."""
    data = b"".join(encode(message, draft) for message in messages)
    return bytes([stream | flags, len(data)]) + data


def seeds(draft: Draft) -> list[bytes]:
    """Conversations that go well, and one that ends at once."""
    if draft is Draft.D16:
        setup = step(0, ClientSetup(SetupOptions(max_request_id=20)), draft=draft)
        stream = (0, 0, 0, 0, 0)
    else:
        setup = step(1, Setup(SetupOptions()), draft=draft)
        stream = (0, 2, 4, 5, 0)
    target = StandaloneFetch(TRACK, Location(0, 0), Location(9, 0))
    existing = 0 if draft is Draft.D16 else None
    subscribe = step(stream[0], Subscribe(0, TRACK), draft=draft)
    update = step(stream[4], RequestUpdate(2, existing), draft=draft, flags=0x40)
    answer = bytes([0x41 if draft is Draft.D16 else 0x43, 0])
    conversation = setup + subscribe + update + answer
    if draft is Draft.D16:
        conversation += step(0, Unsubscribe(0), draft=draft)
    else:
        conversation += bytes([0x20])
    requests = setup
    asked: list[Message] = [
        Publish(0, TRACK, 3),
        Fetch(2, target),
        TrackStatus(4, TRACK),
        PublishNamespace(6, NS),
    ]
    for index, message in enumerate(asked):
        requests += step(stream[index], message, draft=draft)
    own_streams = (6, 7) if draft is Draft.D18 else (0, 0)
    subscribed, published = (None, None) if draft is Draft.D18 else (1, 3)
    own = setup + step(own_streams[0], SubscribeOk(subscribed, 4), draft=draft)
    own += step(own_streams[1], RequestOk(published), draft=draft)
    namespaces = setup + step(2, SubscribeNamespace(0, NS), draft=draft) + bytes([0x4A, 0])
    early = step(2, SubscribeNamespace(0, NS), draft=draft) + setup
    data_stream = setup + bytes([3, 3]) + b"\x10ab"
    return [conversation, requests + answer, own, namespaces, early, data_stream, b"\x00\x01\x3f"]
