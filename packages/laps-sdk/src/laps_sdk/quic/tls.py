"""Certificates: read and checked before a QUIC library gets them, made for development, and pinned.

::

    Tls (paths) --read_server_certificate--> ServerCertificate --> engine of a server
                --read_trust---------------> verify mode, authorities --> engine of a client
    names ------> dev_certificate ---------> DevCertificate: self-signed, with its hash
    handshake --> pin_refusal -------------> "" or why the certificate is not pinned

The libraries report a bad file only when the first client connects, and without details. This
module reads every file first. Its errors name the file, the fault and the remedy.

All backends keep session tickets and 0-RTT off, because 0-RTT data can be replayed.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, TypeAlias

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from laps_sdk.quic.engine import Tls
from laps_wire.errors import LocalError

__all__ = [
    "MAX_PINNED_DAYS",
    "CertificateError",
    "DevCertificate",
    "ServerCertificate",
    "dev_certificate",
    "fingerprint",
    "key_hash",
    "parse_fingerprint",
    "pin_refusal",
    "read_server_certificate",
    "read_trust",
]

MAX_PINNED_DAYS: Final = 14
"""Browsers accept a hash only of a certificate valid no longer (W3C WebTransport, 9.3)."""
_CLOCK_SKEW: Final = timedelta(hours=1)
_PEM_CERTIFICATE: Final = b"-----BEGIN CERTIFICATE-----"

PrivateKey: TypeAlias = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey


class CertificateError(LocalError, ValueError):
    """A certificate, a key or a list of authorities is unusable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCertificate:
    """A server's certificate, checked, in the forms that the libraries need."""

    leaf: x509.Certificate
    chain: tuple[x509.Certificate, ...]
    """The certificates after the leaf."""
    key: PrivateKey
    certificate_pem: bytes
    """The leaf and its chain."""
    key_pem: bytes
    """PKCS #8 without encryption."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DevCertificate:
    """A self-signed certificate for development."""

    certificate_pem: bytes
    key_pem: bytes
    sha256: bytes
    """The value for ``serverCertificateHashes`` in a browser and for ``Tls.pinned_sha256``."""
    not_after: datetime


def read_server_certificate(tls: Tls, *, now: datetime | None = None) -> ServerCertificate:
    """Read and check the certificate and key of a server.

    The key may be in the certificate's file. Raises ``CertificateError`` if a file is unreadable or
    damaged, the certificate is not valid now, or the key is another one's.
    """
    if tls.certificate is None:
        raise CertificateError(
            "a server needs a certificate: set its path, or make one with 'laps-relay dev-cert'"
        )
    pem = _read(tls.certificate, "certificate")
    leaf, *chain = _parse_certificates(pem, tls.certificate, "certificate")
    moment = now or datetime.now(UTC)
    if moment > leaf.not_valid_after_utc:
        raise CertificateError(
            f"certificate {tls.certificate}: expired on {leaf.not_valid_after_utc:%Y-%m-%d %H:%M} "
            "UTC; renew it"
        )
    if moment + _CLOCK_SKEW < leaf.not_valid_before_utc:
        raise CertificateError(
            f"certificate {tls.certificate}: not valid before "
            f"{leaf.not_valid_before_utc:%Y-%m-%d %H:%M} UTC; check the clock"
        )
    key_path = tls.private_key or tls.certificate
    key = _parse_key(_read(key_path, "private key"), key_path)
    if _public_bytes(key.public_key()) != _public_bytes(leaf.public_key()):
        raise CertificateError(
            f"private key {key_path}: does not belong to certificate {tls.certificate}"
        )
    return ServerCertificate(
        leaf=leaf,
        chain=tuple(chain),
        key=key,
        certificate_pem=b"".join(
            each.public_bytes(serialization.Encoding.PEM) for each in (leaf, *chain)
        ),
        key_pem=_key_pem(key),
    )


def read_trust(tls: Tls) -> tuple[int, bytes | None]:
    """Return how a client verifies: a mode of :mod:`ssl`, and its authorities as PEM.

    The authorities are None for the system's. With pinned certificates the library checks only that
    the server holds the key. The backends then call :func:`pin_refusal` during the handshake.
    """
    for pin in tls.pinned_sha256:
        if len(pin) != hashlib.sha256().digest_size:
            raise CertificateError(f"a pinned SHA-256 has 32 bytes, not {len(pin)}")
    authorities = None
    if tls.ca_file is not None:
        authorities = _read(tls.ca_file, "CA file")
        _parse_certificates(authorities, tls.ca_file, "CA file")
    checked = tls.verify and not tls.pinned_sha256
    return (ssl.CERT_REQUIRED if checked else ssl.CERT_NONE), authorities


def dev_certificate(
    names: Sequence[str], days: int = 10, *, now: datetime | None = None
) -> DevCertificate:
    """Make a P-256 certificate for these host names and IP addresses.

    The certificate is self-signed and short-lived, so that browsers accept its hash. Raises
    ``CertificateError`` if there is no name or ``days`` is out of range.
    """
    if not names:
        raise CertificateError("a certificate needs at least one name or IP address")
    if not 1 <= days < MAX_PINNED_DAYS:
        raise CertificateError(
            f"days is {days}; 1 to {MAX_PINNED_DAYS - 1} are possible, because browsers refuse the "
            "hashes of certificates that live longer"
        )
    start = (now or datetime.now(UTC)) - _CLOCK_SKEW
    end = start + _CLOCK_SKEW + timedelta(days=days)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])])
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
        .add_extension(x509.SubjectAlternativeName([_san(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return DevCertificate(
        certificate_pem=certificate.public_bytes(serialization.Encoding.PEM),
        key_pem=_key_pem(key),
        sha256=fingerprint(certificate),
        not_after=certificate.not_valid_after_utc,
    )


def fingerprint(certificate: x509.Certificate | bytes) -> bytes:
    """Return SHA-256 of a certificate in DER; of bytes in PEM, the first certificate counts."""
    if isinstance(certificate, x509.Certificate):
        der = certificate.public_bytes(serialization.Encoding.DER)
    elif _PEM_CERTIFICATE in certificate:
        der = _parse_certificates(certificate, "given", "certificate")[0].public_bytes(
            serialization.Encoding.DER
        )
    else:
        der = certificate
    return hashlib.sha256(der).digest()


def key_hash(certificate: x509.Certificate | bytes) -> bytes:
    """Return SHA-256 of a certificate's SubjectPublicKeyInfo; bytes are DER."""
    if isinstance(certificate, bytes):
        certificate = x509.load_der_x509_certificate(certificate)
    return hashlib.sha256(_public_bytes(certificate.public_key())).digest()


