from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from laps_sdk.tokens.errors import KeyFileError
from laps_sdk.tokens.signing import (
    Algorithm,
    KeyRing,
    from_jwk,
    generate,
    load_keys,
    load_private_key,
    save_key,
)
from testkit.disk import full_disk

ALL: list[Algorithm] = ["HS256", "ES256", "EdDSA"]
SECRET = {"kty": "oct", "alg": "HS256", "kid": "s", "k": "A" * 43}


@pytest.mark.parametrize("algorithm", ALL)
def test_a_key_survives_its_file(tmp_path: Path, algorithm: Algorithm) -> None:
    key = generate(algorithm, "k1")
    path = tmp_path / "key.json"
    save_key(key, path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert load_keys(path) == [key]
    assert load_private_key(path) == key
    assert key.private
    assert "k1" in repr(key)
    assert key.jwk.get("d", key.jwk.get("k", "")) not in repr(key)


@pytest.mark.parametrize("algorithm", ["ES256", "EdDSA"])
def test_the_public_half_holds_no_secret(tmp_path: Path, algorithm: Algorithm) -> None:
    key = generate(algorithm, "k1")
    half = key.public()
    assert not half.private
    assert "d" not in half.jwk
    path = tmp_path / "public.json"
    save_key(half, path)
    path.chmod(0o644)
    assert load_keys(path) == [half]
    with pytest.raises(KeyFileError, match="no private key in it"):
        load_private_key(path)


def test_a_shared_secret_has_no_public_half() -> None:
    with pytest.raises(KeyFileError, match="no public half"):
        generate("HS256", "k").public()


def test_a_file_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    save_key(generate("HS256", "a"), path)
    with pytest.raises(KeyFileError, match="exists already"):
        save_key(generate("HS256", "b"), path)
    with pytest.raises(KeyFileError, match="cannot be made"):
        save_key(generate("HS256", "b"), tmp_path / "none" / "key.json")


def test_a_secret_that_others_may_open_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    save_key(generate("ES256", "a"), path)
    path.chmod(0o640)
    with pytest.raises(KeyFileError, match="chmod 600"):
        load_keys(path)


def test_a_full_disk_leaves_no_half_a_key(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    with full_disk(), pytest.raises(KeyFileError, match="cannot be written"):
        save_key(generate("HS256", "a"), path)
    assert not path.exists()


def test_the_public_half_is_made_of_public_parts() -> None:
    key = generate("ES256", "k1")
    odd = from_jwk({**key.jwk, "k": "c2VjcmV0", "oth": "c2VjcmV0"})
    assert odd.public().jwk == key.public().jwk


def write(path: Path, data: object) -> Path:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(data if isinstance(data, str) else json.dumps(data))
    return path


def test_a_set_of_keys(tmp_path: Path) -> None:
    one, two = generate("ES256", "one"), generate("EdDSA", "two")
    path = write(tmp_path / "set.json", {"keys": [dict(one.jwk), dict(two.jwk)]})
    assert load_keys(path) == [one, two]
    assert load_private_key(path, "two") == two
    with pytest.raises(KeyFileError, match="several private keys"):
        load_private_key(path)
    with pytest.raises(KeyFileError, match="no private key 'three'"):
        load_private_key(path, "three")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("x" * 300_000, "larger than"),
        ([], "not a JSON Web Key"),
        ({"keys": []}, "an empty set"),
        ({"keys": [SECRET, {}]}, "key 1: no usable kid"),
        ({**SECRET, "kid": "k" * 300}, "no usable kid"),
        ({**SECRET, "kid": 5}, "no usable kid"),
        ({**SECRET, "kid": "\ud800"}, "no usable kid"),
        ({**SECRET, "alg": "none"}, "algorithm 'none'"),
        ({"kty": "oct", "kid": "s", "k": "A" * 43}, "algorithm ''"),
        ({**SECRET, "kty": "EC"}, "needs a key of type 'oct'"),
        ({**SECRET, "k": "AAAA"}, "has 3 bytes"),
        ({**SECRET, "k": "A"}, "base64url"),
        ({"kty": "EC", "crv": "P-384", "alg": "ES256", "kid": "e"}, "needs curve P-256"),
        ({"kty": "EC", "crv": "P-256", "alg": "ES256", "kid": "e"}, "cannot be used"),
        ({"kty": "OKP", "crv": "Ed25519", "kid": "e", "x": "AA"}, "cannot be used"),
    ],
)
def test_what_is_wrong_with_a_key_file(tmp_path: Path, data: Any, words: str) -> None:
    with pytest.raises(KeyFileError, match=words) as caught:
        load_keys(write(tmp_path / "key.json", data))
    assert "key.json" in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match="cannot be read"):
        load_keys(tmp_path / "none.json")


def test_the_curve_says_the_algorithm() -> None:
    key = generate("EdDSA", "k")
    assert from_jwk({k: v for k, v in key.jwk.items() if k != "alg"}) == key


def test_a_ring_finds_keys_by_id_and_algorithm() -> None:
    one, two = generate("ES256", "one"), generate("EdDSA", "two")
    ring = KeyRing([one, two])
    assert len(ring) == 2
    assert ring.kids == ("one", "two")
    assert ring.find(b"one", one.algorithm_id) is one
    assert ring.find(b"one", two.algorithm_id) is None
    assert ring.find(b"three", one.algorithm_id) is None
    assert ring.find(None, one.algorithm_id) is one
    assert ring.find(None, 5) is None
    assert KeyRing([one, generate("ES256", "1")]).find(None, one.algorithm_id) is None
    with pytest.raises(KeyFileError, match="two keys with the id 'one'"):
        KeyRing([one, one])
