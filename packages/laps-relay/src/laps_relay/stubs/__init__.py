"""The parent's side of a Stub's session (laps-2, 4.5).

A Stub is a client of its parent Edge that speaks the peering protocol. The network does not see
the Stub::

    Stub == peering session == StubParent --- Upstream --- EdgeRelay
                                 '-- StubLink, TrackStreams: shared with the Stub's end

Module:

- ``stub_parent``: :class:`~laps_relay.stubs.stub_parent.StubParent`, one Stub at its parent.

The Stub's end is :mod:`laps_sdk.stub`.
"""
