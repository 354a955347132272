from __future__ import annotations

import base64
import hashlib
import ipaddress
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448

from laps_sdk.quic.engine import Tls
from laps_sdk.quic.tls import (
    CertificateError,
    dev_certificate,
    fingerprint,
    key_hash,
    parse_fingerprint,
    read_server_certificate,
    read_trust,
)
from testkit.certs import certificates, issue

PEM = serialization.Encoding.PEM
PKCS8 = serialization.PrivateFormat.PKCS8
PLAIN = serialization.NoEncryption()
NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)


@pytest.fixture
def files(tmp_path: Path) -> Tls:
    made = dev_certificate(["localhost"])
    (tmp_path / "cert.pem").write_bytes(made.certificate_pem)
    (tmp_path / "key.pem").write_bytes(made.key_pem)
    return Tls(certificate=str(tmp_path / "cert.pem"), private_key=str(tmp_path / "key.pem"))


def path(name: str | None) -> Path:
    assert name is not None
    return Path(name)


def test_a_good_pair_is_read(files: Tls) -> None:
    read = read_server_certificate(files)
    assert read.chain == ()
    assert isinstance(read.key, ec.EllipticCurvePrivateKey)
    assert read.certificate_pem == path(files.certificate).read_bytes()
    assert read.key_pem == path(files.private_key).read_bytes()


def test_chain_and_key_may_be_in_one_file(tmp_path: Path) -> None:
    authority = issue("authority", ca=True)
    leaf, key = issue("localhost", issuer=authority)
    one = tmp_path / "all.pem"
    one.write_bytes(
        leaf.public_bytes(PEM)
        + authority[0].public_bytes(PEM)
        + key.private_bytes(PEM, serialization.PrivateFormat.TraditionalOpenSSL, PLAIN)
    )
    read = read_server_certificate(Tls(certificate=str(one)))
    assert read.leaf == leaf
    assert read.chain == (authority[0],)
    assert read.certificate_pem == leaf.public_bytes(PEM) + authority[0].public_bytes(PEM)
    assert b"BEGIN PRIVATE KEY" in read.key_pem


def test_a_server_without_a_certificate() -> None:
    with pytest.raises(CertificateError, match="dev-cert"):
        read_server_certificate(Tls())


def test_files_that_are_missing(files: Tls, tmp_path: Path) -> None:
    gone = str(tmp_path / "gone.pem")
    with pytest.raises(CertificateError, match=r"^certificate .*gone\.pem: cannot be read: "):
        read_server_certificate(Tls(certificate=gone))
    with pytest.raises(CertificateError, match=r"^private key .*gone\.pem: cannot be read"):
        read_server_certificate(Tls(certificate=files.certificate, private_key=gone))
    with pytest.raises(CertificateError, match=r"^CA file .*gone\.pem: cannot be read"):
        read_trust(Tls(ca_file=gone))


