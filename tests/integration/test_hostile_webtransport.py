"""What HTTP/3 clients should not do: each gets its code, and a well-behaved pair loses nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from laps_sdk.errors import ConnectionLostError, StreamLimitError
from laps_sdk.quic.events import StopSending, StreamReset
from laps_sdk.quic.webtransport.h3 import (
    OPENING,
    CapsuleType,
    FrameType,
    H3Code,
    Setting,
    StreamType,
    encode_record,
)
from laps_sdk.quic.webtransport.server import MAX_REQUESTS
from laps_wire.buffer import encode_quic
from laps_wire.moqt.codepoints import SessionCode
from laps_wire.moqt.versions import Draft
from testkit.edge_task import edge_relay
from testkit.hostile import Hostile, hostile
from testkit.webtransport import CONNECT, headers, read_response
from testkit.witness import witness

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

BOTH = pytest.mark.parametrize("draft", list(Draft), ids=lambda draft: draft.alpn)


def control(*frames: bytes) -> bytes:
    return encode_quic(StreamType.CONTROL) + b"".join(frames)


def settings(*pairs: tuple[int, int]) -> bytes:
    value = b"".join(encode_quic(key) + encode_quic(number) for key, number in pairs)
    return encode_record(FrameType.SETTINGS, value)


def begin(mallory: Hostile) -> None:
    """The streams that a well-behaved client opens first."""
    for data in OPENING:
        mallory.uni(data)


Attack = Callable[[Hostile], object]

BROKEN: dict[str, tuple[Attack, H3Code]] = {
    "a control stream without SETTINGS": (
        lambda m: m.uni(control(encode_record(FrameType.GOAWAY, b"\0"))),
        H3Code.MISSING_SETTINGS,
    ),
    "SETTINGS twice": (
        lambda m: m.uni(control(settings(), settings())),
        H3Code.FRAME_UNEXPECTED,
    ),
    "a setting twice": (
        lambda m: m.uni(control(settings((0x6, 1), (0x6, 1)))),
        H3Code.SETTINGS_ERROR,
    ),
    "a setting of HTTP/2": (lambda m: m.uni(control(settings((0x2, 0)))), H3Code.SETTINGS_ERROR),
    "a setting that is no boolean": (
        lambda m: m.uni(control(settings((Setting.H3_DATAGRAM, 2)))),
        H3Code.SETTINGS_ERROR,
    ),
    "SETTINGS that are cut off": (
        lambda m: m.uni(control(encode_record(FrameType.SETTINGS, b"\x06"))),
        H3Code.FRAME_ERROR,
    ),
    "a control stream that ends": (
        lambda m: m.uni(control(settings()), True),
        H3Code.CLOSED_CRITICAL_STREAM,
    ),
    "a second control stream": (
        lambda m: (m.uni(control(settings())), m.uni(control(settings()))),
        H3Code.STREAM_CREATION_ERROR,
    ),
    "DATA on the control stream": (
        lambda m: m.uni(control(settings(), encode_record(FrameType.DATA, b"x"))),
        H3Code.FRAME_UNEXPECTED,
    ),
    "noise for QPACK's decoder": (
        lambda m: m.uni(encode_quic(StreamType.QPACK_ENCODER) + b"\xff" * 64),
        H3Code.QPACK_ENCODER_STREAM_ERROR,
    ),
    "noise for QPACK's encoder": (
        lambda m: m.uni(encode_quic(StreamType.QPACK_DECODER) + b"\x00\x3f" + b"\xff" * 64),
        H3Code.QPACK_DECODER_STREAM_ERROR,
    ),
    "a request of DATA": (
        lambda m: m.bidi(encode_record(FrameType.DATA, b"x")),
        H3Code.FRAME_UNEXPECTED,
    ),
    "a request of HTTP/2": (lambda m: m.bidi(b"\x06\x01x"), H3Code.FRAME_UNEXPECTED),
    "fields of noise": (
        lambda m: m.bidi(encode_record(FrameType.HEADERS, b"\xff" * 40)),
        H3Code.QPACK_DECOMPRESSION_FAILED,
    ),
    "a request that is cut off": (lambda m: m.bidi(b"\x01\x40\xff\x00", True), H3Code.FRAME_ERROR),
    "fields without an end": (
        lambda m: m.bidi(encode_quic(FrameType.HEADERS) + encode_quic(1 << 30)),
        H3Code.EXCESSIVE_LOAD,
    ),
    "a stream of no session": (
        lambda m: m.uni(encode_quic(StreamType.WT_STREAM) + encode_quic(3)),
        H3Code.ID_ERROR,
    ),
}


@pytest.mark.parametrize("what", list(BROKEN))
async def test_broken_http3_closes_its_own_connection(what: str) -> None:
    attack, code = BROKEN[what]
    async with (
        edge_relay() as edge,
        witness(edge),
        hostile(edge, alpn="h3") as mallory,
    ):
        attack(mallory)
        closed = await mallory.closed()
        assert closed.application
        assert H3Code(closed.code) is code, closed


def fields(**changes: bytes) -> list[tuple[bytes, bytes]]:
    """The request for a session, with other values, or without some."""
    names = {b":" + key.encode(): value for key, value in changes.items()}
    return [(name, names.get(name, value)) for name, value in CONNECT if names.get(name) != b"-"]


ANSWERED: dict[str, tuple[list[tuple[bytes, bytes]], bytes]] = {
    "GET": (
        [
            (b":method", b"GET"),
            (b":scheme", b"https"),
            (b":authority", b"host"),
            (b":path", b"/"),
        ],
        b"404",
    ),
    "another protocol": (fields(protocol=b"websocket"), b"501"),
    "no draft of ours": (
        [*CONNECT[:5], (b"wt-available-protocols", b'"moqt-99"')],
        b"400",
    ),
    "no draft at all": (CONNECT[:5], b"400"),
}


@pytest.mark.parametrize("what", list(ANSWERED))
async def test_what_is_no_session_is_answered(what: str) -> None:
    """The connection stays: a browser may ask for something else on it."""
    asked, status = ANSWERED[what]
    async with edge_relay() as edge, witness(edge), hostile(edge, alpn="h3") as mallory:
        begin(mallory)
        stream = mallory.bidi(headers(asked), True)
        assert stream.stream_id is not None
        await mallory.until(lambda: mallory.ended(stream.stream_id or 0))
        found, body = read_response(mallory.received(stream.stream_id))
        assert found[b":status"] == status
        assert body
        assert not mallory.connection.closed


@pytest.mark.parametrize("missing", ["scheme", "path", "authority"])
async def test_a_request_that_lacks_something(missing: str) -> None:
    """It is refused alone (RFC 9114, 4.1.2)."""
    async with edge_relay() as edge, witness(edge), hostile(edge, alpn="h3") as mallory:
        begin(mallory)
        stream = mallory.bidi(headers(fields(**{missing: b"-"})))
        assert stream.stream_id is not None
        refused = await mallory.refused(stream.stream_id)
        assert isinstance(refused, StreamReset | StopSending)
        assert refused.code == H3Code.MESSAGE_ERROR
        assert not mallory.connection.closed


async def session(mallory: Hostile) -> int:
    """A session; the id of its stream."""
    begin(mallory)
    stream = mallory.bidi(headers(CONNECT))
    await mallory.until(lambda: bool(mallory.received(stream.stream_id or 0)))
    assert stream.stream_id == 0
    mallory.control = stream
    return stream.stream_id


async def test_a_flood_of_sessions() -> None:
    """One for each connection; the others are told so, and the first goes on."""
    async with edge_relay() as edge, witness(edge), hostile(edge, alpn="h3") as mallory:
        await session(mallory)
        others = [mallory.bidi(headers(CONNECT, 4 * number)) for number in range(1, 20)]
        for stream in others:
            await mallory.until(lambda stream=stream: mallory.ended(stream.stream_id or 0))  # type: ignore[misc] # the default binds the loop's variable
            found, _ = read_response(mallory.received(stream.stream_id or 0))
            assert found[b":status"] == b"429"
        assert len([row for row in edge.relay.sessions() if row.info.webtransport]) == 1
        assert not mallory.connection.closed


async def test_a_flood_of_requests() -> None:
    """Answered ones count too: a session needs one."""
    async with edge_relay() as edge, witness(edge), hostile(edge, alpn="h3") as mallory:
        begin(mallory)
        asked, _ = ANSWERED["GET"]
        sent = 0
        while not mallory.connection.closed:
            try:
                mallory.bidi(headers(asked, 4 * sent), True)
            except StreamLimitError:
                seen = len(mallory.events)
                await mallory.until(lambda seen=seen: len(mallory.events) > seen)  # type: ignore[misc] # the default binds the loop's variable
            except ConnectionLostError:
                break
            else:
                sent += 1
        assert (await mallory.closed()).code == H3Code.EXCESSIVE_LOAD
        assert sent > MAX_REQUESTS


CAPSULES: dict[str, bytes] = {
    "a close without its code": encode_record(CapsuleType.CLOSE_SESSION, b"\0"),
    "a close with a novel": encode_record(CapsuleType.CLOSE_SESSION, bytes(4) + b"x" * 2000),
    "HEADERS": headers(CONNECT),
}


@pytest.mark.parametrize("what", list(CAPSULES))
async def test_broken_capsules(what: str) -> None:
    """Whatever they do, the session is over and nobody else notices."""
    data = CAPSULES[what]
    async with edge_relay() as edge, witness(edge), hostile(edge, alpn="h3") as mallory:
        await session(mallory)
        assert mallory.control is not None
        frame = data if what == "HEADERS" else encode_record(FrameType.DATA, data)
        mallory.control.write(frame)
        await mallory.until(
            lambda: (
                mallory.connection.closed
                or any(isinstance(event, StreamReset | StopSending) for event in mallory.events)
            )
        )
        await mallory.until(
            lambda: not [row for row in edge.relay.sessions() if row.info.webtransport]
        )


async def test_unknown_capsules_and_streams_are_skipped() -> None:
    async with edge_relay() as edge, witness(edge), hostile(edge, alpn="h3") as mallory:
        await session(mallory)
        assert mallory.control is not None
        noise = encode_record(0x1234, b"x" * 100)
        for _ in range(50):
            mallory.control.write(encode_record(FrameType.DATA, noise))
            mallory.control.write(encode_record(0x21 + 0x1F * 7, b"grease"))
            mallory.uni(encode_quic(0x21 + 0x1F * 9) + b"grease", True)
        other = mallory.bidi(headers(CONNECT, 4))
        await mallory.until(lambda: mallory.ended(other.stream_id or 0))
        assert len([row for row in edge.relay.sessions() if row.info.webtransport]) == 1
        assert not mallory.connection.closed


GARBAGE: dict[str, Attack] = {
    "a request stream of noise": lambda m: m.bidi(b"\xff" * 64, True),
    "a data stream of an unknown type": lambda m: m.uni(b"\x02" + b"\x00" * 20),
    "a datagram of an unknown type": lambda m: m.connection.send_datagram(b"\x3f" * 20),
}


@BOTH
@pytest.mark.parametrize("what", list(GARBAGE))
async def test_garbage_inside_a_session(draft: Draft, what: str) -> None:
    """MoQT's codes arrive as those of the session."""
    async with (
        edge_relay() as edge,
        witness(edge),
        hostile(edge, draft, webtransport=True) as mallory,
    ):
        mallory.setup()
        GARBAGE[what](mallory)
        closed = await mallory.closed()
        assert closed.code == SessionCode.PROTOCOL_VIOLATION, closed
