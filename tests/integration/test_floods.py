"""Floods against a real relay: refused early and cheaply, while others go on as before."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

import pytest

import laps_sdk
from laps_sdk.edge.server import EdgeServerConfig
from laps_sdk.edge.settings import EdgeSettings
from laps_sdk.quic.admission import AdmissionLimits
from laps_wire.moqt.codepoints import RequestErrorCode, SessionCode
from laps_wire.moqt.data import ObjectDatagram, encode_datagram
from laps_wire.moqt.messages import (
    Fetch,
    RequestError,
    StandaloneFetch,
    SubscribeNamespace,
    TrackStatus,
)
from laps_wire.moqt.session import SessionLimits
from laps_wire.moqt.structures import Location
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from testkit.edge_task import Edge, client, edge_relay
from testkit.hostile import Hostile, hostile
from testkit.moqt_server import eventually, soon
from testkit.witness import witness

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

BOTH = pytest.mark.parametrize("draft", list(Draft), ids=lambda draft: draft.alpn)
TRACK = FullTrackName(Namespace((b"nowhere",)), b"t")


def admitting(**limits: float) -> EdgeServerConfig:
    return EdgeServerConfig(admission=replace(AdmissionLimits(), **limits))  # type: ignore[arg-type] # as varied as their names


@contextmanager
def strangers(edge: Edge) -> Iterator[Callable[[bytes], None]]:
    """A socket beside QUIC; gives what sends a datagram."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        sender.connect(("127.0.0.1", edge.port))

        def send(data: bytes) -> None:
            # What the socket has no room for is as good as lost on the way.
            with suppress(BlockingIOError):
                sender.send(data)

        yield send


def initial(number: int) -> bytes:
    """The head of a first packet of QUIC, and noise behind it: a handshake that never goes on."""
    return b"\xc0\0\0\0\1\x08" + number.to_bytes(8, "big") + b"\0\0" + b"\x44\x00" + bytes(1200)


async def flood(edge: Edge, reason: str, count: int) -> None:
    """Send first packets until so many were refused for a reason; some may get lost."""
    numbers = itertools.count(1)
    with strangers(edge) as send:
        async with asyncio.timeout(30):
            while edge.server.endpoint.refused.get(reason, 0) < count:
                for number in itertools.islice(numbers, 10):
                    send(initial(number))
                await asyncio.sleep(0.001)


async def test_half_open_handshakes_are_few_and_clients_get_in_all_the_same() -> None:
    """Above a threshold clients must show that their address is theirs: nothing is kept."""
    config = admitting(retry_above=8, max_half_open=16)
    async with edge_relay(config=config) as edge:
        await flood(edge, "retry", 200)
        assert edge.server.endpoint.half_open <= 8
        # Who comes back from the Retry gets in.
        async with client(edge, timeout=30) as alice, client(edge, "https", timeout=30) as bob:
            track = await soon(alice.publish("demo", "video"))
            async with bob.subscribe("demo", "video") as heard:
                await soon(track.write(b"x"))
                assert (await soon(anext(heard))).payload == b"x"
        assert edge.server.endpoint.half_open <= 8


async def test_those_who_stand_do_not_notice_half_open_handshakes() -> None:
    async with edge_relay(config=admitting(retry_above=4, max_half_open=4)) as edge, witness(edge):
        await flood(edge, "half-open", 200)
        assert edge.server.endpoint.half_open <= 4


async def test_handshakes_that_do_not_go_on_are_given_up() -> None:
    config = admitting(max_half_open=8, retry_above=8, handshake_timeout=0.3)
    async with edge_relay(config=config) as edge:
        await flood(edge, "half-open", 20)
        await eventually(lambda: edge.server.endpoint.half_open == 0)
        await eventually(lambda: edge.server.endpoint.connections == 0)  # they say goodbye first


async def test_noise_costs_no_connection() -> None:
    async with edge_relay() as edge, witness(edge):
        with strangers(edge) as send:
            async with asyncio.timeout(30):
                while sum(edge.server.endpoint.refused.values()) < 300:
                    for data in (
                        b"",
                        b"\x00",
                        b"\xff" * 1300,
                        bytes(1300),
                        b"\xc0" + bytes(100),
                        b"\xc0\xfa\xce\xb0\x0c\x08" + bytes(1300),
                    ):
                        send(data)
                    await asyncio.sleep(0.001)
        assert edge.server.endpoint.half_open == 0


