"""From a name to a link."""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import laps_sdk
from laps_sdk.client import dial
from laps_sdk.client.dial import (
    DEV_CERTIFICATE,
    Backoff,
    ConnectOptions,
    development_pin,
    parse_pin,
    state_directory,
    tls_for,
)
from laps_sdk.tokens.errors import TokenMalformedError
from laps_sdk.uri import parse_address
from laps_wire.errors import EncodeError
from testkit.certs import certificates
from testkit.edge_task import edge_relay
from testkit.moqt_server import soon


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"drafts": ()}, "one or more of moqt-18, moqt-16"),
        ({"drafts": ("moqt-16", "moq-00")}, "one or more of"),
        ({"insecure": True, "ca_file": "x"}, "omit ca_file and pin"),
        ({"timeout": 0.0}, "more than 0 seconds"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(EncodeError, match=words):
        ConnectOptions(**options)


def test_tokens() -> None:
    assert ConnectOptions().token_value() is None
    assert ConnectOptions(token="aGk_").token_value() == b"hi?"  # noqa: S106
    assert ConnectOptions(token="abc", token_type=7).token_value() == b"abc"  # noqa: S106
    with pytest.raises(TokenMalformedError, match="base64url"):
        ConnectOptions(token="no text form").token_value()  # noqa: S106
    assert ConnectOptions(token=b"abc").token_value() == b"abc"
    fresh = iter([b"one", b"two"])
    options = ConnectOptions(token=lambda: next(fresh))
    assert [options.token_value(), options.token_value()] == [b"one", b"two"]


def test_delays_double_up_to_the_cap() -> None:
    backoff = Backoff(first=0.5, cap=3.0)
    assert [backoff.delay(attempt, 0.0) for attempt in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]


def test_jitter_takes_off_at_most_its_share() -> None:
    backoff = Backoff(first=1.0, spread=0.5)
    assert backoff.delay(0, 0.0) == 1.0
    assert backoff.delay(0, 1.0) == 0.5
    assert Backoff(spread=0.0).delay(2, 0.9) == 1.0


@given(st.integers(0, 10_000), st.floats(0, 1))
def test_no_delay_is_out_of_bounds(attempt: int, jitter: float) -> None:
    backoff = Backoff()
    assert 0 < backoff.delay(attempt, jitter) <= backoff.cap


@pytest.mark.parametrize(
    "bad",
    [
        {"first": 0.0},
        {"first": 2.0, "cap": 1.0},
        {"factor": 0.5},
        {"spread": 1.5},
        {"spread": -0.1},
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must have 0 < first <= cap"):
        Backoff(**bad)


pytestmark = pytest.mark.anyio


def answering(*hosts: str) -> Any:
    """A resolver that knows only these addresses."""

    async def getaddrinfo(host: str, port: int, **_: object) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_DGRAM, 0, "", (each, port)) for each in hosts]

    return getaddrinfo


async def test_the_next_address_is_tried_while_the_first_is_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dial, "_HEAD_START", 0.01)
    loop = asyncio.get_running_loop()
    # 192.0.2.0/24 is for documentation: nobody answers there.
    monkeypatch.setattr(loop, "getaddrinfo", answering("192.0.2.1", "127.0.0.1"))
    async with edge_relay() as edge:
        session = laps_sdk.connect(f"moqt://localhost:{edge.port}", ca_file=edge.ca_file)
        async with session:
            assert session.connected


async def test_every_failure_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dial, "_HEAD_START", 0.01)
    loop = asyncio.get_running_loop()
    async with edge_relay(drafts=("moqt-16",)) as edge:
        monkeypatch.setattr(loop, "getaddrinfo", answering("127.0.0.1"))
        session = laps_sdk.connect(
            f"moqt://localhost:{edge.port}", ca_file=edge.ca_file, drafts=["moqt-18"]
        )
        with pytest.raises(laps_sdk.ConnectError, match="moqt://localhost"):
            await soon(session.__aenter__())


