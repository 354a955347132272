"""Invariants of a run, checked during it and after it.

::

    World --+--> Checks (after each step and at rest) -----> BreakError
            |      Routes: next hops and FIB as the Oracle has them
            |      SteeringChecks, StubChecks
            |      Drops: what queues give up, and in which order
            +--> Convergence (when all routes have to be right after a change)
            '--> ChurnBound (how often a target may be put into sets)

``runner`` makes ``Checks``, ``Convergence`` and ``ChurnBound``; nothing else is imported from
outside. Checks read relays through ``Tables`` and never change them. The list of invariants is in
docs/explanation/simulator.md.
"""

from __future__ import annotations
