"""Types of values that several sections use: lists, paths, labels, node ids."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator

from laps_wire.nodeid import NodeId

__all__ = ["LOOPBACK", "FilePath", "Label", "NodeIdText", "Numbers", "Paths", "Words", "words"]

LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
"""Hosts that only this machine reaches."""


def words(value: object) -> object:
    """Return a list from text with commas, as an environment variable has it."""
    if isinstance(value, str):
        return [word.strip() for word in value.split(",") if word.strip()]
    return value


def _path(path: Path) -> Path:
    """Return a path with ``~`` expanded. Raises ``ValueError`` for text that cannot be a path."""
    text = str(path)
    if "\0" in text or text == ".":
        raise ValueError("a path is not empty and holds no zero bytes; leave the key out for none")
    try:
        return path.expanduser()
    except RuntimeError:
        raise ValueError("nobody of this name has a home directory; write the whole path") from None


def _node_id(text: str) -> str:
    if not text:
        return text
    node = NodeId.parse(text)
    if node == 0:
        raise ValueError("0 is no node id: every Stub has it; choose another one, or none")
    return str(node)


def _label(text: str) -> str:
    if not text.isprintable() or len(text) > 64:
        raise ValueError("a name of at most 64 printable characters")
    return text


FilePath = Annotated[Path, AfterValidator(_path)]
Label = Annotated[str, AfterValidator(_label)]
NodeIdText = Annotated[str, AfterValidator(_node_id)]
"""``high:low``; empty if the relay chooses it."""
Words = Annotated[list[str], BeforeValidator(words)]
Numbers = Annotated[list[int], BeforeValidator(words)]
Paths = Annotated[list[FilePath], BeforeValidator(words)]
