from __future__ import annotations

import asyncio
import importlib.metadata
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from laps_relay.cli import app
from laps_sdk import tokens
from laps_sdk.peering.keys.files import NODE_KEY, obtain_network_key, read_network_key
from testkit.logs import restored_logging
from testkit.network_task import network, until

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


def dev_cert(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["dev-cert", *map(str, arguments)])


def test_a_new_one_each_time_unless_kept(tmp_path: Path) -> None:
    first = json.loads(dev_cert("--state-dir", tmp_path, "--json").stdout)
    assert Path(first["certificate"]).exists()
    assert len(first["sha256"]) == 64
    kept = json.loads(dev_cert("--state-dir", tmp_path, "--keep", "--json").stdout)
    assert kept == first
    other = dev_cert("--state-dir", tmp_path, "--name", "relay.example", "--name", "192.0.2.1")
    assert other.exit_code == 0
    assert first["sha256"] not in other.stdout
    assert "sha256" in other.stdout


def test_what_is_wrong_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ended = dev_cert("--state-dir", tmp_path / "file")
    assert ended.exit_code == 2
    assert ended.stderr.count("\n") == 1
    assert "cannot be written" in ended.stderr


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


class Admin(BaseHTTPRequestHandler):
    """Says what a test wants, and remembers what it was asked."""

    asked: list[tuple[str, str | None]]
    status: int
    body: bytes

    def do_POST(self) -> None:
        self.asked.append((self.path, self.headers["Authorization"]))
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002 - its name there


@contextmanager
def admin(status: int, body: bytes = b"{}") -> Iterator[tuple[str, list[tuple[str, str | None]]]]:
    asked: list[tuple[str, str | None]] = []
    kind = type("Made", (Admin,), {"asked": asked, "status": status, "body": body})
    server = HTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def forget(*words: str) -> tuple[int, str, str]:
    found = CliRunner().invoke(app, ["forget-key", *words])
    return found.exit_code, found.stdout, found.stderr


def test_the_relay_is_asked_with_its_token(tmp_path: Path) -> None:
    file = tmp_path / "relay.toml"
    with admin(200) as (url, asked):
        file.write_text(
            f'[admin]\nport = {url.rpartition(":")[2]}\ntoken = "0123456789abcdef0123"\n'
        )
        assert forget("0:11", "--config", str(file)) == (
            0,
            "the key of node 0.0:0.11 is forgotten\n",
            "",
        )
        assert forget("0:11", "--admin", url)[0] == 0
    path = "/v1/network/nodes/0.0%3A0.11/forget-key"
    assert asked == [(path, "Bearer 0123456789abcdef0123"), (path, None)]


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (409, b'{"detail": "it has a connection"}', "it has a connection"),
        (401, b"who are you", "401"),
        (500, b"[]", "500"),
    ],
)
def test_what_the_relay_has_against_it_is_told(status: int, body: bytes, says: str) -> None:
    with admin(status, body) as (url, _):
        code, out, error = forget("0:11", "--admin", url)
    assert (code, out) == (1, "")
    assert says in error


def test_nobody_answers() -> None:
    with admin(200) as (url, _):
        pass
    code, _, error = forget("0:11", "--admin", url)
    assert code == 1
    assert "does not answer" in error


@pytest.mark.parametrize("words", [("nobody",), ("0:11", "--admin", "ftp://there")])
def test_what_cannot_be_asked(words: tuple[str, ...]) -> None:
    code, _, error = forget(*words)
    assert code == 2
    assert error


def test_a_relay_with_a_new_key_comes_back(tmp_path: Path) -> None:
    """Without a restart of the relay that knew the old one."""

    async def test() -> None:
        async with network(tmp_path) as net:
            staying = await net.relay("edge", admin={"enabled": True, "port": 0})
            url = staying.app.admin_url
            assert url is not None
            first = await net.relay("edge", staying, node="9:9")
            await until(staying.network.peers)
            await net.stop(first)
            await until(lambda: not staying.network.peers())
            (tmp_path / NODE_KEY).unlink()
            second = await net.relay("edge", staying, node="9:9")
            await until(lambda: second.logged("peering refused"))
            await net.stop(second)
            code, _, error = await asyncio.to_thread(forget, "9:9", "--admin", url)
            assert (code, error) == (0, "")
            assert staying.logged("key of a node forgotten")[0]["node"] == "0.9:0.9"
            third = await net.relay("edge", staying, node="9:9")
            await until(lambda: any(row.control for row in third.network.peers()))
            code, _, error = await asyncio.to_thread(forget, "9:9", "--admin", url)
            assert code == 1
            assert "has a connection" in error
            assert (await asyncio.to_thread(forget, "8:8", "--admin", url))[0] == 1

    with restored_logging():
        asyncio.run(test())
