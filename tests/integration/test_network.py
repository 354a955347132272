"""Networks of relays over real QUIC: what is published at one Edge is heard at the others."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import laps_sdk
from laps_sdk.peering.keys.files import NETWORK_KEY, read_network_key
from laps_sdk.tokens import generate, save_key
from testkit.logs import restored_logging
from testkit.network_show import Listener, Show
from testkit.network_task import NetworkTask, RunningRelay, network, until

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    with restored_logging():
        yield


async def test_edge_to_edge(tmp_path: Path) -> None:
    async with network(tmp_path) as net, asyncio.TaskGroup() as group:
        left = await net.relay("edge")
        right = await net.relay("edge", left)
        await net.settled()
        show = Show(group)
        show.publish(left)
        ears = [show.listen(right), show.listen(right), show.listen(left)]
        await show.more(*ears)
        assert left.sends_to() == {right.node}
        (entry,) = left.network.relay.tables.fib()
        assert len(entry.egress) == 1  # once over the link, however many listen
        await show.whole(*ears)
        show.stop()


async def test_a_subscriber_that_waits_elsewhere_gets_the_first_object(tmp_path: Path) -> None:
    """Its relay may ask again meanwhile: where the track was at the first answer counts."""
    async with network(tmp_path) as net, asyncio.TaskGroup() as group:
        left = await net.relay("edge")
        right = await net.relay("edge", left)
        await net.settled()

        async def read(name: str) -> list[bytes]:
            async with (
                right.connect() as session,
                session.subscribe("net", name, wait=60) as objects,
            ):
                return [obj.payload async for obj in objects]

        for number in range(3):
            reading = group.create_task(read(f"track {number}"))
            await until(left.network.relay.tables.subscribe_rows)
            async with left.connect() as session:
                track = await session.publish("net", f"track {number}", announce=True)
                await track.subscribed()
                for count in range(60):
                    await track.write(b"%d" % count, end_of_group=True)
                    await asyncio.sleep(0.02)
            assert await reading == [b"%d" % count for count in range(60)]


async def publish_all(relay: RunningRelay, names: list[str], sent: list[int]) -> None:
    """Count on each track, an object in a group, all of them on one connection of a client."""
    async with relay.connect() as session:
        tracks = [await session.publish("net", name) for name in names]
        while True:
            for track in tracks:
                await track.write(b"%d" % sent[0], end_of_group=True)
            sent[0] += 1
            await asyncio.sleep(0.02)


async def hear_all(relay: RunningRelay, ears: list[Listener]) -> None:
    async with relay.connect() as session, asyncio.TaskGroup() as group:
        for ear in ears:
            group.create_task(ear.follow(session))


async def test_tracks_are_spread_over_parallel_connections(tmp_path: Path) -> None:
    """Each goes over one of them, and nothing is lost or comes twice."""
    async with network(tmp_path) as net, asyncio.TaskGroup() as group:
        left = await net.relay("edge")
        right = await net.relay("edge", left, network={"parallel": 3})
        await until(lambda: sum(row.sends for row in left.network.peers()) == 3)
        names, sent = [f"track{number}" for number in range(12)], [0]
        ears = [Listener(name) for name in names]
        tasks = [
            group.create_task(publish_all(left, names, sent)),
            group.create_task(hear_all(right, ears)),
        ]

        async def more(numbers: int) -> None:
            after = sent[0]
            await until(lambda: all(sum(n >= after for n in e.heard) >= numbers for e in ears))

        await more(5)
        for ear in ears:
            ear.since = sent[0]
        await more(20)
        streams: Counter[int] = Counter()
        for row in right.network.relay.tables.fib():
            streams[row.session] += row.streams
        assert len([session for session, number in streams.items() if number >= 20]) > 1
        assert [len(row.egress) for row in left.network.relay.tables.fib()] == [1] * 12
        before = sent[0]
        await until(lambda: not any(ear.missing(before) for ear in ears))
        assert [ear.doubled() for ear in ears] == [[]] * 12
        for task in tasks:
            task.cancel()


async def test_edge_via_edge_with_a_control_server_and_a_stub(tmp_path: Path) -> None:
    async with network(tmp_path) as net, asyncio.TaskGroup() as group:
        control = await net.relay("control")
        via = await net.relay("via")
        left = await net.relay("edge", via, control)
        right = await net.relay("edge", via, control)
        stub = await net.relay("stub", right)
        await net.settled()
        await until(lambda: any(row.control for row in stub.network.peers()))
        show = Show(group)
        show.publish(left)
        ears = [show.listen(right), show.listen(stub), show.listen(stub)]
        await show.more(*ears)
        assert left.sends_to() == {via.node}
        assert via.network.relay.tables.subscribe_rows() == []  # the control server has them
        assert all(
            str(row.source) != "0.0:0.0" for row in left.network.relay.tables.subscribe_rows()
        )
        await show.whole(*ears)
        show.stop()


async def test_a_stub_that_does_not_have_the_secret_of_the_network(tmp_path: Path) -> None:
    async with network(tmp_path) as net:
        edge = await net.relay("edge")
        given = tmp_path / "stub-key"
        given.touch(mode=0o600)
        given.write_text(read_network_key(net.state / NETWORK_KEY).stub_key().dump())
        stub = await net.relay("stub", edge, network={"key_file": given})
        await until(lambda: any(row.control for row in stub.network.peers()))
        (row,) = edge.network.peers()
        assert (row.relay_type, row.guest) == ("stub", True)
        async with asyncio.TaskGroup() as group:
            show = Show(group)
            show.publish(stub)
            ears = [show.listen(edge)]
            await show.more(*ears)
            show.stop()


async def test_the_clients_of_a_stub_where_tokens_are_needed(tmp_path: Path) -> None:
    """A Stub passes no tokens on: its parent lets it do what guests may, and says so if not."""
    save_key(generate("HS256", "main"), tmp_path / "key")
    async with network(tmp_path) as net, asyncio.TaskGroup() as group:
        guarded = {"keys": [tmp_path / "key"], "guests": ["all:net/*"]}
        edge = await net.relay("edge", auth=guarded)
        near, far = await net.relay("stub", edge), await net.relay("stub", edge)
        await until(
            lambda: all(any(row.control for row in stub.network.peers()) for stub in (near, far))
        )
        show = Show(group)
        show.publish(near)
        ears = [show.listen(far)]
        await show.more(*ears)
        show.stop()
        async with far.connect(reconnect=False) as session:
            with pytest.raises(laps_sdk.RequestRefusedError, match=r"auth\.guests"):
                async with session.subscribe("other", "track", wait=0) as track:
                    await anext(track)


async def test_a_stub_publishes(tmp_path: Path) -> None:
    async with network(tmp_path) as net, asyncio.TaskGroup() as group:
        left = await net.relay("edge")
        right = await net.relay("edge", left)
        stub = await net.relay("stub", left)
        await net.settled()
        await until(lambda: any(row.control for row in stub.network.peers()))
        show = Show(group)
        show.publish(stub)
        ears = [show.listen(right), show.listen(left), show.listen(stub)]
        await show.more(*ears)
        announces = right.network.relay.tables.announce_rows()
        assert {str(row.source) for row in announces} == {left.node}  # the Stub is not seen
        await show.whole(*ears)
        show.stop()


async def test_what_connections_carry_is_configured(tmp_path: Path) -> None:
    """Control goes straight from Edge to Edge and data by a Via; a third Edge sends only."""
    alone = {"dynamic": False}
    async with network(tmp_path) as net, asyncio.TaskGroup() as group:
        left = await net.relay("edge", network=alone)
        via = await net.relay("via", left, network=alone)
        straight, round_about = left.network.contact, via.network.contact
        right = await net.relay("edge", f"{straight}/control", round_about, network=alone)
        await net.settled()
        assert (left.next_hop(right), right.next_hop(left)) == (via.node, via.node)
        show = Show(group)
        show.publish(left)
        ear = show.listen(right)
        await show.more(ear)
        assert left.sends_to() == {via.node}
        (peer,) = (row for row in right.network.peers() if str(row.node) == left.node)
        assert (peer.control, peer.sends, peer.receives) == (True, False, False)
        carried = [row.session for row in right.network.relay.tables.sets()]
        assert peer.session not in carried
        # Data goes from who dials to who listens; the other direction has no way.
        sender = await net.relay("edge", f"{straight}/one-way", network=alone)
        await until(lambda: sender.next_hop(left) == left.node)
        (peer,) = (row for row in left.network.peers() if str(row.node) == sender.node)
        assert (peer.control, peer.sends, peer.receives) == (True, False, True)
        assert left.next_hop(sender) is None
        await show.whole(ear)
        show.stop()


async def ring(net: NetworkTask) -> list[RunningRelay]:
    """Five Edges in a ring, and a chord between the first and the third."""
    relays: list[RunningRelay] = []
    for index in range(5):
        peers = relays[-1:]
        if index == 2:
            peers = [relays[0], relays[1]]
        elif index == 4:
            peers = [relays[3], relays[0]]
        relays.append(await net.relay("edge", *peers, network={"dynamic": False}))
    await net.settled()
    return relays


async def test_a_ring_of_five_with_a_chord(tmp_path: Path) -> None:
    async with network(tmp_path) as net, asyncio.TaskGroup() as group:
        relays = await ring(net)
        first = relays[0]
        assert first.next_hop(relays[2]) == relays[2].node  # the chord
        show = Show(group)
        show.publish(first)
        ears = [show.listen(relay) for relay in relays[1:]]
        await show.more(*ears)
        # The one at the far side is reached through one of its neighbours, not through both.
        assert first.sends_to() == {relays[1].node, relays[2].node, relays[4].node}
        await show.whole(*ears)
        show.stop()


async def test_a_relay_that_leaves_in_good_order_costs_nothing(tmp_path: Path) -> None:
    async with network(tmp_path) as net, asyncio.TaskGroup() as group:
        fast, slow = await net.relay("via"), await net.relay("via")
        left = await net.relay("edge", fast, slow, network={"dynamic": False})
        right = await net.relay("edge", fast, slow, network={"dynamic": False})
        await net.settled()
        show = Show(group)
        show.publish(left, per_group=10)
        ear = show.listen(right)
        await show.more(ear)
        (used,) = left.sends_to()
        leaving = fast if used == fast.node else slow
        staying = slow if leaving is fast else fast
        leaving.network.drain(30.0)
        await until(lambda: left.sends_to() == {staying.node})
        await show.more(ear, numbers=100)
        await until(lambda: not leaving.network.relay.tables.fib())
        await net.stop(leaving)
        await show.more(ear, numbers=100)
        await show.whole(ear)
        show.stop()


async def test_a_via_is_injected_for_many_copies_and_removed_again(tmp_path: Path) -> None:
    """Fan-out towards one region is limited to two: the third subscriber's Edge brings in a Via."""
    near = {"region": "us", "via_hold": "500ms"}
    far = {"region": "eu", "dynamic": False, "unsubscribe_delay": "500ms"}
    async with network(tmp_path) as net, asyncio.TaskGroup() as group:
        via = await net.relay("via", network=far)
        origin = await net.relay("edge", via, network=near)
        edges = [await net.relay("edge", via, origin, network=far) for _ in range(3)]
        await net.settled()
        show = Show(group)
        show.publish(origin, per_group=10)
        ears = [show.listen(edge) for edge in edges[:2]]
        await show.more(*ears)
        assert origin.sends_to() == {edges[0].node, edges[1].node}
        third = group.create_task(Listener().run(edges[2]))
        await until(lambda: origin.sends_to() == {via.node})
        await show.more(*ears, numbers=200)
        third.cancel()
        # It leaves: after the delay of the unsubscribe two copies are allowed again.
        await until(lambda: origin.sends_to() == {edges[0].node, edges[1].node})
        await show.more(*ears, numbers=200)
        await show.whole(*ears)
        show.stop()


async def test_somebody_waits_for_a_publisher_that_comes_elsewhere(tmp_path: Path) -> None:
    async with network(tmp_path) as net:
        left = await net.relay("edge")
        right = await net.relay("edge", left)
        await net.settled()
        async with left.connect() as publisher, right.connect() as subscriber:
            with pytest.raises(laps_sdk.RequestRefusedError):
                async with subscriber.subscribe("net", "later", wait=0.1):
                    pass
            async with asyncio.TaskGroup() as group:
                heard = asyncio.Event()

                async def listen() -> None:
                    async with subscriber.subscribe("net", "later", wait=40.0) as track:
                        async for obj in track:
                            assert obj.payload == b"here"
                            heard.set()
                            break

                group.create_task(listen())
                track = await publisher.publish("net", "later")
                while not heard.is_set():
                    await track.write(b"here", end_of_group=True)
                    await asyncio.sleep(0.05)
