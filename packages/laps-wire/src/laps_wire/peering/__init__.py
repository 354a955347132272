"""Peering between relays: ``laps-2``, the C++ relay's protocol, and the sessions of both."""
