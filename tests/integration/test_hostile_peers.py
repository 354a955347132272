"""Relays of the network that do what they should not, over real QUIC.

Each of them has the network's key, so it is let in. It is dropped with a code, or what it says is
refused; there is a line in the log and a counter; and a publisher and a subscriber at other relays
do not notice (``testkit.network_scene`` checks that).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from laps_relay.network.adjacency import MAX_VIOLATIONS
from laps_relay.network.views import FibRow
from laps_relay.server.identity import KeyMemory
from laps_relay.server.network_part import NetworkPart
from laps_sdk.peering.keys import NODE_URN, PeerKeyRing, open_key_ring
from laps_sdk.peering.keys.files import NETWORK_KEY
from laps_wire.names import FullTrackName, Namespace
from laps_wire.nodeid import NodeId
from laps_wire.peering import laps2
from laps_wire.peering.errors import CloseCode, StreamCode
from laps_wire.peering.laps2 import (
    AnnounceAdvertise,
    AnnounceInfo,
    AnnounceKind,
    DataHeader,
    DataKind,
    Keepalive,
    Location,
    NodeAdvertise,
    NodeInfo,
    NodePathItem,
    NodeSelf,
    NodeSignature,
    RelayType,
    SnsAdvertise,
    SnsRefusal,
    SnsRefused,
    SnsUpdate,
    Stamp,
    SubscribeAdvertise,
    SubscribeCode,
    SubscribeInfo,
    SubscribeResponse,
    SubscribeWithdraw,
    SubscribeWithdrawal,
    encode_data_header,
)
from testkit.hostile_peer import HostilePeer, hostile_peer
from testkit.logs import restored_logging
from testkit.network_scene import scene
from testkit.network_task import RunningRelay, network, until
from testkit.peer_certs import authority, issue_node, store
from testkit.raw_peer import raw_peer

pytestmark = pytest.mark.anyio

MALLORY = "0.66:0.6"
E = TypeVar("E", AnnounceInfo, SubscribeInfo)

HIDING = """
[[export.node.rule]]
peers = ["66:6"]
sources = ["3:1"]
action = "deny"
"""
"""The right Edge is not shown to it."""

NOBODY = NodeId.parse("77:7")
"""A node that does not exist."""


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    with restored_logging():
        yield


def count(relay: RunningRelay, name: str, **labels: str) -> float:
    """A counter of a relay."""
    return relay.app.metrics.registry.get_sample_value(f"{name}_total", labels) or 0.0


async def dropped(relay: RunningRelay, mallory: HostilePeer, code: CloseCode) -> str:
    """It is closed with a code, and that is in the log and in the metrics; gives the reason."""
    closed = await mallory.closed()
    assert closed.code == code, closed.reason
    await until(lambda: relay.logged("peer broke the protocol"))
    (line,) = relay.logged("peer broke the protocol")
    assert line["level"] == "warning"
    assert (line["node"], line["code"]) == (str(mallory.node), code)
    assert line["reason"]
    assert count(relay, "laps_peers_faulted", code=f"{code:#x}") == 1
    await until(lambda: all(row.node != mallory.node for row in relay.network.peers()))
    return str(line["reason"])


def nodes(relay: RunningRelay) -> set[str]:
    """All that a relay knows of."""
    return {str(row.node) for row in relay.network.nodes()}


# Garbage


@pytest.mark.parametrize(
    ("garbage", "code"),
    [
        (b"\x3e\x01x", CloseCode.UNKNOWN_MESSAGE),
        (b"\x10\x02\xff\xff", CloseCode.PROTOCOL_VIOLATION),
        (b"\x10\xff\xff\xff\xff\xff\xff\xff\xff", CloseCode.MESSAGE_TOO_LARGE),
    ],
    ids=["unknown", "malformed", "huge"],
)
async def test_garbage_on_the_control_stream(
    tmp_path: Path, garbage: bytes, code: CloseCode
) -> None:
    async with scene(tmp_path) as show, hostile_peer(show.net, show.via) as mallory:
        mallory.write(garbage)
        await dropped(show.via, mallory, code)


async def test_garbage_in_the_place_of_a_data_header(tmp_path: Path) -> None:
    async with scene(tmp_path) as show, hostile_peer(show.net, show.left) as mallory:
        mallory.raw.data().write(b"\x03garbage" * 40)
        await dropped(show.left, mallory, CloseCode.PROTOCOL_VIOLATION)


async def test_a_datagram_that_is_none(tmp_path: Path) -> None:
    async with scene(tmp_path) as show, hostile_peer(show.net, show.via) as mallory:
        mallory.raw.connection.send_datagram(b"\x01\x02\x03")
        await dropped(show.via, mallory, CloseCode.PROTOCOL_VIOLATION)


async def test_a_kind_of_data_that_nobody_knows_costs_its_stream_only(tmp_path: Path) -> None:
    async with scene(tmp_path) as show, hostile_peer(show.net, show.via) as mallory:
        header = encode_data_header(DataHeader(DataKind.STREAM, 1, 7, 1))
        mallory.raw.data().write(header[:1] + b"\x70" + header[2:])
        await until(mallory.stopped)
        assert mallory.stopped() == [StreamCode.UNKNOWN_KIND]
        assert show.via.network.relay.plane.counters().unknown_kinds == 1
        await mallory.echo()


# Floods: every table has a cap that was told


async def test_a_flood_of_nodes(tmp_path: Path) -> None:
    limits = {"max_nodes": 50}
    async with (
        scene(tmp_path, limits=limits) as show,
        hostile_peer(show.net, show.via) as mallory,
    ):
        flood = tuple(mallory.info(1000 + number) for number in range(500))
        mallory.say(NodeAdvertise(flood))
        assert "more than 50 nodes" in await dropped(show.via, mallory, CloseCode.LIMIT_EXCEEDED)
        good = {relay.node for relay in show.relays}
        await until(lambda: all(nodes(relay) <= good for relay in show.relays))


def announce(mallory: HostilePeer, number: int) -> AnnounceInfo:
    return AnnounceInfo(
        mallory.node, Stamp(mallory.epoch, 10), AnnounceKind.TRACK, (1,), number, number
    )


def subscribe(mallory: HostilePeer, number: int) -> SubscribeInfo:
    return SubscribeInfo(mallory.node, Stamp(mallory.epoch, 10), (1,), number, number)


@pytest.mark.parametrize("kind", ["announces", "subscribes"])
@pytest.mark.parametrize("unknown", [False, True], ids=["own", "of nobody"])
async def test_a_flood_of_entries(tmp_path: Path, kind: str, unknown: bool) -> None:
    """Its own entries, and those of a node that does not exist, which have to wait."""
    async with (
        scene(tmp_path, limits={f"max_{kind}": 40}) as show,
        hostile_peer(show.net, show.via) as mallory,
    ):
        source = NOBODY if unknown else mallory.node
        if kind == "announces":
            entries = [announce(mallory, number) for number in range(300)]
            mallory.say(*(AnnounceAdvertise((_of(source, entry),)) for entry in entries))
        else:
            wants = [subscribe(mallory, number) for number in range(300)]
            mallory.say(*(SubscribeAdvertise((_of(source, entry),)) for entry in wants))
        reason = await dropped(show.via, mallory, CloseCode.LIMIT_EXCEEDED)
        assert "more than 40 entries" in reason
        good = {relay.node for relay in show.relays}
        await until(lambda: all(sources(relay, kind) <= good for relay in show.relays))


def sources(relay: RunningRelay, kind: str) -> set[str]:
    """Who has announced or subscribed to something."""
    if kind == "announces":
        return {str(row.source) for row in relay.network.announces()}
    return {str(row.source) for row in relay.network.subscribes()}


@pytest.mark.parametrize("kind", ["nodes", "announces", "subscribes"])
async def test_as_much_as_is_allowed_parts_nobody_from_others(tmp_path: Path, kind: str) -> None:
    """It fills the Via up to the cap: with what the others say that is more than an Edge takes."""
    async with (
        scene(tmp_path, limits={f"max_{kind}": 20}) as show,
        hostile_peer(show.net, show.via) as mallory,
    ):
        numbers = range(100, 119)
        if kind == "nodes":
            mallory.say(NodeAdvertise(tuple(mallory.info(number) for number in numbers)))
        elif kind == "announces":
            mallory.say(AnnounceAdvertise(tuple(announce(mallory, each) for each in numbers)))
            mallory.say(AnnounceAdvertise((announce(mallory, 119),)))
        else:
            mallory.say(SubscribeAdvertise(tuple(subscribe(mallory, each) for each in numbers)))
            mallory.say(SubscribeAdvertise((subscribe(mallory, 119),)))
        await mallory.echo()
        view = show.left.network
        rows = {"nodes": view.nodes, "announces": view.announces, "subscribes": view.subscribes}
        await until(lambda: len(rows[kind]()) > 19)
        await show.more(50)
        assert mallory.raw.closed is None


def _of(source: NodeId, entry: E) -> E:
    return replace(entry, source=source)


async def test_a_flood_of_sets(tmp_path: Path) -> None:
    async with (
        scene(tmp_path, limits={"max_sets": 10, "max_targets": 3}) as show,
        hostile_peer(show.net, show.via) as mallory,
    ):
        await mallory.knows(show.left, show.right)
        target = NodeId.parse(show.right.node)
        mallory.say(*(SnsAdvertise(number, 1, 0, (target,)) for number in range(1, 101)))
        mallory.say(SnsUpdate(1, 2, tuple(map(NodeId, range(1000, 1010))), ()))  # ends set 1
        await mallory.echo()
        refused = mallory.heard(SnsRefused)
        many = [each for each in refused if each.code == SnsRefusal.TOO_MANY_SETS]
        assert [each.sns_id for each in many] == list(range(11, 101))
        assert any(each.code == SnsRefusal.TOO_MANY_TARGETS for each in refused)
        rows = [row for row in show.via.network.sets() if row.incoming]
        peers = {row.session: row.node for row in show.via.network.peers()}
        assert sum(str(peers.get(row.session)) == MALLORY for row in rows) == 9


async def test_a_flood_of_data_for_sets_that_never_come(tmp_path: Path) -> None:
    limits = {"unknown_bytes": "64KiB", "unknown_time": "1s"}
    async with (
        scene(tmp_path, limits=limits) as show,
        hostile_peer(show.net, show.via) as mallory,
    ):
        via = show.via.network
        counters = via.relay.plane.counters
        before = counters()
        held = 0
        for number in range(200):
            mallory.data(1_000 + number, bytes(4_000), fin=False)
        for _ in range(20):
            await mallory.echo()
            held = max(held, counters().held_bytes)
        assert held <= 65_536
        await until(lambda: counters().unknown_streams == before.unknown_streams + 200)
        await until(lambda: len(mallory.stopped()) == 200)
        assert set(mallory.stopped()) == {StreamCode.UNKNOWN_SNS}
        assert counters().held_bytes == 0
        assert counters().streams_out >= before.streams_out  # the witness goes on


# Lies about nodes and paths


async def believed(mallory: HostilePeer, relay: RunningRelay, reason: str) -> None:
    """It is not: there is a line in the log, and a counter."""
    await mallory.echo()
    await until(lambda: relay.logged("node information not believed"))
    lines = relay.logged("node information not believed")
    assert {(line["level"], line["peer"]) for line in lines} == {("warning", MALLORY)}
    assert all(reason in line["reason"] for line in lines), lines
    assert count(relay, "laps_nodes_suspected") == len(lines)
    assert mallory.raw.closed is None


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ((NodePathItem(NOBODY, 10),), "not with who sent it"),
        ((), "an empty path"),
        ((NodePathItem(NodeId(9), 1), NodePathItem(NodeId(9), 1)), "twice"),
        ((NodePathItem(NodeId(0), 1),), "node id 0"),
    ],
    ids=["of somebody else", "empty", "loop", "a Stub"],
)
async def test_a_path_that_cannot_be(
    tmp_path: Path, path: tuple[NodePathItem, ...], reason: str
) -> None:
    async with scene(tmp_path) as show, hostile_peer(show.net, show.via) as mallory:
        if reason not in ("not with who sent it", "an empty path"):
            path = (*path, NodePathItem(mallory.node, 10))
        lie = NodeSelf(NodeId.parse(show.right.node), RelayType.EDGE, Stamp(1 << 50, 1))
        mallory.say(NodeAdvertise((NodeInfo(lie, path=path), mallory.info(500))))
        await believed(mallory, show.via, reason)
        assert show.left.next_hop(show.right) == show.via.node
        assert show.via.next_hop(show.right) == show.right.node
        assert "0.0:1.500" not in nodes(show.via)


async def test_paths_that_cannot_be_again_and_again(tmp_path: Path) -> None:
    async with scene(tmp_path) as show, hostile_peer(show.net, show.via) as mallory:
        lie = NodeSelf(NodeId.parse(show.right.node), RelayType.EDGE, Stamp(1 << 50, 1))
        bad = NodeInfo(lie, path=(NodePathItem(NOBODY, 10),))
        mallory.say(*[NodeAdvertise((bad,))] * MAX_VIOLATIONS)
        await mallory.echo()
        assert mallory.raw.closed is None
        mallory.say(NodeAdvertise((bad,)))
        assert "not with who sent it" in await dropped(show.via, mallory, CloseCode.BAD_NODE)
        assert count(show.via, "laps_nodes_suspected") == MAX_VIOLATIONS + 1


async def test_a_path_with_us_on_it_is_nobodys_way(tmp_path: Path) -> None:
    async with scene(tmp_path) as show, hostile_peer(show.net, show.via) as mallory:
        loop = (NodePathItem(NodeId.parse(show.via.node), 1), NodePathItem(mallory.node, 1))
        mallory.say(NodeAdvertise((mallory.info(500), mallory.info(501, *loop))))
        await mallory.echo()
        await until(lambda: "0.0:0.500" in nodes(show.left))
        assert "0.0:0.501" not in nodes(show.via)


async def test_a_path_that_is_faster_than_light(tmp_path: Path) -> None:
    """It says that it stands in Tokyo, and that the Edge in London is 1 microsecond from there."""
    tokyo, paris = Location(139.7, 35.7), Location(2.3, 48.9)
    # Relays that only this machine reaches may pretend to be anywhere.
    options: dict[str, Any] = {"host": "0.0.0.0"}  # noqa: S104
    async with (
        scene(tmp_path, **options) as show,
        hostile_peer(show.net, show.via, location=tokyo) as mallory,
    ):
        far = NodePathItem(mallory.node, 1)
        mallory.say(NodeAdvertise((mallory.info(500, far, location=paris),)))
        await believed(mallory, show.via, "light needs")
        assert "0.0:0.500" not in nodes(show.via)
        # With a time that can be, it is believed.
        far = NodePathItem(mallory.node, 200_000)
        mallory.say(NodeAdvertise((mallory.info(500, far, location=paris),)))
        await until(lambda: "0.0:0.500" in nodes(show.via))


async def test_another_key_for_a_node_that_is_known(tmp_path: Path) -> None:
    async with scene(tmp_path) as show, hostile_peer(show.net, show.via) as mallory:
        right = NodeId.parse(show.right.node)
        lie = NodeSelf(right, RelayType.EDGE, Stamp(1 << 50, 1))
        forged = NodeSignature(2, b"f" * 32, b"nonsense")
        path = (NodePathItem(mallory.node, 1),)
        mallory.say(NodeAdvertise((NodeInfo(lie, forged, path),)))
        await believed(mallory, show.via, "another key")
        assert show.via.next_hop(show.right) == show.right.node


class Certified:
    """A network in which each relay has a certificate for its own node id."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.ca = state / "ca.pem"
        self.ca.write_bytes(authority().certificate.public_bytes(Encoding.PEM))

    def options(self, node: str) -> dict[str, Any]:
        directory = self.state / f"node-{node.replace(':', '-')}"
        directory.mkdir()
        issued = issue_node(authority(), [NODE_URN + str(NodeId.parse(node))])
        key, chain = store(directory, issued)
        key.chmod(0o600)
        return {"auth": "certificate", "ca": self.ca, "node_key": key, "node_certificate": chain}

    def mallory(self) -> PeerKeyRing:
        given = self.options("66:6")
        return open_key_ring(
            "certificate",
            self.state,
            key_file=self.state / NETWORK_KEY,
            ca=self.ca,
            node_key_file=given["node_key"],
            node_certificate=given["node_certificate"],
        )


