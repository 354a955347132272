"""QUIC by qh3: a backend with its core in Rust, installed with the extra ``turbo``.

::

    laps_sdk.quic.endpoint
        |
        v
    engine     Qh3Engine, Qh3Connection     (library.LibraryEngine, LibraryConnection)
        |
        v
    compat     Guarded: qh3's connection with corrections; its release is checked at import

Only ``engine`` is imported from outside, by :mod:`laps_sdk.quic.endpoint`. Without the extra, the
import raises a ``TransportError`` that names it.
"""
