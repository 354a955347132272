r"""Bytes from text in hexadecimal, plain or from a dump tool.

Plain digits are in groups of any even length, with optional ``0x`` or ``\x`` before them, and with
spaces, colons, commas or dashes between them. The offset and character columns of dump tools are
ignored::

    xxd             00000000: 0100 0100 0000 2202  ......".
    hexdump -C      00000000  01 00 01 00 00 00 22 02                           |......".|
    tcpdump -X      0x0000:  0100 0100 0000 2202  ......".
    Wireshark       0000   01 00 01 00 00 00 22 02                           ......".
    od -A x -t x1   000000 01 00 01 00 00 00 22 02

A line that begins with ``#`` is a comment. Plain ``hexdump`` prints words in the machine's byte
order, which cannot be distinguished from bytes: use ``hexdump -C``.
"""

from __future__ import annotations

import re
from typing import Final

from laps_wire.errors import TextFormError

__all__ = ["MAX_BYTES", "parse_hex"]

MAX_BYTES: Final = 16 << 20
"""The most bytes that one text may hold."""

# An offset column with a colon and a blank: xxd and tcpdump. "01:00" has no blank behind it.
_COLON_OFFSET: Final = re.compile(r"\s*(?:0[xX])?[0-9a-fA-F]{4,16}:\s+")
# An offset column without a colon: behind it, bytes one by one.
_BARE_OFFSET: Final = re.compile(r"\s*([0-9a-fA-F]{4,16})\s+(?=[0-9a-fA-F]{2}(?:\s|$))")
# The gap between bytes and characters, for the two kinds.
_COLON_GAP: Final = re.compile(r"\s{2,}")
_BARE_GAP: Final = re.compile(r"\s{3,}")
_GROUP: Final = re.compile(r"[^\s:,;_-]+")
_DIGITS: Final = frozenset("0123456789abcdefABCDEF")


def parse_hex(text: str) -> bytes:
    """Return the bytes of ``text``; raise :class:`TextFormError` with line, column and reason."""
    found = bytearray()
    bare_offsets = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("#"):
            continue
        if line.strip() == "*":
            raise TextFormError(f"line {number}: '*' hides lines like the one before; use -v")
        start, stop = 0, len(line)
        if match := _COLON_OFFSET.match(line):
            start, stop = match.end(), _before(_COLON_GAP, line, match.end())
        elif (match := _BARE_OFFSET.match(line)) and int(match.group(1), 16) == len(found):
            # A number is an offset if it is the count of the bytes before it.
            start, stop = match.end(), _before(_BARE_GAP, line, match.end())
            bare_offsets = True
        elif bare_offsets and _is_total(line, len(found)):
            continue
        for group in _GROUP.finditer(line, start, stop):
            found += _group_bytes(group.group(), number, group.start() + 1)
        if len(found) > MAX_BYTES:
            raise TextFormError(f"line {number}: more than {MAX_BYTES} bytes")
    return bytes(found)


def _before(gap: re.Pattern[str], line: str, start: int) -> int:
    """Return the end of the bytes of a line: the gap before its characters, or a bar."""
    match = gap.search(line, start)
    stop = match.start() if match else len(line)
    bar = line.find("|", start, stop)
    return stop if bar < 0 else bar


def _is_total(line: str, so_far: int) -> bool:
    """Return whether a line is the last one of hexdump or od: only the number of bytes."""
    try:
        return int(line, 16) == so_far
    except ValueError:
        return False


def _group_bytes(group: str, line: int, column: int) -> bytes:
    """Return the bytes of one group of digits."""
    digits = group.replace("\\x", "")
    if digits[:2] in {"0x", "0X"}:
        digits = digits[2:]
    for index, char in enumerate(digits):
        if char not in _DIGITS:
            at = column + len(group) - len(digits) + index
            raise TextFormError(f"line {line}, column {at}: {char!a} is not a hexadecimal digit")
    if len(digits) % 2:
        hint = f"; write 0{digits}" if len(digits) == 1 else ""
        raise TextFormError(
            f"line {line}, column {column}: an odd number of hexadecimal digits"
            f" ({len(digits)}), and a byte has two{hint}"
        )
    return bytes.fromhex(digits)
