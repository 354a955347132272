"""The Stub relay, which dials parents and is invisible above them (laps-2, 4.5).

A Stub serves MoQT clients like an Edge. It announces and subscribes at one parent, the nearest one;
the other parents stand by::

    clients -- EdgeRelay == Upstream == StubUplink ---- UplinkParent (active) --- parent
               Plane                          |     '---- UplinkParent ------------ next parent
                                              |-- StubFeeds: tracks of the Stub, to each parent
                                              '-- Leaving: what a former parent still sends

    shell: PeerServer ==== StubRelay: Peers, Dialler, Links ---- UplinkParent of each session

Modules:

- ``relay``: :class:`~laps_sdk.stub.relay.StubRelay`, driven by a shell: handshakes, dials, data.
- ``stub_uplink``: :class:`~laps_sdk.stub.stub_uplink.StubUplink`, joins parents and the Edge.
- ``stub_feeds``, ``stub_leaving``: only ``stub_uplink`` uses them.

The session with a parent is :class:`~laps_sdk.upstream.stub_link.StubLink`; the parent's end of it
is ``laps_relay.stubs``. Of the relay only its server and its simulator import this room.
"""
