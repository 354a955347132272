"""What surrounds fetches: a relay that writes down what they ask of it, and its clients."""

from __future__ import annotations

from itertools import count
from typing import cast

from laps_relay.network.fetch.fetch_router import FetchMessage, FetchRouter
from laps_relay.network.relay import NetworkRelay
from laps_relay.network.subscriptions.subscriptions import TrackHashes
from laps_relay.peer_forwarding.feed import PlaneFeed
from laps_relay.peer_forwarding.forwarding import LOCAL, Ingress
from laps_relay.policy import OPEN_POLICY
from laps_relay.policy.interface import Policy
from laps_sdk.forwarding.interfaces import OutStream
from laps_sdk.upstream.bodies import fetch_data
from laps_sdk.upstream.interfaces import Feed, FetchHandle
from laps_wire.moqt.messages import StandaloneFetch
from laps_wire.moqt.parameters import NO_PARAMETERS
from laps_wire.moqt.structures import Location
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    FetchRequest,
    NodeSelf,
    RelayType,
    Stamp,
    SubscribeData,
)
from testkit.relay_net import HASHER, TRACK, key_of

__all__ = ["OK", "FetchClients", "FetchRig", "KeptFetchFeed", "asked_of", "request_of"]

OK = SubscribeData(18, b"what the publisher said")
"""An answer; relays do not read it."""


def asked_of(name: FullTrackName = TRACK) -> SubscribeData:
    """The FETCH of a client."""
    target = StandaloneFetch(name, Location(0, 0), Location(1, 0))
    return fetch_data(target, NO_PARAMETERS, Draft.D18)


def request_of(
    source: int, target: int, fetch_id: int = 7, name: FullTrackName = TRACK, *, hops: int = 0
) -> FetchRequest:
    fields = name.namespace.fields
    return FetchRequest(
        NodeId(source),
        NodeId(target),
        fetch_id,
        hops,
        HASHER.elements(fields),
        HASHER.name(name.name),
        key_of(name),
        data=asked_of(name),
    )


class KeptFetchFeed:
    """A feed into which nothing goes."""

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
        raise AssertionError

    def send_datagram(self, now: float, payload: bytes, *, priority: int, ttl_ms: int = 0) -> bool:
        raise AssertionError


class FetchRig(FetchRouter):
    """``FetchRouter`` and ``FetchSide`` of node 1, whose session 10 * n leads to node n."""

    def __init__(self, policy: Policy = OPEN_POLICY) -> None:
        self.policy = policy
        self.node = lambda node: self.nodes.get(int(node))
        self.draw = lambda: (next(self._ids) + 1) // 2  # every number comes twice: one is in use
        self.send = self._send
        self.nodes = {number: _node(number) for number in (1, 2, 3, 4)}
        self.leads: dict[int, list[int]] = {2: [20], 3: [30], 4: [40]}
        """Sessions by the node that they lead to."""
        self.dead: set[int] = set()
        """Sessions over which nothing can be sent."""
        self.have: list[int] = []
        self.edges: list[int] | None = None
        """Announcers that a control server knows."""
        self.sent: list[tuple[int, FetchMessage]] = []
        self.feeds: list[tuple[KeptFetchFeed, str]] = []
        self.way_back = True
        self.calls: list[tuple[object, ...]] = []
        self._ids = count(1)

    def take(self) -> list[tuple[int, FetchMessage]]:
        sent, self.sent = self.sent, []
        return sent

    def told(self) -> list[tuple[object, ...]]:
        calls, self.calls = self.calls, []
        return calls

    # FetchRouter

    def peer(self, session: int) -> NodeSelf | None:
        return self.nodes.get(session // 10)

    def sessions_to(self, node: NodeId) -> list[int]:
        return list(self.leads.get(int(node), ()))

    def _send(self, now: float, session: int, message: FetchMessage) -> bool:
        if session in self.dead:
            return False
        self.sent.append((session, message))
        return True

    def holders(self, track: TrackHashes) -> list[NodeId]:
        assert track.key == key_of(TRACK)
        return [NodeId(number) for number in self.have]

    def announcers(self, request: FetchRequest) -> list[NodeId] | None:
        return None if self.edges is None else [NodeId(number) for number in self.edges]

    def open_feed(self, now: float, request: FetchRequest, name: FullTrackName) -> PlaneFeed | None:
        if not self.way_back:
            return None
        self.feeds.append((KeptFetchFeed(), "open"))
        return cast("PlaneFeed", self.feeds[-1][0])

    def close_feed(self, now: float, feed: PlaneFeed, *, cut: bool) -> None:
        self.feeds = [
            (each, ("cut" if cut else "closed") if each is cast("object", feed) else state)
            for each, state in self.feeds
        ]

    # FetchSide

    def fetch_answered(
        self, now: float, fetch_id: int, code: int, reason: str, data: SubscribeData
    ) -> None:
        self.calls.append(("answered", fetch_id, int(code), reason))

    def serve_fetch(
        self, now: float, handle: FetchHandle, name: FullTrackName, data: SubscribeData, feed: Feed
    ) -> None:
        assert name == TRACK
        self.calls.append(("serve", *handle))

    def drop_fetch(self, now: float, handle: FetchHandle) -> None:
        self.calls.append(("drop", *handle))


def _node(number: int) -> NodeSelf:
    return NodeSelf(NodeId(number), RelayType.EDGE, Stamp(1, 1), region="eu")


class FetchClients:
    """The clients of a real relay that fetch: ``FetchSide``."""

    def __init__(self, relay: NetworkRelay, payload: bytes = b"past") -> None:
        self.relay = relay
        self.payload = payload
        self.held: dict[FetchHandle, OutStream] = {}
        """Answers that are not at their end."""
        self.hold = False
        """Whether answers stay so."""
        self.code = 0
        """With which requests are refused."""
        self.answers: list[tuple[int, int, str]] = []
        self.dropped: list[FetchHandle] = []

    def fetch_answered(
        self, now: float, fetch_id: int, code: int, reason: str, data: SubscribeData
    ) -> None:
        self.answers.append((fetch_id, int(code), reason))

    def serve_fetch(
        self, now: float, handle: FetchHandle, name: FullTrackName, data: SubscribeData, feed: Feed
    ) -> None:
        if self.code:
            self.relay.fetch_refused(now, handle, self.code, "not here")
            return
        self.relay.fetched(now, handle, OK)
        self.held[handle] = stream = feed.open_stream(now, priority=3)
        stream.write(self.payload)
        if not self.hold:
            self.finish(now, handle)

    def finish(self, now: float, handle: FetchHandle) -> None:
        self.held.pop(handle).write(b"", True)
        self.relay.fetch_served(now, handle)

    def drop_fetch(self, now: float, handle: FetchHandle) -> None:
        self.dropped.append(handle)
        self.held.pop(handle, None)
