"""A network of relays in one process, in virtual time, from a seed.

The same cores as in a server (``laps_relay.network``, ``laps_sdk.stub``) run here without sockets
and clocks. A run depends on its seed alone, so anybody can replay a failure by its number.

::

    seed --> scenarios --> world (relay processes) --> checks --> Outcome
                             |            |
                            net        clients

Entrances:

- :mod:`~laps_relay.sim.runner` runs seeds and sums their outcomes up.
- :mod:`~laps_relay.sim.mutants` proves that the checks find faults.
- :mod:`~laps_relay.sim.plans` plays a plan of peerings before relays get it.

:mod:`~laps_relay.sim.core` names the cores that run, and what checks read from them. Of the relay,
only ``laps_relay.cli`` imports the simulator. See docs/explanation/simulator.md.
"""

from __future__ import annotations
