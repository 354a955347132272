"""The network side of a relay: information bases, subscriber node sets, and data between relays.

::

      shell (server, sim)                 NetworkRelay (relay)                     local side
    bytes of control streams --> Peers --events--> nodes           Nib: paths, best path
    connections made, ended        |               flood           announces, subscribes
    timers                         |               subscriptions   s-relay and o-relay  <--> Edge
                                   |               steering        next hops, Vias
                                   |               sets            SNS in, SNS out
                                   |               fetch           FETCH between relays <--> Edge
                                   |               control_server  sharded entries
    data streams, datagrams ------ | -----------> PeerPlane (laps_relay.peer_forwarding) <--> Edge
    Egress of each connection <----'--------------'

Layers, the upper may import the lower::

    relay
    adjacency, advertisements, demand, fetch, flood_exports, origin_feeds, tables
    control_server, sets
    steering
    subscriptions
    flood
    nodes
    drain_monitor, events, settings, shell, timers, views

From outside import ``relay.NetworkRelay``, ``settings``, ``events``, ``views``, ``shell.PeerRelay``
and ``drain_monitor``; the mutants of the simulator reach into rooms on purpose.
The specification is docs/spec/laps-2.md.

A *session* is one peering connection, numbered by the shell; a *peer* is the node at its other end.
Between two nodes one session carries control and any number carry data. Nothing here reads a clock,
draws a random number that it was not given, or does I/O: ``now`` is seconds of a monotonic clock.

A *key* is the full-name hash of a track (docs/spec/laps-2.md, 2). A *context* is one publisher's
flow of a track. A *scope* is the name of a class of service that policy gave the track; "" if none.
"""
