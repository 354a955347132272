"""An engine without cryptography for tests and simulations; see :mod:`laps_sdk.quic.engine`."""
