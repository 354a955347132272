"""The typed seam between an Edge and what is above it: the network, or a parent relay.

What is above an Edge is one of the Edge's own sessions. Requests and their results cross the seam
as dataclasses, never as bytes; objects go from one forwarding plane to the other::

    EdgeRelay                    this room                           above it
    SUBSCRIBE  ------------->    Upstream  -- edge_subscribed ---->  NetworkBridge: NetworkRelay
    SUBSCRIBE_OK  <----------              <- subscribe_answered --  StubUplink: a Stub's parents
    SUBSCRIBE  <-------------    Upstream  <- subscribe_at_edge ---  StubParent, CppPeer: one peer
    SUBSCRIBE_OK  ---------->              -- edge_accepted ------>
    PUBLISH, namespaces <----    Upstream  <- publish, unpublish --
    FETCH  <---------------->    Fetching  <- fetch, serve_fetch ->
    Plane  -- objects ------>    FeedEgress -- Feed -------------->
    Plane  <- objects -------    PlaneSink  <- DataSink -----------

Modules, all of which may be imported from outside:

- ``interfaces``: what the network implements or takes: ``LocalSide``, ``DataSink``, ``Feed``,
  ``FetchSide``.
- ``upstream``: :class:`~laps_sdk.upstream.upstream.Upstream`, the session above an Edge, and the
  ``UpstreamOwner`` that answers it.
- ``seam``: the two ends of that session, in one process.
- ``fetching``: FETCHes in both directions.
- ``egress``, ``sink``: objects out of and into a forwarding plane.
- ``announcements``: what clients publish, each name once.
- ``bodies``, ``codes``: messages and codes of MoQT inside laps-2 (laps-2, 5.3 and 6.5).
- ``stub_link``, ``stub_data``, ``direct_feed``: one session between a Stub and its parent, for both
  ends of it (laps-2, 4.5).
"""
