"""QUIC with qh3, whose core is in Rust; installed with the extra ``turbo``.

::

    laps_sdk.quic.endpoint
        |
        v
    engine     Qh3Engine, Qh3Connection     (library.LibraryEngine, LibraryConnection)
        |
        v
    compat     Guarded: qh3's connection with corrections; its release is checked at import

Only :mod:`laps_sdk.quic.endpoint` imports from this folder: ``engine``. Without the extra, the
import raises a ``TransportError`` that names it.
"""
