from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from laps_relay.cli import app
from laps_sdk import tokens

ROOT = Path(__file__).resolve().parents[4]


def run(*arguments: str | Path, **environment: str) -> Result:
    return CliRunner().invoke(app, [str(item) for item in arguments], env=environment)


def test_the_example_is_good() -> None:
    ended = run("config", "check", "--config", ROOT / "deploy" / "relay.example.toml")
    assert ended.exit_code == 0, ended.stderr
    assert "is good" in ended.stdout


def test_a_check_says_what_is_wrong_and_where(tmp_path: Path) -> None:
    file = tmp_path / "relay.toml"
    file.write_text("[listen]\nclient_port = 'x'\nhots = 1\n", encoding="ascii")
    ended = run("config", "check", "-c", file)
    assert ended.exit_code == 2
    first, second = ended.stderr.splitlines()
    assert first.startswith(f"laps-relay: {file}:3: listen.hots: unknown key; did you mean")
    assert second.startswith(f"laps-relay: {file}:2: listen.client_port: 'x'")


def test_a_check_may_read_the_files_too(tmp_path: Path) -> None:
    file = tmp_path / "relay.toml"
    file.write_text(f'[auth]\nkeys = ["{tmp_path}/key.json"]\n', encoding="utf-8")
    assert run("config", "check", "-c", file).exit_code == 0
    missing = run("config", "check", "--files", "-c", file)
    assert missing.exit_code == 2
    assert "key.json: cannot be read" in missing.stderr
    tokens.save_key(tokens.generate("HS256", "k"), tmp_path / "key.json")
    assert run("config", "check", "--files", "-c", file).exit_code == 0
    ended = run("config", "check", "--files", LAPS_TLS__CERTIFICATE=str(tmp_path / "none.pem"))
    assert ended.exit_code == 2
    assert "none.pem: cannot be read" in ended.stderr


def test_show_says_where_values_come_from(tmp_path: Path) -> None:
    word = "0123456789abcdef"
    ended = run("config", "show", "--state-dir", tmp_path, LAPS_ADMIN__TOKEN=word)
    assert ended.exit_code == 0
    assert word not in ended.stdout
    lines = {line.split(" = ")[0]: line for line in ended.stdout.splitlines()}
    assert lines["state_dir"].endswith("# flag --state-dir")
    assert lines["admin.token"].endswith("# environment LAPS_ADMIN__TOKEN")
    assert lines["cache.max_bytes"].startswith('cache.max_bytes = "64MiB" ')
    assert lines["cache.max_bytes"].endswith("# default")
    rows = json.loads(run("config", "show", "--json").stdout)
    assert {"key": "listen.client_port", "value": 33435, "source": "default"} in rows


def test_the_schema_is_json() -> None:
    schema = json.loads(run("config", "schema").stdout)
    assert schema["properties"]["state_dir"]["lifecycle"] == "static"


def test_the_file_may_come_from_the_environment(tmp_path: Path) -> None:
    assert run("config", "check", LAPS_CONFIG=str(tmp_path / "none.toml")).exit_code == 2


@pytest.mark.parametrize("arguments", [(), ("config",)])
def test_no_command_shows_help(arguments: tuple[str, ...]) -> None:
    assert "Usage" in run(*arguments).output


def test_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    known = importlib.metadata.version("laps-relay")

    def version(name: str) -> str:
        if name == "qh3":
            raise importlib.metadata.PackageNotFoundError(name)
        return known

    monkeypatch.setattr("laps_relay.cli.config.version", version)
    out = CliRunner().invoke(app, ["version"]).stdout
    assert f"laps-relay   {known}\n" in out
    assert "qh3          not installed\n" in out
    assert "python " in out