async def test_words_that_another_node_did_not_sign(tmp_path: Path) -> None:
    """With certificates nobody can say of another node what that has not said."""
    made = Certified(tmp_path)
    async with (
        scene(tmp_path, made.options) as show,
        hostile_peer(show.net, show.via, keys=made.mallory(), signed=True) as mallory,
    ):
        await mallory.knows(show.right)
        right = NodeId.parse(show.right.node)
        *_, true = (
            info
            for message in mallory.heard(NodeAdvertise)
            for info in message.nodes
            if info.node.node_id == right
        )
        path = (NodePathItem(mallory.node, 1),)
        # What it has said itself may be passed on.
        mallory.say(NodeAdvertise((replace(true, path=path),)))
        await mallory.echo()
        stamp = replace(true.node.stamp, sequence=true.node.stamp.sequence + 1)
        lie = replace(true.node, stamp=stamp, region="nowhere")
        mallory.say(NodeAdvertise((replace(true, node=lie, path=path),)))
        reason = await dropped(show.via, mallory, CloseCode.BAD_NODE)
        assert "the signature does not hold" in reason
        assert "nowhere" not in {row.region for row in show.left.network.nodes()}


async def test_who_does_not_want_signatures_where_they_must_be(tmp_path: Path) -> None:
    made = Certified(tmp_path)
    async with (
        scene(tmp_path, made.options) as show,
        hostile_peer(show.net, show.via, keys=made.mallory()) as mallory,
    ):
        await refused(show.via, mallory, CloseCode.NOT_AUTHORIZED, MALLORY)


