"""The forwarding plane: streams and datagrams of objects, from publishers to receivers.

The control plane (:mod:`laps_sdk.edge`) programs it through ``interfaces.ForwardingPlane``: which
alias of which session is which track (ingress), and which session gets which track (egress). The
plane does no I/O and reads no clock. It answers with notices.

Layers, from top to bottom; a module imports only from below::

    plane            Plane: finds the object that a call is about; faults become notices; figures
    fetches          FETCH, answered from the log or passed on from a publisher
    repair           positions of a log, what it lacks of another one, and sending that again
    late             receivers that start in the past: what they read of the log
    pending          streams whose header or alias has not come yet; internal tracks
    datagrams        objects in datagrams
    track            Session, Track, Group; Subgroup, Span, Writer; Receiver, Out: log and readers
    cache            segments of the log, their limits, their figures
    scan             reads a subgroup stream in runs
    coding           object headers and extensions between drafts
    interfaces       ForwardingPlane, Egress, entries, notices, limits, counters
    ranges, ranking, priority, samples, traffic    tools without state of the plane

The way of an object that comes on a stream::

    stream_data(bytes)
        |
        v
    Opening --alias unknown--> Waiting --add_ingress--.       header read, Track found
        |                                             |
        v                                             |
    Writer <------------------------------------------'       one for each incoming stream
        |  RunParser: one run of bytes, marks where objects begin
        |  Track.admit: each object once, or MalformedTrackError
        v
    Span of the Subgroup: a Segment keeps the run by reference
        +--> streams of the same draft at the tail:  offer(run), nothing else
        +--> streams of the other draft:             transcoded once, then the same
        '--> a stream that refuses falls behind:     it pulls chunks of the log when it has room

What a SUBSCRIBE leads to::

    EdgeRelay --add_ingress(session, alias, track)--> Source; streams that waited begin
              --add_egress(subscription, entry)-----> Receiver: joins every open Subgroup, and
                                                      reads what the log has of the past
              --remove_egress-----------------------> streams reset, counters returned

Import from outside: ``plane.Plane``; ``interfaces``; ``ranking``, ``priority``, ``samples`` and
``traffic``; ``cache.CacheTraffic`` for telemetry; ``coding`` and ``scan`` for probes of peer
streams. All else is internal.

Specification: moq-transport-16, 2.4 (what makes a track malformed), 10.2 to 10.4 (objects,
datagrams, streams); laps-2, 7.2 for subgroups that go on with another stream; docs/adr/0015.
"""
