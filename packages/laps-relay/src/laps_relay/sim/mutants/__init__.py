"""Deliberate faults in the relay core, each of which the simulator has to find.

::

    hunt(mutant) --> applied(mutant) --> simulate --> BreakError: found

``catalog`` lists all mutants in ``MUTANTS``, with the runs in which each is seen. ``applied``
breaks the core for a while, ``hunt`` looks for a run that finds it. ``faults`` has one function for
each mutant; it replaces public methods of the core.
"""

from __future__ import annotations
