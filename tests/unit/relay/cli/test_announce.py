from __future__ import annotations

import json
from typing import Any

import pytest

from laps_relay.cli.announce import announce

ALONE: dict[str, Any] = {
    "url": "moqt://127.0.0.1:1",
    "certificate_sha256": "aa",
    "admin": "http://127.0.0.1:2",
    "pid": 3,
}
MEMBER = {**ALONE, "node": "0.1:0.1", "type": "edge", "peers": "127.0.0.1:4"}


def said(
    capsys: pytest.CaptureFixture[str],
    told: dict[str, Any],
    *,
    development: bool = True,
    tokens: bool = False,
    as_json: bool = False,
) -> list[str]:
    announce(told, development=development, tokens=tokens, as_json=as_json)
    return capsys.readouterr().out.splitlines()


def test_for_programs_it_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = said(capsys, MEMBER, as_json=True)
    assert json.loads(line) == MEMBER


def test_for_people_it_says_how_to_try_it(capsys: pytest.CaptureFixture[str]) -> None:
    how = "-m hello --wait-subscriber 20 --pin aa"
    assert said(capsys, ALONE) == [
        "relay        moqt://127.0.0.1:1",
        "certificate  sha256 aa",
        "admin        http://127.0.0.1:2/",
        "try          laps sub moqt://127.0.0.1:1 demo clock --pin aa",
        f"with         laps pub moqt://127.0.0.1:1 demo clock {how}",
    ]
    lines = said(capsys, {**ALONE, "admin": None}, development=False, tokens=True)
    assert [line.split()[0] for line in lines] == ["relay", "certificate", "try", "with"]
    assert lines[2].endswith("clock --token-file FILE")


def test_a_member_of_a_network_says_who_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys, {**MEMBER, "workers": [{}, {}]})
    assert lines[:3] == [
        "node         0.1:0.1 (edge)",
        "peers        127.0.0.1:4",
        "workers      2",
    ]
    via = said(capsys, {**MEMBER, "type": "via", "url": ""})
    assert [line.split()[0] for line in via] == ["node", "peers", "certificate", "admin"]
