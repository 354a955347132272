"""The running network: relay processes, their wires and clients, and the actions on them.

::

    Scenario --> World --builds--> RelayProcess (core, clients, connections)
                   ^                    |
    Actions -------'                    '--> RelayTables: what checks read of a core
    (execute the actions of a scenario)

``Oracle`` computes routes by itself; ``fault_scope`` and ``paths`` decide who may notice a fault.
``drops`` accounts for each object that a queue gave up. ``hostile`` is a peer that breaks the
protocol.
"""

from __future__ import annotations
