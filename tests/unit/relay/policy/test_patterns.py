from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_relay.policy.patterns import NodePattern
from laps_wire.errors import TextFormError
from laps_wire.nodeid import NodeId


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("*", ["0:0", "100.2:9001.2001"], []),
        ("100.*:*", ["100.0:0.0", "100.7:1.2"], ["101.0:0.0", "0.100:1.1"]),
        ("100.2:*", ["100.2:0.0", "100.2:9.9"], ["100.3:0.0"]),
        ("*:0.7", ["1.2:0.7", "9:7"], ["1.2:0.8", "1.2:1.7"]),
        ("*:*", ["1.2:3.4"], []),
        ("6553602:*.5", ["100.2:9.5"], ["100.2:9.6", "100.3:9.5"]),
        ("1:1", ["0.1:0.1"], ["0.1:0.2"]),
    ],
)
def test_a_star_stands_for_any_number(pattern: str, inside: list[str], outside: list[str]) -> None:
    found = NodePattern.parse(pattern)
    assert str(found) == pattern
    assert all(found.matches(NodeId.parse(text)) for text in inside)
    assert not any(found.matches(NodeId.parse(text)) for text in outside)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1*:2", "'*' stands for a whole number, at character 1"),
        ("1.2:3.**", "'*' stands for a whole number, at character 7"),
        ("", "no colon"),
        ("1.2", "no colon"),
        ("1.2.3:*", "a second dot"),
        ("1:2:3", "a second colon"),
        ("70000.1:*", "above 65535"),
        (".:*", "a number is missing"),
        ("x:*", "not a decimal digit"),
    ],
)
def test_what_is_no_pattern(text: str, words: str) -> None:
    with pytest.raises(TextFormError, match="a good one is") as caught:
        NodePattern.parse(text)
    assert words in str(caught.value)


@given(st.integers(0, 2**64 - 1), st.integers(0, 15), st.integers(0, 2**64 - 1))
def test_a_pattern_made_of_a_node_matches_it(number: int, stars: int, other: int) -> None:
    node = NodeId(number)
    high, low = str(node).split(":")
    parts = [*high.split("."), *low.split(".")]
    shown = ["*" if stars >> index & 1 else part for index, part in enumerate(parts)]
    pattern = NodePattern.parse(f"{shown[0]}.{shown[1]}:{shown[2]}.{shown[3]}")
    assert pattern.matches(node)
    words = [(number >> shift & 0xFFFF, other >> shift & 0xFFFF) for shift in (48, 32, 16, 0)]
    agree = all(a == b or stars >> index & 1 for index, (a, b) in enumerate(words))
    assert pattern.matches(NodeId(other)) == agree
