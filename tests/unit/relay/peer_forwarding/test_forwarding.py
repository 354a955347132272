"""The border with the forwarding plane holds: who stands on either side has the shape expected."""

from __future__ import annotations

from laps_relay.network.bridge import NetworkBridge
from laps_relay.peer_forwarding.feed import PlaneFeed
from laps_relay.peer_forwarding.forwarding import (
    LOCAL,
    EgressSet,
    Ingress,
    PeerPlaneCounters,
    SetIdle,
)
from laps_relay.peer_forwarding.plane import PeerPlane
from laps_sdk.upstream.interfaces import DataSink, Feed

# For the type checker: these lines fail if one side of the border moves alone.
FEED: type[Feed] = PlaneFeed
SINK: type[DataSink] = NetworkBridge


def test_our_own_clients_are_no_session_of_a_peer() -> None:
    assert LOCAL == 0  # the shell counts sessions from 1
    assert Ingress(LOCAL, 7) == (0, 7)
    assert SetIdle(EgressSet(1, 2)).egress.sns_id == 2


def test_a_plane_that_did_nothing_has_counted_nothing() -> None:
    assert PeerPlane(None).counters() == PeerPlaneCounters(*[0] * len(PeerPlaneCounters._fields))
