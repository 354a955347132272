"""QUIC by aioquic, behind :mod:`laps_sdk.quic.engine`."""
