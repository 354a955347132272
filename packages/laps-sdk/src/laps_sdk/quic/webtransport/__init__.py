"""WebTransport over HTTP/3, on any connection of :mod:`laps_sdk.quic.base`.

One QUIC connection carries at most one session::

    QUIC connection --events--> peer.H3Peer --events of the session--> handler of the application
                                 ^      |
                    client, server      |--> h3    frames, capsules, header fields, control streams
                                        '--> WebTransportConnection
                                                ^  streams, datagrams, close
                                                '--- application

Only :mod:`laps_sdk.quic.dialing` and :mod:`laps_sdk.quic.endpoint` import from this folder:
``client`` (``H3Client``, ``dial_h3``) and ``server`` (``serve_h3``).

The folder implements draft-ietf-webtrans-http3 (02 and 07), RFC 9114, 9204, 9220 and 9297.
"""
