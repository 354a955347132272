from __future__ import annotations

from pathlib import Path

import pytest

from laps_relay.config.sources import (
    ConfigError,
    Problem,
    Setting,
    from_environment,
    from_file,
    from_flags,
    section_models,
)


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
