"""Columns that are made once for a session.

To write an expression in Python is a call to the JVM for each of its parts: hundreds of them for a
body. They are the same for each batch, so a stream would pay for them again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

__all__ = ["made_once"]

T = TypeVar("T")

_MADE: WeakKeyDictionary[SparkSession, dict[Hashable, Any]] = WeakKeyDictionary()


def made_once(session: SparkSession, key: Hashable, make: Callable[[], T]) -> T:
    """What ``make`` gives, made when it is asked for first in a session."""
    mine = _MADE.setdefault(session, {})
    if key not in mine:
        mine[key] = make()
    return cast("T", mine[key])
