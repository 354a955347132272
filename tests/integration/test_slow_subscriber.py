"""A subscriber that does not read costs nobody else anything, and the relay bounded memory.

::

    publisher --> relay --> fast    gets every object before the next one is written
                        '-> slow    reads nothing: its windows close, its queue fills to half of the
                          limit, and the rest waits in the relay's log; what the log lets go
                          is lost and counted
              '-> pausing reads nothing for a while: the relay sends what the window allows, and
                          the rest waits in the relay's log
"""

from __future__ import annotations

import asyncio

import pytest

import laps_sdk
from laps_sdk.edge.events import SubscriberGone, SubscriptionRow
from laps_sdk.edge.server import EdgeServerConfig
from laps_sdk.forwarding.interfaces import CacheLimits
from laps_sdk.quic.base import ConnectionLimits, ConnectionStats, EgressLimits
from laps_sdk.quic.endpoint import Backend
from laps_sdk.quic.events import StreamReset
from laps_wire.moqt.codepoints import STREAM_RESET_CODES
from laps_wire.moqt.messages import Subscribe, SubscribeOk
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from testkit.edge_task import Edge, client, edge_relay
from testkit.edge_thread import edge_thread
from testkit.hostile import Hostile, hostile
from testkit.moqt_server import eventually, soon
from testkit.witness import witness

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

BOTH = pytest.mark.parametrize("draft", list(Draft), ids=lambda draft: draft.alpn)
TRACK = FullTrackName(Namespace((b"demo",)), b"video")

SIZE = 32 * 1024
COUNT = 80
"""Objects of :data:`SIZE`: 2.5 MiB, over twice of what the relay may hold for anybody."""
QUEUE = 1024 * 1024
CONFIG = EdgeServerConfig(egress=EgressLimits(max_bytes=QUEUE))
SHORT = CacheLimits(max_track_bytes=16 * SIZE)
"""A log that keeps less than the slow one misses."""
LARGE = 100_000
"""Bytes of an object that an egress queue does not take in one piece."""
WINDOW = 4096
NARROW = ConnectionLimits(max_stream_data=WINDOW)
"""What the slow one lends to the relay on each stream."""


def row_of(edge: Edge, session: int) -> SubscriptionRow:
    (row,) = (row for row in edge.relay.subscriptions() if row.session == session)
    return row


def stats_of(edge: Edge, session: int) -> ConnectionStats:
    return edge.server.ports[session].peer.connection.stats()


async def subscribe(edge: Edge, slow: Hostile, parameters: Parameters | None = None) -> int:
    """Subscribe, and read nothing of what comes; the number of the session."""
    slow.setup()
    slow.deaf = True
    slow.ask(Subscribe(0, TRACK, parameters or Parameters()))
    await slow.answer(SubscribeOk)
    return next(row.session for row in edge.relay.subscriptions() if row.track == TRACK)


async def write_and_read(
    track: laps_sdk.PublishedTrack, fast: laps_sdk.Subscription, count: int = COUNT
) -> None:
    """One object at a time, so that only who does not read is ever behind."""
    for number in range(count):
        payload = b"%06d" % number + bytes(SIZE - 6)
        await soon(track.write(payload, end_of_group=True))
        assert (await soon(anext(fast))).payload == payload


@pytest.mark.parametrize(
    ("backend", "webtransport"), [("aioquic", False), ("aioquic", True), ("qh3", False)]
)
async def test_who_does_not_read_waits_in_the_log(backend: Backend, webtransport: bool) -> None:
    if backend == "qh3":
        pytest.importorskip("qh3")
    async with (
        edge_relay(backend=backend, config=CONFIG, cache=SHORT) as edge,
        client(edge) as alice,
        client(edge) as bob,
        witness(edge),
    ):
        track = await soon(alice.publish("demo", "video", first=0))
        async with hostile(edge, Draft.D18, limits=NARROW, webtransport=webtransport) as slow:
            number = await subscribe(edge, slow)
            async with bob.subscribe("demo", "video") as fast:
                await write_and_read(track, fast)
                assert list(fast.gaps) == []
            counters = row_of(edge, number).counters
            stats = stats_of(edge, number)
            # Bounded by what is offered and the one object that goes over it.
            assert 0 < stats.queued_bytes <= QUEUE // 2 + 2 * SIZE
            assert stats.dropped_streams == 0
            assert counters is not None
            assert 0 < counters.objects < COUNT
            assert counters.dropped_streams == 0
            (found,) = (row for row in edge.relay.tracks() if row.track == TRACK)
            assert found.counters.objects_in == COUNT
            assert found.counters.cached_bytes <= SHORT.max_track_bytes
        await eventually(lambda: any(e.session == number for e in edge.told(SubscriberGone)))


