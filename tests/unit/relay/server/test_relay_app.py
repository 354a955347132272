from __future__ import annotations

import asyncio
import io
import json
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives import serialization

import laps_sdk
from laps_relay.config import Loaded, RelayConfig, load
from laps_relay.config.model import TlsFiles
from laps_relay.server import RelayApp, StartError, admin_token, certificates
from laps_relay.server.certificates import DEV_CERTIFICATE
from laps_relay.telemetry.logs import configure
from laps_sdk import tokens
from laps_sdk.peering.keys import NODE_URN
from laps_sdk.quic.tls import CertificateError
from laps_wire.errors import LapsError
from laps_wire.telemetry import SessionClose, SessionOpen, UnknownBody, load_line
from testkit.http import http_client
from testkit.logs import restored_logging
from testkit.peer_certs import authority, issue_node, store

LIMIT = 90.0


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    with restored_logging():
        yield


def loaded(state: Path, **sections: dict[str, Any]) -> Loaded:
    data: dict[str, Any] = {
        "state_dir": state,
        **sections,
        "listen": {"client_port": 0, "drain_timeout": "0s", **sections.get("listen", {})},
        "admin": {"port": 0, **sections.get("admin", {})},
    }
    return Loaded(RelayConfig.model_validate(data))


class Relay:
    """An application under test, and what it logged."""

    def __init__(self, given: Loaded, **options: Any) -> None:
        self.out = io.StringIO()
        self.app = RelayApp(given, configure("json", "debug", self.out), **options)

    def logged(self, words: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.out.getvalue().splitlines()]
        return [line for line in lines if line["event"] == words]

    async def get(self, path: str) -> httpx.Response:
        async with http_client(str(self.app.admin_url)) as http:
            return await http.get(path)

    def connect(self, **options: Any) -> laps_sdk.Session:
        options = {"pin": self.app.certificate.sha256, "timeout": LIMIT, **options}
        return laps_sdk.connect(self.app.url, **options)


@asynccontextmanager
async def running(given: Loaded, **options: Any) -> AsyncIterator[Relay]:
    relay = Relay(given, **options)
    await relay.app.start()
    try:
        yield relay
    finally:
        await relay.app.stop()


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110 - what is waited for is a line of a log
        await asyncio.sleep(0.01)


