"""Peering between relays: two protocols, and one session over either.

::

    session                one side of a connection: handshake, states, rights, sets
      |        |
    laps2     cpp          the messages of laps-2; the messages of the C++ relay
      |
    errors                 one class for each laps-2 session error code

Import from :mod:`laps_wire.peering.session`, :mod:`laps_wire.peering.laps2` or
:mod:`laps_wire.peering.cpp`; this package itself exports nothing. The error classes are in
:mod:`laps_wire.peering.errors`.

``docs/spec/laps-2.md`` and ``docs/spec/laps-cpp.md`` specify the protocols; both follow seed 000.
"""