async def test_our_own_node_id_from_somebody_else(tmp_path: Path) -> None:
    async with scene(tmp_path) as show, hostile_peer(show.net, show.via) as mallory:
        lie = NodeSelf(NodeId.parse(show.via.node), RelayType.VIA, Stamp(1 << 50, 1))
        mallory.say(NodeAdvertise((NodeInfo(lie, path=(NodePathItem(mallory.node, 1),)),)))
        await believed(mallory, show.via, "our own node id")


async def refused(
    relay: RunningRelay, mallory: HostilePeer, code: CloseCode, node: str | None
) -> None:
    """It does not come in, and that is in the log and in the metrics."""
    assert not mallory.established
    assert mallory.refused is not None
    assert mallory.refused.code == code
    await until(lambda: relay.logged("peering refused"))
    (line,) = relay.logged("peering refused")
    assert (line["level"], line["node"], line["code"]) == ("warning", node, code)
    assert line["reason"]
    assert count(relay, "laps_peers_refused", code=f"{code:#x}") == 1


async def test_a_node_id_that_another_key_holds(tmp_path: Path) -> None:
    async with scene(tmp_path) as show:
        twin = show.right.node
        async with hostile_peer(show.net, show.via, node=twin, epoch=1 << 50) as mallory:
            await refused(show.via, mallory, CloseCode.NODE_ID_CONFLICT, twin)
            (line,) = show.via.logged("node information not believed")
            assert line["node"] == twin
            assert "another key" in line["reason"]


