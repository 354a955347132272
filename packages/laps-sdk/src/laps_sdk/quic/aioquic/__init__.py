"""QUIC by aioquic: the default backend.

::

    laps_sdk.quic.endpoint
        |
        v
    engine     AioquicEngine, AioquicConnection     (library.LibraryEngine, LibraryConnection)
        |--> path_mtu    which packet size to try next (RFC 8899)
        |--> fast        1-RTT packets at a third of the cost, if it fits the installed release
        v
    compat     Tuned: all that is read or changed of aioquic's private names, checked at import

Only ``engine`` is imported from outside, by :mod:`laps_sdk.quic.endpoint`. The environment variable
``LAPS_FAST_PATH=0`` switches the fast path off.
"""
