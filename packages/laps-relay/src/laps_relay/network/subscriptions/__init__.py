"""Subscriptions across the network: the s-relay, the o-relay, and responses (laps-2, 5.3).

::

    local side                     Subscriptions                        network
    announce, withdraw     ------> OriginRole (o-relay)   ------------> own announces
    serve_track, release   <------    |    <--------------------------- subscribes of other relays
    publisher_accepted     ------>    |--- OriginTrack: who gets a track, over which outcome
                                      '--> ResponseSender ------------> responses
    subscribe, unsubscribe ------> SubscriberRole (s-relay) ----------> own subscribes
    answered               <------    '--- want_asking, want_serving <- responses
    announce_added         <------ Discovery              <------------ announces of other relays

``subscriptions`` has ``Subscriptions`` and the s-relay, and finds the session for a response of
another relay. ``origin_role`` is the o-relay. ``discovery`` matches announces and subscribes.

From outside import ``subscriptions`` (``Subscriptions``, ``ResponseLoopFilter``,
``return_session``), ``origin_role.DeliveryFailure`` and ``discovery.SubscribeIndex``.
"""
