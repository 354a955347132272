from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.certs import certificates
from testkit.edge_thread import EdgeThread
from testkit.laps_command import LIMIT, laps, laps_process, one_fault


@pytest.fixture
def silent() -> Iterator[str]:
    """Where packets arrive and nobody answers."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as quiet:
        quiet.bind(("127.0.0.1", 0))
        yield f"moqt://127.0.0.1:{quiet.getsockname()[1]}"


def test_answers_for_people(edge: EdgeThread) -> None:
    ended = laps("ping", edge.url(), "--ca-file", edge.ca_file, "-n", 2, "-i", 0, "--draft", 16)
    assert (ended.exit_code, ended.stderr) == (0, "")
    first, *answers = ended.stdout.splitlines()
    assert first.startswith("connected in ")
    assert first.endswith("moqt-16, laps-relay")
    assert [line.split(":")[0] for line in answers] == ["answer 0", "answer 1"]
    assert all("(DOES_NOT_EXIST)" in line for line in answers)


@pytest.mark.parametrize("scheme", ["moqt", "https"])
def test_answers_for_programs(edge: EdgeThread, scheme: str) -> None:
    ended = laps(
        "ping", edge.url(scheme), "-n", 2, "-i", "0.01", "--json", LAPS_CA_FILE=edge.ca_file
    )
    assert (ended.exit_code, ended.stderr) == (0, "")
    first, *answers = map(json.loads, ended.stdout.splitlines())
    assert first["draft"] == "moqt-18"
    assert first["relay"] == "laps-relay"
    assert [answer["request"] for answer in answers] == [0, 1]
    assert all(answer["answer_ms"] > 0 for answer in answers)


def test_a_pin_in_place_of_an_authority(edge: EdgeThread) -> None:
    pin = certificates().other_sha256.hex()
    assert laps("ping", edge.url(), "--pin", pin, "-n", 1).exit_code == 0


def test_nobody_there(silent: str) -> None:
    ended = laps("ping", silent, "--timeout", "0.3")
    one_fault(ended, 1, f"laps ping: {silent}: ", "laps-relay serve")


def test_a_certificate_that_we_do_not_know(edge: EdgeThread) -> None:
    one_fault(laps("ping", edge.url()), 1, "certificate was refused", "give --ca-file, or --pin")
    one_fault(laps("ping", edge.url(), "--pin", "ab" * 32), 1, "not pinned", "--pin")


def test_one_line_is_all_that_a_shell_sees(edge: EdgeThread) -> None:
    with laps_process("ping", edge.url()) as process:
        out, err = process.communicate(b"", LIMIT)
    assert (process.returncode, out) == (1, b"")
    assert err.count(b"\n") == 1
    assert err.startswith(b"laps ping: moqt://")


def test_an_authority_that_is_none(edge: EdgeThread, tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("hello")
    one_fault(laps("ping", edge.url(), "--ca-file", file), 1, file, "holds no PEM certificate")
