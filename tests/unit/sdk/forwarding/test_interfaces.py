"""The borders hold: what stands on either side has the shape that the other expects."""

from __future__ import annotations

from laps_sdk.forwarding.interfaces import Egress, ForwardingPlane, OutStream, Subscription
from laps_sdk.forwarding.plane import Plane
from laps_sdk.quic.base import Connection
from laps_sdk.quic.base import OutStream as TransportStream

# For the type checker: these lines fail if one side of a border moves alone.
PLANE: type[ForwardingPlane] = Plane


def as_egress(connection: Connection) -> Egress:
    return connection


def as_stream(stream: TransportStream) -> OutStream:
    return stream


def test_the_plane_has_every_method_of_its_interface() -> None:
    wanted = [name for name in vars(ForwardingPlane) if not name.startswith("_")]
    assert wanted
    assert [name for name in wanted if not callable(getattr(Plane, name, None))] == []


def test_a_subscription_is_its_session_and_request() -> None:
    assert Subscription(1, 2) == (1, 2)
