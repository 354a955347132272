from __future__ import annotations

from pathlib import Path

import pytest

from laps_relay.config.load import (
    MASK,
    Changes,
    compare,
    json_schema,
    leaves,
    load,
    markdown,
    shown,
)
from laps_relay.config.model import RelayConfig
from laps_relay.config.sources import ConfigError

PHRASE = "correct-horse-battery-staple"


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_later_sources_win(tmp_path: Path) -> None:
    path = write(tmp_path / "r.toml", '[listen]\nhost = "a"\nclient_port = 1\ndatagram_size=1300\n')
    loaded = load(
        path,
        {"LAPS_LISTEN__HOST": "b", "LAPS_LISTEN__CLIENT_PORT": "2"},
        {"listen.client_port": ("--port", 3), "listen.host": ("--host", None)},
    )
    listen = loaded.config.listen
    assert (listen.host, listen.client_port, listen.datagram_size) == ("b", 3, 1300)
    places = {key: place for key, _, place in shown(loaded)}
    assert places["listen.host"] == "environment LAPS_LISTEN__HOST"
    assert places["listen.client_port"] == "flag --port"
    assert places["listen.datagram_size"] == f"{path}:4"
    assert places["listen.transport"] == "default"
    assert loaded.file == path


def test_nothing_at_all_is_a_configuration() -> None:
    assert load().config == RelayConfig()


def test_everything_wrong_is_said_at_once(tmp_path: Path) -> None:
    path = write(
        tmp_path / "r.toml",
        """nothing = 1
admin = 5
[listen]
client_port = 99999
hots = "a"
[cache]
host = "b"
[limits.egress]
high_water = "12 parsecs"
[auth]
anonymous = ["dance:*"]
""",
    )
    with pytest.raises(ConfigError) as caught:
        load(path, {"LAPS_OBSERVE__LOG_LEVEL": "loud"})
    words = str(caught.value).splitlines()
    assert len(caught.value.problems) == len(words) == 8
    for line, start in zip(
        words,
        [
            f"{path}:1: nothing: unknown key; 'laps-relay config schema'",
            f"{path}:2: admin: is a table, not a value; write it as [admin]",
            f"{path}:5: listen.hots: unknown key; did you mean listen.host?",
            f"{path}:7: cache.host: unknown key; did you mean listen.host?",
            f"{path}:4: listen.client_port: '99999': input should be less than",
            f"{path}:11: auth.anonymous: \"['dance:*']\": scope 'dance:*': unknown action",
            f"{path}:9: limits.egress.high_water: '12 parsecs': a size is",
            "environment LAPS_OBSERVE__LOG_LEVEL: observe.log_level: 'loud': input should be",
        ],
        strict=True,
    ):
        assert line.startswith(start), line
    assert words[4].endswith("UDP port for clients; 0: any free one. Default: 33435")


def test_a_table_that_does_not_fit_together(tmp_path: Path) -> None:
    path = write(tmp_path / "r.toml", '[admin]\nhost = "0.0.0.0"\n')
    with pytest.raises(ConfigError, match=r"r\.toml:2: admin\.host: '0\.0\.0\.0': it is not loop"):
        load(path)


