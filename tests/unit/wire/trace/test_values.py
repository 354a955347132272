"""Values as people read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.trace.values import bytes_column, show_value, text_of


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
