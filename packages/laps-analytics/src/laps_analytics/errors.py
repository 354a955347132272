"""What can go wrong in the pipeline: one tree below the errors of LAPS.

::

    LapsError
    └── LocalError
        └── AnalyticsError          ``exit_code`` 1; the message says what, where, and what to do
            ├── UsageError          2   arguments that make no sense together
            ├── JavaMissingError    1   no Java 17 or newer, and none from ``laps-analytics[java]``
            ├── StartError          1   Spark does not start: what its JVM said, and which option
            ├── InputError          1   telemetry that cannot be read at all; nothing was written
            ├── OutputError         1   the lake cannot be written; what was there is untouched
            ├── LakeError           1   a lake or table is not what its log says
            │   └── ConflictError   1   somebody else committed first; run again
            ├── GateError           3   the data-quality gate is red, or the data old: no plan
            └── PlanError           1   a plan cannot be made, read, or trusted
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
    """The root of what this package raises on purpose."""

    exit_code: ClassVar[int] = 1
    """What the command exits with."""


class UsageError(AnalyticsError):
    """Arguments that make no sense, alone or together."""

    exit_code = 2


class JavaMissingError(AnalyticsError):
    """Spark needs Java, and there is none that it could use."""


class StartError(AnalyticsError):
    """Spark does not start, or is not reached."""


class InputError(AnalyticsError):
    """Input that cannot be read. Nothing was written."""


class OutputError(AnalyticsError):
    """Output that cannot be written. What was there before is untouched."""


class LakeError(AnalyticsError):
    """A lake is not what its log says, or not a lake."""


class ConflictError(LakeError):
    """Another run committed to the same table first. Nothing was lost: run again."""


class GateError(AnalyticsError):
    """The data is bad or old, and what was asked for must not be made from such data."""

    exit_code = 3


class PlanError(AnalyticsError):
    """A plan that cannot be made, read, or trusted."""
