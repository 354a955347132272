from __future__ import annotations

import asyncio
import io
import socket
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import laps_sdk
from laps_relay.config import Loaded, RelayConfig
from laps_relay.network.nodes.node_table import ORDERS
from laps_relay.network.nodes.own_node import LoadMeter
from laps_relay.network.tables import ALL, RelayTables
from laps_relay.peer_forwarding.plane import PeerPlane
from laps_relay.server import RelayApp, StartError, network_part
from laps_relay.server.certificates import obtain
from laps_relay.server.identity import KeyMemory, key_ring, name_hasher, node_id_of, same_member
from laps_relay.server.member import MemberHooks
from laps_relay.server.network_part import NetworkPart
from laps_relay.telemetry.logs import configure
from laps_sdk.peering.keys import NetworkKey, PeerKeyRing
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import Load, LoadClass
from laps_wire.telemetry import TypeChange, load_line
from testkit.http import http_client
from testkit.logs import restored_logging
from testkit.network_task import RunningRelay, network, until

EVERYWHERE = "0.0.0.0"  # noqa: S104


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    with restored_logging():
        yield


def config(state: Path, **network: Any) -> RelayConfig:
    return RelayConfig.model_validate(
        {
            "state_dir": state,
            "listen": {"client_port": 0, "drain_timeout": "0s"},
            "admin": {"enabled": False},
            "network": {"enabled": True, "port": 0, **network},
        }
    )


def in_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(40.0):
            await test()

    asyncio.run(limited())


# Who it is


