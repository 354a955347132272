"""Small files in the state directory that a relay replaces as a whole."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

__all__ = ["keep"]


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
