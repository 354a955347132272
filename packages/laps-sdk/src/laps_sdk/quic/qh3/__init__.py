"""QUIC by qh3, behind :mod:`laps_sdk.quic.engine`."""
