"""Deliberate faults in the relay core, each of which the simulator has to find.

``catalog`` lists them in ``MUTANTS``; ``applied`` patches one in and ``hunt`` looks for a seed
that finds it.

::

    hunt(name, seeds) --> applied(name) --> simulate --> BreakError: found
"""

from __future__ import annotations
