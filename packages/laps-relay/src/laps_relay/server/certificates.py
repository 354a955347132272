"""The TLS certificate of a relay: the operator's, or a development certificate.

A development certificate is in the state directory, where clients of the same user look for it. The
relay makes a new one if it is missing, damaged, for other names, or near its end. Browsers accept
it by its hash, so it is valid for less than two weeks.
"""

from __future__ import annotations

import os
import stat
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509

from laps_relay.config.model import TlsFiles
from laps_sdk.quic.engine import Tls
from laps_sdk.quic.tls import (
    CertificateError,
    ServerCertificate,
    dev_certificate,
    fingerprint,
    read_server_certificate,
)

__all__ = ["DEV_CERTIFICATE", "DEV_KEY", "Certificate", "obtain"]

DEV_CERTIFICATE: Final = "dev-cert.pem"
DEV_KEY: Final = "dev-key.pem"
RENEW_BEFORE: Final = timedelta(days=3)
"""A development certificate that ends sooner than this is replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A TLS certificate, and what operators must know of it."""

    tls: Tls
    sha256: str
    """SHA-256 of the leaf certificate in hex, which clients pin."""
    not_after: datetime
    development: bool
    exposed: bool
    """Whether every user of this machine may read the private key."""


def obtain(
    files: TlsFiles, state_dir: Path, *, now: datetime | None = None, renew: bool = False
) -> Certificate:
    """Return the configured certificate, checked, or a development certificate.

    A development certificate is made if there is no usable one, or if ``renew`` is set. Raises
    ``CertificateError``.
    """
    moment = now or datetime.now(UTC)
    if files.certificate is not None:
        tls = Tls(
            certificate=str(files.certificate),
            private_key=None if files.private_key is None else str(files.private_key),
        )
        return _described(tls, read_server_certificate(tls, now=moment), development=False)
    tls = Tls(certificate=str(state_dir / DEV_CERTIFICATE), private_key=str(state_dir / DEV_KEY))
    found = None if renew else _usable(tls, files, moment)
    if found is None:
        _make(state_dir, files.dev_names, moment)
        found = read_server_certificate(tls, now=moment)
    return _described(tls, found, development=True)


def _described(tls: Tls, found: ServerCertificate, *, development: bool) -> Certificate:
    key = Path(tls.private_key or tls.certificate or "")
    return Certificate(
        tls=tls,
        sha256=fingerprint(found.leaf).hex(),
        not_after=found.leaf.not_valid_after_utc,
        development=development,
        exposed=bool(key.stat().st_mode & stat.S_IROTH),
    )


def _usable(tls: Tls, files: TlsFiles, now: datetime) -> ServerCertificate | None:
    try:
        found = read_server_certificate(tls, now=now)
        key = Path(tls.private_key or "").stat()
    except (CertificateError, OSError):
        return None
    # One that others could have put there, or have read, is not ours.
    if key.st_uid != os.geteuid() or key.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        return None
    fresh = found.leaf.not_valid_after_utc - now > RENEW_BEFORE
    return found if fresh and _names(found.leaf) == set(files.dev_names) else None


def _names(leaf: x509.Certificate) -> set[str]:
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    return {str(name.value) for name in names}


def _make(state_dir: Path, names: list[str], now: datetime) -> None:
    made = dev_certificate(names, now=now)
    try:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The key first: a crash between the two leaves a pair that is seen not to match.
        _write(state_dir / DEV_KEY, made.key_pem, 0o600)
        _write(state_dir / DEV_CERTIFICATE, made.certificate_pem, 0o644)
    except OSError as error:
        raise CertificateError(
            f"state directory {state_dir}: cannot be written: {error.strerror};"
            " choose another one with --state-dir"
        ) from None


def _write(path: Path, data: bytes, mode: int) -> None:
    """Replace a file, all or nothing: readers see the old file or the new one."""
    # An unpredictable, unused name, so that nothing is written through a symbolic link.
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    beside = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(data)
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
