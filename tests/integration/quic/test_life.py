from __future__ import annotations

import asyncio

import pytest

from laps_sdk.errors import ConnectError
from laps_sdk.quic.admission import AdmissionLimits
from laps_sdk.quic.base import Connection, ConnectionLimits, Handler
from laps_sdk.quic.engine import Tls
from laps_sdk.quic.events import Closed, Event, StreamData
from testkit.conformance import Backends, Side, closed, open_pair

pytestmark = pytest.mark.anyio


async def test_a_close_of_the_client_arrives_with_code_and_reason(backends: Backends) -> None:
    async with open_pair(backends) as pair:
        connection = pair.client.connection
        connection.close(0x77, "enough")
        assert connection.closed
        connection.close(1, "again")
        assert await closed(pair.client) == Closed(0x77, "enough", False, True)
        assert await closed(pair.server) == Closed(0x77, "enough", True, True)
        assert pair.server.connection.closed
        connection.open_unidirectional().write(b"nothing happens")
        assert not connection.send_datagram(b"nothing happens")
        assert pair.client.events[-1] == closed_of(pair.client)


def closed_of(side: Side) -> Closed:
    (event,) = side.of(Closed)
    return event


async def test_a_close_of_the_server_comes_behind_what_it_wrote(backends: Backends) -> None:
    async with open_pair(backends) as pair:
        stream = pair.server.connection.open_unidirectional()
        stream.write(b"last words", fin=True)
        pair.server.connection.close(0x3, "protocol violation")
        assert await closed(pair.client) == Closed(0x3, "protocol violation", True, True)
        assert pair.client.received(3) == (b"last words", True)
        assert pair.client.events[-1] == closed_of(pair.client)


async def test_closing_an_endpoint_closes_its_connections(backends: Backends) -> None:
    async with open_pair(backends) as pair:
        await pair.server_endpoint.close(0x10, "going away")
        assert closed_of(pair.server) == Closed(0x10, "going away", False, True)
        assert pair.server_endpoint.connections == 0
        assert await closed(pair.client) == Closed(0x10, "going away", True, True)
        await pair.server_endpoint.close()
        await pair.client_endpoint.close()
        with pytest.raises(ConnectError, match="closed"):
            await pair.dial(Side())


async def test_silence_ends_a_connection(backends: Backends) -> None:
    limits = ConnectionLimits(idle_timeout=2.0)
    async with open_pair(backends, link=True, limits=limits) as pair:
        pair.link.blackhole = True
        event = await closed(pair.server)
        assert (event.code, event.by_peer, event.application) == (0, False, False)
        assert "idle" in event.reason.lower()


async def test_a_client_whose_port_changes_stays_connected(backends: Backends) -> None:
    async with open_pair(backends, link=True) as pair:
        stream = pair.client.connection.open_unidirectional()
        stream.write(b"before ")
        await pair.server.until(lambda side: side.received(2)[0] == b"before ")
        before = pair.server.connection.peer_address
        await pair.link.rebind()
        stream.write(b"after", fin=True)
        await pair.server.until(lambda side: side.received(2) == (b"before after", True))
        pair.server.connection.open_unidirectional().write(b"answer", fin=True)
        await pair.client.until(lambda side: side.received(3) == (b"answer", True))
        await pair.server.until(lambda side: side.connection.peer_address != before)


async def test_a_retry_proves_the_address(backends: Backends) -> None:
    async with open_pair(backends, admission=AdmissionLimits(retry_above=0)) as pair:
        assert pair.server_endpoint.refused["retry"] >= 1  # one for each packet of its hello
        pair.client.connection.open_unidirectional().write(b"in", fin=True)
        await pair.server.until(lambda side: side.received(2)[1])
        assert pair.server_endpoint.half_open == 0


async def test_a_full_house_answers_nobody(backends: Backends) -> None:
    async with open_pair(backends, admission=AdmissionLimits(max_connections=1)) as pair:
        with pytest.raises(ConnectError, match=r"gave no answer within 1\.0 s"):
            await pair.dial(Side(), timeout=1.0)
        assert pair.server_endpoint.refused["connections"] >= 1
        assert pair.server_endpoint.connections == 1


