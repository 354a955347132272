"""Subscriptions across the network: the s-relay, the o-relay, and responses (laps-2, 5.3).

::

    local side                  Interests                          network
    announce, withdraw ------>  Origins (o-relay)   ------------>  own announces
    pull, release      <------     |   <-------------------------  subscribes of other relays
                                   '-> Answers      ------------>  responses
    want, unwant       ------>  Wants (s-relay)     ------------>  own subscribes
    answered           <------     '-- Asking, Serving  <--------  responses
    discovered         <------  Discovery           <------------  announces of other relays

``responses`` finds the session for a response of another relay, and drops responses that circulate.
From outside import ``interests.Interests``, ``responses``, and ``pulls.Lack``.
"""
