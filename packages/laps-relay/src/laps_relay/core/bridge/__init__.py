"""The bridge between an Edge and the relay network: the network is a client of its own Edge.

::

    EdgeRelay == MoQT session in memory == EdgeClient --- NetworkBridge --- NetworkRelay
    Plane     <-- objects of other relays ---'     '---- StubParent ----- a Stub's session
              --- objects of our clients --> FeedEgress   StubUplink ---- a parent's session
"""
