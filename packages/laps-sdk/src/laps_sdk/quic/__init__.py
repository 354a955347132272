"""QUIC and WebTransport behind one small interface.

An *endpoint* is one UDP socket with many connections. It runs in turns of the event loop: packets
in, events to handlers, one flush for each connection::

    applications: laps_sdk.client, laps_sdk.edge, laps_sdk.peering, laps_relay.server
        |  open_endpoint, connect           ^  events of one turn, as one list
        v                                   |
    endpoint ---> dialing             base.Handler, moqt.MoqtPeer, turns.TurnServer
        |            |                      ^
        |            '--- webtransport -----|     a session looks like a connection
        v                                   |
    dispatch ---- admission, resets   connection ---> egress (priorities, deadlines, limits)
        |         who may connect           |            |
        v                                   v            v
    udp, or memory.network            engine: Engine, EngineConnection
    sockets in batches                      ^            ^
                                     memory.engine    library ---> tls, qlog
                                                         ^
                                                 aioquic, qh3: one library each

Other packages may import:

- ``endpoint``: :func:`~laps_sdk.quic.endpoint.open_endpoint` and the names of the backends.
- ``base`` and ``events``: connections, streams, handlers, limits, and the events they get.
- ``engine``: options of an endpoint (``EngineOptions``, ``Tls``).
- ``admission``: ``AdmissionLimits``. ``tls``: certificates for development and their hashes.
- ``moqt``: a MoQT session on a connection. ``turns``: the base of servers that run in turns.
- ``memory.network``: a network within the process, for tests.

All other modules are private to this folder. No other package imports a QUIC library.

The libraries implement RFC 9000 (QUIC), 9001 (TLS), 9002 (recovery) and 9221 (datagrams). This
folder implements Retry, Version Negotiation, stateless resets, keepalives and WebTransport over
HTTP/3.
"""
