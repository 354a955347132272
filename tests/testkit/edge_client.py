"""An Upstream at a real Edge, and a host that writes down what it is asked."""

from __future__ import annotations

from typing import Any

from laps_relay.peer_forwarding.forwarding import LOCAL, Ingress
from laps_sdk.forwarding.interfaces import OutStream
from laps_sdk.upstream.bodies import ok_data
from laps_sdk.upstream.interfaces import Answer
from laps_sdk.upstream.upstream import Upstream
from laps_wire.moqt.keyvalue import KeyValues
from laps_wire.moqt.messages import SubscribeOk
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.structures import Location
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName
from laps_wire.peering.laps2 import SubscribeCode, SubscribeData
from testkit.bridges import HASHER, NETWORK, World, key_of
from testkit.plane import FakeEgress

__all__ = ["ClientNet", "KeptFeed", "served"]


def served(largest: Location | None = None, properties: KeyValues = ()) -> SubscribeData:
    """A publisher's answer."""
    return ok_data(SubscribeOk(None, 1, Parameters(largest_object=largest), properties))


class KeptFeed:
    """A feed that keeps what goes into it."""

    def __init__(self) -> None:
        self.egress = FakeEgress(Draft.D18)
        self.opened: list[tuple[int, int, float | None]] = []
        self.continued: list[bool] = []
        self.to: list[tuple[int, int] | None] = []
        self.datagrams: list[tuple[bytes, int, int]] = []

    @property
    def ingress(self) -> Ingress:
        return Ingress(LOCAL, 1)

    def open_stream(
        self,
        now: float,
        *,
        priority: int,
        ttl_ms: int = 0,
        deadline: float | None = None,
        continued: bool = False,
        to: tuple[int, int] | None = None,
    ) -> OutStream:
        self.opened.append((priority, ttl_ms, deadline))
        self.continued.append(continued)
        self.to.append(to)
        return self.egress.open_unidirectional(priority=priority)

    def send_datagram(self, now: float, payload: bytes, *, priority: int, ttl_ms: int = 0) -> bool:
        self.datagrams.append((payload, priority, ttl_ms))
        return True


class ClientNet:
    """A client of an Edge; it is its own host."""

    def __init__(self, *, upstream: bool = True, **edge: Any) -> None:
        self.world = World()
        self.edge = self.world.bare_edge(**edge)
        self.calls: list[tuple[Any, ...]] = []
        self.client = Upstream(self.edge.relay, NETWORK, self, HASHER, lambda: self.world.now)
        self.client.open(self.world.now, "others", upstream=upstream)
        self.edge.hooks.append(lambda: self.client.pump(self.world.now))
        self.world.timed.append(self.client)
        self.world.settle()

    def take(self) -> list[tuple[Any, ...]]:
        """What the host was asked since the last call, without the data."""
        calls, self.calls = self.calls, []
        return calls

    @property
    def now(self) -> float:
        return self.world.now

    def accept(self, name: FullTrackName, data: SubscribeData | None = None) -> None:
        """The others have a track."""
        data = served() if data is None else data
        self.answer(name, Answer.ACCEPTED, SubscribeCode.ACCEPTED, data=data)

    def answer(
        self,
        name: FullTrackName,
        answer: Answer,
        code: int,
        reason: str = "because",
        data: SubscribeData | None = None,
    ) -> None:
        self.client.subscribe_answered(
            self.now,
            key_of(name),
            answer,
            code=code,
            reason=reason,
            data=SubscribeData() if data is None else data,
        )
        self.world.settle()

    # UpstreamOwner

    def edge_subscribed(
        self, now: float, key: int, name: FullTrackName, data: SubscribeData
    ) -> None:
        assert key == key_of(name)
        self.calls.append(("edge_subscribed", name, data))

    def edge_unsubscribed(self, now: float, key: int, name: FullTrackName) -> None:
        self.calls.append(("edge_unsubscribed", name))

    def edge_accepted(self, now: float, key: int, data: SubscribeData) -> None:
        self.calls.append(("edge_accepted", key, data))

    def edge_refused(
        self, now: float, key: int, code: SubscribeCode, reason: str, data: SubscribeData
    ) -> None:
        self.calls.append(("edge_refused", key, code, reason))

    def edge_ended(self, now: float, key: int, reason: str) -> None:
        self.calls.append(("edge_ended", key, reason))

    def edge_closed(self, now: float, code: int, reason: str) -> None:
        self.calls.append(("edge_closed", code, reason))
