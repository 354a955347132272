"""Publishers and subscribers of simulated relays, and the ledger of what they sent and received.

::

    Publication --> Clients (at the network relay) ----.
               '--> MoqtClients --> EdgeHost (an Edge) -+--> relay core
                                                        |
    Ledger <-- each object published, crossed, received-'

``ledger`` raises ``BreakError`` where an object is lost, doubled, reordered or altered. ``tracks``
names the tracks of a run. This room imports :mod:`laps_relay.sim.net` and
:mod:`laps_relay.sim.core`.
"""

from __future__ import annotations
