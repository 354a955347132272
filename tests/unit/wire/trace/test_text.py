"""A decoding as text, to the character."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.errors import RemoteError
from laps_wire.trace.decode import Decoded, Protocol, Traced, decode
from laps_wire.trace.protocols import PROTOCOLS
from laps_wire.trace.text import paint_ansi, render, render_fields
from laps_wire.trace.tree import Node
from testkit.trace import ALL, GREETINGS, HELLO, UNIT


def text(name: str, data: bytes) -> str:
    return "\n".join(render(decode(ALL[name], data)))


def test_messages() -> None:
    assert text("greet", HELLO + bytes.fromhex("01 02 00 00")) == (
        "greet: GREET, 11 bytes\n"
        "   0  01                       type: 1 (GREET)\n"
        "   1  09                       length: 9\n"
        "   2                           GREET\n"
        "   2                             words\n"
        "   2  02                           count: 2\n"
        "   3  02                           [0].length: 2\n"
        '   4  68 69                        [0]: "hi"\n'
        "   6  03                           [1].length: 3\n"
        '   7  79 6f 75                     [1]: "you"\n'
        "  10  01                         mood: 1 (KEEN)\n"
        "\n"
        "greet: GREET, 4 bytes at 11\n"
        "  11  01                       type: 1 (GREET)\n"
        "  12  02                       length: 2\n"
        "  13                           GREET\n"
        "  13                             words\n"
        "  13  00                           count: 0\n"
        "  14  00                         mood: 0 (CALM)"
    )


def test_a_caret_under_a_field_that_was_read() -> None:
    assert text("greet", bytes.fromhex("01 02 00 07 0102")) == (
        "greet: GREET, bad\n"
        "   0  01                       type: 1 (GREET)\n"
        "   1  02                       length: 2\n"
        "   2                           GREET\n"
        "   2                             words\n"
        "   2  00                           count: 0\n"
        "   3  07                         mood: 7\n"
        "      ^^ bad: GREET.mood: 7 is not one of: 0 CALM, 1 KEEN\n"
        "   4                           2 byte(s) not read"
    )


def test_a_caret_under_bytes_that_are_no_field() -> None:
    assert text("greet", bytes.fromhex("01 04 00 01 ffff")).splitlines()[-2:] == [
        "   4  ff ff",
        "      ^^^^^ bad: GREET: 2 byte(s) left over after the last field",
    ]


def test_a_caret_at_the_end() -> None:
    assert text("greet", HELLO[:3]).splitlines() == [
        "greet: GREET, cut off",
        "   0  01                       type: 1 (GREET)",
        "   1  09                       length: 9",
        "   2                           GREET",
        "   2                             words",
        "   2  02                           count: 2",
        "   3                           (end of input)",
        (
            "      ^ incomplete: GREET.words[0].length: the input ends here,"
            " at least 8 more byte(s) belong to it"
        ),
    ]


def test_a_long_field_is_cut_and_so_are_its_carets() -> None:
    lines = text("datagram", b"\x20" + bytes(20)).splitlines()
    assert lines == [
        "datagram: message, bad",
        "   0  20                       size: 32",
        "   1  00 00 00 00 00 00 00 ..",
        "      ^^^^^^^^^^^^^^^^^^^^^^^ bad: content: truncated: 12 more byte(s) needed, 20 left",
    ]


def test_no_bytes() -> None:
    assert text("greet", b"") == "greet: there are no bytes"


def test_offsets_stay_in_their_column() -> None:
    lines = text("unit", b"\xff" + b"a" * 255).splitlines()
    assert lines[1:] == [
        "   0  ff                       size: 255",
        '   1  61 61 61 61 61 61 61 ..  content: "' + "a" * 57 + '..."',
    ]
    many = list(render(decode(Protocol("p", "", lambda r: r.u8("x")), bytes(10_000))))
    assert many[1] == "    0  00                       x: 0"
    assert many[-1] == " 9999  00                       x: 0"


def test_colours_change_no_character() -> None:
    decoded = decode(GREETINGS, bytes.fromhex("01 02 00 07 0102"))
    coloured = "\n".join(render(decoded, paint_ansi))
    assert "\x1b[1;31m^^ bad" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == "\n".join(render(decoded))
    assert paint_ansi("bytes", "") == ""


@pytest.mark.parametrize("name", PROTOCOLS)
def test_whatever_the_bytes_are_a_terminal_gets_text(name: str) -> None:
    @given(st.binary(max_size=60))
    def check(data: bytes) -> None:
        for line in render(decode(PROTOCOLS[name], data)):
            assert line.isprintable()

    check()


def test_a_reason_with_a_peers_words_is_escaped() -> None:
    def refuse(reader: object) -> None:
        raise RemoteError("says \x1b[2J")

    (_, _, last, *_) = render(decode(Protocol("p", "", refuse), b"\x01"))
    assert "says \\x1b[2J" in last


def test_only_the_fields() -> None:
    (traced,) = decode(GREETINGS, HELLO).messages
    assert list(render_fields(traced)) == ["words", '  [0]: "hi"', '  [1]: "you"', "mood: 1 (KEEN)"]
    (empty,) = decode(GREETINGS, bytes.fromhex("01 02 00 00")).messages
    assert list(render_fields(empty)) == ["mood: 0 (CALM)"]
    (unit,) = decode(UNIT, b"\x02ab").messages
    assert list(render_fields(unit)) == ["size: 2", 'content: "ab"']


def test_all_parts_of_a_unit_with_several() -> None:
    data = bytes.fromhex("15c6563237cfe9cbb0000080 0000021a1b")
    (traced,) = decode(PROTOCOLS["moqt-16-uni"], data).messages
    assert list(render_fields(traced)) == [
        "SUBGROUP_HEADER",
        "  type: 0x15 (SUBGROUP_ID_PRESENT|EXTENSIONS)",
        "  track alias: 0x06563237cfe9cbb0",
        "  group id: 0",
        "  subgroup id: 0",
        "  publisher priority: 128",
        "object[0]",
        "  object id delta: 0",
        "  extensions: (empty)",
        "  object payload: 0x1a1b",
    ]


def test_notes_on_composites_and_items_of_lists() -> None:
    tree = Node("", 0, 9, children=[Node("x", 0, 9, children=[])])
    inner = Node("name_hashes", 0, 8, None, "two", [Node("[0]", 0, 8, 2**63)])
    (tree.children or [])[0].children = [inner]
    assert list(render_fields(Traced(tree))) == ["name_hashes (two)", "  [0]: 0x8000000000000000"]
    decoded = Decoded(UNIT, bytes(8), (Traced(tree),))
    assert list(render(decoded))[-2:] == [
        "   0                             name_hashes (two)",
        "   0  00 00 00 00 00 00 00 00      [0]: 0x8000000000000000",
    ]
