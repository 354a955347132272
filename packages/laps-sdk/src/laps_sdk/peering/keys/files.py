"""The keys of a relay, the network's secret and its own key: read, or made at the first start.

::

    network key   one secret, the same file at all relays
                  |-- HMAC-SHA256 over the transcript: the proof of SHARED_KEY (laps-2, 8)
                  |-- HKDF-SHA256 "laps-2 name hash": the key of name hashes (laps-2, 2)
                  `-- HKDF-SHA256 "laps-2 stub key": the proof of Stubs (STUB_KEY); they get it
                      with the key of name hashes, and cannot compute the secret from the two
    node key      Ed25519 or P-256, one for each relay; its fingerprint holds the node id
                  `-- a certificate: of the network's authority, or self-signed

A file holds only the key and is readable by its owner only. Several processes that start at once in
one state directory get the same key: the first file that is written counts.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, TypeAlias, TypeGuard

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.x509.oid import NameOID

from laps_sdk.quic.tls import key_hash
from laps_wire.errors import LocalError

__all__ = [
    "NETWORK_KEY",
    "NODE_CERTIFICATE",
    "NODE_KEY",
    "NetworkKey",
    "NodeKey",
    "PeerKeyError",
    "obtain_network_key",
    "obtain_node_key",
    "read_network_key",
    "read_node_key",
]

NETWORK_KEY: Final = "network-key"
"""The file in the state directory with the key of a network on one machine."""
NODE_KEY: Final = "node-key.pem"
"""The file in the state directory with the relay's own key."""
NODE_CERTIFICATE: Final = "node-cert.pem"
"""The file in the state directory with the certificates of an authority for that key."""
NETWORK_KEY_BYTES: Final = 32
MIN_KEY_BYTES: Final = 16

_HASH_LABEL: Final = b"laps-2 name hash"
_STUB_LABEL: Final = b"laps-2 stub key"
_STUB_PREFIX: Final = b"stub:"
_DERIVED_BYTES: Final = 32
_NAME_LABEL: Final = b"laps-2 key name:"
_SELF_SIGNED_FOR: Final = timedelta(days=3650)

SigningKey: TypeAlias = ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey
VerifyingKey: TypeAlias = ed25519.Ed25519PublicKey | ec.EllipticCurvePublicKey


class PeerKeyError(LocalError, ValueError):
    """A key file or certificate is unusable."""


@dataclass(frozen=True, slots=True)
class NetworkKey:
    """The secret that all relays of a network share."""

    secret: bytes = field(repr=False)
    names: bytes = field(default=b"", repr=False)
    """The key for name hashes if this key is for Stubs; other keys derive it."""

    @property
    def name(self) -> bytes:
        """The name of the key in proofs, which does not reveal the secret."""
        return hashlib.sha256(_NAME_LABEL + self.secret).hexdigest()[:16].encode()

    def hash_key(self) -> bytes:
        """The key for name hashes, for ``KeyedHasher``."""
        return self.names or self._derive(_HASH_LABEL)

    @property
    def for_stubs(self) -> bool:
        """Whether only a Stub may prove its identity with it."""
        return bool(self.names)

    def stub_key(self) -> NetworkKey:
        """Return the key of the Stubs of the network."""
        if self.for_stubs:
            return self
        return NetworkKey(self._derive(_STUB_LABEL), names=self.hash_key())

    def dump(self) -> str:
        """Return the content of a key file."""
        prefix = _STUB_PREFIX.decode() if self.for_stubs else ""
        return f"{prefix}{(self.secret + self.names).hex()}"

    def _derive(self, label: bytes) -> bytes:
        return HKDF(hashes.SHA256(), _DERIVED_BYTES, salt=None, info=label).derive(self.secret)


@dataclass(frozen=True, slots=True)
class NodeKey:
    """The key of one relay, and its certificates, the leaf first."""

    private: SigningKey = field(repr=False)
    chain: tuple[x509.Certificate, ...]

    @property
    def fingerprint(self) -> bytes:
        """SHA-256 of the SubjectPublicKeyInfo, which holds the node id."""
        return key_hash(self.chain[0])

    def sign(self, data: bytes) -> bytes:
        """Return a signature of 64 bytes: Ed25519, or ECDSA with SHA-256 (laps-2, 8)."""
        if isinstance(self.private, ed25519.Ed25519PrivateKey):
            return self.private.sign(data)
        r, s = decode_dss_signature(self.private.sign(data, ec.ECDSA(hashes.SHA256())))
        size = (self.private.curve.key_size + 7) // 8
        return r.to_bytes(size, "big") + s.to_bytes(size, "big")


