"""Values as people read them: numbers, short texts, escaped and cut."""

from __future__ import annotations

from typing import Any, Final

from laps_wire.telemetry.privacy import safe_text

__all__ = ["bytes_column", "show_value", "text_of"]

MAX_SHOWN: Final = 24
"""How many bytes of a value that is not text are written out."""

MAX_TEXT: Final = 60
"""How many characters of a text are shown."""

COLUMN: Final = 8
"""How many bytes the column of bytes has room for."""


def show_value(label: str, value: Any, note: str = "") -> str:
    """A leaf's value and what it means."""
    words = f" ({safe_text(note)})" if note else ""
    if isinstance(value, bytes):
        return f"{_show_bytes(value)}{words}"
    if isinstance(value, int) and value >= 1 << 32:
        if "hash" in label or label in {"track", "track alias"}:
            return f"{value:#018x}{words}"
        if note:
            return f"{value:#x}{words}"
        # Times are known by their decimal digits; what is larger than any time is an id.
        return f"{value}" if value < 1 << 53 else f"{value} = {value:#x}"
    if isinstance(value, int) and value > 9 and label.endswith(("type", "flags")):
        # Code points and bits are in hexadecimal in the specifications.
        return f"{value:#x}{words}"
    return f"{value}{words}"


def _show_bytes(value: bytes) -> str:
    if not value:
        return "(empty)"
    text = text_of(value)
    if text is not None:
        return f'"{text}"' if len(text) <= MAX_TEXT else f'"{text[: MAX_TEXT - 3]}..."'
    if len(value) <= MAX_SHOWN:
        return f"0x{value.hex()}"
    return f"0x{value[:MAX_SHOWN].hex()}... ({len(value)} bytes)"


def text_of(value: bytes) -> str | None:
    """Bytes as text if that is what they plainly are: printable ASCII."""
    if not value.isascii():
        return None
    text = value.decode("ascii")
    return text if text.isprintable() else None


def bytes_column(data: bytes) -> str:
    """Bytes in hexadecimal, cut to the width of their column."""
    if len(data) <= COLUMN:
        return data.hex(" ")
    return f"{data[: COLUMN - 1].hex(' ')} .."
