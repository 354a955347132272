"""A network of relays in one process, in virtual time, from a seed.

The same core as in a server (``laps_relay.network``) runs here without sockets and clocks.
A run depends on its seed alone, so anybody can replay a failure by its number.

::

    seed --> scenarios --> world (relays) --> checks --> Outcome
                           |        |
                           net      clients

:mod:`laps_relay.sim.runner` runs seeds, :mod:`laps_relay.sim.figures` sums them up.
:mod:`laps_relay.sim.mutants` proves that checks find faults, :mod:`laps_relay.sim.plans` tries
plans.
See docs/explanation/simulator.md.
"""

from __future__ import annotations
