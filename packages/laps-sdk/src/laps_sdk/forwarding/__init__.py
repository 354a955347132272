"""The forwarding plane: streams and datagrams of objects, from publishers to receivers.

The control plane (:mod:`laps_sdk.edge`) programs it through ``interfaces.ForwardingPlane``: which
alias of which session is which track (ingress), and which session gets which track (egress). The
plane does no I/O and reads no clock. It answers with notices.

Layers, from top to bottom; a module imports only from below::

    plane            Plane: finds the object that a call is about; faults become notices; figures
    fetches          FETCH, answered from the cache or passed on from a publisher
    late             receivers that start in the past: replay from the cache
    pending          streams whose header, alias, or beginning has not come yet; internal tracks
    datagrams        objects in datagrams
    track            Session, Track, Group; Receiver and its streams; Feed: a subgroup under way
    cache            segments of cached objects, their limits, their figures
    scan             reads a subgroup stream in runs, and cuts runs
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
    Feed <--------------------------------------------'       one for each subgroup under way
        |  RunParser: one run of bytes, marks where objects begin
        |  Track.admit: each object once, or MalformedTrackError
        |
        +--> cache: a Segment keeps the run by reference
        +--> Flow of the same draft:  write(run) to each receiver, nothing else
        '--> Flow of the other draft: transcoded once, then the same

A second stream of the same subgroup becomes a Standby and takes over if the first one fails.

What a SUBSCRIBE leads to::

    EdgeRelay --add_ingress(session, alias, track)--> Source; streams that waited begin
              --add_egress(subscription, entry)-----> Receiver: joins every open Feed, and
                                                      late.replay sends what is cached
              --remove_egress-----------------------> streams reset, counters returned

Import from outside: ``plane.Plane``; ``interfaces``; ``ranking``, ``priority``, ``samples`` and
``traffic``; ``cache.CacheTraffic`` for telemetry; ``coding`` and ``scan`` for probes of peer
streams. All else is internal.

Specification: moq-transport-16, 2.4 (what makes a track malformed), 10.2 to 10.4 (objects,
datagrams, streams); laps-2, 7.2 for subgroups that go on with another stream.
"""