async def test_a_node_id_that_another_key_held_before_a_restart(tmp_path: Path) -> None:
    # Relays of one state directory have one key: those here share it, the impostor has its own.
    async with network(tmp_path) as net:
        edge = await net.relay("edge", node="1:1")
        other = await net.relay("edge", edge, node="2:1")
        await net.settled()
        twin, node = other.node, NodeId.parse(other.node)
        await net.stop(other)
        await net.stop(edge)
        edge = await net.relay("edge", node="1:1")
        async with hostile_peer(net, edge, node=twin, epoch=1 << 50) as mallory:
            await refused(edge, mallory, CloseCode.NODE_ID_CONFLICT, twin)
            (line,) = edge.logged("node information not believed")
            assert line["node"] == twin
            assert "another key" in line["reason"]
        other = await net.relay("edge", edge, node="2:1")
        await net.settled()
        assert "has a connection" in (edge.network.forget_key(node) or "")
        await net.stop(other)
        await until(lambda: not edge.network.peers())
        # Also one that was not met since the start is forgotten.
        await net.stop(edge)
        edge = await net.relay("edge", node="1:1")
        assert edge.network.forget_key(node) is None
        assert edge.network.forget_key(node) == f"no key of node {twin} is known here"
        async with hostile_peer(net, edge, node=twin, epoch=1 << 50) as mallory:
            assert mallory.established
            known = KeyMemory.of(tmp_path, NodeId.parse(edge.node))
            await until(lambda: known.load() == {node: mallory.keys.fingerprint})