async def test_a_transport_that_does_not_exist_is_an_error_of_ours() -> None:
    session = laps_sdk.connect("moqt://127.0.0.1:9", transport="carrier-pigeon")  # type: ignore[arg-type] # that is the point
    with pytest.raises(laps_sdk.LapsError, match="carrier-pigeon"):
        await soon(session.__aenter__())


async def test_a_socket_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(**_: object) -> None:
        raise OSError("no more sockets")

    monkeypatch.setattr(dial, "open_endpoint", refuse)
    with pytest.raises(laps_sdk.ConnectError, match="no socket: no more sockets"):
        await soon(laps_sdk.connect("moqt://127.0.0.1:9").__aenter__())


HOME = parse_address("moqt://localhost")
AWAY = parse_address("moqt://relay.example")


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAPS_STATE_DIR", str(tmp_path))
    return tmp_path


def put_certificate(state: Path) -> bytes:
    pem = Path(certificates().other_server.certificate or "").read_text(encoding="ascii")
    (state / DEV_CERTIFICATE).write_text(f"a comment\n{pem}", encoding="ascii")
    end = "-----END CERTIFICATE-----"
    der = ssl.PEM_cert_to_DER_cert(pem[: pem.index(end) + len(end)])
    return hashlib.sha256(der).digest()


def test_the_state_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("LAPS_STATE_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert state_directory() == tmp_path / ".local" / "state" / "laps"
    monkeypatch.setenv("LAPS_STATE_DIR", "/elsewhere")
    assert state_directory() == Path("/elsewhere")


def test_a_relay_of_the_same_user_on_loopback_is_believed(state: Path) -> None:
    assert tls_for(HOME, ConnectOptions()).pinned_sha256 == frozenset()
    pin = put_certificate(state)
    assert tls_for(HOME, ConnectOptions()).pinned_sha256 == {pin}


def test_what_is_said_comes_first(state: Path) -> None:
    put_certificate(state)
    assert tls_for(AWAY, ConnectOptions()).pinned_sha256 == frozenset()
    by_file = tls_for(HOME, ConnectOptions(ca_file="/ca.pem"))
    assert (by_file.ca_file, by_file.pinned_sha256) == ("/ca.pem", frozenset())
    anything = tls_for(HOME, ConnectOptions(insecure=True))
    assert not anything.verify
    assert anything.pinned_sha256 == frozenset()
    pin = "AB:" * 31 + "ab"
    assert tls_for(HOME, ConnectOptions(pin=pin)).pinned_sha256 == {b"\xab" * 32}


def test_a_file_of_somebody_else_is_not_believed(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_certificate(state)
    monkeypatch.setattr(os, "getuid", lambda: 123456789)
    assert development_pin(state / DEV_CERTIFICATE) is None


@pytest.mark.parametrize(
    "content",
    ["", "no certificate", "-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----"],
)
def test_a_broken_file_is_not_believed(state: Path, content: str) -> None:
    path = state / DEV_CERTIFICATE
    path.write_text(content, encoding="ascii")
    pin = development_pin(path)
    assert pin is None or pin == hashlib.sha256(b"").digest()


@pytest.mark.parametrize("pin", ["", "ab", "zz" * 32, "ab" * 33])
def test_a_pin_is_64_hex_digits(pin: str) -> None:
    with pytest.raises(EncodeError, match="64 hex digits"):
        parse_pin(pin)
    with pytest.raises(EncodeError, match="64 hex digits"):
        ConnectOptions(pin=pin)


def test_a_silent_relay_is_dead_after_a_while() -> None:
    limits = ConnectOptions().connection_limits
    assert (limits.keepalive, limits.dead_after) == (1.25, 5.0)
    limits = ConnectOptions(keepalive=0.5, dead_after=2.0).connection_limits
    assert (limits.keepalive, limits.dead_after) == (0.5, 2.0)
    limits = ConnectOptions(dead_after=0.0).connection_limits
    assert (limits.keepalive, limits.dead_after) == (10.0, 0.0)
    with pytest.raises(EncodeError, match="must be 0 or more seconds"):
        ConnectOptions(dead_after=-1.0)
    with pytest.raises(EncodeError, match="must be 0 or more seconds"):
        ConnectOptions(keepalive=-1.0)