@BOTH
async def test_who_reads_again_gets_what_the_log_has(draft: Draft) -> None:
    """Of each stream either all of it comes, or a reset that says why."""
    async with (
        edge_relay(config=CONFIG, cache=SHORT) as edge,
        client(edge) as alice,
        client(edge) as bob,
        hostile(edge, draft, limits=NARROW) as slow,
    ):
        track = await soon(alice.publish("demo", "video", first=0))
        number = await subscribe(edge, slow)
        async with bob.subscribe("demo", "video") as fast:
            await write_and_read(track, fast)

        def resets() -> dict[int, int]:
            return {e.stream_id: e.code for e in slow.events if isinstance(e, StreamReset)}

        def whole() -> list[int]:
            return [stream_id for stream_id in slow.data_streams() if slow.ended(stream_id)]

        def lost() -> int:
            (found,) = (row for row in edge.relay.tracks() if row.track == TRACK)
            return found.counters.dropped_objects

        slow.listen()
        await slow.until(lambda: len(whole()) + lost() == COUNT)
        counters = row_of(edge, number).counters
        assert counters is not None
        assert lost() > 0
        assert len(resets()) == counters.dropped_streams > 0
        assert set(resets().values()) <= {int(code) for code in STREAM_RESET_CODES[draft]}
        assert all(len(slow.received(stream_id)) > SIZE for stream_id in whole())
        assert stats_of(edge, number).queued_bytes == 0


@BOTH
async def test_what_is_too_old_is_dropped(draft: Draft) -> None:
    """With a delivery timeout the queue of who does not read empties by itself."""
    async with (
        edge_relay(config=CONFIG) as edge,
        client(edge) as alice,
        client(edge) as bob,
        hostile(edge, draft, limits=NARROW) as slow,
    ):
        track = await soon(alice.publish("demo", "video", first=0))
        number = await subscribe(edge, slow, Parameters(object_delivery_timeout=200))
        async with bob.subscribe("demo", "video") as fast:
            await write_and_read(track, fast, 20)
        await eventually(lambda: stats_of(edge, number).queued_bytes == 0)
        counters = row_of(edge, number).counters
        assert counters is not None
        assert counters.dropped_streams > 0


LENT = ConnectionLimits(max_data=256 * 1024, max_stream_data=64 * 1024)
"""What an application that does not read for a while lends to the relay."""
LOG = CacheLimits(max_track_bytes=1 << 26, max_groups=1 << 14)


@pytest.mark.parametrize("webtransport", [False, True], ids=["raw", "webtransport"])
@pytest.mark.parametrize(
    ("count", "size", "per_group"),
    [
        pytest.param(120, LARGE, 1, id="large objects in groups of their own"),
        pytest.param(120, LARGE, 0, id="large objects in one group"),
        pytest.param(1000, 4_000, 25, id="groups"),
        pytest.param(1000, 4_000, 1, id="groups of one object"),
        pytest.param(20_000, 50, 0, id="small objects in one group"),
        pytest.param(3_000, 200, 2, id="small objects in small groups"),
    ],
)
async def test_who_pauses_gets_everything_afterwards(
    count: int, size: int, per_group: int, webtransport: bool
) -> None:
    scheme = "https" if webtransport else "moqt"
    async with (
        edge_relay(config=CONFIG, cache=LOG) as edge,
        client(edge) as alice,
        client(edge, scheme, limits=LENT) as bob,
        witness(edge),
    ):
        track = await soon(alice.publish("demo", "video", first=0))
        reading = bob.subscribe("demo", "video", max_bytes=100_000, max_objects=100)
        async with reading:
            for number in range(count):
                payload = b"%06d" % number + bytes(size - 6)
                first = bool(per_group) and not number % per_group
                last = bool(per_group) and not (number + 1) % per_group
                await soon(track.write(payload, new_group=first, end_of_group=last))
            (session,) = (row.session for row in edge.relay.subscriptions() if row.track == TRACK)

            def held() -> bool:
                (found,) = (row for row in edge.relay.tracks() if row.track == TRACK)
                return found.counters.objects_in == count

            await eventually(held)
            assert reading.objects < count
            # Groups are streams of their own and may overtake each other.
            payloads = [(await soon(anext(reading))).payload for _ in range(count)]
            assert sorted(int(payload[:6]) for payload in payloads) == list(range(count))
            assert {len(payload) for payload in payloads} == {size}
            assert reading.dropped == 0
            assert list(reading.gaps) == []
            counters = row_of(edge, session).counters
            assert counters is not None
            assert counters.dropped_streams == 0


def test_the_end_follows_what_a_subscriber_read_behind_the_tail() -> None:
    """The last bytes leave when there is room, outside of a turn that anything has arrived in."""

    async def read(name: str) -> list[int]:
        async with edge.client() as session, session.subscribe("demo", name) as objects:
            return [len(obj.payload) async for obj in objects]

    async def write(name: str) -> None:
        async with edge.client() as session:
            track = await session.publish("demo", name, announce=True)
            reading = edge.start(read(name))
            await soon(track.subscribed())
            for _ in range(8):
                await track.write(bytes(LARGE), end_of_group=True)
            await track.end()
        # Nothing else happens at the relay that would give it a turn.
        assert reading.result(10) == [LARGE] * 8

    with edge_thread() as edge:
        for number in range(40):
            asyncio.run(write(f"file {number}"))
