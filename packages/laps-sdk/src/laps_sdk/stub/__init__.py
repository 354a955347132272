"""The Stub relay: it dials parents and is invisible above them (laps-2, 4.5).

A Stub serves MoQT clients like an Edge. Everything that they want or publish goes to one parent,
the nearest one; the others stand by::

    clients -- EdgeRelay == Upstream == StubUplink ---- UplinkParent (active) --- parent
               Plane                          |     '---- UplinkParent ------------ next parent
                                              |-- StubFeeds: what is published, to each parent
                                              '-- Leaving: what a former parent still sends

    shell: PeerServer ==== StubRelay: Peers, Dialler, Links ---- UplinkParent of each session

Modules:

- ``relay``: :class:`~laps_sdk.stub.relay.StubRelay`, what a shell drives: handshakes, dials, data.
- ``stub_uplink``: :class:`~laps_sdk.stub.stub_uplink.StubUplink`, what joins parents and the Edge.
- ``stub_feeds``, ``stub_leaving``: only ``stub_uplink`` uses them.

The session with a parent is :class:`~laps_sdk.upstream.stub_link.StubLink`; the parent's end of it
is ``laps_relay.stubs``. Of the relay only its server and its simulator import this room.
"""
