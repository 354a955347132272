"""Relays that peer over real QUIC on loopback: proofs, node ids, control connections, attacks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from laps_sdk.peering.dialler import Contact
from laps_sdk.peering.events import NodeIdConflict, PeerDown, PeerRefused, PeerUp
from laps_sdk.peering.keys import AuthMethod, PeerKeyRing
from laps_sdk.quic.engine import Tls
from laps_sdk.quic.memory.network import MemoryNetwork
from laps_wire.nodeid import NodeId
from laps_wire.peering import cpp, laps2
from laps_wire.peering.errors import CloseCode
from laps_wire.peering.laps2 import AuthScheme, Mode, NodeAdvertise
from laps_wire.peering.session import CPP_16, ControlStreamMoved, NodesAdvertised
from testkit.certs import certificates
from testkit.peer_certs import authority, node_key
from testkit.peer_relay import PeerTask, eventually
from testkit.raw_peer import RawPeer, raw_peer

pytestmark = pytest.mark.anyio

Make = Callable[..., PeerTask]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Makes relays, each with a state directory of its own unless it says which."""
    count = iter(range(100))

    def made(number: int, *, state: str | None = None, **more: Any) -> PeerTask:
        path = tmp_path / (state or f"relay-{number}-{next(count)}")
        path.mkdir(exist_ok=True)
        return PeerTask(number, path, **more)

    return made


def refusals(task: PeerTask) -> list[int]:
    return [event.code for event in task.relay.of(PeerRefused)]


def control(task: PeerTask, number: int) -> int | None:
    return task.relay.peers.control_of(NodeId(number))


# Who comes in


@pytest.mark.parametrize("method", ["shared-key", "none"])
@pytest.mark.parametrize("backend", ["aioquic", "qh3"])
async def test_two_relays_meet(make: Make, method: AuthMethod, backend: str) -> None:
    async with (
        make(10, method=method, backend=backend) as a,
        make(20, method=method, backend=backend) as b,
    ):
        a.dial(b)
        await eventually(lambda: a.nodes() == [20] and b.nodes() == [10])
        assert a.up[0].control
        assert b.up[0].control
        assert a.up[0].fingerprint
        await eventually(lambda: a.relay.rtts and b.relay.rtts)
        assert all(0 < rtt < 30_000_000 for rtt in a.relay.rtts.values())


def ring(number: int) -> PeerKeyRing:
    return PeerKeyRing(
        schemes=[AuthScheme.CERTIFICATE],
        node_key=node_key(number),
        authorities=[authority().certificate],
    )


async def test_certificates_say_who_may_have_which_node_id(make: Make) -> None:
    async with (
        make(10, authenticator=ring(10)) as a,
        make(20, authenticator=ring(20)) as b,
        make(30, authenticator=ring(31)) as impostor,
    ):
        a.dial(b)
        impostor.dial(b)
        await eventually(lambda: a.nodes() == [20] and refusals(impostor))
        assert refusals(impostor) == [CloseCode.NOT_AUTHORIZED]
        assert b.nodes() == [10]


async def test_who_has_another_key_is_refused(make: Make) -> None:
    async with make(10) as a, make(20) as b, make(30, key="66" * 32) as stranger:
        a.dial(b)
        stranger.dial(b)
        await eventually(lambda: refusals(stranger) and refusals(b))
        assert refusals(stranger) == refusals(b) == [CloseCode.NOT_AUTHORIZED]
        await eventually(lambda: a.nodes() == [20] and b.nodes() == [10])
        (report,) = stranger.relay.reports
        assert report.retry_at is not None
        assert report.retry_at > stranger.server.now + 10  # it is asked rarely


async def test_a_relay_in_between_cannot_pass_a_proof_on(make: Make) -> None:
    """The TLS key of the listener is in the proof: another certificate, another transcript."""
    async with (
        make(20) as b,
        make(10, tls=_other_server()) as middle,
        raw_peer(middle.server.address) as to_middle,
        raw_peer(b.server.address) as to_b,
    ):
        hashes = {to_middle.connection.server_key_hash, to_b.connection.server_key_hash}
        assert len(hashes) == 2
        await eventually(lambda: b.server.ports)
        (port,) = b.server.ports.values()
        assert port.connection.server_key_hash == to_b.connection.server_key_hash


def _other_server() -> Tls:
    other = certificates().other_server
    return Tls(certificate=other.certificate, private_key=other.private_key, verify=False)


