"""Rows of the network's tables, for tests of the admin."""

from __future__ import annotations

from collections.abc import Sequence

from laps_relay.admin.views import PlanState, PolicyState
from laps_relay.network.views import AnnounceRow, FibRow, NodeRow, PeerRow, SetRow, SubscribeRow
from laps_sdk.peering.dialler import DialRow
from laps_sdk.quic.base import ConnectionStats
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId

A, B = NodeId.parse("100.1:1"), NodeId.parse("100.2:7")
NAME = FullTrackName.parse("example-room--video")


class FakeNetwork:
    """One peer, one node, one of everything."""

    now = 100.0

    def __init__(self) -> None:
        self.stats: ConnectionStats | None = None
        self.plan_text = b""
        self.forgotten: list[NodeId] = []

    def forget_key(self, node: NodeId) -> str | None:
        if node == B:
            return "it has a connection"
        self.forgotten.append(node)
        return None

    def contacts(self) -> Sequence[DialRow]:
        return [
            DialRow("b:1", B, False, "up", 3, 0, None, ""),
            DialRow("c\x1b:1", None, False, "waiting", None, 4, 102.5, "nobody answers\x1b"),
        ]

    def peers(self) -> Sequence[PeerRow]:
        return [
            PeerRow(
                session=3,
                node=B,
                relay_type="via",
                region="eu\x1b",
                alpn="laps-2",
                control=True,
                sends=True,
                receives=True,
                dialled=True,
                on_demand=False,
                leaving=False,
                guest=False,
                opened=90.0,
                srtt_us=1500,
                loss=0.25,
            ),
            PeerRow(
                session=4,
                node=None,
                relay_type="",
                region="",
                alpn="laps-2",
                control=False,
                sends=False,
                receives=False,
                dialled=False,
                on_demand=False,
                leaving=False,
                guest=False,
                opened=99.0,
                srtt_us=0,
                loss=0.0,
            ),
        ]

    def peer_connection(self, session: int) -> ConnectionStats | None:
        return self.stats if session == 3 else None

    def nodes(self) -> Sequence[NodeRow]:
        return [
            NodeRow(A, "edge", "eu", 7, 3, "normal", 0, ("a:1",), 8.0, 50.0, None, 0, 0, (), 0),
            NodeRow(B, "via", "us", 7, 3, "busy", 500, (), None, None, B, 0, 900, (B,), 1, 800),
        ]

    def announces(self) -> Sequence[AnnounceRow]:
        return [AnnounceRow(A, "track", 0xAB, NAME, 7, 4, None)]

    def subscribes(self, key: int | None = None) -> Sequence[SubscribeRow]:
        rows = [SubscribeRow(B, 0xAB, None, 7, 5, 3), SubscribeRow(B, 0xCD, None, 7, 6, 3)]
        return [row for row in rows if key in (None, row.key)]

    def sets(self) -> Sequence[SetRow]:
        return [SetRow(3, 1, False, (B,), "gold", 0, 0xAB, False)]

    def fib(self) -> Sequence[FibRow]:
        return [FibRow(0, 1, ((3, 1),), False, None, 4, 0, 1000, 1000)]

    def policy(self) -> PolicyState:
        return PolicyState(file="", rules=["everything is allowed"])

    def plan(self) -> PlanState:
        return PlanState(id=self.plan_text.decode())

    def offer_plan(self, text: bytes) -> str | None:
        if text == b"bad":
            return "its signature is wrong"
        self.plan_text = text
        return None

    def drop_plan(self) -> bool:
        had, self.plan_text = bool(self.plan_text), b""
        return had