async def test_our_own_node_id(tmp_path: Path) -> None:
    async with (
        scene(tmp_path) as show,
        hostile_peer(show.net, show.via, node=show.via.node) as mallory,
    ):
        await refused(show.via, mallory, CloseCode.NODE_ID_CONFLICT, None)


async def test_somebody_without_the_networks_key(tmp_path: Path) -> None:
    async with scene(tmp_path) as show:
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        keys = open_key_ring("shared-key", elsewhere)
        async with hostile_peer(show.net, show.via, keys=keys) as mallory:
            # Names are hashed with that key, too: that is seen first.
            await refused(show.via, mallory, CloseCode.HASH_MISMATCH, None)


# Sets: nobody is sent where he may not go


async def test_targets_that_it_was_never_told_of(tmp_path: Path) -> None:
    """A policy hides the right Edge from it: data for that Edge goes nowhere."""
    policy = tmp_path / "policy.toml"
    policy.write_text(HIDING)
    async with scene(tmp_path) as show:
        via = show.via.network
        via.set_policy(via.read_policy(policy), policy)
        async with hostile_peer(show.net, show.via) as mallory:
            await mallory.knows(show.left)
            hidden, left = NodeId.parse(show.right.node), NodeId.parse(show.left.node)
            targets = tuple(sorted((hidden, left, NOBODY)))
            mallory.say(SnsAdvertise(1, 1, 0, targets))
            answer = await mallory.hears(SnsRefused)
            assert (answer.sns_id, answer.code) == (1, SnsRefusal.NOT_ADVERTISED)
            assert answer.targets == tuple(sorted((hidden, NOBODY)))
            (line,) = show.via.logged("subscriber node set refused")
            assert (line["level"], line["node"], line["targets"]) == ("warning", MALLORY, 2)
            assert line["reason"] == "not_advertised"
            assert count(show.via, "laps_sets_refused", reason="not_advertised") == 1
            peers = {row.session: row.node for row in via.peers()}
            (entry,) = (row for row in via.fib() if peers.get(row.session) == mallory.node)
            assert {peers[session] for session, _ in entry.egress} == {left}
            # A set of targets that are all refused: what is sent with it goes nowhere.
            mallory.say(SnsAdvertise(2, 1, 0, (hidden,)))
            await mallory.hears(SnsRefused, lambda each: each.sns_id == 2)
            sent = via.relay.plane.counters()
            mallory.data(2, b"x" * 1000, track=mallory.hasher.full_name((b"scene",), b"numbers"))
            await until(lambda: _entry(via, mallory, 2).streams == 1)
            assert _entry(via, mallory, 2).egress == ()
            assert _entry(via, mallory, 2).bytes_out == 0
            assert via.relay.plane.counters().unknown_streams == sent.unknown_streams


