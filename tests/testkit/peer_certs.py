"""Certificates of relays: an authority of a network, and what it signs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import NameOID

from laps_sdk.peering.keys import NODE_URN, NodeKey
from laps_wire.nodeid import NodeId

__all__ = ["Issued", "authority", "issue_node", "node_key", "store"]

Key = ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey


class Issued(NamedTuple):
    """A certificate with its key."""

    certificate: x509.Certificate
    key: Key


def issue_node(
    issuer: Issued | None,
    uris: Sequence[str] = (),
    *,
    key: Key | None = None,
    ca: bool | None = False,
    end: datetime | None = None,
    name: str = "relay",
) -> Issued:
    """A certificate, signed by the issuer or by itself; ``ca`` None leaves the extension out."""
    key = key or ed25519.Ed25519PrivateKey.generate()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    end = end or datetime.now(UTC) + timedelta(days=30)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(end - timedelta(days=60))
        .not_valid_after(end)
    )
    if ca is not None:
        builder = builder.add_extension(x509.BasicConstraints(ca, None), critical=True)
    if uris:
        names = [x509.UniformResourceIdentifier(uri) for uri in uris]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    signer = key if issuer is None else issuer.key
    algorithm = None if isinstance(signer, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return Issued(builder.sign(signer, algorithm), key)


@cache
def authority() -> Issued:
    """The authority of the network under test."""
    return issue_node(
        None, key=ec.generate_private_key(ec.SECP256R1()), ca=True, name="network authority"
    )


def node_key(number: int, issuer: Issued | None = None, *, key: Key | None = None) -> NodeKey:
    """The key of a node with a certificate of the authority."""
    made = issue_node(issuer or authority(), [NODE_URN + str(NodeId(number))], key=key)
    return NodeKey(made.key, (made.certificate,))


def store(directory: Path, issued: Issued, *others: x509.Certificate) -> tuple[Path, Path]:
    """Write a key and its certificates; gives both paths."""
    pem = serialization.Encoding.PEM
    key, chain = directory / "relay.key", directory / "relay.pem"
    key.touch(mode=0o600)
    key.write_bytes(
        issued.key.private_bytes(
            pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    chain.write_bytes(b"".join(c.public_bytes(pem) for c in (issued.certificate, *others)))
    return key, chain
