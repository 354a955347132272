"""The application API: sessions, tracks, subscriptions (docs/reference/sdk-api.md).

Applications import every public name from :mod:`laps_sdk`. A session outlives its connections::

    application
        |  connect, publish, subscribe, fetch, namespaces, tracks, reports
        v
    session     Session: makes everything below, answers the relay's requests, closes it
        |
        v
    publication, subscription, fetch, discovery, reporter     the objects that it returns
        |  join, leave                    ^  attach, detach, fail
        v                                 |
    reconnect   Reconnector: the current link; dials again after a loss, moves after a GOAWAY
        |
        v
    dial        resolves, checks the certificate, agrees on a draft; ConnectOptions say how
        |
        v
    link        Link: one MoQT session on one connection; Request: one request and its answer;
                Incoming: streams and datagrams, by track alias, to subscriptions and fetches

``iteration`` has the queue, ``async with`` and ``async for`` of everything that is received.
``core`` holds the decisions that need no I/O. In the SDK only ``cli`` and ``testing`` may import
this package; the relay may not. docs/spec/moqt.md describes the messages. Imports go downwards in
the drawing: "client layers" in ``pyproject.toml`` is the contract.
"""
