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

``responses`` finds the session for a response of another relay, and drops responses that circulate.

From outside import ``subscriptions.Subscriptions``, ``responses``, and
``origin_track.DeliveryFailure``.
"""