# The network's secret


def read_network_key(path: Path) -> NetworkKey:
    """Read a file with at least 32 hexadecimal digits and white space.

    A file with the key for Stubs, as ``laps-relay stub-key`` writes it, is also accepted. Raises
    ``PeerKeyError`` for any other file.
    """
    text = _read(path, "network key", secret=True)
    for_stubs = text.startswith(_STUB_PREFIX)
    try:
        secret = bytes.fromhex(text.removeprefix(_STUB_PREFIX).decode("ascii"))
    except ValueError:
        secret = b""
    if for_stubs:
        if len(secret) != 2 * _DERIVED_BYTES:
            raise PeerKeyError(
                f"network key {path}: holds no key for Stubs; make it with laps-relay stub-key"
            )
        return NetworkKey(secret[:_DERIVED_BYTES], secret[_DERIVED_BYTES:])
    if len(secret) < MIN_KEY_BYTES:
        raise PeerKeyError(
            f"network key {path}: holds no key; {2 * MIN_KEY_BYTES} or more hexadecimal digits"
            " belong there (openssl rand -hex 32)"
        )
    return NetworkKey(secret)


def obtain_network_key(state_dir: Path) -> NetworkKey:
    """Return the key of a network on this machine; make it if there is none."""
    path = state_dir / NETWORK_KEY
    if not path.exists():
        _make(path, f"{secrets.token_hex(NETWORK_KEY_BYTES)}\n".encode())
    return read_network_key(path)


# The relay's own key


def read_node_key(key_path: Path, certificate_path: Path | None = None) -> NodeKey:
    """Read a PEM key with the PEM certificates of an authority, or with a self-signed one."""
    pem = _read(key_path, "node key", secret=True)
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError):
        raise PeerKeyError(
            f"node key {key_path}: holds no PEM private key without a password"
        ) from None
    if not _is_signing_key(key):
        raise PeerKeyError(f"node key {key_path}: only Ed25519 and P-256 keys are used")
    if certificate_path is None:
        return NodeKey(key, (_self_signed(key),))
    found = _read(certificate_path, "node certificate")
    try:
        chain = tuple(x509.load_pem_x509_certificates(found))
    except ValueError:
        raise PeerKeyError(
            f"node certificate {certificate_path}: holds no PEM certificate"
        ) from None
    node_key = NodeKey(key, chain)
    if node_key.fingerprint != key_hash(_self_signed(key)):
        raise PeerKeyError(
            f"node certificate {certificate_path}: does not belong to the key {key_path}"
        )
    return node_key


def obtain_node_key(state_dir: Path) -> NodeKey:
    """Return the key of the relay with this state directory; make it if there is none.

    Certificates of an authority are read from the file beside it.
    """
    path = state_dir / NODE_KEY
    if not path.exists():
        pem = ed25519.Ed25519PrivateKey.generate().private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        _make(path, pem)
    certificate = state_dir / NODE_CERTIFICATE
    return read_node_key(path, certificate if certificate.exists() else None)


def _is_signing_key(key: object) -> TypeGuard[SigningKey]:
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return isinstance(key.curve, ec.SECP256R1)
    return isinstance(key, ed25519.Ed25519PrivateKey)


def _self_signed(key: SigningKey) -> x509.Certificate:
    """Return a self-signed certificate, which only carries the key."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "laps relay")])
    start = datetime.now(UTC) - timedelta(days=1)
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + _SELF_SIGNED_FOR)
        .sign(key, algorithm)
    )


# Files


def _read(path: Path, what: str, *, secret: bool = False) -> bytes:
    """Read a file; raises ``PeerKeyError`` for a secret that all users of the machine may read."""
    try:
        # One descriptor for both: the mode that is checked is that of the file that is read.
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read()
    except OSError as error:
        raise PeerKeyError(f"{what} {path}: cannot be read: {error.strerror}") from None
    if secret and mode & stat.S_IRWXO:
        raise PeerKeyError(
            f"{what} {path}: everybody may open it (mode {stat.S_IMODE(mode):04o});"
            f" run: chmod 600 {path}"
        )
    return data


def _make(path: Path, data: bytes) -> None:
    """Write a file atomically unless another process has written it."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # mkstemp makes files that only their owner can read.
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        beside = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            path.hardlink_to(beside)
        except FileExistsError:
            pass
        finally:
            beside.unlink()
    except OSError as error:
        raise PeerKeyError(
            f"state directory {path.parent}: cannot be written: {error.strerror};"
            " choose another one with --state-dir"
        ) from None