def test_keys_that_cannot_be_had_are_said_in_one_line(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    for wrong, words in (
        (config(tmp_path, auth="none", host=EVERYWHERE), "anybody could peer"),
        (config(tmp_path, key_file=tmp_path / "none"), "none"),
        (config(blocked), "state directory"),
    ):
        with pytest.raises(StartError, match=words):
            key_ring(wrong)


def test_a_key_for_stubs_is_for_stubs(tmp_path: Path) -> None:
    path = tmp_path / "stub-key"
    path.touch(mode=0o600)
    path.write_text(NetworkKey(b"s" * 32).stub_key().dump())
    with pytest.raises(StartError, match="holds a key for Stubs"):
        key_ring(config(tmp_path, key_file=path))
    keys = key_ring(config(tmp_path, key_file=path, type="stub", peers=["a:1"]))
    assert keys.network_key is not None
    assert keys.network_key.for_stubs


def test_names_need_the_key_of_the_network(tmp_path: Path) -> None:
    keys = key_ring(config(tmp_path))
    assert name_hasher(keys) is not None

    bare = cast("PeerKeyRing", SimpleNamespace(network_key=None))
    with pytest.raises(StartError, match="set network"):
        name_hasher(bare)


def test_the_node_id_stays(tmp_path: Path) -> None:
    keys = key_ring(config(tmp_path))
    assert node_id_of(config(tmp_path, node_id="7:1"), keys) == NodeId.parse("7:1")
    one, other = config(tmp_path, port=1), config(tmp_path, port=2)
    assert node_id_of(one, keys) == node_id_of(one, keys) != node_id_of(other, keys)
    back = same_member(config(tmp_path), NodeId.parse("7:1"), 5)
    assert (back.network.node_id, back.network.port) == ("0.7:0.1", 5)
    assert node_id_of(back, keys) == NodeId.parse("7:1")


# Whom it has met before

MET = NodeId.parse("0:11")


def test_a_key_that_was_kept_is_forgotten_in_the_file_at_once(tmp_path: Path) -> None:
    given = config(tmp_path, node_id="1:1")
    memory = KeyMemory.of(tmp_path, NodeId.parse("1:1"))
    memory.save({MET: b"k" * 32})

    async def test() -> None:
        made = part(given)
        await made.start()
        assert made.forget_key(MET) is None
        assert memory.load() == {}
        assert made.forget_key(MET) == f"no key of node {MET} is known here"
        await made.stop()

    in_loop(test)


def test_a_record_of_keys_that_is_none_stops_the_start(tmp_path: Path) -> None:
    KeyMemory.of(tmp_path, NodeId.parse("1:1")).path.write_text("{")
    with pytest.raises(StartError, match="is not a record of keys"):
        part(config(tmp_path, node_id="1:1"))
    part(config(tmp_path, node_id="1:1", auth="none"))  # it is not looked at


def test_keys_that_cannot_be_kept_are_said(tmp_path: Path) -> None:
    memory = KeyMemory.of(tmp_path, NodeId.parse("1:1"))
    memory.save({MET: b"k" * 32})

    async def test() -> None:
        text = io.StringIO()
        app = RelayApp(Loaded(config(tmp_path, node_id="1:1")), configure("json", "warning", text))
        await app.start()
        memory.path.unlink()
        memory.path.mkdir()
        assert app.network is not None
        assert app.network.forget_key(MET) is None
        await app.stop()
        assert "keys of other nodes are not kept" in text.getvalue()

    in_loop(test)


# What it tells others


def part(given: RelayConfig, **options: Any) -> NetworkPart:
    certificate = obtain(given.tls, given.state_dir)
    return NetworkPart(
        given,
        key_ring(given),
        certificate,
        version="1",
        hooks=MemberHooks(observe=lambda _now, _events: None),
        **options,
    )


def labels(made: NetworkPart) -> dict[str, str]:
    return {label.key: label.value for label in made.relay.info.node.labels}


def test_contacts_and_the_address_of_clients_are_told(tmp_path: Path) -> None:
    async def test() -> None:
        made = part(config(tmp_path, labels=["country=DE"]))
        await made.start()
        assert made.relay.info.node.contacts == (made.contact,)
        made.takes_clients("moqt://127.0.0.1:5")
        assert labels(made) == {"country": "DE", "client": "moqt://127.0.0.1:5"}
        assert made.places() is None  # it has no clients yet
        assert not made.in_transit
        await made.stop()

        given = part(config(tmp_path, contacts=["a:1"], client_url="moqt://b:2"))
        await given.start()
        given.takes_clients("moqt://127.0.0.1:5")
        assert given.relay.info.node.contacts == ("a:1",)
        assert labels(given) == {"client": "moqt://b:2"}
        await given.stop()

        for silent in (
            part(config(tmp_path, host=EVERYWHERE)),
            part(config(tmp_path), hidden=True),
        ):
            await silent.start()
            silent.takes_clients("")
            assert silent.relay.info.node.contacts == ()
            assert silent.lacks_contact is not silent._hidden
            assert labels(silent) == {}
            await silent.stop()

        via = part(config(tmp_path, type="via"))
        await via.start()
        via.takes_clients("moqt://127.0.0.1:5")
        assert labels(via) == {}
        await via.stop()

    in_loop(test)


def test_a_relay_that_nobody_is_told_of_says_so(tmp_path: Path) -> None:
    async def test() -> None:
        for contacts in ([], ["relay.example:7"]):
            text = io.StringIO()
            given = config(tmp_path, host=EVERYWHERE, contacts=contacts)
            app = RelayApp(Loaded(given), configure("json", "warning", text))
            await app.start()
            await app.stop()
            assert ("set network.contacts" in text.getvalue()) is not bool(contacts)

    in_loop(test)


def test_how_busy_it_is_is_told_until_it_drains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy, fills = Load(LoadClass.BUSY, 810), []

    def sample(self: LoadMeter, now: float, spent: float, fill: float) -> Load:
        fills.append((spent > 0.0, fill))
        return busy

    monkeypatch.setattr(LoadMeter, "sample", sample)

    async def test() -> None:
        made = part(config(tmp_path))
        await made.start()
        assert made.relay.info.node.load == busy
        assert fills[0] == (True, 0.0)
        made.drain(0.0)
        made.server.settle()
        assert made.relay.info.node.load.load_class is LoadClass.DRAINING
        await made.stop()

    in_loop(test)


def test_a_turn_with_data_alone_visits_the_network_only_for_a_timer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with network(tmp_path) as net:
            edge = (await net.relay("edge")).network
            visits: list[float] = []
            monkeypatch.setattr(edge.server, "settle", lambda: visits.append(edge.now))
            edge.joined(edge.now, [])
            assert not visits
            monkeypatch.setattr(PeerPlane, "poll_timeout", lambda _: 0.0)
            edge.joined(edge.now, [])
            assert visits
            monkeypatch.undo()

    in_loop(test)


def test_a_relay_that_drains_stays_until_peers_know_and_have_everything(tmp_path: Path) -> None:
    async def test() -> None:
        async with network(tmp_path) as net:
            staying = await net.relay("via")
            leaving = (await net.relay("via", staying)).network
            await net.settled()
            assert leaving.relay.flight > 0.0
            before = leaving.stays  # nobody has said that it goes
            leaving.drain(30.0)
            assert (before, leaving.stays) == (False, True)
            await until(lambda: not leaving.stays)
            assert (leaving.unsent, leaving.in_transit) == (0, False)
            # What was sent and has not arrived may have to be sent again.
            with pytest.MonkeyPatch.context() as patch:
                (port,) = leaving.server.ports.values()
                patch.setattr(type(port.connection), "unacknowledged", lambda _: frozenset({2}))
                assert leaving.in_transit
            # So may words: the set of what a peer has already.
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(type(port.connection), "unacknowledged_bidirectional", lambda _: True)
                assert (leaving.stays, leaving.in_transit) == (True, False)
            await until(lambda: not leaving.stays)
            leaving.drain(0.0)  # said once
            assert not leaving.stays
            # And taken back.
            leaving.stay()
            leaving.stay()
            rows = staying.network.relay.tables
            await until(lambda: not any(row.leaving for row in rows.peers()))
            await until(lambda: all(row.load_class != "draining" for row in rows.nodes()))
            leaving.drain(30.0)
            assert leaving.stays

    in_loop(test)


def test_a_socket_that_was_opened_for_it(tmp_path: Path) -> None:
    async def test() -> None:
        opened = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
        for each in opened:
            each.bind(("127.0.0.1", 0))
        ports = [each.getsockname()[1] for each in opened]
        app = RelayApp(
            Loaded(config(tmp_path)),
            configure("json", "error"),
            quic_socket=opened[0],
            peer_socket=opened[1],
        )
        await app.start()
        assert app.network is not None
        assert app.url.endswith(f":{ports[0]}")
        assert app.network.contact.endswith(f":{ports[1]}")
        await app.stop()
        assert [each.fileno() for each in opened] == [-1, -1]

    in_loop(test)


def test_a_peer_port_that_is_taken(tmp_path: Path) -> None:
    async def test() -> None:
        async with network(tmp_path) as net:
            first = await net.relay("edge")
            port = int(first.network.contact.rpartition(":")[2])
            app = RelayApp(Loaded(config(tmp_path, port=port)), configure("json", "error"))
            with pytest.raises(StartError, match=f"port {port}/udp: .*in use.*--peer-port"):
                await app.start()

    in_loop(test)


# Redirects


def test_figures_and_pages_make_no_rows_that_nobody_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = part(config(tmp_path))
    asked: list[slice] = []

    def rows(name: str) -> Callable[..., list[Any]]:
        before = getattr(RelayTables, name)

        def noted(self: RelayTables, part: slice = ALL) -> list[Any]:
            asked.append(part)
            found: list[Any] = before(self, part)
            return found

        return noted

    for name in ("nodes", "announce_rows", "subscribe_rows"):
        monkeypatch.setattr(RelayTables, name, rows(name))
    for name in ("sets", "fib"):
        monkeypatch.setattr(RelayTables, name, lambda _self: pytest.fail("all rows are made"))
    assert made.sample().sizes == (1, 0, 0, 0, 0, 0)
    assert made.sample().unreached == 0
    assert asked == []
    assert (list(made.nodes()[:1]), len(made.announces()), list(made.subscribes()[:7])) == (
        made.relay.tables.nodes(),
        0,
        [],
    )
    assert asked[:2] == [slice(0, 1), slice(0, 0)]
    assert made.subscribes(7) == []


def goaway_of(relay: RunningRelay) -> str:
    """Where the one client of a relay would be sent."""
    (number,) = relay.app.server.ports
    place = relay.network.places()
    assert place is not None
    assert place(99) == ""
    return place(number)


def test_clients_are_sent_where_their_tracks_are(tmp_path: Path) -> None:
    async def test() -> None:
        async with network(tmp_path) as net:
            leaving = await net.relay("edge", node="5:1")
            # Lower ids are preferred if all else is equal; what the client hears is at the other.
            empty = await net.relay("edge", leaving, node="6:1", network={"region": "x"})
            having = await net.relay("edge", leaving, node="7:1", network={"region": "y"})
            await net.settled()
            async with having.connect() as publisher, leaving.connect() as subscriber:
                await publisher.publish("a", "b")
                known = leaving.network.relay.tables
                await until(known.announce_rows)
                async with subscriber.subscribe("a", "b", wait=30.0):
                    assert goaway_of(leaving) == having.app.url
                await until(lambda: not leaving.app.view.subscriptions())
                assert goaway_of(leaving) in (having.app.url, empty.app.url)

    in_loop(test)


@pytest.mark.parametrize("new_uri", ["", "moqt://elsewhere:1"])
def test_clients_are_sent_away_when_control_servers_have_had_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new_uri: str
) -> None:
    """Unless it is known where they go, or nobody wants to wait any more."""
    for name in ("_ANSWER", "_LONGEST_ANSWER"):
        monkeypatch.setattr(network_part, name, 3600.0)

    async def test() -> None:
        async with network(tmp_path) as net:
            server = await net.relay("control")
            leaving = await net.relay("edge", server, listen={"drain_timeout": "3h"})
            await until(lambda: any(row.control for row in leaving.network.peers()))
            async with leaving.connect(reconnect=False) as client:
                await client.publish("a", "b")
                assert leaving.network.patience == 0.0
                leaving.app.view.drain("")
                leaving.app.view.drain("")
                assert leaving.network.patience > 3000
                assert not any(row.leaving for row in leaving.app.view.sessions())
                assert not leaving.app.view.ready
                if new_uri:
                    leaving.app.view.drain(new_uri)
                else:
                    leaving.app.client_drain.send_waiting()
                assert all(row.leaving for row in leaving.app.view.sessions() if row.session > 0)
                # Nobody is left who has to be sent away.
                leaving.app.client_drain.send_waiting()

    in_loop(test)


