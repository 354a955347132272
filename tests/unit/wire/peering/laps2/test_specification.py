"""The examples of docs/spec/laps-2.md: their bytes are the vectors, and decode to what they say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from laps_wire.peering.laps2.codepoints import MAX_TARGETS, MessageType
from laps_wire.peering.laps2.forwarding import decode_data_header
from laps_wire.peering.laps2.handshake import _DEFAULTS, _NUMBERS
from laps_wire.peering.laps2.messages import LAYOUTS, TYPES, decode
from testkit.laps2 import plain, vectors

PAGE = (Path(__file__).parents[5] / "docs" / "spec" / "laps-2.md").read_text()
EXAMPLES = dict(re.findall(r"```text\nexample: (.+)\n([^`]+)```", PAGE))
HEX = {
    vector["name"]: bytes.fromhex(vector["hex"])
    for kind in ("messages", "data_headers")
    for vector in vectors()[kind]
}
LINE = re.compile(r"^((?:[0-9a-f]{2})+(?: (?:[0-9a-f]{2})+)*)(?: {2,}(\S.*))?$")


def lines(example: str) -> list[tuple[bytes, str]]:
    """The bytes and the words of each line."""
    found = []
    for line in EXAMPLES[example].splitlines():
        match = LINE.match(line)
        assert match, f"not bytes and words: {line!r}"
        found.append((bytes.fromhex(match[1]), match[2] or ""))
    return found


def facts(data: bytes) -> dict[str, Any]:
    """What the bytes decode to, with type and length."""
    if data[0] >= 24 and len(data) == data[0]:
        header = decode_data_header(data)
        return {**plain(header), "header length": header.size}
    message, used = decode(data)
    assert used == len(data)
    size = len(data) - (2 if data[1] < 0x40 else 3)
    return {**plain(message), "type": TYPES[type(message)].name, "length": size}


def look_up(found: Any, path: str) -> Any:
    """Follow ``nodes[0].path.count`` into a plain message."""
    for part in re.findall(r"[^.\[\]]+|\[\d+\]", path):
        if part == "count":
            found = len(found)
        else:
            found = found[int(part[1:-1])] if part[0] == "[" else found[part]
    return found


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 13
    assert PAGE.count("\nexample: ") == len(EXAMPLES)


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_bytes_of_an_example_are_those_of_its_vector(example: str) -> None:
    assert b"".join(data for data, _ in lines(example)) == HEX[example]


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_decodes_to_what_it_says(example: str) -> None:
    found = facts(b"".join(data for data, _ in lines(example)))
    said = 0
    for _, words in lines(example):
        path, equals, value = words.partition(" =")
        if equals:
            assert str(look_up(found, path)) == value.strip(), words
            said += 1
        elif words:
            look_up(found, words)
    assert said >= 3


@pytest.mark.parametrize("kind", MessageType, ids=lambda kind: kind.name)
def test_every_message_and_each_of_its_fields_is_described(kind: MessageType) -> None:
    # **NAME** (0x..) with a table or a line of fields; the synchronising ones share a table.
    if kind.name.startswith("SYNC_"):
        assert f"| {kind.name} | {kind:#04x} | bases (i), parameters |" in PAGE
        return
    start = PAGE.index(f"**{kind.name}** ({kind:#04x})")
    end = min(PAGE.index(mark, start + 1) for mark in ("\n**", "\n#") if mark in PAGE[start + 1 :])
    described = PAGE[start:end]
    names = [name for name, _ in LAYOUTS[kind].table]
    places = [re.search(rf"\b{name}\b", described) for name in names]
    assert all(places), dict(zip(names, places, strict=True))
    order = [place.start() for place in places if place]
    assert order == sorted(order)


@pytest.mark.parametrize("name", _NUMBERS)
def test_every_setting_is_described_with_its_default(name: str) -> None:
    identifier, low, high = _NUMBERS[name]
    row = re.search(rf"^\| {identifier.name} \| \(i\) \| ([\d ]+) \| (.*?) \|", PAGE, re.MULTILINE)
    assert row
    assert int(row[1].replace(" ", "")) == _DEFAULTS[name]
    assert [number(end) for end in row[2].split(" to ")] == [low, high]


def number(text: str) -> int:
    """``65 536``, ``2^32`` or ``2^32 - 1``."""
    match = re.fullmatch(r"2\^(\d+)( - 1)?", text)
    if match:
        return (1 << int(match[1])) - (1 if match[2] else 0)
    return int(text.replace(" ", ""))


def test_numbers_in_the_text() -> None:
    assert f"({MAX_TARGETS:,}".replace(",", " ") + " targets)" in PAGE
