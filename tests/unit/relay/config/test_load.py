from __future__ import annotations

from pathlib import Path

import pytest

from laps_relay.config.load import (
    MASK,
    Changes,
    ConfigError,
    Problem,
    Setting,
    compare,
    from_environment,
    from_file,
    from_flags,
    json_schema,
    leaves,
    load,
    markdown,
    section_models,
    shown,
)
from laps_relay.config.model import RelayConfig


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_file_tells_values_and_lines(tmp_path: Path) -> None:
    path = write(
        tmp_path / "r.toml",
        """state_dir = "/x"  # first

[ listen ]
client_port = 1
host = "a"
[limits.egress] # deep
max_bytes = "1MiB"
[limits]
linger = "1s"
plane.linger = 5
""",
    )
    assert from_file(path) == {
        "state_dir": Setting("/x", f"{path}:1"),
        "listen.client_port": Setting(1, f"{path}:4"),
        "listen.host": Setting("a", f"{path}:5"),
        "limits.egress.max_bytes": Setting("1MiB", f"{path}:7"),
        "limits.plane.linger": Setting(5, f"{path}:10"),
        "limits.linger": Setting("1s", f"{path}:9"),
    }


def test_unknown_tables_and_inline_ones_are_values(tmp_path: Path) -> None:
    path = write(tmp_path / "r.toml", 'listen = { host = "a" }\n[moon]\nphase = 1\n')
    assert from_file(path) == {
        "listen.host": Setting("a", str(path)),
        "moon": Setting({"phase": 1}, f"{path}:2"),
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = ", r"r\.toml: not TOML: Invalid value"),
        ("a = 1\na = 2\n", r"r\.toml:2: not TOML"),
        ("[x\n", r"r\.toml:1: not TOML"),
        (b"a = '\xff'", "not UTF-8"),
        ("# " + "x" * 1024 * 1024, "larger than"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, text: str | bytes, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        from_file(write(tmp_path / "r.toml", text))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        from_file(tmp_path / "none.toml")


def test_the_environment() -> None:
    assert from_environment(
        {
            "LAPS_LISTEN__CLIENT_PORT": "5",
            "LAPS_STATE_DIR": "/s",
            "LAPS_LIMITS__EGRESS__MAX_BYTES": "1MiB",
            "LAPS_LISTEN__NONSENSE": "1",
            "LAPS_HYPOTHESIS": "quick",
            "LAPS_OTHER__THING": "1",
            "PATH": "/bin",
        }
    ) == {
        "listen.client_port": Setting("5", "environment LAPS_LISTEN__CLIENT_PORT"),
        "state_dir": Setting("/s", "environment LAPS_STATE_DIR"),
        "limits.egress.max_bytes": Setting("1MiB", "environment LAPS_LIMITS__EGRESS__MAX_BYTES"),
        "listen.nonsense": Setting("1", "environment LAPS_LISTEN__NONSENSE"),
    }


def test_flags_that_were_not_given_do_not_count() -> None:
    flags = {"listen.host": ("--host", None), "listen.client_port": ("--port", 0)}
    assert from_flags(flags) == {"listen.client_port": Setting(0, "flag --port")}


def test_problems_in_words() -> None:
    assert str(Problem(where="f:1", key="a.b", wrong="bad", right="good")) == "f:1: a.b: bad; good"
    assert str(Problem(where="f", key="", wrong="bad")) == "f: bad"


def test_all_tables_are_known() -> None:
    assert {"", "listen", "limits", "limits.egress", "observe"} <= set(section_models())


def test_a_key_in_quotes_makes_no_lines_of_its_own(tmp_path: Path) -> None:
    found = from_file(write(tmp_path / "relay.toml", '"x\\u001b[2J\\ny" = 1\n'))
    (name,) = found
    told = str(Problem(where="relay.toml", key=name, wrong="unknown key"))
    assert told == "relay.toml: x\\x1b[2J\\ny: unknown key"


PHRASE = "correct-horse-battery-staple"


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


def test_a_key_of_an_earlier_version_says_what_to_do(tmp_path: Path) -> None:
    path = write(tmp_path / "r.toml", '[limits.plane]\nstandby_bytes = "1MiB"\n')
    with pytest.raises(ConfigError) as caught:
        load(path, {})
    told = f"{path}:2: limits.plane.standby_bytes: no longer a key; remove it"
    assert str(caught.value).startswith(told)


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
