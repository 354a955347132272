"""Nodes: which relays exist, and the best path to each (laps-2, 5.1, 6.4 and 8).

::

    NODE_ADVERTISE     adj_in: checks        import_filter      node_table        adj_out
    NODE_WITHDRAW ---> of one entry  ------> what policy -----> best path  -----> what each peer
                       (light_time)          lets us use        (selection)       must be sent
                                                                    |             (damping)
                                             path_finder <----------'
                                             best path for one class of tracks

    PROBE <---> probing: round trips ---> location: where this relay is ---> own_node

Modules that other rooms import:

- ``nib``: :class:`~laps_relay.network.nodes.nib.Nib`, the node information base. It owns
  ``adj_in``, ``adj_out``, ``import_filter``, ``node_table``, ``damping`` and ``silences``, which
  only the simulator's mutants import beside it. ``flood`` takes ``TOLD_AGAIN`` from ``silences``.
- ``path_finder``: paths that policy allows for one class of tracks. ``selection``: the order.
- ``own_node``, ``load``, ``location``: what this relay says of itself.
- ``probing``: distances to other relays. ``misbehaviour``: when a session must end.
- ``node_records``, ``light_time``: values and physics.

This room imports ``settings`` and ``laps_relay.policy``, and no other room of the network.
"""