def pin_refusal(leaf: x509.Certificate | bytes, pins: frozenset[bytes]) -> str:
    """Return why a server's certificate is not a pinned one; "" if it is."""
    seen = fingerprint(leaf)
    if seen in pins:
        return ""
    wanted = " or ".join(sorted(pin.hex() for pin in pins))
    return f"it is not pinned: its SHA-256 is {seen.hex()}, not {wanted}"


def parse_fingerprint(text: str) -> bytes:
    """Read a SHA-256 in hexadecimal, with or without colons, or in base64.

    Raises ``CertificateError`` for any other text.
    """
    plain = text.strip().removeprefix("sha256/").removeprefix("sha256:")
    compact = plain.replace(":", "").replace(" ", "")
    if len(compact) == 64:
        try:
            return bytes.fromhex(compact)
        except ValueError:
            pass
    try:
        raw = base64.b64decode(plain.replace("-", "+").replace("_", "/"), validate=True)
    except ValueError:
        raw = b""
    if len(raw) != 32:
        raise CertificateError(
            f"{text[:80]!a} is no SHA-256: 64 hex digits (colons allowed), or 44 characters of "
            "base64"
        )
    return raw


def _read(path: str, what: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise CertificateError(f"{what} {path}: cannot be read: {error.strerror}") from error


def _parse_certificates(pem: bytes, path: str, what: str) -> list[x509.Certificate]:
    if _PEM_CERTIFICATE not in pem:
        raise CertificateError(
            f"{what} {path}: holds no PEM certificate ('-----BEGIN CERTIFICATE-----')"
        )
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise CertificateError(f"{what} {path}: a PEM block in it is damaged") from error


def _parse_key(pem: bytes, path: str) -> PrivateKey:
    if b"PRIVATE KEY-----" not in pem:
        raise CertificateError(f"private key {path}: holds no PEM key ('... PRIVATE KEY-----')")
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except TypeError as error:
        raise CertificateError(
            f"private key {path}: is encrypted; store it without a password, readable only by the "
            "server's user"
        ) from error
    except ValueError as error:
        raise CertificateError(f"private key {path}: its PEM block is damaged") from error
    if not isinstance(
        key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey
    ):
        raise CertificateError(
            f"private key {path}: TLS 1.3 takes ECDSA, RSA and Ed25519 keys, not this kind"
        )
    return key


def _public_bytes(key: CertificatePublicKeyTypes) -> bytes:
    return key.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def _key_pem(key: PrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _san(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        pass
    try:
        return x509.DNSName(name)
    except ValueError as error:
        raise CertificateError(
            f"{name!a} is neither an IP address nor a host name in ASCII"
        ) from error
