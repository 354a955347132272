"""The 1-RTT fast path: a subclass of aioquic's connection for common packets.

aioquic is slow for many small streams, for three reasons. For every packet it asks every open
stream for data. It calls the cipher once a packet for header protection. It copies each packet
several times. The fast path replaces these parts only::

    laps_sdk.quic.aioquic.engine.fast_path()     runs the self-check once in a process
            |
            v
    selfcheck --> connection   FastQuicConnection: sends and receives 1-RTT packets
                      |-----> streams      halves of streams that mark themselves ready to send
                      |-----> frames       aioquic's frame writers, varints, records of sent packets
                      |-----> protection   AES-GCM and header protection for a burst of packets
                      '-----> laps_sdk.quic.aioquic.compat   a pacer for bursts of 64 packets

All state is aioquic's own. The additions (the queue of ready streams, the prepared keys) are
derived from it. So either class may handle any packet, in any order. Only ``laps_sdk.quic.aioquic``
imports from this folder.

The folder implements RFC 9000 (12 to 19), RFC 9001 (5) and RFC 9221 for these packets.
"""
