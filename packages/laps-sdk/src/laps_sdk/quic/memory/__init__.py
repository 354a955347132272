"""A backend without cryptography and a network within the process, for tests.

::

    laps_sdk.quic.endpoint
        |                     |
        v                     v
    engine                 network    MemoryNetwork, MemoryPort: lose, delay and reorder packets
        |--> streams    the streams of one side, and their flow control
        '--> packets    frames as Python objects behind the header of a QUIC packet

Tests import ``network`` and pass it to :func:`~laps_sdk.quic.endpoint.open_endpoint`. Only
:mod:`laps_sdk.quic.endpoint` imports ``engine``.

Streams, flow control, Retry, loss and closing follow RFC 9000; packets are never encrypted.
"""
