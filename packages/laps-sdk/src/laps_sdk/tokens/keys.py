"""Keys of tokens: generates, reads and writes JSON Web Keys (RFC 7517).

A key file holds one JWK, or a set ``{"keys": [...]}``. Each key has an id (``kid``) and an
algorithm. A token names its key by the id, and is checked with the algorithm of that key only.
Files with secrets are written with mode 0600, and are refused if other users can read them.
"""

from __future__ import annotations

import base64
import json
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cwt import COSEKey
from cwt.cose_key_interface import COSEKeyInterface

from laps_sdk.tokens import constants as c
from laps_sdk.tokens.errors import KeyFileError

__all__ = [
    "Algorithm",
    "KeyRing",
    "TokenKey",
    "generate",
    "load_keys",
    "load_private_key",
    "save_key",
]

Algorithm = Literal["HS256", "ES256", "EdDSA"]

_MIN_SECRET: Final = 32
"""Bytes of an HS256 secret (RFC 7518, 3.2)."""
_MAX_FILE: Final = 256 * 1024
_CURVES: Final = {"ES256": ("EC", "P-256"), "EdDSA": ("OKP", "Ed25519")}
_PRIVATE_PARTS: Final = ("d", "k")
_PUBLIC_PARTS: Final = ("kty", "crv", "x", "y", "alg", "kid")


@dataclass(frozen=True, slots=True)
class TokenKey:
    """A key that verifies tokens, and signs them if it is private."""

    kid: str
    algorithm: str
    private: bool
    """Whether the key can sign tokens."""
    jwk: Mapping[str, str] = field(repr=False)
    cose: COSEKeyInterface = field(repr=False, compare=False)

    @property
    def algorithm_id(self) -> int:
        """The COSE number of the algorithm."""
        return c.ALGORITHMS[self.algorithm]

    def public(self) -> TokenKey:
        """Return the public key; raises ``KeyFileError`` for HS256."""
        if self.algorithm == "HS256":
            raise KeyFileError(
                f"key {self.kid!a}: HS256 has no public half, the secret does both;"
                " use ES256 or EdDSA where the relay must not be able to make tokens"
            )
        return from_jwk({name: self.jwk[name] for name in _PUBLIC_PARTS if name in self.jwk})


class KeyRing:
    """The keys that a verifier trusts, by id."""

    __slots__ = ("_by_kid",)

    def __init__(self, keys: Iterable[TokenKey] = ()) -> None:
        self._by_kid: dict[bytes, TokenKey] = {}
        for key in keys:
            if key.kid.encode() in self._by_kid:
                raise KeyFileError(f"two keys with the id {key.kid!a}; ids must differ")
            self._by_kid[key.kid.encode()] = key

    def __len__(self) -> int:
        return len(self._by_kid)

    @property
    def kids(self) -> tuple[str, ...]:
        """The key ids, in the order given."""
        return tuple(key.kid for key in self._by_kid.values())

    def find(self, kid: bytes | None, algorithm: int) -> TokenKey | None:
        """Return the key with this id and algorithm; None if there is none.

        For a token without an id, return the only key of its algorithm, if there is just one.
        """
        if kid is not None:
            key = self._by_kid.get(kid)
            return key if key is not None and key.algorithm_id == algorithm else None
        fitting = [key for key in self._by_kid.values() if key.algorithm_id == algorithm]
        return fitting[0] if len(fitting) == 1 else None


def generate(algorithm: Algorithm, kid: str) -> TokenKey:
    """Generate a private key."""
    if algorithm == "HS256":
        jwk = {"kty": "oct", "k": _b64(os.urandom(32))}
    elif algorithm == "ES256":
        numbers = ec.generate_private_key(ec.SECP256R1()).private_numbers()
        point = numbers.public_numbers
        jwk = {
            "kty": "EC",
            "crv": "P-256",
            "x": _b64(point.x.to_bytes(32, "big")),
            "y": _b64(point.y.to_bytes(32, "big")),
            "d": _b64(numbers.private_value.to_bytes(32, "big")),
        }
    else:
        private = ed25519.Ed25519PrivateKey.generate()
        jwk = {
            "kty": "OKP",
            "crv": "Ed25519",
            "x": _b64(private.public_key().public_bytes_raw()),
            "d": _b64(private.private_bytes_raw()),
        }
    return from_jwk({**jwk, "alg": algorithm, "kid": kid})