def in_loop(test: Callable[[], Any]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(LIMIT):
            await test()

    asyncio.run(limited())


def test_a_relay_serves_clients_and_operators(tmp_path: Path) -> None:
    telemetry = tmp_path / "telemetry"

    async def test() -> None:
        given = loaded(tmp_path, observe={"telemetry_dir": telemetry, "sample_interval": "50ms"})
        async with running(given) as relay:
            assert (await relay.get("/readyz")).text == "ready\n"
            async with relay.connect() as publisher, relay.connect() as subscriber:
                track = await publisher.publish("canary", "video")
                async with subscriber.subscribe("canary", "video") as heard:
                    await track.write(b"hello", end_of_group=True)
                    async for obj in heard:
                        assert obj.payload == b"hello"
                        break
                sessions = (await relay.get("/v1/sessions")).json()
                assert [item["ready"] for item in sessions["items"]] == [True, True]
                tracks = (await relay.get("/v1/tracks")).json()["items"]
                assert [item["track"] for item in tracks] == ["canary--video"]
                metrics = (await relay.get("/metrics")).text
                assert 'laps_sessions_open{draft="moqt-18",transport="quic"} 2.0' in metrics
                assert "laps_received_objects_total 1.0" in metrics
                assert (await relay.get("/v1/cache")).json()["objects"] == 1
                info = (await relay.get("/v1/info")).json()
                assert info["url"] == relay.app.url
                assert info["certificate_sha256"] == relay.app.certificate.sha256
                assert not info["authorization"]
                for path in ("/v1/subscriptions", "/v1/namespaces", "/v1/config"):
                    assert (await relay.get(path)).status_code == 200
                assert relay.app.view.purge(None) >= 5
            await until(lambda: len(relay.logged("session closed")) == 2)
            assert len(relay.logged("session opened")) == 2
            assert "canary" not in relay.out.getvalue()

    in_loop(test)
    bodies = [
        load_line(line).body
        for path in telemetry.glob("*.jsonl")
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    assert sum(isinstance(body, SessionOpen) for body in bodies) == 2
    closed = [body for body in bodies if isinstance(body, SessionClose)]
    assert all(body.in_bytes > 1000 and body.out_bytes > 1000 for body in closed)


def test_sampled_sessions_leave_traces(tmp_path: Path) -> None:
    mlog = tmp_path / "mlog"

    async def test() -> None:
        async with running(loaded(tmp_path, observe={"mlog_dir": mlog})) as relay:
            async with relay.connect() as client:
                await client.publish("a", "b")
            await until(lambda: relay.logged("session closed"))

    in_loop(test)
    (path,) = mlog.glob("*.qlog")
    assert '"type": "publish"' in path.read_text(encoding="utf-8")


def test_with_a_key_clients_need_tokens(tmp_path: Path) -> None:
    key = tokens.generate("HS256", "k")
    tokens.save_key(key, tmp_path / "key.json")
    claims = tokens.Claims(scopes=(tokens.parse_scope("all:*"),), expires=2**40)
    token = tokens.mint(claims, key)

    async def test() -> None:
        given = loaded(tmp_path, auth={"keys": [tmp_path / "key.json"]})
        async with running(given) as relay:
            async with relay.connect() as stranger:
                with pytest.raises(laps_sdk.RequestRefusedError, match="token"):
                    await stranger.publish("a", "b")
            async with relay.connect(token=token) as known:
                await known.publish("a", "b")

    in_loop(test)


def test_a_key_that_is_taken_away_ends_live_delivery(tmp_path: Path) -> None:
    old, new = tokens.generate("HS256", "old"), tokens.generate("HS256", "new")
    for key in (old, new):
        tokens.save_key(key, tmp_path / key.kid)
    claims = tokens.Claims(scopes=(tokens.parse_scope("all:*"),), expires=2**40)

    def with_keys(*keys: tokens.TokenKey) -> Loaded:
        return loaded(tmp_path, auth={"keys": [tmp_path / key.kid for key in keys]})

    async def test() -> None:
        later = [with_keys(old, new), with_keys(new)]
        async with (
            running(with_keys(old), reread=lambda: later.pop(0)) as relay,
            relay.connect(token=tokens.mint(claims, old), reconnect=False) as viewer,
            relay.connect(token=tokens.mint(claims, old), reconnect=False) as publisher,
        ):
            track = await publisher.publish("a", "b")
            async with viewer.subscribe("a", "b") as heard:
                objects = aiter(heard)
                await track.write(b"one", end_of_group=True)
                assert (await anext(objects)).payload == b"one"
                assert relay.app.reload()
                await track.write(b"two", end_of_group=True)
                assert (await anext(objects)).payload == b"two"
                assert relay.app.reload()
                with pytest.raises((LapsError, StopAsyncIteration)):
                    await anext(objects)
            assert relay.app.view.subscriptions() == []

    in_loop(test)


def test_a_drain_sends_clients_away(tmp_path: Path) -> None:
    async def test() -> None:
        given = loaded(tmp_path, listen={"drain_timeout": "30s"})
        relay = Relay(given)
        await relay.app.start()
        running_app = asyncio.create_task(relay.app.run())
        async with relay.connect(reconnect=False) as client:
            await client.publish("a", "b")
            relay.app.request_stop()
            await running_app
            stopping = asyncio.create_task(relay.app.stop(drain=True))
            await until(lambda: relay.logged("session leaving"))
            assert not relay.app.view.ready
        await stopping
        assert relay.logged("draining")

    in_loop(test)


def test_a_stop_with_nobody_there_does_not_wait(tmp_path: Path) -> None:
    async def test() -> None:
        relay = Relay(loaded(tmp_path, listen={"drain_timeout": "1h"}))
        await relay.app.start()
        await relay.app.stop(drain=True)
        assert not relay.logged("draining")

    in_loop(test)


def test_a_client_that_does_not_leave_is_not_waited_for(tmp_path: Path) -> None:
    async def test() -> None:
        relay = Relay(loaded(tmp_path, limits={"goaway_timeout": "1h"}))
        await relay.app.start()
        relay.app.server.ports[99] = relay.app  # type: ignore[assignment]  # only counted
        await relay.app.stop(drain=True)
        assert relay.logged("draining")

    in_loop(test)


# Reload


def is_open(relay: Relay) -> bool:
    return relay.app.authorizer.open


def test_a_reload_changes_what_it_can(tmp_path: Path) -> None:
    file = tmp_path / "relay.toml"
    tokens.save_key(tokens.generate("HS256", "k"), tmp_path / "key.json")
    start = f'state_dir = "{tmp_path}"\n[listen]\nclient_port = 0\n[admin]\nenabled = false\n'
    file.write_text(start, encoding="utf-8")

    async def test() -> None:
        async with running(load(file), reread=lambda: load(file)) as relay:
            assert relay.app.admin_url is None
            assert is_open(relay)
            file.write_text(
                f'{start}[auth]\nkeys = ["{tmp_path}/key.json"]\n[cache]\nmax_age = "5s"\n'
                '[network]\nregion = "eu"\n[observe]\nlog_level = "info"\n',
                encoding="utf-8",
            )
            assert relay.app.reload()
            assert not is_open(relay)
            assert relay.app.view.cache_limits()["max_age"] == 5.0
            (line,) = relay.logged("reloaded")
            assert line["changed"] == ["auth.keys", "cache.max_age"]
            assert line["needs_restart"] == ["network.region"]
            file.write_text(f"{start}nonsense = 1\n", encoding="utf-8")
            assert not relay.app.reload()
            (line,) = relay.logged("reload refused, the old configuration stays")
            assert "nonsense" in line["reason"]
            assert not is_open(relay)

    in_loop(test)


def test_a_reload_takes_a_new_certificate(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(loaded(tmp_path)) as relay:
            before = relay.app.certificate.sha256
            (tmp_path / DEV_CERTIFICATE).unlink()
            assert relay.app.reload()
            assert relay.app.certificate.sha256 != before
            assert (await relay.get("/certificate.sha256")).text.strip() != before
            async with relay.connect() as client:
                await client.publish("a", "b")

    in_loop(test)


def test_other_paths_of_a_certificate_wait_for_a_restart(tmp_path: Path) -> None:
    async def test() -> None:
        other = loaded(tmp_path / "other")
        async with running(loaded(tmp_path), reread=lambda: other) as relay:
            before = relay.app.certificate
            assert relay.app.reload()
            assert relay.app.certificate == before
            assert relay.logged("other certificate paths need a restart")

    in_loop(test)


def test_a_certificate_that_cannot_be_used_leaves_the_old_one(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(loaded(tmp_path)) as relay:
            before = relay.app.certificate

            def refuse() -> None:
                raise CertificateError("damaged")

            relay.app.server.reload_certificate = refuse  # type: ignore[method-assign]
            assert not relay.app.reload()
            assert relay.app.certificate == before
            assert relay.logged("certificate refused, the old one stays")

    in_loop(test)


def test_a_development_certificate_is_renewed(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(loaded(tmp_path)) as relay:
            before = relay.app.certificate.sha256
            (tmp_path / DEV_CERTIFICATE).unlink()
            relay.app._renew()
            renewed = relay.app.certificate
            assert renewed.sha256 != before
            own = {
                "certificate": tmp_path / "dev-cert.pem",
                "private_key": tmp_path / "dev-key.pem",
            }
            async with running(loaded(tmp_path, tls=own)) as other:
                other.app._renew()
                assert other.app.certificate.sha256 == renewed.sha256
            (tmp_path / DEV_CERTIFICATE).unlink()
            (tmp_path / DEV_CERTIFICATE).mkdir()
            relay.app._renew()
            assert relay.app.certificate == renewed
            assert relay.logged("no new development certificate")

    in_loop(test)


def test_lost_telemetry_is_said_once(tmp_path: Path) -> None:
    async def test() -> None:
        relay = Relay(
            loaded(tmp_path, observe={"telemetry_dir": tmp_path / "t", "telemetry_queue": 1})
        )
        relay.app._monitor.log_losses()
        assert relay.app._monitor._telemetry is not None
        for _ in range(3):
            relay.app._monitor._telemetry.put(UnknownBody("x", {}))
        for _ in range(2):
            relay.app._monitor.log_losses()
        (line,) = relay.logged("telemetry was lost")
        assert (line["queue_full"], line["disk"]) == (2, 0)
        without = Relay(loaded(tmp_path))
        without.app._monitor.log_losses()

    in_loop(test)


# What is in the way


def test_a_taken_port(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(loaded(tmp_path)) as relay:
            port = int(relay.app.url.rpartition(":")[2])
            admin = int(str(relay.app.admin_url).rpartition(":")[2])
            second = Relay(loaded(tmp_path, listen={"client_port": port}))
            with pytest.raises(StartError, match=f"port {port}/udp: .*in use.*--port"):
                await second.app.start()
            third = Relay(loaded(tmp_path, admin={"port": admin}))
            with pytest.raises(
                StartError,
                match=f"port {admin}/tcp for the admin: Address already in use; .*--admin-port",
            ):
                await third.app.start()

    in_loop(test)


def test_a_directory_that_cannot_be_used(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()

    async def test() -> None:
        relay = Relay(loaded(tmp_path, observe={"telemetry_dir": blocked / "x"}))
        with pytest.raises(StartError, match=r"observe\.telemetry_dir"):
            await relay.app.start()
        with pytest.raises(StartError, match=r"observe\.mlog_dir"):
            Relay(loaded(tmp_path, observe={"mlog_dir": blocked / "x"}))

    in_loop(test)


def test_a_transport_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def missing(*_: object) -> None:
        raise ImportError("no qh3")

    async def test() -> None:
        relay = Relay(loaded(tmp_path))
        monkeypatch.setattr(relay.app.server, "start", missing)
        with pytest.raises(StartError, match=r'pip install -e "packages/laps-relay\[turbo\]"'):
            await relay.app.start()

    in_loop(test)


def test_sockets_that_were_handed_over(tmp_path: Path) -> None:
    quic = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    quic.bind(("127.0.0.1", 0))
    quic.setblocking(False)
    admin = socket.create_server(("127.0.0.1", 0))

    async def test() -> None:
        async with running(loaded(tmp_path), quic_socket=quic, admin_socket=admin) as relay:
            assert relay.app.url.endswith(f":{quic.getsockname()[1]}")
            assert (await relay.get("/healthz")).status_code == 200

    in_loop(test)


def test_the_admins_token(tmp_path: Path) -> None:
    file = tmp_path / "token"
    word = "0123456789abcdef"

    def token_of(**admin: object) -> str | None:
        return admin_token(RelayConfig.model_validate({"admin": admin}))

    assert token_of() is None
    assert token_of(token=word) == word
    with pytest.raises(StartError, match="cannot be read"):
        token_of(token_file=file)
    file.write_text("short\n", encoding="ascii")
    with pytest.raises(StartError, match="16 characters"):
        token_of(token_file=file)
    file.write_text(f"{word}\n", encoding="ascii")
    assert token_of(token_file=file) == word


def test_a_socket_from_outside_needs_a_token(tmp_path: Path) -> None:
    async def test() -> None:
        with socket.create_server(("0.0.0.0", 0)) as admin:  # noqa: S104 - refused
            relay = Relay(loaded(tmp_path), admin_socket=admin)
            with pytest.raises(StartError, match=r"0\.0\.0\.0, which is not loopback"):
                await relay.app.start()

    in_loop(test)


def test_a_reload_while_starting_or_stopping_is_refused(tmp_path: Path) -> None:
    async def test() -> None:
        relay = Relay(loaded(tmp_path))
        assert not relay.app.reload()
        await relay.app.start()
        assert relay.app.reload()
        await relay.app.stop()
        assert not relay.app.reload()
        assert len(relay.logged("reload refused, the relay is starting or stopping")) == 2

    in_loop(test)


def test_a_second_stop_waits_for_nobody(tmp_path: Path) -> None:
    async def test() -> None:
        given = loaded(tmp_path, listen={"drain_timeout": "1h"})
        async with running(given) as relay, relay.connect():
            relay.app.request_stop()
            await relay.app.run()
            stopping = asyncio.create_task(relay.app.stop(drain=True))
            await until(lambda: relay.logged("draining"))
            relay.app.request_stop()
            await stopping

    in_loop(test)


def test_a_part_that_fails_is_told_and_the_rest_goes_on(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(loaded(tmp_path)) as relay:

            async def fail() -> None:
                raise ValueError("unforeseen")

            task = asyncio.create_task(fail(), name="laps-sampler")
            task.add_done_callback(relay.app._task_ended)
            relay.app._tasks.append(task)
            await until(lambda: relay.logged("a part of the relay failed"))
            assert relay.logged("a part of the relay failed")[0]["part"] == "laps-sampler"
        assert relay.app.admin_url is None

    in_loop(test)


def test_lost_traces_are_said_once(tmp_path: Path) -> None:
    async def test() -> None:
        relay = Relay(loaded(tmp_path, observe={"mlog_dir": tmp_path / "m"}))
        assert relay.app._mlog is not None
        (tmp_path / "m").rmdir()
        relay.app._mlog._write(1, 0.0, [])
        for _ in range(2):
            relay.app._monitor.log_losses()
        (line,) = relay.logged("traces were lost")
        assert line["disk"] == 1
        relay.app._mlog.close()

    in_loop(test)


def test_a_private_key_that_everybody_may_read_is_told(tmp_path: Path) -> None:
    made = certificates.obtain(TlsFiles(), tmp_path)
    (tmp_path / certificates.DEV_KEY).chmod(0o644)
    files = {"certificate": made.tls.certificate, "private_key": made.tls.private_key}

    async def test() -> None:
        async with running(loaded(tmp_path, tls=files)) as relay:
            (line,) = relay.logged("everybody may read the private key")
            assert line["file"] == made.tls.private_key

    in_loop(test)


def test_tracks_are_sampled_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laps_relay.server.edge_view._PART", 1)

    async def test() -> None:
        async with running(loaded(tmp_path)) as relay, relay.connect() as client:
            for name in ("a", "b"):
                await client.publish("demo", name)
            await until(lambda: len(relay.app.view.tracks()) == 2)
            whole, parts = relay.app.view.sample(), await relay.app.view.sample_in_parts()
            assert parts.tracks == whole.tracks
            assert parts._fields == whole._fields

    in_loop(test)


def test_two_samples_at_a_time_count_nothing_twice(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(loaded(tmp_path)) as relay, relay.connect() as client:
            track = await client.publish("demo", "a")
            await track.write(b"x" * 100)
            await until(lambda: relay.app.view.tracks()[0].counters.bytes_in == 100)
            pages = await asyncio.gather(*[relay.get("/metrics") for _ in range(4)])
            for page in [*pages, await relay.get("/metrics")]:
                assert "\nlaps_received_bytes_total 100.0\n" in page.text

    in_loop(test)


@pytest.mark.anyio
async def test_a_relay_that_others_will_refuse_says_so(tmp_path: Path) -> None:
    """It starts all the same: that is how its key is made, and others may have pinned it."""
    ca = tmp_path / "ca.pem"
    ca.write_bytes(authority().certificate.public_bytes(serialization.Encoding.PEM))
    network = {"enabled": True, "port": 0, "node_id": "0:10", "auth": "certificate", "ca": ca}
    async with running(loaded(tmp_path, network=network)) as relay:
        (line,) = relay.logged("other relays will refuse this one")
    assert line["reason"] == "there is no certificate for the key of this relay"
    assert line["node"] == "0.0:0.10"
    assert "node-cert.pem" in line["advice"]
    issued = issue_node(authority(), [NODE_URN + "0.0:0.10"])
    key, chain = store(tmp_path, issued)
    network |= {"node_key": key, "node_certificate": chain}
    async with running(loaded(tmp_path, network=network)) as relay:
        assert relay.logged("other relays will refuse this one") == []


@pytest.mark.anyio
async def test_a_drain_is_taken_back_and_some_clients_are_sent_elsewhere(tmp_path: Path) -> None:
    async with running(loaded(tmp_path)) as relay, relay.connect(reconnect=False) as client:
        view = relay.app.view
        await client.publish("a", "b")
        assert view.stay() == "the relay does not drain"
        assert view.redirect(None, 1.0, "") == 0  # there is no other relay
        assert view.redirect(None, 0.5, "moqt://other.example:1") == 0  # half of one is none
        told = {row.session for row in view.sessions()}
        view.drain("")
        before = view.ready
        assert view.stay() is None
        assert (before, view.ready) == (False, True)
        assert not any(row.leaving for row in view.sessions())
        async with relay.connect(reconnect=False) as other:
            await other.publish("a", "c")
            # The first one cannot be told a second time; it may have come again in a new session.
            fresh = {row.session for row in view.sessions()} - told
            assert fresh
            assert view.redirect(None, 1.0, "moqt://other.example:1") == len(fresh)
            assert {row.session for row in view.sessions() if row.leaving} == fresh
        view.drain("")
        relay.app.client_drain.ending = True
        assert view.stay() == "the relay ends, or changes its type"


def test_a_relay_that_has_no_clients_yet_sends_nobody_away(tmp_path: Path) -> None:
    view = Relay(loaded(tmp_path)).app.view
    assert view.redirect(None, 1.0, "moqt://other.example:1") == 0
    view.drain("")
    assert view.stay() is None
