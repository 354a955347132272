"""The relay's decisions, without I/O, clock or logging; see :mod:`laps_relay.core.interfaces`."""
