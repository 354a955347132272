"""QUIC with aioquic, the default backend.

::

    laps_sdk.quic.endpoint
        |
        v
    engine     AioquicEngine, AioquicConnection     (library.LibraryEngine, LibraryConnection)
        |--> path_mtu    the largest packet size of the path (RFC 8899)
        |--> fast        1-RTT packets at a third of the cost, if it fits the installed release
        v
    compat     Tuned: all private names of aioquic that are used, checked at import

Only :mod:`laps_sdk.quic.endpoint` imports from this folder: ``engine``. The environment variable
``LAPS_FAST_PATH=0`` switches the fast path off.
"""