async def test_a_fault_in_a_handler_ends_its_connection_only(
    backends: Backends, caplog: pytest.LogCaptureFixture
) -> None:
    sides: list[Side] = []

    def listen(connection: Connection) -> Handler:
        side = Side()
        sides.append(side)

        def act(connection: Connection, event: Event) -> None:
            if isinstance(event, StreamData):
                if event.data == b"bad":
                    raise ZeroDivisionError("a fault of the application")
                connection.reply_stream(event.stream_id).write(event.data, event.fin)

        side.on_event = act
        return side(connection)

    async with open_pair(backends, listener=listen) as pair:
        other = Side()
        await pair.dial(other)
        pair.client.connection.open_bidirectional().write(b"bad", fin=True)
        event = await closed(pair.client)
        assert (event.code, event.by_peer, event.application) == (1, True, True)
        other.connection.open_bidirectional().write(b"good", fin=True)
        await other.until(lambda side: side.received(0) == (b"good", True))
        assert "a fault of the application" in caplog.text
        await sides[0].until_some(Closed)


async def test_a_listener_that_fails_refuses_the_connection(backends: Backends) -> None:
    def refuse(connection: Connection) -> Handler:
        raise ZeroDivisionError("a fault of the listener")

    async with open_pair(backends, listener=refuse) as pair:
        assert (await closed(pair.client)).code == 1


async def test_no_common_protocol_is_said_in_words(backends: Backends) -> None:
    async with open_pair(backends, connect=False) as pair:
        with pytest.raises(ConnectError, match=r"no protocol in common \(ALPN\): we offered odd"):
            await pair.dial(Side(), alpn=["odd"])


async def test_a_certificate_of_strangers_is_refused(backends: Backends) -> None:
    if backends.client == "memory":
        pytest.skip("the memory backend has no certificates")
    async with open_pair(backends, connect=False, client_tls=Tls()) as pair:
        with pytest.raises(ConnectError, match="certificate"):
            await pair.dial(Side(), server_name="localhost")


async def test_nobody_listens(backends: Backends) -> None:
    async with open_pair(backends, connect=False) as pair:
        await pair.server_endpoint.close()
        with pytest.raises(ConnectError, match=r"nothing listens there|gave no answer within"):
            await pair.dial(Side(), timeout=1.0)
        assert pair.client.events == []


async def test_a_name_is_resolved(backends: Backends) -> None:
    if backends.client == "memory":
        pytest.skip("the memory backend has addresses only")
    async with open_pair(backends, connect=False) as pair:
        side = Side()
        port = pair.target[1]
        connection = await pair.client_endpoint.connect(
            ("localhost", port), handler=side, alpn=["laps-test"], timeout=30
        )
        assert connection.peer_address == ("127.0.0.1", port)
        with pytest.raises(ConnectError, match="cannot connect to no-such-host"):
            await pair.client_endpoint.connect(
                ("no-such-host.invalid", port), handler=side, alpn=["laps-test"]
            )
        with pytest.raises(ConnectError, match="of the same family"):
            await pair.client_endpoint.connect(("::1", port), handler=side, alpn=["laps-test"])


async def test_figures_are_kept(backends: Backends) -> None:
    async with open_pair(backends) as pair:
        pair.client.connection.open_unidirectional().write(b"x" * 50_000, fin=True)
        await pair.server.until(lambda side: side.received(2)[1])
        stats = pair.client.connection.stats()
        assert stats.bytes_sent > 50_000
        assert stats.packets_sent >= 40
        assert pair.server.connection.stats().bytes_received > 50_000
        await pair.client.until(lambda side: side.connection.rtt is not None)


async def test_loops_whose_timers_do_not_tell_their_time(
    backends: Backends, monkeypatch: pytest.MonkeyPatch
) -> None:
    """uvloop's handles have no ``when`` if the time has come already."""
    monkeypatch.delattr(asyncio.TimerHandle, "when")
    async with open_pair(backends) as pair:
        pair.client.connection.open_unidirectional().write(bytes(100_000), fin=True)
        await pair.server.until(lambda side: side.received(2) == (bytes(100_000), True))
