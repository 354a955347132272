"""Virtual time and simulated connections between relays.

::

    Clock (events in virtual time, Rng for chance)
      |
    Network -- dial, close, cut --> Wire (one link) --> Pipe (one direction of a connection)
                                                          |-- Backlog: what waits for bandwidth
                                                          '-- WireDigest: every byte and its time

``network`` is the entrance; ``wires`` models delay, bandwidth, loss and priorities. ``shortcuts``
hands decoded peer messages over where bytes need not be parsed again, and holds the identities of
simulated relays. This room imports no other room of the simulator.
"""

from __future__ import annotations
