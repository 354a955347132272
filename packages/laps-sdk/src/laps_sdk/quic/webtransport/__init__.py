"""WebTransport over HTTP/3, on any connection of :mod:`laps_sdk.quic.base`."""
