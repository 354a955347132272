"""``laps-relay serve`` as a process with clients: what its admin tells, and what it writes down."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

import laps_sdk
from laps_sdk.tokens import Claims, generate, mint, parse_scope, save_key, to_text
from laps_wire.telemetry import BadLine, SessionClose, SessionOpen, load_lines
from testkit.http import http_client
from testkit.moqt_server import FAST, eventually, soon
from testkit.relay_process import COMMAND, LIMIT, RunningRelay, relay_process

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


def client(relay: RunningRelay, url: str | None = None, **options: Any) -> laps_sdk.Session:
    return laps_sdk.connect(
        url or relay.url, pin=relay.certificate_sha256, **{"backoff": FAST, **options}
    )


async def rows(admin: httpx.AsyncClient, table: str) -> list[dict[str, Any]]:
    answer = await admin.get(f"/v1/{table}")
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait for something that only asking tells."""
    async with asyncio.timeout(LIMIT):
        while not await condition():  # noqa: ASYNC110 - there is no event behind it
            await asyncio.sleep(0.02)


def said(relay: RunningRelay) -> list[str]:
    """The events in the log so far; a line under way is left out."""
    lines = relay.log.read_text().split("\n")[:-1]
    return [json.loads(line)["event"] for line in lines]


async def test_the_admin_shows_what_is_going_on() -> None:
    with relay_process() as relay:
        async with (
            http_client(relay.admin) as admin,
            client(relay) as alice,
            client(relay, relay.web_url, drafts=("moqt-16",)) as bob,
        ):
            assert (await admin.get("/healthz")).text == "ok\n"
            assert (await admin.get("/readyz")).status_code == 200
            info = (await admin.get("/v1/info")).json()
            assert info["url"] == relay.url
            assert info["certificate_sha256"] == relay.certificate_sha256

            track = await soon(alice.publish("demo", "video", first=0))
            await soon(alice.publish("announced", "video", announce=True))
            async with bob.subscribe("demo", "video") as heard:
                for _ in range(5):
                    await soon(track.write(b"x" * 1000, end_of_group=True))
                for _ in range(5):
                    await soon(anext(heard))
                sessions = await rows(admin, "sessions")
                assert {(row["draft"], row["webtransport"]) for row in sessions} == {
                    ("moqt-18", False),
                    ("moqt-16", True),
                }
                (row,) = await rows(admin, "tracks")
                assert (row["track"], row["subscribers"]) == ("demo--video", 1)
                assert (row["objects_in"], row["objects_out"]) == (5, 5)
                assert row["largest_group"] == 4
                (row,) = await rows(admin, "subscriptions")
                assert (row["track"], row["objects"]) == ("demo--video", 5)
                assert [row["namespace"] for row in await rows(admin, "namespaces")] == [
                    "announced"
                ]
                metrics = (await admin.get("/metrics")).text
                assert "\nlaps_subscriptions_open 1.0\n" in metrics

            cache = (await admin.get("/v1/cache")).json()
            assert (cache["objects"], cache["tracks"]) == (5, 1)
            assert cache["bytes"] > 5000
            purged = await admin.post("/v1/cache/purge", json={"track": "demo--video"})
            assert purged.json()["bytes"] == cache["bytes"]
            assert (await admin.get("/v1/cache")).json()["objects"] == 0
            with pytest.raises(laps_sdk.RequestRefusedError):
                await soon(anext(bob.fetch("demo", "video", start=0, end=4)))


async def test_a_drain_over_http_moves_the_clients() -> None:
    with relay_process(LAPS_LIMITS__GOAWAY_TIMEOUT="60s") as old, relay_process() as new:
        # Both certificates are of their own making.
        async with (
            http_client(old.admin) as admin,
            http_client(new.admin) as target,
            laps_sdk.connect(old.url, insecure=True, backoff=FAST) as alice,
        ):
            await soon(alice.publish("demo", "video"))
            answer = await admin.post("/v1/drain", json={"new_uri": new.url})
            assert answer.status_code == 202

            async def moved() -> bool:
                return bool(await rows(target, "tracks"))

            await until(moved)
            assert str(alice.address) == new.url
            assert (await admin.get("/readyz")).status_code == 503
            assert (await target.get("/readyz")).status_code == 200


def answered(relay: RunningRelay, before: int, words: str) -> bool:
    return any(event.startswith(words) for event in said(relay)[before:])