async def test_more_connections_than_there_is_room_for() -> None:
    async with (
        edge_relay(config=admitting(max_connections=3)) as edge,
        client(edge),
        client(edge),
        client(edge) as last,
    ):
        with pytest.raises(laps_sdk.ConnectError):
            async with client(edge, timeout=0.5):
                pytest.fail("there was room")
        assert edge.server.endpoint.refused["connections"] > 0
        await last.close()
        await eventually(lambda: edge.server.endpoint.connections < 3)
        async with client(edge, timeout=30) as late:
            await soon(late.publish("demo", "video"))


async def test_more_connections_of_one_network_than_its_rate() -> None:
    async with (
        edge_relay(config=admitting(prefix_burst=2, prefix_rate=0.001)) as edge,
        witness(edge),
    ):
        with pytest.raises(laps_sdk.ConnectError):
            async with client(edge, timeout=0.5):
                pytest.fail("the rate was used up")
        assert edge.server.endpoint.refused["rate"] > 0


@BOTH
async def test_more_sessions_than_the_relay_takes(draft: Draft) -> None:
    settings = replace(EdgeSettings(), max_sessions=2)
    async with edge_relay(settings=settings) as edge, witness(edge), hostile(edge, draft) as extra:
        extra.setup()
        closed = await extra.closed()
        assert closed.code == SessionCode.INTERNAL_ERROR
        assert "as many sessions" in closed.reason


def refused(mallory: Hostile) -> list[RequestError]:
    return [answer for answer in mallory.answers() if isinstance(answer, RequestError)]


def busy(draft: Draft) -> int:
    """EXCESSIVE_LOAD is draft 18's."""
    return int(
        RequestErrorCode.INTERNAL_ERROR if draft is Draft.D16 else RequestErrorCode.EXCESSIVE_LOAD
    )


@BOTH
async def test_more_requests_than_the_rate(draft: Draft) -> None:
    """They are refused with a time to try again, the session stays."""
    settings = replace(EdgeSettings(), request_rate=0.001, request_burst=10)
    config = EdgeServerConfig(session=SessionLimits(max_requests=1000))
    async with (
        edge_relay(config=config) as edge,
        witness(edge),
    ):
        edge.relay.set_settings(edge.server.now, settings)
        async with hostile(edge, draft) as mallory:
            mallory.setup()
            for number in range(50):
                mallory.ask(TrackStatus(number * 2, TRACK))
            await mallory.until(lambda: len(refused(mallory)) == 50)
            late = [answer for answer in refused(mallory) if answer.error_code == busy(draft)]
            assert len(late) == 40
            assert all(answer.retry_interval > 0 for answer in late)
            assert not mallory.connection.closed


@BOTH
async def test_a_flood_of_prefixes(draft: Draft) -> None:
    settings = replace(EdgeSettings(), session_prefixes=4)
    config = EdgeServerConfig(session=SessionLimits(max_requests=1000))
    async with (
        edge_relay(settings=settings, config=config) as edge,
        witness(edge),
        hostile(edge, draft) as mallory,
    ):
        mallory.setup()
        for number in range(30):
            prefix = Namespace((b"p%d" % number,))
            # A stream of its own in both drafts.
            mallory.bidi(mallory.message(SubscribeNamespace(number * 2, prefix)))
        await eventually(lambda: sum(row.prefixes for row in edge.relay.sessions()) == 4)
        assert not mallory.connection.closed


@BOTH
async def test_a_flood_of_fetches(draft: Draft) -> None:
    """For tracks that nobody has: each is refused, and none stays."""
    settings = replace(EdgeSettings(), session_fetches=5)
    config = EdgeServerConfig(session=SessionLimits(max_requests=1000))
    async with (
        edge_relay(settings=settings, config=config) as edge,
        witness(edge),
        hostile(edge, draft) as mallory,
    ):
        mallory.setup()
        for number in range(30):
            name = FullTrackName(Namespace((b"witness",)), b"%d" % number)
            mallory.ask(Fetch(number * 2, StandaloneFetch(name, Location(0, 0), Location(9, 0))))
        await mallory.until(lambda: len(refused(mallory)) == 30)
        assert all(row.fetches == 0 for row in edge.relay.sessions())
        assert not mallory.connection.closed


@BOTH
async def test_a_flood_of_datagrams_for_nobody(draft: Draft) -> None:
    """They wait for their track within a bound, then they are gone."""
    async with edge_relay() as edge, witness(edge), hostile(edge, draft) as mallory:
        mallory.setup()
        for number in range(3000):
            item = ObjectDatagram(number % 50, number, 0, b"x" * 900, 1)
            mallory.connection.send_datagram(encode_datagram(item, draft))
            if number % 100 == 99:
                await asyncio.sleep(0)
        mallory.ask(TrackStatus(0, TRACK))  # an answer means that the session has survived
        await mallory.answer(RequestError)
        assert not mallory.connection.closed
