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

    bridge            joins an Edge and its NetworkRelay
    relay             NetworkRelay
    repair            POSITION and RESUME: what a lost path took with it is sent again
    advertisements, fetch, origin_feeds, tables
    adjacency         sessions, connections on demand, timers of the relay
    control_server, sets
    steering
    subscriptions
    flood
    nodes
    drain_monitor, events, settings, views

From outside import ``relay.NetworkRelay``, ``bridge.NetworkBridge``, ``settings``, ``events``,
``views`` and ``drain_monitor``. The mutants of the simulator also patch classes of the rooms. The
specification is docs/spec/laps-2.md.

A *session* is one peering connection, numbered by the shell; a *peer* is the node at its other end.
Between two nodes one session carries control and any number carry data. No module here reads a
clock, draws a random number that it was not given, or does I/O: ``now`` is seconds of a monotonic
clock.

A *key* is the full-name hash of a track (docs/spec/laps-2.md, 2). A *context* is one publisher's
sequence of objects of a track. A *scope* is the name of the class of service that policy gives the
track; "" if none.
"""
