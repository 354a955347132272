from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from laps_relay.cli import app
from laps_sdk.peering.keys.files import obtain_network_key, read_network_key


def test_the_key_for_stubs_is_printed_as_a_key_file(tmp_path: Path) -> None:
    secret = obtain_network_key(tmp_path)
    for where in (("--state-dir", tmp_path), ("--key-file", tmp_path / "network-key")):
        found = CliRunner().invoke(app, ["stub-key", *map(str, where)])
        assert found.exit_code == 0
        path = tmp_path / "stub-key"
        path.write_text(found.stdout)
        path.chmod(0o600)
        assert read_network_key(path) == secret.stub_key()
        assert secret.secret.hex() not in found.stdout
        again = CliRunner().invoke(app, ["stub-key", "--key-file", str(path)])
        assert again.stdout == found.stdout


def test_without_a_key_it_says_so(tmp_path: Path) -> None:
    found = CliRunner().invoke(app, ["stub-key", "--state-dir", str(tmp_path)])
    assert found.exit_code == 2
    assert "cannot be read" in found.stderr
