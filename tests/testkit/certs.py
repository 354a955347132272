"""Certificates for tests, made once in a run: a small authority, a server's leaf, and odd ones."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from laps_sdk.quic.engine import Tls
from laps_sdk.quic.tls import dev_certificate, fingerprint

__all__ = ["Certificates", "certificates", "issue"]

NAMES = ("localhost", "relay.example", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """Paths in a directory that is removed when the run ends, and what clients trust."""

    directory: Path
    server: Tls
    """A leaf for ``NAMES``, issued by the authority, with its key."""
    trusting: Tls
    """A client that trusts the authority."""
    pinned: Tls
    """A client that knows the leaf's hash, and no authority."""
    insecure: Tls
    other_server: Tls
    """A self-signed certificate of somebody else."""
    other_sha256: bytes


def issue(
    name: str,
    *,
    issuer: tuple[x509.Certificate, ec.EllipticCurvePrivateKey] | None = None,
    ca: bool = False,
    not_after: datetime | None = None,
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """A certificate signed by ``issuer``, or by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    end = not_after or datetime.now(UTC) + timedelta(days=5)
    sans = [
        x509.IPAddress(ip_address(name)) if name[-1].isdigit() else x509.DNSName(name)
        for name in NAMES
    ]
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer[0].subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(end - timedelta(days=8))
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    if ca:
        usage = x509.KeyUsage(
            digital_signature=True, content_commitment=False, key_encipherment=False,
            data_encipherment=False, key_agreement=False, key_cert_sign=True, crl_sign=True,
            encipher_only=False, decipher_only=False,
        )  # fmt: skip
        builder = builder.add_extension(usage, critical=True)
    else:
        builder = builder.add_extension(x509.SubjectAlternativeName(sans), critical=False)
    if issuer:
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer[1].public_key())
        builder = builder.add_extension(identifier, critical=False)
    return builder.sign(issuer[1] if issuer else key, hashes.SHA256()), key


@cache
def certificates() -> Certificates:
    """The certificates of this run."""
    directory = Path(tempfile.mkdtemp(prefix="laps-certs-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    authority, authority_key = issue("laps test authority", ca=True)
    leaf, leaf_key = issue("localhost", issuer=(authority, authority_key))
    other = dev_certificate(NAMES)

    def store(name: str, content: bytes) -> str:
        path = directory / name
        path.write_bytes(content)
        return str(path)

    pem = serialization.Encoding.PEM
    key_pem = leaf_key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Certificates(
        directory=directory,
        server=Tls(
            certificate=store("leaf.pem", leaf.public_bytes(pem)),
            private_key=store("leaf.key", key_pem),
        ),
        trusting=Tls(ca_file=store("authority.pem", authority.public_bytes(pem))),
        pinned=Tls(pinned_sha256=frozenset({fingerprint(leaf)})),
        insecure=Tls(verify=False),
        other_server=Tls(
            certificate=store("other.pem", other.certificate_pem),
            private_key=store("other.key", other.key_pem),
        ),
        other_sha256=other.sha256,
    )
