"""FETCH across the network (laps-2, 6.5).

::

    Edge --fetch--> FetchAsking ---request--> relays --...--> FetchServing --> Edge
         <-answer-- (s-relay)   <--response--        <--...-- (o-relay)
                                ---cancel--->                     |
                                                                  '--> feed: the answer's stream

    Fetches       owns both; serves or forwards every message, within a budget for each peer
    FetchRouter   sessions towards a node, nodes that hold a track, feeds for answers

A relay in between keeps no state. From outside import ``fetches.Fetches`` and
``fetch_router.FetchRouter``.
"""
