"""The parent's side of a Stub's session (laps-2, 4.5).

A Stub is a client of its parent Edge that speaks the peering protocol; the network does not see
it::

    Stub == peering session == StubParent --- Upstream --- EdgeRelay
                                 '-- StubLink, TrackStreams: shared with the Stub's own end

- ``stub_parent``: :class:`~laps_relay.stubs.stub_parent.StubParent`, one Stub.

The Stub's own end is :mod:`laps_sdk.stub`.
"""