def from_jwk(data: object, where: str = "key") -> TokenKey:
    """Read one JWK; raises ``KeyFileError``, whose text begins with ``where``."""
    if not isinstance(data, Mapping):
        raise KeyFileError(f"{where}: not a JSON Web Key (an object with kty, alg and kid)")
    jwk: dict[str, str] = {str(k): v for k, v in data.items() if isinstance(v, str)}
    kid = jwk.get("kid", "")
    # "replace": JSON can spell halves of characters, which have no bytes of their own.
    size = len(kid.encode(errors="replace"))
    if not 1 <= size <= c.MAX_KID_BYTES or any("\ud800" <= char <= "\udfff" for char in kid):
        raise KeyFileError(f"{where}: no usable kid; tokens name their key by it")
    algorithm = jwk.get("alg") or _algorithm_of(jwk)
    if algorithm not in c.ALGORITHMS:
        raise KeyFileError(
            f"{where}: algorithm {algorithm!a} of key {kid!a}; known: {', '.join(c.ALGORITHMS)}"
        )
    _check_kind(jwk, algorithm, where)
    try:
        cose = COSEKey.from_jwk({**jwk, "alg": algorithm})
    except (ValueError, TypeError, KeyError) as error:
        raise KeyFileError(f"{where}: key {kid!a} cannot be used: {error}") from None
    private = any(part in jwk for part in _PRIVATE_PARTS)
    return TokenKey(kid, algorithm, private, {**jwk, "alg": algorithm}, cose)


def _algorithm_of(jwk: Mapping[str, str]) -> str:
    """Return the algorithm of a key without ``alg``, which follows from the curve."""
    kind = (jwk.get("kty"), jwk.get("crv"))
    return next((name for name, curve in _CURVES.items() if curve == kind), "")


def _check_kind(jwk: Mapping[str, str], algorithm: str, where: str) -> None:
    kty, crv = jwk.get("kty"), jwk.get("crv")
    if algorithm == "HS256":
        if kty != "oct":
            raise KeyFileError(f"{where}: HS256 needs a key of type 'oct', this is {kty!a}")
        try:
            secret = base64.urlsafe_b64decode(_padded(jwk.get("k", "")))
        except ValueError:
            raise KeyFileError(f"{where}: the secret 'k' is not base64url") from None
        if len(secret) < _MIN_SECRET:
            raise KeyFileError(
                f"{where}: the secret has {len(secret)} bytes, HS256 needs {_MIN_SECRET} or more"
            )
    elif (kty, crv) != _CURVES[algorithm]:
        raise KeyFileError(f"{where}: {algorithm} needs curve {_CURVES[algorithm][1]}, not {crv!a}")


def load_keys(path: Path) -> list[TokenKey]:
    """Return all keys of a file: one JWK or a set; raises ``KeyFileError``."""
    where = f"key file {path}"
    try:
        # One descriptor for both: the mode that is checked is that of the file that is read.
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            raw = file.read(_MAX_FILE + 1)
    except OSError as error:
        raise KeyFileError(f"{where}: cannot be read: {error.strerror}") from None
    if len(raw) > _MAX_FILE:
        raise KeyFileError(f"{where}: larger than {_MAX_FILE} bytes: this is no key file")
    try:
        data: Any = json.loads(raw)
    except (ValueError, RecursionError):
        raise KeyFileError(f"{where}: not JSON; make one with 'laps token keygen'") from None
    items: Sequence[object] = [data]
    if isinstance(data, dict) and isinstance(data.get("keys"), list):
        items = data["keys"]
        if not items:
            raise KeyFileError(f"{where}: an empty set of keys")
    several = len(items) > 1
    keys = [
        from_jwk(item, f"{where}, key {index}" if several else where)
        for index, item in enumerate(items)
    ]
    if any(key.private for key in keys) and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise KeyFileError(
            f"{where}: holds a secret and others may open it (mode {stat.S_IMODE(mode):04o});"
            f" run: chmod 600 {path}"
        )
    return keys


def load_private_key(path: Path, kid: str | None = None) -> TokenKey:
    """Return the private key of a file; ``kid`` selects one of several."""
    keys = [key for key in load_keys(path) if key.private and kid in (None, key.kid)]
    if len(keys) == 1:
        return keys[0]
    wanted = "private key" if kid is None else f"private key {kid!a}"
    if not keys:
        raise KeyFileError(f"key file {path}: no {wanted} in it")
    raise KeyFileError(
        f"key file {path}: several private keys ({', '.join(key.kid for key in keys)});"
        " choose one by its id"
    )


def save_key(key: TokenKey, path: Path) -> None:
    """Write a key file with mode 0600; raises ``KeyFileError`` if the file exists."""
    text = json.dumps(dict(key.jwk), indent=1) + "\n"
    mode = 0o600 if key.private else 0o644
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        raise KeyFileError(
            f"key file {path}: exists already; choose another name, or remove it first"
        ) from None
    except OSError as error:
        raise KeyFileError(f"key file {path}: cannot be made: {error.strerror}") from None
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text)
    except OSError as error:
        # Half a key is none, and would be in the way of the next try.
        path.unlink(missing_ok=True)
        raise KeyFileError(f"key file {path}: cannot be written: {error.strerror}") from None


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _padded(text: str) -> str:
    return text + "=" * (-len(text) % 4)
