"""The borders inside the network core: which part knows what, and what it asks of the others.

::

      shell (io, sim)                         NetworkRelay                        local side
    bytes of control streams --> Peers --events--> Nib        nodes, paths, best
    connections made, ended        |               Floods     announces, subscribes
    timers                         |               Interests  what we publish and want  <--> bridge
                                   |               Steering   next hop of a target, Vias     to the
                                   |               Sets       SNS in, SNS out                 Edge
    data streams, datagrams ------ | -----------> PeerPlane   FIB, pipeline           <--> its plane
    Egress of each connection <----'--------------'

A *session* is one peering connection, numbered by the shell; a *peer* is the node at its other end.
Between two nodes one session carries control and any number carry data. Nothing here reads a clock,
draws a random number that it was not given, or does I/O: ``now`` is seconds of a monotonic clock.

A *key* is the full-name hash of a track (docs/spec/laps-2.md, 2). A *context* is one publisher's
flow of a track. A *scope* is the name of a class of service that policy gave the track; "" if none.
"""
