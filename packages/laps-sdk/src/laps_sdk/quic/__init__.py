"""QUIC behind one small interface; see :mod:`laps_sdk.quic.base`."""