# Reload


def test_a_relay_that_stood_alone_joins_and_leaves(tmp_path: Path) -> None:
    """From no network to a Via, and back to an Edge without peers."""

    async def test() -> None:
        written = tmp_path / "telemetry"

        def member(**network: Any) -> RelayConfig:
            made = config(tmp_path, enabled=False, **network)
            observe = made.observe.model_copy(update={"telemetry_dir": written})
            return made.model_copy(update={"observe": observe})

        given = [member()]
        app = RelayApp(
            Loaded(given[0]), configure("json", "error"), reread=lambda: Loaded(given[0])
        )
        await app.start()
        try:
            assert app.network is None
            assert app.url
            given[0] = member(type="via")
            assert app.reload()
            await until(lambda: app.network is not None and not app.url)
            await until(app.reload)  # the change is over
            given[0] = member(type="edge")
            await until(app.reload)
            await until(lambda: app.network is None and app.url)
            async with laps_sdk.connect(app.url, pin=app.certificate.sha256) as client:
                await client.publish("a", "b")
        finally:
            await app.stop()
        texts = [file.read_text(encoding="utf-8") for file in sorted(written.glob("*"))]
        events = [load_line(line) for text in texts for line in text.splitlines()]
        changes = [event.body for event in events if isinstance(event.body, TypeChange)]
        assert changes == [TypeChange(old="edge", new="via"), TypeChange(old="via", new="edge")]

    in_loop(test)


