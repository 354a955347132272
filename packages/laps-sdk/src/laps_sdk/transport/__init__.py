"""QUIC behind one small interface; see :mod:`laps_sdk.transport.base`."""
