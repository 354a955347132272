"""Publishers and subscribers of simulated relays, and the ledger of what they sent and received.

::

    Publication --> Clients --+--> DirectClients ------------------> NetworkRelay
                       |      '--> MoqtClients --> EdgeHost -------> NetworkRelay or StubRelay
                       v                           (a whole Edge)
                     Ledger: each object published, passed over a link, received

``world`` makes ``DirectClients`` in networks without Stubs, and an ``EdgeHost`` with its
``MoqtClients`` in the others. ``ledger`` raises ``BreakError`` where an object is lost, doubled,
reordered or altered. ``clients`` names the tracks of a run and has what clients share. This room
imports :mod:`laps_relay.sim.net`.
"""

from __future__ import annotations