@pytest.mark.parametrize("name", ["hops", "delay"])
def test_the_order_of_ways_is_configured(tmp_path: Path, name: str) -> None:
    made = part(config(tmp_path, order=name))
    assert made.relay.nib._table._order is ORDERS[name]


def test_the_policy_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text('[regions.eu]\nlabels = { country = "DE" }\n', encoding="ascii")

    async def test() -> None:
        made = part(config(tmp_path, policy=file))
        await made.start()
        state = made.policy()
        assert (state.file, state.rules) == (str(file), ["region eu: with country = DE"])
        made.set_policy(made.read_policy(None), None)
        state = made.policy()
        assert (state.file, state.rules) == ("", ["everything is allowed"])
        await made.stop()

    in_loop(test)


def test_the_admin_sees_the_network(tmp_path: Path) -> None:
    async def test() -> None:
        async with network(tmp_path) as net:
            left = await net.relay("edge", admin={"enabled": True, "port": 0})
            right = await net.relay("edge", left)
            await net.settled()
            async with http_client(str(left.app.admin_url)) as http:
                nodes = (await http.get("/v1/network/nodes")).json()["items"]
                assert {item["node"] for item in nodes} == {left.node, right.node}
                peers = (await http.get("/v1/network/peers")).json()["items"]
                assert [item["node"] for item in peers] == [right.node]
                metrics = (await http.get("/metrics")).text
            assert 'laps_peers_open{type="edge"} 1.0' in metrics
            assert left.network.carried(999) == (0, 0)

    in_loop(test)


def test_a_reload_dials_new_peers_and_leaves_those_that_are_not_named_any_more(
    tmp_path: Path,
) -> None:
    async def test() -> None:
        path = tmp_path / "network.key"
        path.write_text(NetworkKey(b"s" * 32).dump())
        path.chmod(0o600)
        shared = {"key_file": path}
        (tmp_path / "one").mkdir()
        (tmp_path / "two").mkdir()
        given = [config(tmp_path / "one", **shared)]
        logger = configure("json", "error")
        one = RelayApp(Loaded(given[0]), logger, reread=lambda: Loaded(given[0]))
        two = RelayApp(Loaded(config(tmp_path / "two", **shared)), logger)
        await one.start()
        await two.start()
        try:
            assert one.network is not None
            assert two.network is not None
            two.network.set_peers(config(tmp_path / "two", peers=["127.0.0.1:1"], **shared))
            assert two.network.sample().unreached == 1
            assert [row.contact for row in two.network.contacts()] == ["127.0.0.1:1"]
            two.network.set_peers(config(tmp_path / "two", **shared))
            assert two.network.sample().unreached == 0
            peers, there = one.network.peers, two.network.node_id
            given[0] = config(tmp_path / "one", peers=[two.network.contact], **shared)
            assert one.reload()
            await until(lambda: [row.node for row in peers()] == [there])
            given[0] = config(tmp_path / "one", **shared)
            assert one.reload()
            await until(lambda: not peers())
            assert one.reload()
        finally:
            await one.stop()
            await two.stop()

    in_loop(test)
