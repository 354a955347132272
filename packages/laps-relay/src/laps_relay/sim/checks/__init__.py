"""Invariants of a run, checked during it and after it.

::

    World --+--> Checks (after each action and at the end) --> BreakError
            |      routes, filters, steering, Stubs
            +--> Convergence (the time after which all relays agree)
            '--> ChurnBound (how often a subscriber-node set may change)

Checks read relays through ``Tables`` and compare with the ``Oracle``. The list of invariants is in
docs/explanation/simulator.md.
"""

from __future__ import annotations
