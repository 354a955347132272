"""The running network: relay processes, their wires and clients, and the actions on them.

::

    Scenario --> World --builds--> RelayProcess (core, clients, connections)
                   ^                    |
    Actions -------'                    '--> RelayTables, StubTables: what checks read of a core
    (carry out the actions of a scenario; Gauge reports the loss of links to relays)

- ``world``: the processes, and everything that happens between them. ``build`` makes their cores.
- ``actions``: publishers, subscribers, faults and planned changes, with ``restarts`` and
  ``hostile``, a peer that breaks the protocol.
- ``oracle`` finds routes by itself; ``paths`` and ``fault_scope`` find the relays that a fault
  affects.
- ``identify`` reads which object the bytes between two relays carry.

``runner``, ``checks`` and ``plans`` import this room.
"""

from __future__ import annotations
