"""The parts of the 1-RTT fast path; :mod:`laps_sdk.quic.aioquic.fast_path` puts them together.

::

    protection   AES-GCM and header protection for a burst of packets at once
    pacing       a token bucket that lets 64 packets go at once
    varints      QUIC's variable-length integers
    streams      senders and receivers that say when they have something to do
    frames       parent's frame writers, used for single frames of our packets
    base         what both sides share: the queue of busy streams, the way back to the parent
    send, send_frames          datagrams_to_send: packets, their frames
    receive, receive_frames    receive_datagram: packets, their frames
    connection   both sides in one class
    prepared     connections that stand without a handshake, to compare bytes
    selfcheck    does this aioquic look as expected, do both classes make the same packets

All state is aioquic's own. What is added (the queue of busy streams, the keys in a handier form)
is derived from it, so that any packet may be handled by either class, in any order.
"""
