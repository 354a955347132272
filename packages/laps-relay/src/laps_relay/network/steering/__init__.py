"""Steering: next hops of targets, Vias, and dynamic peerings (seed 000, Topologies).

::

    targets of a track, policy, plan
            |
            v
        Steering --situation--> via_choice       the Vias that help one track towards one region
            |                       |
            |  <----- choice -------'
            |-- Assignment -----> Sets           target to next hop
            '-- peering_demand -> demand         relays to dial because a session would help

From outside import ``steering`` (``Steering``, ``Assignment``). The functions of ``via_choice`` are
pure.
"""
