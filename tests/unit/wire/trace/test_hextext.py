"""Bytes from what people paste."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.errors import TextFormError
from laps_wire.trace import hextext
from laps_wire.trace.hextext import parse_hex

DATA = bytes.fromhex("010001000000220201 7e7f20 61620a7c0d".replace(" ", "")) + bytes(range(20))


@pytest.mark.parametrize(
    "text",
    [
        "0102ab",
        "01 02 ab",
        "01:02:AB",
        "01-02-ab",
        "0x0102ab",
        "0x01, 0x02, 0xAB",
        "0X01 0X02 0Xab",
        "\\x01\\x02\\xab",
        "01\n02\n\nab\n",
        "  01\t02 ; ab ",
        "0102_ab",
        "# a comment\n0102\n  # another: zz\nab",
        "",
    ],
)
def test_plain_digits(text: str) -> None:
    assert parse_hex(text) == (b"\x01\x02\xab" if text else b"")


def characters(data: bytes) -> str:
    return "".join(chr(byte) if 32 <= byte < 127 else "." for byte in data)


def rows(data: bytes, width: int = 16) -> list[tuple[int, bytes]]:
    return [(at, data[at : at + width]) for at in range(0, len(data), width)]


def xxd(data: bytes) -> str:
    return "".join(
        f"{at:08x}: {row.hex(' ', 2) if len(row) % 2 == 0 else row.hex(' ', -2):39}"
        f"  {characters(row)}\n"
        for at, row in rows(data)
    )


def hexdump_c(data: bytes) -> str:
    lines = [
        f"{at:08x}  {row[:8].hex(' '):23}  {row[8:].hex(' '):23}  |{characters(row)}|\n"
        for at, row in rows(data)
    ]
    return "".join([*lines, f"{len(data):08x}\n"])


def tcpdump(data: bytes) -> str:
    return "".join(
        f"\t0x{at:04x}:  {row.hex(' ', -2):39}  {characters(row)}\n" for at, row in rows(data)
    )


def wireshark(data: bytes) -> str:
    return "".join(f"{at:04x}   {row.hex(' '):47}   {characters(row)}\n" for at, row in rows(data))


def od(data: bytes) -> str:
    lines = [f"{at:06x} {row.hex(' ')}\n" for at, row in rows(data)]
    return "".join([*lines, f"{len(data):06x}\n"])


@pytest.mark.parametrize("tool", [xxd, hexdump_c, tcpdump, wireshark, od])
def test_what_tools_print(tool: object) -> None:
    assert callable(tool)

    @given(st.binary(min_size=1, max_size=70))
    def check(data: bytes) -> None:
        assert parse_hex(tool(data)) == data

    check()
    assert parse_hex(tool(DATA)) == DATA


def test_real_output_of_tools() -> None:
    """Copied from terminals, not made by this file."""
    assert parse_hex('00000000: 0100 0100 0000 2202                      ......".\n') == DATA[:8]
    text = (
        '00000000  01 00 01 00 00 00 22 02  01 7e 7f 20 61 62 0a 7c  |......"..~. ab.||\n'
        "00000010  0d                                                |.|\n"
        "00000011\n"
    )
    assert parse_hex(text) == DATA[:17]


def test_digits_that_look_like_offsets_are_bytes() -> None:
    assert parse_hex("00000000") == bytes(4)
    assert parse_hex("0000 0001") == b"\x00\x00\x00\x01"
    # Two lines of two bytes each; the second is the number of bytes before it, and still bytes.
    assert parse_hex("0100\n0002") == b"\x01\x00\x00\x02"
    # An offset that does not count is no offset.
    assert parse_hex("0005 01 02") == b"\x00\x05\x01\x02"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("0g", r"line 1, column 2: 'g' is not a hexadecimal digit"),
        ("01 02\n03 zz", r"line 2, column 4: 'z' is not a hexadecimal digit"),
        ("0x0x", r"line 1, column 4: 'x' is not"),
        ("01 \xe9", r"line 1, column 4: '\\xe9' is not"),
        ("01 2 03", r"line 1, column 4: an odd number of hexadecimal digits \(1\).*; write 02"),
        (
            "01 123",
            r"line 1, column 4: an odd number of hexadecimal digits \(3\), and a byte has two$",
        ),
        ("0x1", r"line 1, column 1: an odd number"),
        ("0000 01 02\n0002 zz", r"line 2, column 6: 'z' is not"),
        ("00000000  01 02\n*\n00000010", r"line 2: '\*' hides lines like the one before; use -v"),
    ],
)
def test_faults_say_what_and_where(text: str, reason: str) -> None:
    with pytest.raises(TextFormError, match=reason):
        parse_hex(text)


def test_there_is_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hextext, "MAX_BYTES", 4)
    assert len(parse_hex("01020304")) == 4
    with pytest.raises(TextFormError, match="line 2: more than 4 bytes"):
        parse_hex("01020304\n05")


@given(st.text())
def test_any_text_is_bytes_or_a_fault(text: str) -> None:
    try:
        parse_hex(text)
    except TextFormError as error:
        shown = str(error)
    else:
        shown = "fine"
    assert shown.isprintable()
