"""A plan of peerings, played through on a simulated network before relays get it.

::

    Stage (topology, demands) --.
    SignedPlan -----------------+--> play_plan() --> PlanVerdict (faults found, or none)

``run`` is the entrance, ``stage`` reads or samples a stage, ``rules`` is the policy of its relays.
"""

from __future__ import annotations
