"""The specification's page shows the bytes that we read and write, and the numbers that we have."""

from __future__ import annotations

import re
from pathlib import Path

from laps_wire.quicr import MessageType, Response, SubscribeIntent
from laps_wire.quicr.fragments import Drop
from laps_wire.quicr.shortname import CONFERENCE
from testkit.quicr import VECTORS

PAGE = (Path(__file__).parents[4] / "docs" / "spec" / "quicr.md").read_text(encoding="utf-8")


def test_every_vector_is_on_the_page_and_every_line_of_the_page_is_a_vector() -> None:
    # The vectors themselves are held to the code in test_control and test_datagram.
    shown = re.findall(r"^([a-z_0-9, ]+) = ([0-9a-f ]+)$", PAGE, flags=re.MULTILINE)
    vectors = [
        (vector["name"], vector["hex"])
        for part in ("control", "datagrams", "publish_datagrams")
        for vector in VECTORS[part]
    ]
    assert len(vectors) > 35
    assert sorted(shown) == sorted(vectors)


def test_the_example_name_is_what_the_page_says_it_is() -> None:
    assert "resource 1, sender 2, source 3, time 1000" in PAGE
    assert f"`{CONFERENCE.pack(1, 2, 3, 1000)}`" in PAGE
    assert f"`{CONFERENCE.pack(1, 2, 3)}`" in PAGE


def test_the_registry_on_the_page_is_ours() -> None:
    rows = re.findall(
        r"^\| 0x([0-9a-f]{2}) \| ([A-Z_]+)(?: \(`([A-Z_]+)`\))? \|", PAGE, re.MULTILINE
    )
    assert {named or name: int(number, 16) for number, name, named in rows} == {
        kind.name: kind.value for kind in MessageType
    }


def test_the_small_tables_on_the_page_are_ours() -> None:
    values = dict(re.findall(r"^\| ([a-z_]+) \| (\d)", PAGE, re.MULTILINE))
    assert values == {
        member.name.lower(): str(member.value) for member in (*SubscribeIntent, *Response)
    }
    assert set(re.findall(r"\| ([A-Z_]+) \|$", PAGE, re.MULTILINE)) == set(Drop.__members__)