def test_files_with_something_else_in_them(files: Tls, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"hello")
    with pytest.raises(CertificateError, match="holds no PEM certificate"):
        read_server_certificate(Tls(certificate=str(other)))
    with pytest.raises(CertificateError, match="holds no PEM key"):
        read_server_certificate(Tls(certificate=files.certificate, private_key=str(other)))
    other.write_bytes(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    with pytest.raises(CertificateError, match="PEM block in it is damaged"):
        read_server_certificate(Tls(certificate=str(other)))
    with pytest.raises(CertificateError, match=r"^CA file .*damaged"):
        read_trust(Tls(ca_file=str(other)))
    other.write_bytes(b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
    with pytest.raises(CertificateError, match="its PEM block is damaged"):
        read_server_certificate(Tls(certificate=files.certificate, private_key=str(other)))


def test_keys_that_cannot_be_used(files: Tls, tmp_path: Path) -> None:
    key = tmp_path / "other.key"
    tls = Tls(certificate=files.certificate, private_key=str(key))
    made = ec.generate_private_key(ec.SECP256R1())
    key.write_bytes(made.private_bytes(PEM, PKCS8, serialization.BestAvailableEncryption(b"x")))
    with pytest.raises(CertificateError, match="is encrypted"):
        read_server_certificate(tls)
    key.write_bytes(made.private_bytes(PEM, PKCS8, PLAIN))
    with pytest.raises(CertificateError, match="does not belong to certificate"):
        read_server_certificate(tls)
    key.write_bytes(ed448.Ed448PrivateKey.generate().private_bytes(PEM, PKCS8, PLAIN))
    with pytest.raises(CertificateError, match="not this kind"):
        read_server_certificate(tls)


def test_a_certificate_out_of_its_time(files: Tls) -> None:
    with pytest.raises(CertificateError, match=r"expired on .* UTC; renew it"):
        read_server_certificate(files, now=datetime.now(UTC) + timedelta(days=40))
    with pytest.raises(CertificateError, match=r"not valid before .* check the clock"):
        read_server_certificate(files, now=datetime.now(UTC) - timedelta(days=40))


def test_how_clients_trust() -> None:
    assert read_trust(Tls()) == (ssl.CERT_REQUIRED, None)
    assert read_trust(Tls(verify=False)) == (ssl.CERT_NONE, None)
    assert read_trust(Tls(pinned_sha256=frozenset({bytes(32)}))) == (ssl.CERT_NONE, None)
    mode, authorities = read_trust(certificates().trusting)
    assert mode == ssl.CERT_REQUIRED
    assert authorities is not None
    assert b"BEGIN CERTIFICATE" in authorities
    with pytest.raises(CertificateError, match="has 32 bytes, not 3"):
        read_trust(Tls(pinned_sha256=frozenset({b"abc"})))


def test_a_development_certificate_is_what_browsers_take_by_hash() -> None:
    made = dev_certificate(["localhost", "127.0.0.1", "::1"], days=13, now=NOW)
    certificate = x509.load_pem_x509_certificate(made.certificate_pem)
    key = certificate.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert key.curve.name == "secp256r1"
    assert certificate.not_valid_before_utc <= NOW
    assert certificate.not_valid_after_utc == made.not_after == NOW + timedelta(days=13)
    assert made.not_after - certificate.not_valid_before_utc <= timedelta(days=14)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert names.get_values_for_type(x509.IPAddress) == [
        ipaddress.ip_address("127.0.0.1"),
        ipaddress.ip_address("::1"),
    ]
    assert made.sha256 == fingerprint(certificate)


@pytest.mark.parametrize("days", [0, 14, -1])
def test_a_development_certificate_lives_less_than_two_weeks(days: int) -> None:
    with pytest.raises(CertificateError, match=f"days is {days}; 1 to 13"):
        dev_certificate(["localhost"], days=days)


def test_names_of_a_development_certificate() -> None:
    with pytest.raises(CertificateError, match="at least one name"):
        dev_certificate([])
    with pytest.raises(CertificateError, match=r"'b\\xfccher\.example' is neither"):
        dev_certificate(["b\u00fccher.example"])


def test_a_fingerprint_is_the_same_from_every_form() -> None:
    made = dev_certificate(["localhost"])
    certificate = x509.load_pem_x509_certificate(made.certificate_pem)
    der = certificate.public_bytes(serialization.Encoding.DER)
    expected = hashlib.sha256(der).digest()
    forms: list[x509.Certificate | bytes] = [certificate, der, made.certificate_pem]
    assert [fingerprint(form) for form in forms] == [expected] * 3


def test_the_hash_of_a_key_is_the_same_from_every_form() -> None:
    certificate = x509.load_pem_x509_certificate(dev_certificate(["localhost"]).certificate_pem)
    spki = certificate.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    der = certificate.public_bytes(serialization.Encoding.DER)
    assert key_hash(certificate) == key_hash(der) == hashlib.sha256(spki).digest()


def test_fingerprints_as_people_write_them() -> None:
    raw = hashlib.sha256(b"x").digest()
    text = raw.hex()
    colons = ":".join(text[i : i + 2] for i in range(0, 64, 2)).upper()
    plain = base64.b64encode(raw).decode()
    safe = base64.urlsafe_b64encode(raw).decode()
    for written in (text, colons, f" {text}\n", f"sha256:{text}", plain, safe, f"sha256/{plain}"):
        assert parse_fingerprint(written) == raw


@pytest.mark.parametrize("text", ["", "abc", "g" * 64, "ab" * 31, "A" * 43, "\u00e4" * 44])
def test_what_is_no_fingerprint(text: str) -> None:
    with pytest.raises(CertificateError, match="is no SHA-256"):
        parse_fingerprint(text)
