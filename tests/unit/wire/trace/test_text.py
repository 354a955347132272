"""A decoding as text, to the character.

Values as people read them.

A decoding as data.
"""

from __future__ import annotations

import json
import re
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.errors import RemoteError
from laps_wire.trace.decode import Decoded, Protocol, Traced, decode
from laps_wire.trace.protocols import PROTOCOLS
from laps_wire.trace.reader import Node
from laps_wire.trace.text import (
    as_dicts,
    bytes_column,
    paint_ansi,
    render,
    render_fields,
    show_value,
    text_of,
)
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


# Values


@pytest.mark.parametrize(
    ("label", "value", "note", "shown"),
    [
        ("x", 0, "", "0"),
        ("x", 5, "FIVE", "5 (FIVE)"),
        ("x", 2**32 - 1, "", "4294967295"),
        ("x", 2**32, "", "4294967296"),
        ("x", 2**53 - 1, "", "9007199254740991"),
        ("x", 2**53, "", "9007199254740992 = 0x20000000000000"),
        ("track alias", 2**33, "", "0x0000000200000000"),
        ("track", 2**33, "", "0x0000000200000000"),
        ("node_id", 2**32, "0.1:0.0", "0x100000000 (0.1:0.0)"),
        ("name_hash", 0x070750223DAB53B6, "", "0x070750223dab53b6"),
        ("name_hash", 7, "", "7"),
        ("message type", 9, "", "9"),
        ("message type", 10, "OK", "0xa (OK)"),
        ("flags", 255, "", "0xff"),
        ("x", 0.5, "", "0.5"),
        ("x", b"", "", "(empty)"),
        ("x", b"relay-a", "", '"relay-a"'),
        ("x", b"relay\n", "", "0x72656c61790a"),
        ("x", b"\xc3\xa9", "", "0xc3a9"),
        ("x", b"\x00", "ZERO", "0x00 (ZERO)"),
        ("x", bytes(24), "", "0x" + "00" * 24),
        ("x", bytes(25), "", "0x" + "00" * 24 + "... (25 bytes)"),
        ("x", b"a" * 60, "", '"' + "a" * 60 + '"'),
        ("x", b"a" * 61, "", '"' + "a" * 57 + '..."'),
        ("x", 1, "\x1b[2J", "1 (\\x1b[2J)"),
    ],
)
def test_values(label: str, value: object, note: str, shown: str) -> None:
    assert show_value(label, value, note) == shown


@given(st.binary() | st.integers() | st.floats(), st.text())
def test_a_value_is_one_printable_line(value: object, note: str) -> None:
    assert show_value("x", value, note).isprintable()


def test_the_column_of_bytes() -> None:
    assert bytes_column(b"") == ""
    assert bytes_column(bytes(8)) == "00 00 00 00 00 00 00 00"
    assert bytes_column(bytes(9)) == "00 00 00 00 00 00 00 .."
    assert len(bytes_column(bytes(8))) == len(bytes_column(bytes(9))) == 23


def test_text_is_printable_ascii() -> None:
    assert text_of(b"demo/room 1") == "demo/room 1"
    assert text_of(b"\x7f") is None
    assert text_of(b"\t") is None
    assert text_of("é".encode()) is None


# JSON


def test_a_message() -> None:
    (plain,) = as_dicts(decode(GREETINGS, bytes.fromhex("01 05 01 02 6869 01")))
    assert plain == {
        "protocol": "greet",
        "message": "GREET",
        "offset": 0,
        "length": 7,
        "fields": [
            {"path": "type", "offset": 0, "length": 1, "hex": "01", "value": 1, "note": "GREET"},
            {"path": "length", "offset": 1, "length": 1, "hex": "05", "value": 5},
            {"path": "GREET.words.count", "offset": 2, "length": 1, "hex": "01", "value": 1},
            {"path": "GREET.words[0].length", "offset": 3, "length": 1, "hex": "02", "value": 2},
            {"path": "GREET.words[0]", "offset": 4, "length": 2, "hex": "6869", "text": "hi"},
            {
                "path": "GREET.mood",
                "offset": 6,
                "length": 1,
                "hex": "01",
                "value": 1,
                "note": "KEEN",
            },
        ],
    }


def test_faults_are_with_the_last_message() -> None:
    first, bad = as_dicts(decode(GREETINGS, HELLO + b"\x09"))
    assert "error" not in first
    assert (first["offset"], first["length"]) == (0, 11)
    assert (bad["offset"], bad["length"]) == (11, 1)
    assert bad["error"] == {
        "kind": "bad",
        "path": "type",
        "reason": "nobody says 9",
        "offset": 11,
        "length": 1,
        "code": 3,
    }
    (cut,) = as_dicts(decode(GREETINGS, HELLO[:10]))
    assert cut["error"] == {
        "kind": "incomplete",
        "path": "GREET.mood",
        "reason": "the input ends here, at least 1 more byte(s) belong to it",
        "offset": 10,
        "length": 0,
        "missing": 1,
    }


def test_no_bytes_of_jsonform() -> None:
    (plain,) = as_dicts(decode(GREETINGS, b""))
    assert plain["error"]["reason"] == "there are no bytes"


@pytest.mark.parametrize(
    ("number", "shown"), [("nan", "nan"), ("inf", "inf"), ("-inf", "-inf"), ("0.5", 0.5)]
)
def test_numbers_that_json_does_not_have(number: str, shown: object) -> None:
    protocol = Protocol("p", "", lambda reader: reader.f64("x"))
    (plain,) = as_dicts(decode(protocol, struct.pack(">d", float(number))))
    assert plain["fields"][0]["value"] == shown
    json.dumps(plain, allow_nan=False)


def test_bytes_that_are_no_text_are_only_hexadecimal() -> None:
    protocol = Protocol("p", "", lambda reader: reader.take(2, "x"))
    (plain,) = as_dicts(decode(protocol, b"\xff\x00"))
    assert plain["fields"] == [{"path": "x", "offset": 0, "length": 2, "hex": "ff00"}]
