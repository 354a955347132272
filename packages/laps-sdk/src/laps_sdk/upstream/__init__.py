"""The seam between an Edge and what is above it: the network, or a parent relay.

What is above an Edge is one of the Edge's own clients. Subscribes, publishes and fetches cross
the seam by calls; objects go from one forwarding plane to the other::

    EdgeRelay                   this room                          above it
    SUBSCRIBE  ------------->   EdgeClient: Wishes   -- wanted -->  NetworkBridge: NetworkRelay
    SUBSCRIBE_OK  <----------                        <- answered -  StubUplink: a Stub's parents
    SUBSCRIBE  <-------------   EdgeClient: Pulls    <- pull -----  StubParent, CppPeer: one peer
    SUBSCRIBE_OK  ---------->                        -- pulled -->
    PUBLISH, namespaces <----   Namespaces, Publications <- offer, withdraw
    FETCH  <---------------->   Fetching             <- fetch, serve_fetch ->
    Plane  -- objects ------>   FeedEgress           -- Feed ---->
    Plane  <- objects -------   PlaneSink            <- DataSink -

Modules, which may all be imported from outside except those marked as inner:

- ``interfaces``: the types of the seam: ``LocalSide``, ``DataSink``, ``Feed``, ``FetchSide``.
- ``client``: :class:`~laps_sdk.upstream.upstream.EdgeClient`. Inner: ``parts``, ``virtual``,
  ``wishes``, ``pulls``, ``offers``, ``elsewhere``.
- ``network``: :class:`~laps_sdk.upstream.network.NetworkBridge`, which joins an Edge and a network.
- ``fetching``: ranges of the past, in both directions.
- ``egress``, ``sink``: objects out of and into a forwarding plane.
- ``announcements``, ``directory``: what clients publish, each name once.
- ``bodies``, ``codes``: messages and codes of MoQT inside laps-2 (laps-2, 5.3 and 6.5).
- ``stub_link``, ``stub_data``, ``direct_feed``: one session between a Stub and its parent, for both
  ends of it (laps-2, 4.5).
"""