async def test_targets_that_it_was_never_told_of_again_and_again(tmp_path: Path) -> None:
    async with scene(tmp_path) as show, hostile_peer(show.net, show.via) as mallory:
        await mallory.knows(show.left, show.right)
        good = NodeId.parse(show.right.node)
        sets = [
            SnsAdvertise(number, 1, 0, (good, NOBODY)) for number in range(1, MAX_VIOLATIONS + 2)
        ]
        mallory.say(*sets[:MAX_VIOLATIONS])
        await mallory.echo()
        assert mallory.raw.closed is None
        mallory.say(sets[MAX_VIOLATIONS])
        reason = await dropped(show.via, mallory, CloseCode.SNS_VIOLATION)
        assert str(NOBODY) in reason


async def test_a_loop_of_sets_ends(tmp_path: Path) -> None:
    async with scene(tmp_path) as show, hostile_peer(show.net, show.via) as mallory:
        await mallory.knows(show.left, show.right)
        mallory.say(SnsAdvertise(1, 1, 16, (NodeId.parse(show.right.node),)))
        answer = await mallory.hears(SnsRefused)
        assert answer.code == SnsRefusal.TOO_MANY_HOPS
        assert _entry(show.via.network, mallory, 1).egress == ()


async def test_an_id_that_goes_back(tmp_path: Path) -> None:
    async with scene(tmp_path) as show, hostile_peer(show.net, show.via) as mallory:
        await mallory.knows(show.left, show.right)
        target = (NodeId.parse(show.right.node),)
        mallory.say(laps2.SyncBegin(laps2.Bases.SNS), laps2.SyncEnd(laps2.Bases.SNS))
        mallory.say(SnsAdvertise(5, 1, 0, target), SnsAdvertise(4, 1, 0, target))
        await dropped(show.via, mallory, CloseCode.SNS_VIOLATION)


