"""The tables of the network: connections, nodes, announces, subscribes, sets, FIB, policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

from fastapi import FastAPI, HTTPException, Query, Request
from pydantic import BaseModel, Field

from laps_relay.admin.paging import Limit, Offset, paged
from laps_relay.admin.views import NetworkView, Page, PlanState, PolicyState
from laps_relay.network.views import AnnounceRow, FibRow, NodeRow, PeerRow, SetRow, SubscribeRow
from laps_sdk.peering.dialler import DialRow
from laps_sdk.quic.base import ConnectionStats
from laps_wire.errors import LapsError
from laps_wire.nodeid import NodeId
from laps_wire.telemetry import safe_text

__all__ = ["add_network"]

_MAX_PLAN: Final = 16 << 20
"""Largest plan in bytes that the API accepts; a file may be larger."""


class PeerItem(BaseModel):
    """One connection to another relay."""

    session: int
    node: str | None
    type: str
    region: str
    alpn: str
    control: bool
    sends_data: bool
    receives_data: bool
    dialled: bool
    on_demand: bool
    leaving: bool
    guest: bool
    age_seconds: float
    srtt_ms: float
    loss: float
    bytes_sent: int | None = None
    bytes_received: int | None = None
    queued_bytes: int | None = None


class ContactItem(BaseModel):
    """A connection that is dialled: one of network.peers, or on demand."""

    contact: str
    node: str | None = Field(description="Who must be there; null: whoever it is.")
    on_demand: bool
    state: str = Field(description="idle, waiting, dialling, greeting or up.")
    session: int | None
    failures: int = Field(description="In a row.")
    next_try_seconds: float | None
    reason: str = Field(description="Why it was not to be had the last time.")


class NodeItem(BaseModel):
    """A node and the best path to it."""

    node: str
    type: str
    region: str
    epoch: int
    sequence: int
    load_class: str
    load: float
    contacts: list[str]
    longitude: float | None
    latitude: float | None
    next_hop: str | None
    hops: int
    cost_ms: float
    path: list[str]
    ways: int
    rtt_ms: float | None = Field(
        description="The shortest round trip that is known, by sessions and by answers to probes;"
        " null: none of our peers reaches it either."
    )


class InterestItem(BaseModel):
    """An announce or a subscribe."""

    source: str
    kind: str
    key: str
    name: str | None
    epoch: int
    sequence: int
    session: int | None


class SetItem(BaseModel):
    """A subscriber node set."""

    session: int
    sns_id: int
    direction: str
    targets: list[str]
    scope: str
    hops: int
    key: str | None
    retiring: bool


class EgressItem(BaseModel):
    """One set that data goes to."""

    session: int
    sns_id: int


class FibItem(BaseModel):
    """Where data of one ingress goes."""

    session: int
    set_id: int
    egress: list[EgressItem]
    local: bool
    key: str | None
    streams: int
    datagrams: int
    bytes_in: int
    bytes_out: int


def _peer_item(row: PeerRow, stats: ConnectionStats | None, now: float) -> PeerItem:
    item = PeerItem(
        session=row.session,
        node=None if row.node is None else str(row.node),
        type=row.relay_type,
        region=safe_text(row.region),
        alpn=row.alpn,
        control=row.control,
        sends_data=row.sends,
        receives_data=row.receives,
        dialled=row.dialled,
        on_demand=row.on_demand,
        leaving=row.leaving,
        guest=row.guest,
        age_seconds=max(0.0, now - row.opened),
        srtt_ms=row.srtt_us / 1000,
        loss=row.loss,
    )
    if stats is not None:
        item.bytes_sent = stats.bytes_sent
        item.bytes_received = stats.bytes_received
        item.queued_bytes = stats.queued_bytes
    return item


def _contact_item(row: DialRow, now: float) -> ContactItem:
    return ContactItem(
        contact=safe_text(row.contact),
        node=None if row.node is None else str(row.node),
        on_demand=row.dynamic,
        state=row.phase,
        session=row.session,
        failures=row.failures,
        next_try_seconds=None if row.due is None else max(0.0, row.due - now),
        reason=safe_text(row.last_reason),
    )


def _node_item(row: NodeRow) -> NodeItem:
    return NodeItem(
        node=str(row.node),
        type=row.relay_type,
        region=safe_text(row.region),
        epoch=row.epoch,
        sequence=row.sequence,
        load_class=row.load_class,
        load=row.load / 1000,
        contacts=[safe_text(contact) for contact in row.contacts],
        longitude=row.longitude,
        latitude=row.latitude,
        next_hop=None if row.next_hop is None else str(row.next_hop),
        hops=row.hops,
        cost_ms=row.cost_us / 1000,
        path=[str(node) for node in row.path],
        ways=row.ways,
        rtt_ms=None if row.rtt_us is None else row.rtt_us / 1000,
    )


def _key(key: int | None) -> str | None:
    return None if key is None else f"{key:016x}"


def _interest_item(row: AnnounceRow | SubscribeRow) -> InterestItem:
    return InterestItem(
        source=str(row.source),
        kind=row.kind if isinstance(row, AnnounceRow) else "subscribe",
        key=f"{row.key:016x}",
        name=None if row.name is None else str(row.name),
        epoch=row.epoch,
        sequence=row.sequence,
        session=row.session,
    )


def _set_item(row: SetRow) -> SetItem:
    return SetItem(
        session=row.session,
        sns_id=row.sns_id,
        direction="in" if row.incoming else "out",
        targets=[str(node) for node in row.targets],
        scope=safe_text(row.scope),
        hops=row.hops,
        key=_key(row.key),
        retiring=row.retiring,
    )


def _fib_item(row: FibRow) -> FibItem:
    return FibItem(
        session=row.session,
        set_id=row.set_id,
        egress=[EgressItem(session=session, sns_id=sns) for session, sns in row.egress],
        local=row.local,
        key=_key(row.key),
        streams=row.streams,
        datagrams=row.datagrams,
        bytes_in=row.bytes_in,
        bytes_out=row.bytes_out,
    )


Key = Annotated[
    str | None, Query(pattern="^[0-9a-f]{1,16}$", description="Only this track's hash.")
]


def add_network(app: FastAPI, network: Callable[[], NetworkView | None], page_limit: int) -> None:
    """Add the routes; ``network`` returns None while the relay is alone."""

    def view() -> NetworkView:
        found = network()
        if found is None:
            raise HTTPException(
                404, "this relay has no peers; start it with --peer-port, or set network.enabled"
            )
        return found

    @app.get("/v1/network/peers", response_model=Page[PeerItem], tags=["network"])
    async def peers(limit: Limit = None, offset: Offset = 0) -> dict[str, Any]:
        """List the connections to other relays."""
        source = view()
        return paged(
            source.peers(),
            limit,
            offset,
            page_limit,
            lambda row: _peer_item(row, source.peer_connection(row.session), source.now),
        )

    @app.get("/v1/network/contacts", response_model=Page[ContactItem], tags=["network"])
    async def contacts(limit: Limit = None, offset: Offset = 0) -> dict[str, Any]:
        """List the connections that this relay dials, also those that fail."""
        source = view()
        return paged(
            source.contacts(), limit, offset, page_limit, lambda row: _contact_item(row, source.now)
        )

    @app.get("/v1/network/nodes", response_model=Page[NodeItem], tags=["network"])
    async def nodes(limit: Limit = None, offset: Offset = 0) -> dict[str, Any]:
        """List the node information base, with the best path to each node."""
        return paged(view().nodes(), limit, offset, page_limit, _node_item)

    @app.get("/v1/network/announces", response_model=Page[InterestItem], tags=["network"])
    async def announces(limit: Limit = None, offset: Offset = 0) -> dict[str, Any]:
        """List the announces of all relays."""
        return paged(view().announces(), limit, offset, page_limit, _interest_item)

    @app.get("/v1/network/subscribes", response_model=Page[InterestItem], tags=["network"])
    async def subscribes(
        limit: Limit = None, offset: Offset = 0, key: Key = None
    ) -> dict[str, Any]:
        """List the subscribes of all relays."""
        rows = view().subscribes(None if key is None else int(key, 16))
        return paged(rows, limit, offset, page_limit, _interest_item)

    @app.get("/v1/network/sets", response_model=Page[SetItem], tags=["network"])
    async def sets(limit: Limit = None, offset: Offset = 0) -> dict[str, Any]:
        """List the subscriber node sets, of peers and of this relay."""
        return paged(view().sets(), limit, offset, page_limit, _set_item)

    @app.get("/v1/network/fib", response_model=Page[FibItem], tags=["network"])
    async def fib(limit: Limit = None, offset: Offset = 0) -> dict[str, Any]:
        """List the FIB: where data goes."""
        return paged(view().fib(), limit, offset, page_limit, _fib_item)

    @app.get("/v1/network/policy", tags=["network"])
    async def policy() -> PolicyState:
        """Return the policy that is in force."""
        return view().policy()

    @app.post("/v1/network/nodes/{node}/forget-key", tags=["commands"])
    async def forget_key(node: str) -> dict[str, str]:
        """Forget the key that holds a node id, so that another key can; 409 if that is refused."""
        try:
            wanted = NodeId.parse(node)
        except LapsError as error:
            raise HTTPException(400, str(error)) from None
        reason = view().forget_key(wanted)
        if reason is not None:
            raise HTTPException(409, reason)
        return {"node": str(wanted), "key": "forgotten"}

    @app.get("/v1/plan", tags=["network"])
    async def plan() -> PlanState:
        """Return the plan that is followed."""
        return view().plan()

    @app.post("/v1/plan", tags=["commands"])
    async def offer_plan(request: Request) -> PlanState:
        """Follow the signed plan in the body; 409 with the reason if it is refused."""
        source = view()
        text = bytearray()
        async for part in request.stream():
            text += part
            if len(text) > _MAX_PLAN:
                raise HTTPException(413, f"a plan has at most {_MAX_PLAN} bytes here")
        reason = source.offer_plan(bytes(text))
        if reason is not None:
            raise HTTPException(409, reason)
        return source.plan()

    @app.delete("/v1/plan", tags=["commands"])
    async def drop_plan() -> PlanState:
        """Stop following a plan; 404 if there is none."""
        source = view()
        if not source.drop_plan():
            raise HTTPException(404, "no plan is followed")
        return source.plan()
