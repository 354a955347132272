"""The running network: relay processes, their wires and clients, and the actions on them.

::

    Scenario --> World --builds--> RelayProcess (core, clients, connections)
                   ^                    |
    Actions -------'                    '--> RelayTables, StubTables: what checks read of a core
    (carry out the actions of a scenario; Gauge reports the loss of links to relays)

- ``world``: the processes, and everything that happens between them. ``build`` makes their cores.
- ``actions``: publishers, subscribers, faults, planned changes and restarts; ``hostile``: a peer
  that breaks the protocol.
- ``oracle`` finds routes by itself, and the deliveries that a fault affects.

``runner``, ``checks`` and ``plans`` import this room.
"""

from __future__ import annotations
