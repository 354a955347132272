"""Subscriber node sets (SNS): the peers that get the data of each ingress (laps-2, 6.1 and 6.3).

::

    sets                                              set_routing
    set of a peer, own feed --> Sets --record-------> Chooser: next hop, session of each target
                                 |                       |
                                 |                       v
                                 |    new sets first, <- Choice
                                 |    then the old ones end
                                 |       Switch --> EgressSets --SNS messages--> SetRouting
                                 '--> PeerPlane: FIB entries

``Sets`` owns the state; ``set_records`` has its records and rows. ``SetRouting`` connects it to
steering, links and peering sessions, and emits an event for each change.

From outside import ``sets.Sets``, ``set_routing.SetRouting`` and the rows and counters of
``set_records``. The simulator's mutants also patch ``sets.plan`` and ``set_routing.Chooser``.
"""
