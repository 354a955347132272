"""Small files in the state directory that a relay replaces as a whole."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from laps_relay.server.parts import StartError

__all__ = ["keep", "recall"]

Name = TypeVar("Name")
Value = TypeVar("Value")


def recall(
    path: Path, read: Callable[[str, Any], tuple[Name, Value]], wrong: str
) -> dict[Name, Value]:
    """The object of JSON that was kept, each member as ``read`` understands it; empty: none was.

    If that is not what we wrote, :class:`StartError` says so, and what to do: ``wrong``.
    """
    try:
        members: Iterable[tuple[str, Any]] = json.loads(path.read_text(encoding="ascii")).items()
        return dict(read(name, value) for name, value in members)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise StartError(f"{path}: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise StartError(f"{path} {wrong}") from None


def keep(path: Path, text: str) -> str | None:
    """Write it, all or nothing; why that was not possible."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A name that nobody can guess and nobody has taken: nothing is written through a link.
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        beside = Path(name)
        try:
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(text)
            beside.replace(path)
        except OSError:
            beside.unlink(missing_ok=True)
            raise
    except OSError as error:
        return f"{path}: {error.strerror}"
    return None