@pytest.mark.parametrize(
    ("key", "flag", "value", "words"),
    [
        ("network.type", "--type", "stub", "set network.peers"),
        ("network.auth", "--auth", "certificate", "set network.ca"),
        ("network.longitude", "--longitude", 7.0, "set both"),
        ("network.latitude", "--latitude", 7.0, "set both"),
        ("network.node_certificate", "--node-certificate", "a.pem", "set network.node_key"),
        ("network.cpp_contacts", "--cpp-contact", ["a:1"], "network.cpp_peers"),
        ("network.peers", "--peer", ["127.0.0.1:99999"], "'127.0.0.1:99999' is no contact"),
        ("network.peers", "--peer", [":33434"], "is no contact"),
        ("network.contacts", "--contact", ["a..b:1"], "is no contact"),
        ("network.cpp_contacts", "--cpp-contact", ["a:b"], "is no contact"),
        ("network.labels", "--label", ["x"], "name=value"),
        ("network.pins", "--pin", ["x"], "is no pin"),
        ("network.cpp_peers", "--cpp-peer", ["x:y"], ""),
        ("auth.issuers", "--issuer", ["me"], "set auth.keys"),
        ("admin.host", "--admin-host", "192.0.2.1", "set admin.token_file"),
        ("admin.token", "--admin-token", "short", "shorter than 16"),
        ("tls.private_key", "--private-key", "a.pem", "set both"),
        ("limits.egress.low_water", "--low-water", "1GiB", "above high_water"),
    ],
)
def test_the_key_that_is_wrong_is_named(key: str, flag: str, value: object, words: str) -> None:
    """Not one that happens to be in the same table."""
    others = {"network.port": ("--peer-port", 7)}
    with pytest.raises(ConfigError) as caught:
        load(None, {}, {key: (flag, value), **others})
    (problem,) = caught.value.problems
    assert (problem.key, problem.where) == (key, f"flag {flag}")
    assert words in str(problem)
    assert "\n" not in str(problem)


def test_workers_that_are_no_edges() -> None:
    flags = {"network.type": ("--type", "via"), "network.workers": ("--workers", 2)}
    with pytest.raises(ConfigError, match=r"^flag --workers: network\.workers: '2': "):
        load(None, {}, flags)


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    good = load(None, {"LAPS_ADMIN__TOKEN": PHRASE})
    assert ("admin.token", MASK, "environment LAPS_ADMIN__TOKEN") in shown(good)
    assert PHRASE not in repr(good)
    with pytest.raises(ConfigError) as caught:
        load(None, {"LAPS_ADMIN__TOKEN": "too short"})
    assert "too short" not in str(caught.value)
    with pytest.raises(ConfigError) as caught:
        load(write(tmp_path / "r.toml", "[admin]\ntoken = 777888999\n"))
    assert "777888999" not in str(caught.value)


def test_values_as_they_would_stand_in_a_file() -> None:
    values = leaves(RelayConfig())
    assert values["cache.max_bytes"] == "64MiB"
    assert values["limits.plane.fetch_interval"] == "5ms"
    assert values["admin.token"] is None


def test_what_a_reload_can_change() -> None:
    new = load(
        None,
        {
            "LAPS_AUTH__TOKEN_TYPES": "16",
            "LAPS_TLS__DEV_NAMES": "relay",
            "LAPS_LISTEN__HOST": "::1",
            "LAPS_ADMIN__TOKEN": PHRASE,
        },
    ).config
    assert compare(RelayConfig(), new) == Changes(
        ("auth.token_types",), ("tls.dev_names",), ("listen.host", "admin.token")
    )
    assert compare(new, new) == Changes()


ROOT = Path(__file__).resolve().parents[4]
PAGE = ROOT / "docs" / "reference" / "configuration.md"


def test_the_page_is_that_of_the_models() -> None:
    assert PAGE.read_text(encoding="utf-8").endswith(markdown()), (
        "run: python scripts/config_page.py"
    )


def test_every_key_has_a_lifecycle_in_the_schema() -> None:
    schema = json_schema()
    count = 0
    for table in [schema, *schema["$defs"].values()]:
        assert table["additionalProperties"] is False
        for name, field in table["properties"].items():
            if "$ref" not in field:
                assert field["lifecycle"] in ("static", "new-connections", "at-once"), name
                assert field["description"], name
                count += 1
    assert count > 90


def test_defaults_and_variables_are_told() -> None:
    text = markdown()
    assert "| `client_port` | `33435` | static |" in text
    assert "`LAPS_LIMITS__EGRESS__MAX_BYTES`" in text
    assert "| `telemetry_dir` | none |" in text
    assert "| `state_dir` | `~/.local/state/laps` |" in text
