"""Steering: next hops of targets, Vias, and dynamic peerings (seed 000, Topologies).

::

    targets of a track, policy, plan
            |
            v
        Steering --situation--> via_choice    the Vias that help one track towards one region
            |                       |
            |  <----- choice -------'
            |-- Assignment --> Sets           target to peer
            '-- dial_wishes -> demand         relays with which a session would help

From outside import ``steering`` (``Steering``, ``Assignment``, ``Plan``). The functions of
``via_choice`` are pure.
"""