async def test_a_reload_and_a_stop_beside_live_sessions(tmp_path: Path) -> None:
    config = tmp_path / "relay.toml"
    config.write_text('[listen]\ndrain_timeout = "0s"\n')
    with relay_process("--config", str(config)) as relay:
        async with (
            client(relay, reconnect=False) as alice,
            client(relay, reconnect=False) as bob,
            http_client(relay.admin) as admin,
        ):
            track = await soon(alice.publish("demo", "video"))
            async with bob.subscribe("demo", "video") as heard:
                for text, words in (
                    ('[listen]\ndrafts = ["moqt-99"]\n', "reload refused"),
                    ("not TOML at all", "reload refused"),
                    ('[listen]\ndrain_timeout = "0s"\n[cache]\nmax_age = "7s"\n', "reloaded"),
                ):
                    before = len(said(relay))
                    config.write_text(text)
                    relay.signal(signal.SIGHUP)
                    await eventually(partial(answered, relay, before, words))
                    await soon(track.write(text.encode(), end_of_group=True))
                    assert (await soon(anext(heard))).payload == text.encode()
            shown = {row["key"]: row["value"] for row in (await admin.get("/v1/config")).json()}
            assert shown["cache.max_age"] == "7s"
            relay.signal(signal.SIGTERM)
            assert relay.ended() == 0


CANARY = "canary7341"
"""Part of every name, payload and issuer: nothing that the relay writes may hold it."""


async def test_what_is_written_down_names_nobody(tmp_path: Path) -> None:
    """Logs at their most talkative, telemetry and traces: no names, no tokens, no addresses."""
    key = generate("HS256", "main")
    save_key(key, tmp_path / "key.json")
    scope = parse_scope("all:*")
    token = mint(Claims(scopes=(scope,), issuer=CANARY, expires=2**40), key)
    telemetry = tmp_path / "telemetry"
    flags = ("--log-level", "debug", "--auth-key", str(tmp_path / "key.json"))
    with relay_process(
        *flags,
        LAPS_OBSERVE__TELEMETRY_DIR=str(telemetry),
        LAPS_OBSERVE__SAMPLE_INTERVAL="100ms",
        LAPS_LISTEN__DRAIN_TIMEOUT="0s",
    ) as relay:
        async with (
            client(relay, token=token) as alice,
            client(relay, relay.web_url, token=token) as bob,
            client(relay) as stranger,
        ):
            track = await soon(alice.publish(CANARY, CANARY, first=0))
            await soon(alice.publish(f"{CANARY}/announced", CANARY, announce=True))
            async with bob.subscribe(CANARY, CANARY) as heard, bob.namespaces(CANARY):
                await soon(track.write(CANARY.encode(), end_of_group=True))
                await soon(anext(heard))
                await soon(anext(bob.fetch(CANARY, CANARY, start=0, end=0)))
            with pytest.raises(laps_sdk.RequestRefusedError):
                await soon(anext(stranger.subscribe(CANARY, CANARY)))
            await track.end()
        relay.signal(signal.SIGTERM)
        assert relay.ended() == 0
        log = relay.log.read_text()
        events = [json.loads(line) for line in log.splitlines()]
    assert "relay started" in [event["event"] for event in events]
    # What QUIC libraries tell about each connection is not for this log.
    assert not [event for event in events if event.get("library") == "quic"]
    files = sorted(telemetry.glob("*.jsonl"))
    assert files
    records = [record for file in files for record in load_lines(file.read_bytes().splitlines())]
    assert not [record for record in records if isinstance(record, BadLine)]
    bodies = [record.body for record in records if not isinstance(record, BadLine)]
    assert sum(isinstance(body, SessionOpen) for body in bodies) == 3
    assert sum(isinstance(body, SessionClose) for body in bodies) == 3
    secrets = (CANARY.encode(), token, token.hex().encode(), to_text(token).encode())
    for data in (log.encode(), *(file.read_bytes() for file in files)):
        for secret in secrets:
            assert secret not in data
    ports = {relay.url.rsplit(":", 1)[1], relay.admin.rsplit(":", 1)[1]}
    for line in log.splitlines():
        # Its own addresses are its own business.
        for piece in line.split("127.0.0.1:")[1:]:
            assert piece.startswith(tuple(ports)), line


def failure(*flags: str) -> str:
    """What a relay says that does not start: one line, status 2."""
    ended = subprocess.run(
        [*COMMAND, *flags], capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert ended.returncode == 2, ended.stderr
    lines = [line for line in ended.stderr.splitlines() if not line.startswith("{")]
    assert len(lines) == 1, ended.stderr
    return lines[0]


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        port = str(taken.getsockname()[1])
        words = failure("--port", port, "--admin-port", "0", "--state-dir", str(tmp_path))
    assert f"port {port}/udp: Address already in use; choose another" in words


def test_a_configuration_that_is_wrong(tmp_path: Path) -> None:
    config = tmp_path / "relay.toml"
    config.write_text('[listen]\ndrafts = ["moqt-18", "moqt-99"]\n')
    words = failure("--config", str(config))
    assert "moqt-99" in words
    assert "moqt-16" in words  # what there is
