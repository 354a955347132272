"""Which certificate a client believes."""

from __future__ import annotations

import hashlib
import os
import ssl
from pathlib import Path

import pytest

from laps_sdk.client.options import ConnectOptions, parse_pin
from laps_sdk.client.trust import DEV_CERTIFICATE, development_pin, state_directory, tls_for
from laps_sdk.uri import parse_address
from laps_wire.errors import EncodeError
from testkit.certs import certificates

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