async def test_tls_may_know_the_authority_too(make: Make) -> None:
    server, trust = certificates().server, certificates().trusting
    known = Tls(
        certificate=server.certificate, private_key=server.private_key, ca_file=trust.ca_file
    )
    async with (
        make(10, tls=known) as a,
        make(20, tls=known) as b,
        make(30, tls=_other_server()) as c,
    ):
        a.dial(b, c)
        await eventually(lambda: a.nodes() == [20] and a.relay.reports)
        assert a.relay.reports[0].contact == c.contact
        assert c.nodes() == []


async def test_a_node_id_is_not_had_twice(make: Make) -> None:
    async with make(10) as a, make(20) as b, make(10, epoch=99) as twin:
        a.dial(b)
        await eventually(lambda: b.nodes() == [10])
        twin.dial(b)
        await eventually(lambda: refusals(twin))
        assert refusals(twin) == [CloseCode.NODE_ID_CONFLICT]
        (conflict,) = b.relay.of(NodeIdConflict)
        assert conflict.node == 10
        assert conflict.known != conflict.shown
        assert b.nodes() == [10]
        assert not a.relay.of(PeerDown)


async def test_after_a_restart_the_new_life_replaces_the_old_one(make: Make) -> None:
    async with make(10, state="one", epoch=5) as old, make(20) as b:
        old.dial(b)
        await eventually(lambda: b.nodes() == [10])
        async with make(10, state="one", epoch=6) as new:
            new.dial(b)
            await eventually(lambda: new.nodes() == [20] and old.relay.of(PeerDown))
            assert new.up[0].control
            assert [event.code for event in old.relay.of(PeerDown)] == [CloseCode.SUPERSEDED]
            assert b.nodes() == [10]
            # It comes back, and is told that its time is over.
            await eventually(lambda: refusals(old))
            assert refusals(old) == [CloseCode.STALE_EPOCH]
            assert b.nodes() == [10]


async def test_a_relay_that_dials_itself_gives_up(make: Make) -> None:
    async with make(10) as a:
        a.dial(a)
        await eventually(lambda: any(report.retry_at is None for report in a.relay.reports))
        assert "ourselves" in a.relay.reports[-1].reason
        assert a.nodes() == []


# One control connection


async def test_both_dial_at_once_and_one_connection_carries_control(make: Make) -> None:
    async with make(10) as a, make(20) as b:
        a.dial(b)
        b.dial(a)
        await eventually(lambda: a.nodes() == [20, 20] and b.nodes() == [10, 10])
        assert sorted(up.control for up in a.up) == [False, True]
        assert sorted(up.control for up in b.up) == [False, True]
        first = next(up for up in a.up if up.control)
        second = next(up for up in b.up if up.control)
        assert first.role is not second.role  # the two ends of one connection


async def test_parallel_connections(make: Make) -> None:
    async with make(10) as a, make(20) as b:
        a.dial(Contact(address=b.contact, parallel=4))
        await eventually(lambda: b.nodes() == [10] * 4 and a.nodes() == [20] * 4)
        assert [up.mode for up in a.up].count(Mode.DATA) == 3
        assert control(a, 20) is not None


async def test_a_relay_that_was_gone_is_found_again(make: Make) -> None:
    async with make(10) as a:
        async with make(20, state="b") as b:
            a.dial(b)
            await eventually(lambda: a.nodes() == [20])
            port = b.server.address[1]
        await eventually(lambda: a.nodes() == [])
        again = make(20, state="b", epoch=2)
        again.listen_on(port)
        async with again:
            await eventually(lambda: a.nodes() == [20])
            assert control(again, 10) is not None
    kinds = [type(event) for event in a.relay.of(object) if isinstance(event, PeerUp | PeerDown)]
    assert kinds[:3] == [PeerUp, PeerDown, PeerUp]


async def test_a_control_stream_that_is_lost_is_replaced(make: Make) -> None:
    async with make(10) as a, make(20) as b:
        a.dial(b)
        await eventually(lambda: a.nodes() == [20] and b.nodes() == [10])
        (port,) = b.server.ports.values()
        port.connection.reply_stream(0).reset(5)
        await eventually(lambda: b.relay.of(ControlStreamMoved))
        session = control(a, 20)
        assert session is not None
        info = b.up[0].node
        a.relay.peers.wire(session).send(a.server.now, NodeAdvertise((info,)))
        a.server.settle()
        await eventually(lambda: b.relay.of(NodesAdvertised))
        assert not a.relay.of(PeerDown)


async def test_relays_meet_in_memory(make: Make) -> None:
    network = MemoryNetwork()
    async with (
        make(10, backend="memory", network=network) as a,
        make(20, backend="memory", network=network) as b,
    ):
        a.dial(b)
        await eventually(lambda: a.nodes() == [20] and b.nodes() == [10])


