"""Plans: which Via to take, made by somebody who sees the whole network, signed.

Relays read them and decide for themselves whether to follow; the format is docs/spec/plan.md.
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
