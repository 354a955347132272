"""Keys, and the making and checking of tokens with them. The clock is an argument.

::

    mint: Claims + private key -> token

    verify = authenticate (checks the signature: expensive, does not depend on the time)
           + judge        (checks time, audience and issuer: cheap)

The signature is checked before the claims are read, so an unsigned token reaches only our strict
reader of the envelope.

A key file holds one JSON Web Key (RFC 7517), or a set ``{"keys": [...]}``. Each key has an id
(``kid``) and an algorithm. A token names its key by the id, and is checked with the algorithm of
that key only. Files with secrets are written with mode 0600, and are refused if other users can
read them.
"""

from __future__ import annotations

import base64
import json
import os
import stat
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cwt import COSE, COSEKey
from cwt.cose_key_interface import COSEKeyInterface
from cwt.exceptions import CWTError

from laps_sdk.tokens import constants as c
from laps_sdk.tokens.cbor import decode, encode
from laps_sdk.tokens.claims import Claims, Envelope, open_envelope
from laps_sdk.tokens.errors import (
    KeyFileError,
    TokenError,
    TokenExpiredError,
    TokenForgedError,
    TokenRefusedError,
)
from laps_wire.errors import EncodeError

__all__ = [
    "Algorithm",
    "Expectations",
    "Genuine",
    "KeyRing",
    "TokenKey",
    "Verified",
    "authenticate",
    "generate",
    "judge",
    "load_keys",
    "load_private_key",
    "mint",
    "save_key",
    "verify",
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectations:
    """The requirements of a verifier besides a valid signature."""

    audiences: Collection[str] = ()
    """Our own names. A token for another audience is refused, even if this is empty."""
    issuers: Collection[str] = ()
    """Trusted issuers; empty: any issuer with a trusted key."""
    leeway: float = 5.0
    """Seconds by which clocks may differ."""
    require_expiry: bool = True
    """Whether to refuse tokens without an expiry."""
    min_revalidation: float = 1.0
    """The shortest supported ``moqt-reval``, in seconds."""


@dataclass(frozen=True, slots=True)
class Genuine:
    """A token with a valid signature; :func:`judge` checks its claims."""

    claims: Claims
    kid: str
    algorithm: str


@dataclass(frozen=True, slots=True)
class Verified:
    """A valid token."""

    claims: Claims
    kid: str
    algorithm: str
    good_until: float | None
    """Unix time of the expiry, including the leeway; None: it never expires."""


_DEFAULT: Final = Expectations()
_COSE: Final = COSE.new()
_CWT_HEAD: Final = b"\xd8\x3d"
"""Tag 61."""


def mint(claims: Claims, key: TokenKey) -> bytes:
    """Make a token: a CWT in a COSE_Mac0 (HS256) or a COSE_Sign1 (ES256, EdDSA).

    Raises ``KeyFileError`` for a key that cannot sign, and ``EncodeError`` for claims that no
    verifier accepts.
    """
    if not key.private:
        raise KeyFileError(f"key {key.kid!a} is a public key: it can check tokens, not make them")
    payload = encode(claims.to_cbor())
    try:
        Claims.from_cbor(decode(payload))
    except TokenError as error:
        raise EncodeError(f"no verifier would take this token: {error}") from None
    # The key id is in the protected header, so that it cannot be changed.
    protected = {c.HEADER_ALG: key.algorithm_id, c.HEADER_KID: key.kid.encode()}
    cose = COSE.new(alg_auto_inclusion=False, kid_auto_inclusion=False)
    try:
        if key.algorithm == "HS256":
            body = cose.encode_and_mac(payload, key.cose, protected=protected)
        else:
            body = cose.encode_and_sign(payload, key.cose, protected=protected)
    except (CWTError, ValueError) as error:
        raise KeyFileError(f"key {key.kid!a} cannot make tokens: {error}") from None
    token = _CWT_HEAD + bytes(body)
    if len(token) > c.MAX_TOKEN_BYTES:
        raise EncodeError(
            f"a token of {len(token)} bytes, verifiers take {c.MAX_TOKEN_BYTES}; use fewer scopes"
        )
    return token


def verify(token: bytes, keys: KeyRing, now: float, expected: Expectations = _DEFAULT) -> Verified:
    """Verify a token at Unix time ``now``; raises :class:`TokenError` with the reason."""
    return judge(authenticate(token, keys), now, expected)


def authenticate(token: bytes, keys: KeyRing) -> Genuine:
    """Verify the signature of a token; raises ``TokenForgedError`` or ``TokenMalformedError``."""
    envelope = open_envelope(token)
    name = next((n for n, number in c.ALGORITHMS.items() if number == envelope.algorithm), None)
    if name is None:
        raise TokenForgedError(f"algorithm {envelope.algorithm} is not accepted")
    if envelope.mac != (name == "HS256"):
        raise TokenForgedError("the algorithm does not belong to this kind of COSE message")
    key = keys.find(envelope.kid, envelope.algorithm)
    if key is None:
        raise TokenForgedError("no key of this id and algorithm is known")
    _check_signature(envelope, key)
    return Genuine(envelope.claims(), key.kid, key.algorithm)


def judge(genuine: Genuine, now: float, expected: Expectations = _DEFAULT) -> Verified:
    """Check time, audience and issuer of a token; raises :class:`TokenError`."""
    claims = genuine.claims
    good_until = _check_time(claims, now, expected)
    _check_parties(claims, expected)
    if claims.revalidate and claims.revalidate < expected.min_revalidation:
        raise TokenRefusedError(
            f"moqt-reval of {claims.revalidate:g} s is shorter than this relay can honour"
            f" ({expected.min_revalidation:g} s)"
        )
    return Verified(claims, genuine.kid, genuine.algorithm, good_until)


def _check_signature(envelope: Envelope, key: TokenKey) -> None:
    try:
        payload = _COSE.decode(envelope.body, key.cose)
    except (CWTError, ValueError, TypeError):
        raise TokenForgedError("the signature does not hold") from None
    # Two parsers read the bytes: the signed payload must be the one that we evaluate.
    if payload != envelope.payload:
        raise TokenForgedError("the signature is not over the claims")


def _check_time(claims: Claims, now: float, expected: Expectations) -> float | None:
    if claims.expires is None:
        if expected.require_expiry:
            raise TokenRefusedError("the token has no exp claim; one that ends is required")
        good_until = None
    else:
        good_until = claims.expires + expected.leeway
        if now >= good_until:
            raise TokenExpiredError("the token has expired")
    if claims.not_before is not None and now < claims.not_before - expected.leeway:
        raise TokenRefusedError("the token is not valid yet (nbf)")
    return good_until


def _check_parties(claims: Claims, expected: Expectations) -> None:
    if claims.audience and not set(claims.audience) & set(expected.audiences):
        raise TokenRefusedError("the token is for another audience (aud)")
    if expected.audiences and not claims.audience:
        raise TokenRefusedError("the token names no audience (aud), one is required")
    if expected.issuers and claims.issuer not in expected.issuers:
        raise TokenRefusedError("the token is from an issuer that is not trusted (iss)")
