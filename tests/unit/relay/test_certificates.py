from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from laps_relay.certificates import DEV_CERTIFICATE, DEV_KEY, RENEW_BEFORE, obtain
from laps_relay.config.model import TlsFiles
from laps_sdk.transport.tls import CertificateError

NOW = datetime(2026, 11, 1, tzinfo=UTC)


def test_one_is_made_where_none_is_and_kept(tmp_path: Path) -> None:
    state = tmp_path / "deep" / "state"
    made = obtain(TlsFiles(), state, now=NOW)
    assert made.development
    assert len(bytes.fromhex(made.sha256)) == 32
    assert (state / DEV_KEY).stat().st_mode & 0o777 == 0o600
    assert state.stat().st_mode & 0o777 == 0o700
    assert obtain(TlsFiles(), state, now=NOW + timedelta(days=1)) == made
    assert {path.name for path in state.iterdir()} == {DEV_CERTIFICATE, DEV_KEY}


def test_one_near_its_end_is_replaced(tmp_path: Path) -> None:
    made = obtain(TlsFiles(), tmp_path, now=NOW)
    late = made.not_after - RENEW_BEFORE
    assert obtain(TlsFiles(), tmp_path, now=late - timedelta(minutes=1)) == made
    assert obtain(TlsFiles(), tmp_path, now=late).not_after > made.not_after


def test_one_for_other_names_is_replaced(tmp_path: Path) -> None:
    made = obtain(TlsFiles(), tmp_path, now=NOW)
    other = obtain(TlsFiles(dev_names=["relay.example"]), tmp_path, now=NOW)
    assert other.sha256 != made.sha256
    assert obtain(TlsFiles(dev_names=["relay.example"]), tmp_path, now=NOW) == other


def test_one_that_is_wanted_new_is_new(tmp_path: Path) -> None:
    made = obtain(TlsFiles(), tmp_path, now=NOW)
    assert obtain(TlsFiles(), tmp_path, now=NOW, renew=True).sha256 != made.sha256


@pytest.mark.parametrize("name", [DEV_CERTIFICATE, DEV_KEY])
def test_a_damaged_or_strange_file_is_replaced(tmp_path: Path, name: str) -> None:
    made = obtain(TlsFiles(), tmp_path, now=NOW)
    (tmp_path / name).write_text("garbage", encoding="ascii")
    again = obtain(TlsFiles(), tmp_path, now=NOW)
    assert again.sha256 != made.sha256
    obtain(TlsFiles(), tmp_path / "other", now=NOW)
    (tmp_path / "other" / name).replace(tmp_path / name)
    assert obtain(TlsFiles(), tmp_path, now=NOW).sha256 != again.sha256


def test_the_operators_own_is_checked(tmp_path: Path) -> None:
    made = obtain(TlsFiles(), tmp_path, now=NOW)
    own = TlsFiles(certificate=tmp_path / DEV_CERTIFICATE, private_key=tmp_path / DEV_KEY)
    found = obtain(own, tmp_path / "unused", now=NOW)
    assert not found.development
    assert found.sha256 == made.sha256
    assert not (tmp_path / "unused").exists()
    with pytest.raises(CertificateError, match="expired"):
        obtain(own, tmp_path, now=NOW + timedelta(days=20))
    with pytest.raises(CertificateError, match="cannot be read"):
        obtain(TlsFiles(certificate=tmp_path / "none.pem"), tmp_path)


def test_a_state_directory_that_cannot_be_written(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("", encoding="ascii")
    with pytest.raises(CertificateError, match="choose another one with --state-dir"):
        obtain(TlsFiles(), blocked / "state", now=NOW)
