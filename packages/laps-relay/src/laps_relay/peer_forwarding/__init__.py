"""The forwarding plane between relays: streams and datagrams, from one session to others.

::

    data_stream --> arrival: header, set --> relayed_stream: one stream in, many streams out
    datagram -----> datagrams ------------------------> Egress of each session
    own clients --> feed ------------------------------> the same
                      |
                      v
                 state: sessions, FIB entries, fan-out <--writes-- fib <-- Sets

    forwarding   the types at the border: Ingress, EgressSet, notices, counters
    plane        PeerPlane: the one object that a relay holds
    probe        the first object of a sampled group, for telemetry
    traffic      bytes and objects by track, counted only on request

This is the hot path: it reads the FIB and decides nothing. From outside import ``plane.PeerPlane``,
``feed.PlaneFeed``,
``forwarding`` and ``traffic``. The specification is docs/spec/laps-2.md, 6.
"""
