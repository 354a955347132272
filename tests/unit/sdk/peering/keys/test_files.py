"""Key files: made once, read carefully, and never shown."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from laps_sdk.peering.keys import files
from laps_sdk.peering.keys.files import (
    NETWORK_KEY,
    NODE_CERTIFICATE,
    NODE_KEY,
    NetworkKey,
    PeerKeyError,
    obtain_network_key,
    obtain_node_key,
    read_network_key,
    read_node_key,
)
from laps_wire.hashing import KeyedHasher
from testkit.peer_certs import authority, issue_node, store


@pytest.fixture(autouse=True)
def files_are_ours() -> Iterator[None]:
    """What a test writes, nobody else may open."""
    before = os.umask(0o077)
    yield
    os.umask(before)


def pem(key: object, password: bytes | None = None) -> bytes:
    locked = serialization.BestAvailableEncryption(password) if password else None
    encoded: bytes = key.private_bytes(  # type: ignore[attr-defined]  # all private keys have it
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        locked or serialization.NoEncryption(),
    )
    return encoded


# The network's secret


def test_a_network_key_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    state = tmp_path / "deep" / "state"
    first = obtain_network_key(state)
    assert obtain_network_key(state) == first
    assert len(first.secret) == 32
    assert stat.S_IMODE((state / NETWORK_KEY).stat().st_mode) == 0o600
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert [path.name for path in state.iterdir()] == [NETWORK_KEY]
    assert obtain_network_key(tmp_path / "other") != first


def test_a_network_key_of_others_may_be_long_and_have_white_space(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("  " + "ab " * 40 + "\n")
    path.chmod(0o640)
    assert read_network_key(path).secret == b"\xab" * 40


@pytest.mark.parametrize("mode", [0o644, 0o602, 0o601])
def test_a_secret_that_everybody_may_open_is_not_used(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "key"
    path.write_bytes(pem(ed25519.Ed25519PrivateKey.generate()))
    path.chmod(mode)
    for read in (read_network_key, read_node_key):
        with pytest.raises(PeerKeyError, match=rf"mode {mode:04o}\); run: chmod 600 .*key"):
            read(path)


@pytest.mark.parametrize("content", [b"", b"hello", b"ab" * 15, b"\xff" * 64, b"a" * 33])
def test_what_is_no_network_key(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    with pytest.raises(PeerKeyError, match="32 or more hexadecimal digits"):
        read_network_key(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(PeerKeyError, match=r"nothing: cannot be read: No such file"):
        read_network_key(tmp_path / "nothing")


def test_names_are_hashed_with_a_key_of_their_own() -> None:
    one, other = NetworkKey(b"1" * 32), NetworkKey(b"2" * 32)
    assert one.hash_key() == NetworkKey(b"1" * 32).hash_key()
    assert len({one.hash_key(), other.hash_key(), one.secret}) == 3
    assert KeyedHasher(one.hash_key()).name(b"x") != KeyedHasher(other.hash_key()).name(b"x")


def test_a_key_is_named_without_telling_it() -> None:
    key = NetworkKey(b"1" * 32)
    assert len(key.name) == 16
    assert key.name != NetworkKey(b"2" * 32).name
    assert "1111" not in repr(key)


# The relay's own key


def test_a_node_key_is_made_once(tmp_path: Path) -> None:
    first, again = obtain_node_key(tmp_path), obtain_node_key(tmp_path)
    assert first.fingerprint == again.fingerprint
    assert len(first.fingerprint) == 32
    assert stat.S_IMODE((tmp_path / NODE_KEY).stat().st_mode) == 0o600
    assert "PRIVATE" not in repr(first)


def test_who_was_faster_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = pem(ed25519.Ed25519PrivateKey.generate())
    path = tmp_path / NODE_KEY
    monkeypatch.setattr(Path, "exists", lambda _: False)
    path.write_bytes(theirs)
    obtain_node_key(tmp_path)
    assert path.read_bytes() == theirs
    assert [each.name for each in tmp_path.iterdir()] == [NODE_KEY]


def test_a_state_directory_that_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(PeerKeyError, match=r"cannot be written: .*--state-dir"):
        obtain_node_key(file / "state")


@pytest.mark.parametrize("kind", ["ed25519", "p256"])
def test_both_kinds_of_keys_sign(tmp_path: Path, kind: str) -> None:
    made = (
        ed25519.Ed25519PrivateKey.generate()
        if kind == "ed25519"
        else ec.generate_private_key(ec.SECP256R1())
    )
    path = tmp_path / "key.pem"
    path.write_bytes(pem(made))
    key = read_node_key(path)
    assert key.sign(b"x") != key.sign(b"y")
    assert key.fingerprint == read_node_key(path).fingerprint


def test_keys_that_are_not_used(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    for wrong in (
        rsa.generate_private_key(public_exponent=65537, key_size=2048),
        ec.generate_private_key(ec.SECP384R1()),
    ):
        path.write_bytes(pem(wrong))
        with pytest.raises(PeerKeyError, match="only Ed25519 and P-256"):
            read_node_key(path)
    for content in (b"", b"junk", pem(ed25519.Ed25519PrivateKey.generate(), b"password")):
        path.write_bytes(content)
        with pytest.raises(PeerKeyError, match="no PEM private key without a password"):
            read_node_key(path)


def test_a_certificate_must_belong_to_the_key(tmp_path: Path) -> None:
    issued = issue_node(authority(), ["urn:laps:node:0.0:0.10"])
    key_path, chain_path = store(tmp_path, issued, authority().certificate)
    key = read_node_key(key_path, chain_path)
    assert key.chain == (issued.certificate, authority().certificate)
    key_path.write_bytes(pem(ed25519.Ed25519PrivateKey.generate()))
    with pytest.raises(PeerKeyError, match="does not belong to the key"):
        read_node_key(key_path, chain_path)
    chain_path.write_bytes(b"no certificate")
    with pytest.raises(PeerKeyError, match="holds no PEM certificate"):
        read_node_key(key_path, chain_path)


def test_a_certificate_beside_the_made_key_is_used(tmp_path: Path) -> None:
    first = obtain_node_key(tmp_path)
    issued = issue_node(authority(), ["urn:laps:node:0.0:0.10"], key=first.private)
    pem_form = issued.certificate.public_bytes(serialization.Encoding.PEM)
    (tmp_path / NODE_CERTIFICATE).write_bytes(pem_form)
    again = obtain_node_key(tmp_path)
    assert again.chain == (issued.certificate,)
    assert again.fingerprint == first.fingerprint


def test_all_is_complete() -> None:
    assert all(hasattr(files, name) for name in files.__all__)


# Stubs


def test_the_key_for_stubs(tmp_path: Path) -> None:
    secret = NetworkKey(b"s" * 32)
    stub = secret.stub_key()
    assert (secret.for_stubs, stub.for_stubs, stub.stub_key()) == (False, True, stub)
    assert stub.hash_key() == secret.hash_key()
    assert len({stub.secret, stub.name, secret.secret, secret.name, secret.hash_key()}) == 5
    assert secret.secret not in stub.secret + stub.names
    for key in (secret, stub):
        path = tmp_path / "key"
        path.write_text(f"{key.dump()}\n")
        path.chmod(0o600)
        assert read_network_key(path) == key


@pytest.mark.parametrize("text", ["stub:", "stub:abcd", "stub:" + "ab" * 65, "stub:xyz"])
def test_what_is_no_key_for_stubs(tmp_path: Path, text: str) -> None:
    path = tmp_path / "key"
    path.write_text(text)
    with pytest.raises(PeerKeyError, match="laps-relay stub-key"):
        read_network_key(path)
