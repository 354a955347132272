"""What real relays write: both ends of a link agree, and with the relays' own counters."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from laps_wire.telemetry import CacheStat, ClientReport, DeliverySample, HopStat, QuicSample
from testkit.logs import restored_logging
from testkit.network_show import Show
from testkit.network_task import RunningRelay, network, until
from testkit.recorded_network import LEFT, RIGHT, VIA, events_of, record

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    with restored_logging():
        yield


async def test_bytes_of_a_link_are_the_same_at_both_ends(tmp_path: Path) -> None:
    found = await record(tmp_path, delivery_sample=4)
    out: Counter[tuple[str, str]] = Counter()
    came: Counter[tuple[str, str]] = Counter()
    clients: Counter[str] = Counter()
    tracks, links = set(), set()
    reports = [event for event in found.events() if isinstance(event.body, ClientReport)]
    caches = {event.relay for event in found.events() if isinstance(event.body, CacheStat)}
    timed: dict[tuple[int | None, int | None], set[tuple[str | None, str, str | None]]] = {}
    for event in found.events():
        body = event.body
        if isinstance(body, HopStat):
            tracks.add(body.track)
            if body.out_peer is None:
                came[str(body.in_peer), event.relay] += body.in_bytes
                clients[event.relay] += body.out_bytes
            else:
                out[event.relay, body.out_peer] += body.out_bytes
        elif isinstance(body, DeliverySample):
            tracks.add(body.track)
            assert body.out_us >= body.in_us
            way = timed.setdefault((body.group_id, body.object_id), set())
            assert (body.in_peer, event.relay, body.out_peer) not in way
            way.add((body.in_peer, event.relay, body.out_peer))
        elif isinstance(body, QuicSample) and body.peer is not None:
            links.add((event.relay, body.peer))
    assert len(tracks) == 1
    assert links == {(LEFT, VIA), (VIA, LEFT), (VIA, RIGHT), (RIGHT, VIA)}
    assert out.keys() == {(LEFT, VIA), (VIA, RIGHT)}
    assert out[LEFT, VIA] == came[LEFT, VIA] == found.network[VIA].bytes_in
    assert out[VIA, RIGHT] == came[VIA, RIGHT] == found.network[RIGHT].bytes_in
    assert out[LEFT, VIA] == found.network[LEFT].bytes_out
    assert out[VIA, RIGHT] == found.network[VIA].bytes_out
    assert came["None", LEFT] == found.published
    assert clients[RIGHT] >= 2 * 300
    assert {event.relay for event in reports} == {RIGHT}  # who listens; the publisher does not
    assert {event.body.session_id for event in reports if isinstance(event.body, ClientReport)} == {
        "1",
        "2",
    }
    assert caches == {LEFT, RIGHT}
    # All relays chose the same objects: whole ways are known.
    whole = {(None, LEFT, VIA), (LEFT, VIA, RIGHT), (VIA, RIGHT, None)}
    assert any(way == whole for way in timed.values())
    assert all(way <= whole for way in timed.values())


async def test_a_stub_and_its_parent_have_no_name_for_each_other(tmp_path: Path) -> None:
    folder = tmp_path / "telemetry"
    observe = {"telemetry_dir": folder, "sample_interval": "100ms"}
    async with network(tmp_path / "state") as net:
        edge = await net.relay("edge", observe=observe)
        stub = await net.relay("stub", edge, observe=observe)
        await until(lambda: any(row.control for row in stub.network.peers()))
        async with asyncio.TaskGroup() as group:
            show = Show(group)
            show.publish(edge, per_group=5)
            ears = [show.listen(stub), show.listen(edge)]
            await show.more(*ears)
            await show.whole(*ears)
            # Round trips are measured after some time.
            await until(lambda: all(_measured(relay) for relay in (edge, stub)))
            show.stop()
        await until(lambda: len(stub.app.view.sessions()) <= 1)
        await until(lambda: len(edge.app.view.sessions()) <= 2)  # the network, and the Stub
    sent: Counter[tuple[str, str | None]] = Counter()
    came: Counter[tuple[str | None, str]] = Counter()
    peers = set()
    for event in events_of(folder):
        if isinstance(event.body, HopStat):
            sent[event.relay, event.body.out_peer] += event.body.out_bytes
            if event.body.out_peer is None:
                came[event.body.in_peer, event.relay] += event.body.in_bytes
        elif isinstance(event.body, QuicSample):
            peers.add((event.relay, event.body.peer))
    nobody, name = stub.node, "0.2:0.1"
    assert nobody == "0.0:0.0"
    assert sent[edge.node, nobody] == came[nobody, name] > 0
    assert came.keys() == {(None, edge.node), (nobody, name)}
    assert (name, edge.node) in peers
    assert (edge.node, nobody) not in peers


def _measured(relay: RunningRelay) -> bool:
    return all(
        stats is not None and stats.rtt is not None
        for stats in (relay.network.peer_connection(row.session) for row in relay.network.peers())
    )
