"""The admin of a relay: health, metrics, tables, commands and pages over HTTP.

::

    TCP --> server (uvicorn) --> guard (token, origin) --> app --> views.RelayView    the Edge
                                                            |-> network_api --> views.NetworkView
                                                            |-> live: one snapshot a second
                                                            '-> static/: pages

Layers, the upper may import the lower::

    app, server
    live, network_api
    guard, paging, views

The admin knows a relay only through ``views.RelayView`` and ``views.NetworkView``, which
``laps_relay.server`` implements. From outside import ``app.make_app``, ``server.AdminServer``,
``live.LiveFeed`` and ``views``. Handlers run in the relay's own loop between two turns.
docs/reference/admin-api.md lists the requests.
"""
