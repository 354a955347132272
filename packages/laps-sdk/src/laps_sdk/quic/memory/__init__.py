"""A backend without cryptography and a network within the process, for tests.

::

    laps_sdk.quic.endpoint
        |                     |
        v                     v
    engine                 network    MemoryNetwork, MemoryPort: lose, delay and reorder packets
      packets, streams and their flow control, loss detection

Tests import ``network`` and pass it to :func:`~laps_sdk.quic.endpoint.open_endpoint`. Only
:mod:`laps_sdk.quic.endpoint` imports ``engine``.

Streams, flow control, Retry, loss and closing follow RFC 9000; packets are never encrypted.
"""
