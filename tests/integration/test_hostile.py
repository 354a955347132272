"""What clients should not do: each gets its code, and a well-behaved pair loses nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from laps_sdk.edge.server import EdgeServerConfig
from laps_sdk.edge.settings import EdgeSettings
from laps_sdk.quic.events import StopSending
from laps_wire.moqt.codepoints import SessionCode
from laps_wire.moqt.control import ControlCodec
from laps_wire.moqt.data import SubgroupHeader, SubgroupWriter, encode_fetch_header
from laps_wire.moqt.data.types import FetchHeader
from laps_wire.moqt.messages import (
    ClientSetup,
    Publish,
    PublishNamespace,
    RequestError,
    Subscribe,
)
from laps_wire.moqt.session import SessionLimits
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from testkit.edge_task import edge_relay
from testkit.hostile import Hostile, hostile
from testkit.witness import witness

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

BOTH = pytest.mark.parametrize("draft", list(Draft), ids=lambda draft: draft.alpn)
TRACK = FullTrackName(Namespace((b"nowhere",)), b"t")


def unfinished_object(draft: Draft) -> bytes:
    writer = SubgroupWriter(SubgroupHeader(1, 1, 0, 128), draft)
    return writer.start + writer.object_header(0, 100) + b"only ten.."


def subscribe(request_id: int, track: FullTrackName = TRACK) -> Subscribe:
    return Subscribe(request_id, track)


GARBAGE: dict[str, Callable[[Hostile], object]] = {
    "a request stream of noise": lambda m: m.bidi(b"\xff" * 64, True),
    "a data stream of an unknown type": lambda m: m.uni(b"\x02" + b"\x00" * 20),
    "a data stream that ends in its header": lambda m: m.uni(b"\x10", True),
    "a datagram of an unknown type": lambda m: m.connection.send_datagram(b"\x3f" * 20),
    "a datagram that ends in its header": lambda m: m.connection.send_datagram(b"\x00"),
}


@BOTH
@pytest.mark.parametrize("what", list(GARBAGE))
async def test_garbage_closes_its_own_session(draft: Draft, what: str) -> None:
    async with edge_relay() as edge, witness(edge), hostile(edge, draft) as mallory:
        mallory.setup()
        GARBAGE[what](mallory)
        closed = await mallory.closed()
    assert closed.application
    assert closed.code == SessionCode.PROTOCOL_VIOLATION, closed


@BOTH
async def test_a_fetch_stream_that_nobody_asked_for_is_refused(draft: Draft) -> None:
    async with edge_relay() as edge, witness(edge), hostile(edge, draft) as mallory:
        mallory.setup()
        stream = mallory.uni(encode_fetch_header(FetchHeader(1234), draft) + bytes(30))
        assert stream.stream_id is not None
        assert isinstance(await mallory.refused(stream.stream_id), StopSending)
        assert not mallory.connection.closed


@BOTH
async def test_an_object_that_is_cut_off_closes_its_own_session(draft: Draft) -> None:
    """FIN in the middle of an object of a track that is being published."""
    async with edge_relay() as edge, witness(edge), hostile(edge, draft) as mallory:
        mallory.setup()
        mallory.ask(Publish(0, TRACK, 1))
        mallory.uni(unfinished_object(draft), True)
        assert (await mallory.closed()).code == SessionCode.PROTOCOL_VIOLATION


@BOTH
async def test_garbage_instead_of_setup(draft: Draft) -> None:
    async with edge_relay() as edge, hostile(edge, draft) as mallory:
        if draft is Draft.D16:
            mallory.bidi(b"\x3e\x00\x04beef")
        else:
            mallory.uni(b"\x02\x00\x04beef")
        assert (await mallory.closed()).code == SessionCode.PROTOCOL_VIOLATION


async def test_a_second_setup() -> None:
    async with edge_relay() as edge, hostile(edge, Draft.D16) as mallory:
        control = mallory.setup()
        control.write(mallory.message(ClientSetup()))
        assert (await mallory.closed()).code == SessionCode.PROTOCOL_VIOLATION


@BOTH
async def test_a_control_stream_that_ends(draft: Draft) -> None:
    async with edge_relay() as edge, hostile(edge, draft) as mallory:
        mallory.setup().write(b"", True)
        assert (await mallory.closed()).code == SessionCode.PROTOCOL_VIOLATION


@BOTH
async def test_who_says_nothing_is_let_go(draft: Draft) -> None:
    config = EdgeServerConfig(setup_timeout=0.2)
    async with edge_relay(config=config) as edge, hostile(edge, draft) as mallory:
        assert (await mallory.closed()).code == SessionCode.CONTROL_MESSAGE_TIMEOUT


@BOTH
async def test_a_setup_byte_by_byte_is_let_go(draft: Draft) -> None:
    """Slow loris: the time runs from the connection, not from the last byte."""
    config = EdgeServerConfig(setup_timeout=0.5)
    async with (
        edge_relay(config=config) as edge,
        witness(edge),
        hostile(edge, draft) as mallory,
    ):
        stream = mallory.bidi(b"\x20") if draft is Draft.D16 else mallory.uni(b"\xaf")
        closed = asyncio.create_task(mallory.closed())
        while not closed.done():
            stream.write(b"")
            await asyncio.wait([closed], timeout=0.05)
        assert closed.result().code == SessionCode.CONTROL_MESSAGE_TIMEOUT


@BOTH
async def test_a_flood_of_subscribes_hits_its_cap(draft: Draft) -> None:
    """Over the cap each one is refused; the session itself stays."""
    settings = replace(EdgeSettings(), session_subscriptions=8, max_rendezvous=30.0)
    config = EdgeServerConfig(session=SessionLimits(max_requests=1000))
    async with (
        edge_relay(settings=settings, config=config) as edge,
        witness(edge),
        hostile(edge, draft) as mallory,
    ):
        mallory.setup()
        count = 60
        for number in range(count):
            track = FullTrackName(Namespace((b"nowhere",)), b"%d" % number)
            mallory.ask(subscribe(number * 2, track))

        def refused() -> int:
            return sum(isinstance(message, RequestError) for message in mallory.answers())

        await mallory.until(lambda: refused() >= count - 8)
        assert not mallory.connection.closed


@BOTH
async def test_a_flood_of_namespaces_hits_its_cap(draft: Draft) -> None:
    settings = replace(EdgeSettings(), session_namespaces=8)
    config = EdgeServerConfig(session=SessionLimits(max_requests=1000))
    async with (
        edge_relay(settings=settings, config=config) as edge,
        witness(edge),
        hostile(edge, draft) as mallory,
    ):
        mallory.setup()
        count = 60
        for number in range(count):
            space = Namespace((b"flood", b"%d" % number))
            mallory.ask(PublishNamespace(number * 2, space))

        def refused() -> int:
            return sum(isinstance(message, RequestError) for message in mallory.answers())

        await mallory.until(lambda: refused() >= count - 8)
        assert refused() == count - 8
        assert not mallory.connection.closed


async def test_more_requests_than_granted_close_the_session() -> None:
    """Draft 16 counts requests; draft 18 leaves it to the streams of QUIC."""
    config = EdgeServerConfig(session=SessionLimits(max_requests=4))
    async with edge_relay(config=config) as edge, hostile(edge, Draft.D16) as mallory:
        control = mallory.setup()
        for number in range(20):
            control.write(mallory.message(subscribe(number * 2)))
        assert (await mallory.closed()).code == SessionCode.TOO_MANY_REQUESTS


@BOTH
async def test_a_name_that_is_too_long(draft: Draft) -> None:
    """Over the draft's 4096 bytes the session ends; the relay may set less and refuse."""
    async with edge_relay() as edge, witness(edge), hostile(edge, draft) as mallory:
        control = mallory.setup()
        data = mallory.message(subscribe(0, FullTrackName(Namespace((b"n",)), b"t")))
        # The length of the name is the last byte but two of a message without parameters.
        long = _with_long_name(data, draft)
        if draft is Draft.D16:
            control.write(long)
        else:
            mallory.bidi(long)
        assert (await mallory.closed()).code == SessionCode.PROTOCOL_VIOLATION


def _with_long_name(message: bytes, draft: Draft) -> bytes:
    """The same SUBSCRIBE with a name of 5000 bytes, which our own encoder refuses to write."""
    found, _ = ControlCodec(draft).decode(message)
    assert isinstance(found, Subscribe)
    integers = draft.integers
    head = message[:1]
    body = message[3:]
    at = body.rindex(b"\x01t")
    long = body[:at] + integers.encode(5000) + b"x" * 5000 + body[at + 2 :]
    return head + len(long).to_bytes(2, "big") + long


@BOTH
async def test_a_flood_of_streams_for_tracks_that_nobody_knows(draft: Draft) -> None:
    """They are held for a moment, within a bound, and cost nobody else anything."""
    async with edge_relay() as edge, witness(edge), hostile(edge, draft) as mallory:
        mallory.setup()
        data = unfinished_object(draft)
        for _ in range(500):
            mallory.uni(data)
        mallory.bidi(b"\xff" * 64, True)  # garbage behind it: when that is seen, all else was too
        assert (await mallory.closed()).code == SessionCode.PROTOCOL_VIOLATION
