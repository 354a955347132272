"""Exceptions of this package, in one tree below ``LapsError``.

::

    LapsError
    └── LocalError
        └── AnalyticsError          ``exit_code`` 1; message: the fault, its place, the remedy
            ├── UsageError          2   wrong arguments, alone or together
            ├── JavaMissingError    1   no Java 17 or newer, and none from ``laps-analytics[java]``
            ├── StartError          1   Spark does not start; has the JVM's message and the option
            ├── InputError          1   telemetry cannot be read; nothing was written
            ├── OutputError         1   the lake cannot be written; it did not change
            ├── LakeError           1   a lake or table does not match its log
            │   └── ConflictError   1   another process committed first; run the command again
            ├── GateError           3   the data fails its quality checks or is too old
            └── PlanError           1   a plan cannot be made, read or trusted
"""

from __future__ import annotations

from typing import ClassVar

from laps_wire.errors import LocalError

__all__ = [
    "AnalyticsError",
    "ConflictError",
    "GateError",
    "InputError",
    "JavaMissingError",
    "LakeError",
    "OutputError",
    "PlanError",
    "StartError",
    "UsageError",
]


class AnalyticsError(LocalError):
    """Base class of the exceptions that this package raises on purpose."""

    exit_code: ClassVar[int] = 1
    """Exit code of the command."""


class UsageError(AnalyticsError):
    """Arguments are wrong, alone or together."""

    exit_code = 2


class JavaMissingError(AnalyticsError):
    """No Java was found that Spark can use."""


class StartError(AnalyticsError):
    """Spark does not start, or cannot be reached."""


class InputError(AnalyticsError):
    """Input cannot be read. Nothing was written."""


class OutputError(AnalyticsError):
    """Output cannot be written. Existing data did not change."""


class LakeError(AnalyticsError):
    """A folder is not a lake, or does not match its log."""


class ConflictError(LakeError):
    """Another process committed to the same table first. Nothing was lost: run again."""


class GateError(AnalyticsError):
    """The data fails its quality checks or is too old for the command."""

    exit_code = 3


class PlanError(AnalyticsError):
    """A plan cannot be made, read or trusted."""