# The C++ relay


async def test_a_cpp_relay_gets_all_messages(make: Make) -> None:
    async with make(10, method="none") as a, raw_peer(a.server.address, "moqt-16") as peer:
        stream = peer.control()
        me = cpp.NodeInfo(NodeId(99), cpp.NodeType.EDGE, b"c", 0.0, 0.0, ())
        stream.write(CPP_16.encode(cpp.Connect(cpp.PeerMode.BOTH, me), 0))
        await eventually(lambda: a.nodes() == [99])
        (session,) = a.server.ports
        wire = a.relay.peers.wire(session)
        for _ in range(20):
            wire.send(a.server.now, cpp.NodeInfoAdvertise(me))
        a.server.settle()
        one = CPP_16.encode(cpp.NodeInfoAdvertise(me), 0)
        await eventually(lambda: peer.received(0).count(one) == 20)


# Attacks: one connection ends, others do not notice


async def attacked(make: Make, attack: Callable[[RawPeer], Any]) -> tuple[PeerTask, int, str]:
    """Two good relays and a bad peer; gives how its connection ended."""
    async with make(10) as a, make(20) as b:
        a.dial(b)
        await eventually(lambda: a.nodes() == [20] and b.nodes() == [10])
        async with raw_peer(b.server.address) as peer:
            attack(peer)
            await eventually(lambda: peer.closed)
            closed = peer.closed
        assert closed is not None
        assert closed.by_peer
        session = control(a, 20)
        assert session is not None
        a.relay.peers.wire(session).send(a.server.now, NodeAdvertise((b.up[0].node,)))
        a.server.settle()
        await eventually(lambda: b.relay.of(NodesAdvertised))
        await eventually(lambda: len(b.server.ports) == 1)
        assert not a.relay.of(PeerDown)
        assert len(b.relay.peers) == 1
        return b, closed.code, closed.reason


@pytest.mark.parametrize(
    ("garbage", "code"),
    [
        (b"\x00\x01x", CloseCode.UNKNOWN_MESSAGE),
        (b"\x02\x00", CloseCode.PROTOCOL_VIOLATION),
        (b"\x02\xff\xff\xff\xff\xff\xff\xff\xff", CloseCode.MESSAGE_TOO_LARGE),
        (laps2.encode(laps2.Keepalive()), CloseCode.PROTOCOL_VIOLATION),
    ],
    ids=["unknown", "empty", "huge", "early"],
)
async def test_garbage_on_the_control_stream(make: Make, garbage: bytes, code: int) -> None:
    _, seen, reason = await attacked(make, lambda peer: peer.control().write(garbage))
    assert seen == code
    assert reason


async def test_garbage_on_a_data_stream(make: Make) -> None:
    _, code, _ = await attacked(make, lambda peer: peer.data().write(b"\xff" * 100))
    assert code == CloseCode.PROTOCOL_VIOLATION


async def test_a_flood_of_control_streams(make: Make) -> None:
    def flood(peer: RawPeer) -> None:
        peer.control().write(b"\x02")
        for _ in range(8):
            peer.control().write(laps2.encode(laps2.ControlLatch(1)))

    _, code, _ = await attacked(make, flood)
    assert code == CloseCode.PROTOCOL_VIOLATION


async def test_a_flood_of_connections_that_say_nothing(make: Make) -> None:
    async with make(20, max_handshakes=4) as b, make(10) as a, make(30) as late:
        a.dial(b)
        await eventually(lambda: b.nodes() == [10])
        async with (
            raw_peer(b.server.address) as one,
            raw_peer(b.server.address) as two,
            raw_peer(b.server.address) as three,
            raw_peer(b.server.address) as four,
            raw_peer(b.server.address) as five,
        ):
            await eventually(lambda: one.closed)
            assert one.closed is not None
            assert one.closed.code == CloseCode.OVERLOADED
            assert not any(peer.closed for peer in (two, three, four, five))
            late.dial(b)  # who speaks comes in nevertheless
            await eventually(lambda: b.nodes() == [10, 30])


async def test_a_flood_of_datagrams_and_streams_before_any_proof(make: Make) -> None:
    def flood(peer: RawPeer) -> None:
        for _ in range(200):
            peer.connection.send_datagram(b"x" * 100)
            peer.data().write(b"y" * 1000)
        peer.control().write(b"\x00\x00")

    _, code, _ = await attacked(make, flood)
    assert code in (CloseCode.PROTOCOL_VIOLATION, CloseCode.UNKNOWN_MESSAGE)