def _entry(via: NetworkPart, mallory: HostilePeer, sns_id: int) -> FibRow:
    peers = {row.session: row.node for row in via.peers()}
    (entry,) = (
        row for row in via.fib() if peers.get(row.session) == mallory.node and row.set_id == sns_id
    )
    return entry


# Stubs: clients that speak the peering protocol


async def test_a_stub_that_knows_of_nodes(tmp_path: Path) -> None:
    async with (
        scene(tmp_path) as show,
        hostile_peer(show.net, show.left, node="0:0", relay_type=RelayType.STUB) as mallory,
    ):
        mallory.say(NodeAdvertise((mallory.info(500),)))
        await dropped(show.left, mallory, CloseCode.PROTOCOL_VIOLATION)


async def test_a_stub_that_announces_too_much(tmp_path: Path) -> None:
    async with (
        scene(tmp_path, limits={"max_announces": 10}) as show,
        hostile_peer(show.net, show.left, node="0:0", relay_type=RelayType.STUB) as mallory,
    ):
        spaces = [FullTrackName(Namespace((b"%d" % number,)), b"") for number in range(20)]
        mallory.say(
            AnnounceAdvertise(
                tuple(
                    AnnounceInfo(
                        mallory.node,
                        Stamp(1, 2),
                        AnnounceKind.NAMESPACE,
                        mallory.hasher.elements(space.namespace.fields),
                        None,
                        mallory.hasher.full_name(space.namespace.fields, b""),
                        space,
                    )
                    for space in spaces
                )
            )
        )
        await dropped(show.left, mallory, CloseCode.LIMIT_EXCEEDED)
        good = {relay.node for relay in show.relays}
        await until(lambda: sources(show.right, "announces") <= good)


# Interest: words in another node's mouth


async def test_an_epoch_that_was_invented(tmp_path: Path) -> None:
    """A subscribe of the right Edge, and its end, of a life that it does not have."""
    async with scene(tmp_path) as show, hostile_peer(show.net, show.via) as mallory:
        (row,) = show.left.network.subscribes()
        source, future = row.source, Stamp(row.epoch + 1_000_000, 1)
        mallory.say(
            SubscribeWithdraw((SubscribeWithdrawal(source, future, row.key),)),
            SubscribeAdvertise((SubscribeInfo(source, future, (1,), 2, 3),)),
            AnnounceAdvertise(
                (AnnounceInfo(source, future, AnnounceKind.TRACK, (1,), 2, 3),),
            ),
        )
        await mallory.echo()
        await show.more()
        assert list(show.left.network.subscribes()) == [row]
        assert {each.source for each in show.via.network.subscribes()} == {source}
        assert all(each.source != source for each in show.via.network.announces())


