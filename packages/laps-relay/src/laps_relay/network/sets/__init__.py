"""Subscriber node sets (SNS): the peers that get the data of each ingress (laps-2, 6.1 and 6.3).

::

    set of a peer, own feed --> Sets --record--> Chooser     next hop and session of each target
                                 |                  |
                                 |                  v
                                 |               Switch      new sets first, then the old ones end
                                 |                  |
                                 |                  v
                                 |               EgressSets  SNS messages, through SetRouting
                                 '--> PeerPlane: FIB entries

``Sets`` owns the state. ``SetRouting`` connects it to steering, links and peering sessions, and
emits an event for each change.

From outside import ``sets.Sets``, ``set_routing.SetRouting`` and the rows and counters of
``set_records``.
"""
