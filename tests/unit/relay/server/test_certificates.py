from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from laps_relay.config.model import TlsFiles
from laps_relay.server.certificates import DEV_CERTIFICATE, DEV_KEY, RENEW_BEFORE, obtain
from laps_sdk.quic.tls import CertificateError
from testkit.disk import full_disk

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


def test_a_key_that_others_may_read_is_replaced(tmp_path: Path) -> None:
    first = obtain(TlsFiles(), tmp_path)
    assert not first.exposed
    (tmp_path / DEV_KEY).chmod(0o644)
    second = obtain(TlsFiles(), tmp_path)
    assert second.sha256 != first.sha256
    assert (tmp_path / DEV_KEY).stat().st_mode & 0o777 == 0o600
    assert obtain(TlsFiles(), tmp_path) == second


def test_an_operators_key_that_others_may_read_is_told(tmp_path: Path) -> None:
    obtain(TlsFiles(), tmp_path)
    files = TlsFiles(certificate=tmp_path / DEV_CERTIFICATE, private_key=tmp_path / DEV_KEY)
    assert not obtain(files, tmp_path).exposed
    (tmp_path / DEV_KEY).chmod(0o644)
    assert obtain(files, tmp_path).exposed


def test_links_are_not_written_through(tmp_path: Path) -> None:
    state, victim = tmp_path / "state", tmp_path / "victim"
    state.mkdir()
    victim.write_text("precious", encoding="ascii")
    for name in (DEV_KEY, DEV_CERTIFICATE, f".{DEV_KEY}.{os.getpid()}"):
        (state / name).symlink_to(victim)
    obtain(TlsFiles(), state)
    assert victim.read_text(encoding="ascii") == "precious"
    assert not (state / DEV_KEY).is_symlink()


def test_a_full_disk_leaves_the_old_pair(tmp_path: Path) -> None:
    first = obtain(TlsFiles(), tmp_path)
    before = sorted(tmp_path.iterdir())
    with full_disk(), pytest.raises(CertificateError, match="cannot be written: File too large"):
        obtain(TlsFiles(), tmp_path, renew=True)
    assert sorted(tmp_path.iterdir()) == before
    assert obtain(TlsFiles(), tmp_path) == first