async def test_answers_to_what_nobody_asked(tmp_path: Path) -> None:
    """Forged responses: with another stamp, of nobody, and to somebody else."""
    async with scene(tmp_path) as show, hostile_peer(show.net, show.right) as mallory:
        (row,) = show.left.network.subscribes()
        no = SubscribeCode.POLICY
        stamp, left = Stamp(row.epoch, row.sequence), NodeId.parse(show.left.node)
        late = Stamp(row.epoch, row.sequence + 1)
        mallory.say(
            SubscribeResponse(row.source, row.key, late, left, no, "no"),
            SubscribeResponse(row.source, row.key + 1, stamp, left, no, "no"),
            SubscribeResponse(NOBODY, row.key, stamp, left, no, "no"),
            # This one is well made, but in nobody's name who serves the track.
            SubscribeResponse(row.source, row.key, stamp, mallory.node, no, "no"),
            SubscribeResponse(row.source, row.key, stamp, NOBODY, SubscribeCode.ENDED, "no"),
            SubscribeResponse(row.source, row.key, stamp, NOBODY, SubscribeCode.ACCEPTED),
        )
        await mallory.echo()
        await show.more()


# Who comes and says nothing


async def test_a_flood_of_handshakes_that_stop_halfway(tmp_path: Path) -> None:
    """More than may be under way: the oldest go, an honest one comes in."""
    async with scene(tmp_path) as show, AsyncExitStack() as stack:
        via = show.via
        address = ("127.0.0.1", via.network.server.address[1])
        via.network.relay.peers._max_handshakes = 8
        via.network.relay.peers._handshake_seconds = 600.0  # on a busy machine twelve take long
        silent = [await stack.enter_async_context(raw_peer(address)) for _ in range(12)]
        for peer in silent:
            peer.control().write(b"\x02")  # the first byte of CONNECT, and nothing more
        await until(lambda: sum(peer.closed is not None for peer in silent) >= 4)
        closed = {peer.closed.code for peer in silent if peer.closed is not None}
        assert closed == {CloseCode.OVERLOADED}
        mallory = await stack.enter_async_context(hostile_peer(show.net, via))
        assert mallory.established
        await until(lambda: len(via.logged("peering refused")) >= 4)
        code = f"{CloseCode.OVERLOADED:#x}"
        assert count(via, "laps_peers_refused", code=code) >= 4


async def test_a_message_that_never_ends(tmp_path: Path) -> None:
    """Byte by byte, but never a whole message: after the hold time it is over."""
    async with scene(tmp_path) as show:
        slow = await show.net.relay("via", network={"hold": "1s", "dynamic": False})
        async with hostile_peer(show.net, slow) as mallory:
            message = laps2.encode(NodeAdvertise(tuple(mallory.info(n) for n in range(500, 600))))
            for at in range(len(message) - 1):
                if mallory.raw.closed is not None:
                    break
                mallory.write(message[at : at + 1])
                await asyncio.sleep(0.01)
            closed = await mallory.closed()
            assert closed.code == CloseCode.HOLD_EXPIRED
            await until(lambda: slow.logged("peer gone"))
            (line,) = slow.logged("peer gone")
            assert (line["node"], line["code"]) == (MALLORY, CloseCode.HOLD_EXPIRED)


async def test_who_says_nothing_more_is_let_go(tmp_path: Path) -> None:
    async with scene(tmp_path) as show:
        slow = await show.net.relay("via", network={"hold": "1s", "dynamic": False})
        async with hostile_peer(show.net, slow) as mallory:
            mallory.say(Keepalive())
            assert (await mallory.closed()).code == CloseCode.HOLD_EXPIRED
