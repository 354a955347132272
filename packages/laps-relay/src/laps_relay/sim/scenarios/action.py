"""Something that is done to a simulated network."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Action"]


class Action(NamedTuple):
    """Something that is done to the network."""

    when: float
    verb: str
    who: tuple[str, ...] = ()
    value: float = 0.0
    text: str = ""
