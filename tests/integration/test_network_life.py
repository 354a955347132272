"""Relays that leave, and relays that become something else: clients and peers find their way."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from laps_relay.config import Loaded, RelayConfig
from laps_relay.server import StartError
from testkit.logs import restored_logging
from testkit.network_show import Listener, Show
from testkit.network_task import NetworkTask, RunningRelay, network, until

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    with restored_logging():
        yield


PATIENT: dict[str, Any] = {"listen": {"drain_timeout": "40s"}, "limits": {"goaway_timeout": "40s"}}


async def test_clients_of_a_relay_that_drains_go_where_their_tracks_are(tmp_path: Path) -> None:
    """Make before break on the side of the client: nothing is lost, nothing comes twice."""
    async with network(tmp_path) as net, asyncio.TaskGroup() as group:
        via = await net.relay("via")
        origin = await net.relay("edge", via)
        leaving = await net.relay("edge", via, **PATIENT)
        # Nearer by its id, and without the track.
        await net.relay("edge", via, node="0:9")
        await net.settled()
        show = Show(group)
        show.publish(origin, per_group=10)
        ears = [show.listen(leaving), show.listen(leaving)]
        await show.more(*ears)
        assert len(origin.app.server.ports) == 1
        await net.stop(leaving, drain=True)
        assert len(origin.app.server.ports) == 3
        await show.more(*ears, numbers=100)
        await show.whole(*ears)
        show.stop()


async def test_clients_find_their_tracks_by_control_servers(tmp_path: Path) -> None:
    """An Edge hears of no subscribes of others there, until it drains."""
    async with network(tmp_path) as net, asyncio.TaskGroup() as group:
        server = await net.relay("control")
        edges = [await net.relay("edge", server, network={"region": "far"})]
        leaving = await net.relay("edge", server, network={"region": "near"}, **PATIENT)
        # It publishes nothing and receives the same, and others come before it.
        edges += [
            await net.relay("edge", server, network={"region": "near"}, node=node)
            for node in ("0:8", "0:9", "9:9")
        ]
        origin, *_, having = edges
        await until(lambda: len(leaving.network.nodes()) == 6)
        show = Show(group)
        show.publish(origin, per_group=10)
        ears = [show.listen(leaving), show.listen(leaving), show.listen(having)]
        await show.more(*ears)
        assert {str(row.source) for row in leaving.network.subscribes()} == {leaving.node}
        await net.stop(leaving, drain=True)
        assert [len(each.app.server.ports) for each in edges] == [1, 0, 0, 3]
        await show.more(*ears, numbers=100)
        await show.whole(*ears)
        show.stop()


async def test_a_publisher_of_a_relay_that_drains_goes_on_elsewhere(tmp_path: Path) -> None:
    async with network(tmp_path) as net, asyncio.TaskGroup() as group:
        via = await net.relay("via")
        staying = await net.relay("edge", via)
        leaving = await net.relay("edge", via, **PATIENT)
        await net.settled()
        show = Show(group)
        show.publish(leaving, per_group=10)
        ears = [show.listen(staying), show.listen(leaving)]
        await show.more(*ears)
        await net.stop(leaving, drain=True)
        assert len(staying.app.server.ports) == 3
        await show.more(*ears, numbers=100)
        await show.whole(*ears)
        show.stop()


async def over_a_via(
    net: NetworkTask, show: Show, *, per_group: int, patience: str = "40s"
) -> tuple[RunningRelay, RunningRelay, Listener]:
    """Two Edges and two Vias: who publishes, the Via that is in use, and who listens behind it."""
    patient: dict[str, Any] = PATIENT | {"listen": {"drain_timeout": patience}}
    vias = [await net.relay("via", **patient) for _ in range(2)]
    left = await net.relay("edge", *vias, network={"dynamic": False})
    right = await net.relay("edge", *vias, network={"dynamic": False})
    await net.settled()
    show.publish(left, per_group=per_group)
    ear = show.listen(right)
    await show.more(ear)
    (used,) = left.sends_to()
    (via,) = (via for via in vias if via.node == used)
    return left, via, ear


async def test_a_via_that_is_stopped_waits_until_others_have_moved(tmp_path: Path) -> None:
    async with network(tmp_path) as net, asyncio.TaskGroup() as group:
        show = Show(group)
        left, leaving, ear = await over_a_via(net, show, per_group=10)
        await net.stop(leaving, drain=True)
        await show.more(ear, numbers=100)
        assert left.sends_to().isdisjoint({leaving.node})
        await show.whole(ear)
        show.stop()


async def test_a_publisher_in_a_hurry_loses_nothing_when_the_via_in_use_drains(
    tmp_path: Path,
) -> None:
    """It sends as fast as it can: on the old way everything waits, and the new way overtakes it."""
    async with network(tmp_path) as net, asyncio.TaskGroup() as group:
        show = Show(group)
        left, leaving, ear = await over_a_via(net, show, per_group=7)
        begin = show.sent
        show.hurried = begin + 1400
        await until(lambda: max(ear.heard) > begin + 200)
        await net.stop(leaving, drain=True)
        await until(lambda: show.sent > show.hurried)
        assert left.sends_to().isdisjoint({leaving.node})
        await show.whole(ear)
        show.stop()


@pytest.mark.parametrize("per_group", [7, 1 << 40], ids=["groups", "one-stream"])
async def test_a_via_that_drains_does_not_wait_for_a_publisher_that_says_nothing(
    tmp_path: Path, per_group: int
) -> None:
    """The last stream of a burst stays open, and goes on over the other Via when there is more."""
    async with network(tmp_path) as net, asyncio.TaskGroup() as group:
        show = Show(group)
        # Longer than the test may take.
        left, leaving, ear = await over_a_via(net, show, per_group=per_group, patience="10m")
        show.silent = True
        await until(lambda: show.sent == show.silent_at and max(ear.heard) == show.sent - 1)
        await net.stop(leaving, drain=True)
        assert left.logged("session closed") == []  # it has not waited until a client gave up
        assert left.sends_to().isdisjoint({leaving.node})
        show.silent = False
        await show.more(ear, numbers=100)
        await show.whole(ear)
        show.stop()


async def test_an_order_to_drain_is_told_to_peers(tmp_path: Path) -> None:
    """Nobody sends clients there any more, and its own have gone."""
    async with network(tmp_path) as net, asyncio.TaskGroup() as group:
        leaving = await net.relay("edge", **PATIENT)
        staying = await net.relay("edge", leaving)
        await net.settled()
        show = Show(group)
        show.publish(staying, per_group=10)
        ear = show.listen(leaving)
        await show.more(ear)
        leaving.app.view.drain("")
        rows = staying.network.relay.tables

        def known() -> bool:
            load = [row.load_class for row in rows.nodes() if str(row.node) == leaving.node]
            return load == ["draining"] and all(row.leaving for row in rows.peers())

        await until(known)
        await until(lambda: len(staying.app.server.ports) == 2)
        await show.more(ear, numbers=100)
        await show.whole(ear)
        show.stop()


async def test_a_via_that_drains_and_stays_is_used_again(tmp_path: Path) -> None:
    """An operator takes the drain back: nothing is lost, nothing comes twice, no session ends."""
    async with network(tmp_path) as net, asyncio.TaskGroup() as group:
        via = await net.relay("via", **PATIENT)
        left = await net.relay("edge", via, network={"dynamic": False})
        right = await net.relay("edge", via, network={"dynamic": False})
        await net.settled()
        show = Show(group)
        show.publish(left, per_group=10)
        ear = show.listen(right)
        await show.more(ear)
        for _ in range(2):
            via.app.view.drain("")
            await until(lambda: all(row.leaving for row in left.network.peers()))
            assert via.app.view.stay() is None
            await until(lambda: not any(row.leaving for row in left.network.peers()))
            await show.more(ear, numbers=50)
        assert left.sends_to() == {via.node}
        # Also when there is another way, to which all has moved.
        other = await net.relay("via", **PATIENT)
        for edge in (left, right):
            edge.network.set_peers(peered(edge, via, other))
        await net.settled()
        via.app.view.drain("")
        await until(lambda: left.sends_to() == {other.node})
        assert via.app.view.stay() is None
        rows = left.network.relay.tables
        await until(
            lambda: (
                all(row.load_class != "draining" for row in rows.nodes())
                and not any(row.leaving for row in rows.peers())
            )
        )
        await show.more(ear, numbers=100)
        await show.whole(ear)
        assert [line for edge in (left, right) for line in edge.logged("peer gone")] == []
        assert via.app.view.ready
        show.stop()


def peered(relay: RunningRelay, *peers: RunningRelay) -> RelayConfig:
    """Its configuration with other peers."""
    data = relay.app.loaded.config.model_dump(mode="json")
    data["network"] |= {"peers": [each.network.contact for each in peers]}
    return RelayConfig.model_validate(data)


async def test_some_clients_are_sent_elsewhere(tmp_path: Path) -> None:
    """Half of them go without a loss, and the relay takes others as before."""
    async with network(tmp_path) as net, asyncio.TaskGroup() as group:
        full = await net.relay("edge", **PATIENT)
        free = await net.relay("edge", full)
        await net.settled()
        show = Show(group)
        show.publish(free, per_group=10)
        ears = [show.listen(full) for _ in range(4)]
        await show.more(*ears)
        assert full.app.view.redirect(None, 0.5, "") == 2
        await until(lambda: len(full.app.server.ports) == 2)
        assert len(free.app.server.ports) == 3
        (chosen, _) = [row.session for row in full.app.view.sessions() if not row.info.upstream]
        assert full.app.view.redirect([chosen], 0.0, free.app.url) == 1
        await until(lambda: len(full.app.server.ports) == 1)
        ears.append(show.listen(full))
        await show.more(*ears, numbers=100)
        await show.whole(*ears)
        assert full.app.view.ready
        show.stop()


async def test_a_parent_that_is_stopped_waits_for_its_stub(tmp_path: Path) -> None:
    """The Stub has another parent: it moves, and loses and doubles nothing."""
    async with network(tmp_path) as net, asyncio.TaskGroup() as group:
        origin = await net.relay("edge")
        parents = [await net.relay("edge", origin, **PATIENT) for _ in range(2)]
        await net.settled()
        stub = await net.relay("stub", *parents)
        await until(lambda: sum(row.control for row in stub.network.peers()) == 2)
        show = Show(group)
        show.publish(origin, per_group=10)
        ears = [show.listen(stub), show.listen(stub)]
        await show.more(*ears)
        (leaving,) = (each for each in parents if each.network.in_transit)
        await net.stop(leaving, drain=True)
        await show.more(*ears, numbers=100)
        await show.whole(*ears)
        show.stop()


async def test_a_stub_with_one_parent_is_told_where_to_go(tmp_path: Path) -> None:
    async with network(tmp_path) as net, asyncio.TaskGroup() as group:
        origin = await net.relay("edge")
        parent = await net.relay("edge", origin)
        await net.settled()
        stub = await net.relay("stub", parent)
        await until(lambda: any(row.control for row in stub.network.peers()))
        show = Show(group)
        show.publish(origin)
        ear = show.listen(stub)
        await show.more(ear)
        await net.stop(parent, drain=True)
        await until(lambda: [str(row.node) for row in stub.network.peers()] == [origin.node])
        await show.more(ear)
        assert ear.doubled() == []
        show.stop()


def again(relay: RunningRelay, kind: str, drain_timeout: str = "40s") -> None:
    """Reload with another type."""
    config = relay.app.loaded.config
    data = config.model_dump(mode="json")
    data["network"] |= {"type": kind}
    data["listen"] |= {"drain_timeout": drain_timeout}
    loaded = Loaded(config.model_validate(data))
    relay.app.reread = lambda: loaded
    assert relay.app.reload()


def types_of_peers(relay: RunningRelay) -> set[str]:
    return {row.relay_type for row in relay.network.peers()}


async def test_a_relay_changes_its_type_and_keeps_its_place(tmp_path: Path) -> None:
    """Edge to Via to control server and back; node id and peer port stay."""
    async with network(tmp_path) as net, asyncio.TaskGroup() as group:
        middle = await net.relay("edge", **PATIENT)
        left = await net.relay("edge", middle, network={"dynamic": False})
        right = await net.relay("edge", middle, network={"dynamic": False})
        await net.settled()
        node, contact = middle.node, middle.network.contact
        show = Show(group)
        show.publish(left)
        guest = show.listen(middle)
        await show.more(guest)

        again(middle, "via")
        assert not middle.app.reload()  # one after the other
        await until(lambda: middle.logged("type changed"))
        assert (middle.node, middle.network.contact) == (node, contact)
        assert middle.app.url == ""
        await until(lambda: types_of_peers(left) == types_of_peers(right) == {"via"})
        await net.settled()
        # Its client was sent to where the track is.
        assert len(left.app.server.ports) == 2
        ear = show.listen(right)
        await show.more(guest, ear)
        assert left.sends_to() == {node}
        await show.whole(guest)

        # There is no other way, so nothing can be waited for.
        again(middle, "control", drain_timeout="0s")
        await until(lambda: types_of_peers(left) == types_of_peers(right) == {"control"})
        await until(lambda: left.next_hop(right) is None)  # no data through a control server
        await until(lambda: len(middle.logged("type changed")) == 2)

        again(middle, "edge")
        await until(lambda: types_of_peers(left) == types_of_peers(right) == {"edge"})
        await net.settled()
        late = show.listen(middle)
        await show.more(late, guest, ear)
        assert [each.doubled() for each in (late, guest, ear)] == [[], [], []]
        assert [line["type"] for line in middle.logged("type changed")] == [
            "via",
            "control",
            "edge",
        ]
        show.stop()


async def test_a_relay_becomes_a_stub_and_comes_back(tmp_path: Path) -> None:
    """A Stub needs an Edge: its peer is one, later a Via, then it is an Edge itself again."""
    async with network(tmp_path) as net, asyncio.TaskGroup() as group:
        parent = await net.relay("edge", **PATIENT)
        relay = await net.relay("edge", parent, network={"dynamic": False})
        await net.settled()
        node = relay.node
        show = Show(group)
        show.publish(parent)

        again(relay, "stub", drain_timeout="0s")
        await until(lambda: relay.logged("type changed"))
        await until(lambda: types_of_peers(relay) == {"edge"})
        await until(lambda: types_of_peers(parent) == {"stub"})
        # Nobody knows it as a node any more.
        await until(lambda: node not in {str(row.node) for row in parent.network.nodes()})
        ear = show.listen(relay)
        await show.more(ear)
        assert ear.doubled() == []
        show.stop()

        again(parent, "via", drain_timeout="0s")
        await until(lambda: parent.logged("type changed"))

        def refused() -> bool:
            lines = relay.logged("peering refused")
            return any(line["reason"] == "a Stub peers with Edges only" for line in lines)

        await until(refused)

        again(relay, "edge", drain_timeout="0s")
        await until(lambda: types_of_peers(parent) == {"edge"})
        assert relay.node == node
        await net.settled()


async def test_a_type_that_cannot_be_had_ends_the_relay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with network(tmp_path) as net:
        relay = await net.relay("via")

        async def no(*_: object) -> None:
            raise OSError("no such port")

        with monkeypatch.context() as patch:
            patch.setattr("laps_sdk.peering.server.PeerServer.start", no)
            again(relay, "edge")
            with pytest.raises(StartError, match="no such port; choose another one"):
                await relay.app.run()
