"""Nodes: which relays exist, and the best path to each (laps-2, 5.1, 6.4 and 8).

::

    NODE_ADVERTISE     adj_in: checks of          node_table         adj_out
    NODE_WITHDRAW ---> one entry, import -------> best path -------> what each peer
                       filter of policy           of each node       must be sent, damped
                                                      |
                                             nib: Nib owns all of this
                                                  PathFinder: best path for one class of tracks

    PROBE <---> probing: round trips ---> location: where this relay is ---> own_node

Modules that other rooms import:

- ``nib``: :class:`~laps_relay.network.nodes.nib.Nib`, the node information base. It owns
  ``adj_in``, ``adj_out``, ``node_table`` and ``silences``. ``PathFinder`` beside it finds the paths
  that policy allows for one class of tracks. ``flood`` takes ``TOLD_AGAIN`` from ``silences``.
- ``node_table``: ``Candidate`` and the order of paths; values of changes and reports.
- ``own_node``: what this relay says of itself, its load too.
- ``probing``: distances to other relays. ``location``: places, light time, estimates.

The simulator's mutants also patch ``adj_out`` and ``node_table``. This room imports ``settings``
and ``laps_relay.policy``, and no other room of the network.
"""
