"""Peering between relays: ``laps-2``, the C++ relay's protocol, and a session over either.

See :mod:`laps_wire.peering.laps2`, :mod:`laps_wire.peering.cpp`, :mod:`laps_wire.peering.session`.
"""
