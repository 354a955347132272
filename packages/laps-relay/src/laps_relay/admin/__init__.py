"""The admin of a relay: health, metrics, tables, commands and pages over HTTP.

::

    TCP --> server (uvicorn) --> server.Guard (token, origin) --> app --> views.RelayView    Edge
                                                                   |----> views.NetworkView  network
                                                                   |----> server.LiveFeed
                                                                   '----> static/: pages

Layers, the upper may import the lower::

    app
    server
    views

The admin knows a relay only through ``views.RelayView`` and ``views.NetworkView``, which
``laps_relay.server`` implements. From outside import ``app.make_app``, ``server.AdminServer``,
``server.LiveFeed`` and ``views``. Handlers run in the relay's own loop between two turns.
docs/reference/admin-api.md lists the requests.
"""
