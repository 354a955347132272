"""Signed plans: which Via the copies of a track take towards a region.

::

    planner:  Plan (model) -> signed_bytes -> signature -> SignedPlan -> dumps (codec) -> file
    relay:    file -> loads -> SignedPlan -> signed_bytes -> verified by the caller

A planner that sees the whole network makes plans; each relay decides whether it follows one. This
package neither signs nor verifies: it defines the bytes that are signed.

Import from here only. ``docs/spec/plan.md`` specifies the format.
"""

from laps_wire.plan.codec import (
    PlanFormatError,
    canonical,
    check,
    dumps,
    key_id,
    loads,
    signed_bytes,
)
from laps_wire.plan.model import (
    FORMAT,
    MAX_BYTES,
    MAX_ENTRIES,
    MAX_TEXT,
    MAX_TRACKS,
    ClassRule,
    HardConstraints,
    Plan,
    PlanEntry,
    SignedPlan,
)

__all__ = [
    "FORMAT",
    "MAX_BYTES",
    "MAX_ENTRIES",
    "MAX_TEXT",
    "MAX_TRACKS",
    "ClassRule",
    "HardConstraints",
    "Plan",
    "PlanEntry",
    "PlanFormatError",
    "SignedPlan",
    "canonical",
    "check",
    "dumps",
    "key_id",
    "loads",
    "signed_bytes",
]
