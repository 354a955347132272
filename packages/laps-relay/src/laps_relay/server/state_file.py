"""Small files in the state directory, each replaced as a whole, and the boot epoch among them.

::

    <state directory>/epoch-0000000100000001            1794914931467
    <state directory>/known-keys-0000000100000001.json  see known_keys.py
    <state directory>/plans-0000000100000001.json       see plans.py

A peer refuses a relay whose epoch is not higher than its last one: it takes the relay for an old
copy of itself (laps-2, 4.1). The time of the start in milliseconds is higher unless the clock was
set back, so the relay stores its last epoch.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, TypeVar

from laps_relay.server.parts import StartError
from laps_wire.nodeid import NodeId

__all__ = ["next_epoch", "read_state", "write_state"]

_MAX_EPOCH: Final = (1 << 62) - 1

Name = TypeVar("Name")
Value = TypeVar("Value")


def read_state(
    path: Path, read: Callable[[str, Any], tuple[Name, Value]], wrong: str
) -> dict[Name, Value]:
    """Return the members of a JSON object, each as ``read`` parses it; empty without a file.

    Raises :class:`StartError` with ``wrong``, which says what to do, if the file is damaged.
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


def write_state(path: Path, text: str) -> str | None:
    """Replace a file, all or nothing; return why that was not possible, or None."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # An unpredictable, unused name, so that nothing is written through a symbolic link.
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


def next_epoch(state_dir: Path, node: NodeId, wall_ms: int) -> tuple[int, str | None]:
    """Return the epoch of this start, and why it could not be stored for the next one, or None.

    A file that holds no number is replaced: the clock alone decides then, as at a first start.
    """
    path = state_dir / f"epoch-{int(node):016x}"
    try:
        last = int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        last = 0
    if not 0 <= last < _MAX_EPOCH:
        last = 0
    epoch = max(wall_ms, last + 1)
    return epoch, write_state(path, f"{epoch}\n")
