"""The admin's HTTP application: health, metrics, tables of Edge and network, commands, pages.

Handlers are coroutines and do not wait, so they run in the relay's own loop and see its tables
between two turns, never in the middle of one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import urlsplit

from fastapi import FastAPI, HTTPException, Query, Request, Response
from fastapi.responses import PlainTextResponse, StreamingResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, ConfigDict, Field, field_validator

from laps_relay.admin.server import Guard, LiveFeed
from laps_relay.admin.views import (
    CacheState,
    ConfigValue,
    Info,
    NamespaceItem,
    NetworkView,
    Page,
    PlanState,
    PolicyState,
    Purged,
    RelayView,
    SessionItem,
    SubscriptionItem,
    TrackItem,
    namespace_item,
    session_item,
    subscription_item,
    track_item,
)
from laps_relay.network.views import AnnounceRow, FibRow, NodeRow, PeerRow, SetRow, SubscribeRow
from laps_relay.telemetry.metrics import CONTENT_TYPE
from laps_sdk.peering.dialler import DialRow
from laps_sdk.quic.base import ConnectionStats
from laps_wire.errors import LapsError, TextFormError
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.telemetry import safe_text

__all__ = ["Limit", "Offset", "add_network", "make_app", "paged"]

_DEFAULT_ROWS: Final = 100
_MAX_PLAN: Final = 16 << 20
"""Largest plan in bytes that the API accepts; a file may be larger."""
Row = TypeVar("Row")
Item = TypeVar("Item")
Limit = Annotated[int | None, Query(ge=1, description="How many rows at most.")]
Offset = Annotated[int, Query(ge=0, description="How many rows to leave out first.")]
Key = Annotated[
    str | None, Query(pattern="^[0-9a-f]{1,16}$", description="Only this track's hash.")
]

_STATIC: Final = Path(__file__).parent / "static"
_SHOWN: Final = 20
"""Session numbers that an error lists."""


class PurgeRequest(BaseModel):
    """The track to remove from the cache; without one: all."""

    track: str | None = Field(None, description="Text form, such as example.2enet-team2--report.")


class _Away(BaseModel):
    # An unknown field is an error: if it were ignored, clients would go somewhere else.
    model_config = ConfigDict(extra="forbid")

    new_uri: str = Field(
        "",
        max_length=8192,
        pattern=r"^((moqt|https)://[!-~]+)?$",
        description="moqt://host:port or https://host:port/path. Empty: a near relay that has the"
        " same tracks, or the same one later.",
    )

    @field_validator("new_uri")
    @classmethod
    def _has_a_host(cls, text: str) -> str:
        parts = urlsplit(text)
        if text and (not parts.hostname or parts.port == 0):  # .port raises if it is no number
            raise ValueError("write moqt://host:port, or https://host:port/path")
        return text


class DrainRequest(_Away):
    """Where clients should go."""


class RedirectRequest(_Away):
    """Which clients should go, and where."""

    sessions: list[int] | None = Field(None, description="Their numbers, as in /v1/sessions.")
    share: float | None = Field(
        None, gt=0, le=1, description="Instead: how many of all, such as 0.25."
    )


class Redirected(BaseModel):
    """The result of a redirect."""

    sessions: int = Field(description="How many clients were told to go.")


def make_app(
    view: RelayView,
    *,
    token: str | None,
    page_limit: int,
    version: str,
    feed: LiveFeed | None = None,
    network: Callable[[], NetworkView | None] = lambda: None,
    static: Path = _STATIC,
) -> FastAPI:
    """Return the application; without a token only loopback can reach it."""
    live = feed or LiveFeed(view)
    app = FastAPI(
        title="LAPS relay admin",
        version=version,
        docs_url=None,  # its pages load scripts of other sites, which the headers forbid
        redoc_url=None,
    )
    app.add_middleware(Guard, token=token, pages=_pages(static))
    _add_state(app, view)
    _add_tables(app, view, page_limit)
    add_network(app, network, page_limit)
    _add_commands(app, view)
    _add_live(app, live)
    if static.is_dir():
        app.mount("/", StaticFiles(directory=static, html=True), name="pages")
    return app


def _pages(static: Path) -> frozenset[str]:
    """Return the paths under which the static files are served."""
    files = {f"/{file.relative_to(static).as_posix()}" for file in static.rglob("*.*")}
    return frozenset(files | {"/"})


def _add_state(app: FastAPI, view: RelayView) -> None:
    @app.get("/healthz", response_class=PlainTextResponse, tags=["state"])
    async def healthz() -> str:
        """Answer if the process lives and its loop turns."""
        return "ok\n"

    @app.get("/readyz", response_class=PlainTextResponse, tags=["state"])
    async def readyz(response: Response) -> str:
        """Answer 200 if clients are accepted, 503 while the relay starts or drains."""
        if view.ready:
            return "ready\n"
        response.status_code = 503
        return "not ready\n"

    @app.get("/metrics", tags=["state"])
    async def metrics() -> Response:
        """Return the metrics as Prometheus text."""
        return Response(await view.metrics(), media_type=CONTENT_TYPE)

    @app.get("/certificate.sha256", response_class=PlainTextResponse, tags=["state"])
    async def certificate() -> str:
        """Return SHA-256 of the certificate in hex, for serverCertificateHashes."""
        return view.certificate_sha256 + "\n"

    @app.get("/v1/info", tags=["state"])
    async def info() -> Info:
        """Return version, addresses and state of the relay."""
        return view.info()

    @app.get("/v1/config", tags=["state"])
    async def config() -> list[ConfigValue]:
        """Return every key, its value and its source; secrets are masked."""
        return view.config()


def _add_tables(app: FastAPI, view: RelayView, page_limit: int) -> None:
    @app.get("/v1/sessions", response_model=Page[SessionItem], tags=["tables"])
    async def sessions(limit: Limit = None, offset: Offset = 0) -> dict[str, Any]:
        """List the sessions of clients."""
        now = view.now
        return paged(
            view.sessions(),
            limit,
            offset,
            page_limit,
            lambda row: session_item(row, view.connection(row.session), now),
        )

    @app.get("/v1/tracks", response_model=Page[TrackItem], tags=["tables"])
    async def tracks(limit: Limit = None, offset: Offset = 0) -> dict[str, Any]:
        """List the tracks with their counters."""
        return paged(view.tracks(), limit, offset, page_limit, track_item)

    @app.get("/v1/subscriptions", response_model=Page[SubscriptionItem], tags=["tables"])
    async def subscriptions(limit: Limit = None, offset: Offset = 0) -> dict[str, Any]:
        """List the receivers of tracks."""
        now = view.now
        return paged(
            view.subscriptions(),
            limit,
            offset,
            page_limit,
            lambda row: subscription_item(row, now),
        )

    @app.get("/v1/namespaces", response_model=Page[NamespaceItem], tags=["tables"])
    async def namespaces(limit: Limit = None, offset: Offset = 0) -> dict[str, Any]:
        """List the published namespaces."""
        now = view.now
        return paged(
            view.namespaces(), limit, offset, page_limit, lambda row: namespace_item(row, now)
        )

    @app.get("/v1/cache", tags=["tables"])
    async def cache() -> CacheState:
        """Return how full the cache is."""
        rows = [row.counters for row in view.tracks()]
        return CacheState(
            bytes=sum(item.cached_bytes for item in rows),
            objects=sum(item.cached_objects for item in rows),
            groups=sum(item.cached_groups for item in rows),
            tracks=sum(item.cached_objects > 0 for item in rows),
            limits=view.cache_limits(),
        )


def _add_commands(app: FastAPI, view: RelayView) -> None:
    @app.post("/v1/cache/purge", tags=["commands"])
    async def purge(body: PurgeRequest) -> Purged:
        """Remove cached objects of one track, or of all."""
        try:
            track = None if body.track is None else FullTrackName.parse(body.track)
        except TextFormError as error:
            raise HTTPException(400, str(error)) from None
        return Purged(bytes=view.purge(track))

    @app.post("/v1/drain", status_code=202, tags=["commands"])
    async def drain(body: DrainRequest) -> dict[str, str]:
        """Send GOAWAY to all clients, and accept no new sessions."""
        view.drain(body.new_uri)
        return {"state": "draining"}

    @app.delete("/v1/drain", tags=["commands"])
    async def stay() -> dict[str, str]:
        """Take a drain back: clients that have not left stay. 409 if the relay does not drain."""
        if reason := view.stay():
            raise HTTPException(409, reason)
        return {"state": "ready"}

    @app.post("/v1/redirect", tags=["commands"])
    async def redirect(body: RedirectRequest) -> Redirected:
        """Send some clients to another relay; 404 if a session does not exist."""
        if (body.sessions is None) == (body.share is None):
            raise HTTPException(400, "give either sessions or share")
        there = {row.session for row in view.sessions()} if body.sessions else set()
        if unknown := sorted(set(body.sessions or ()) - there):
            # Half a redirect would leave its sender to guess which half was done.
            shown = ", ".join(map(str, unknown[:_SHOWN]))
            more = f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else ""
            raise HTTPException(404, f"no such session: {shown}{more}; nobody was told to go")
        told = view.redirect(body.sessions, body.share or 0.0, body.new_uri)
        return Redirected(sessions=told)


def _add_live(app: FastAPI, feed: LiveFeed) -> None:
    @app.get("/v1/live", tags=["tables"])
    async def live() -> StreamingResponse:
        """Stream one snapshot a second as server-sent events."""
        if feed.full:
            raise HTTPException(503, "too many pages watch already")
        return StreamingResponse(feed.stream(), media_type="text/event-stream")


def paged(
    rows: Sequence[Row],
    limit: int | None,
    offset: int,
    page_limit: int,
    item: Callable[[Row], Item],
) -> dict[str, Any]:
    """Return some rows of a table, as ``views.Page`` has them. Raises 400 for too many."""
    wanted = min(_DEFAULT_ROWS, page_limit) if limit is None else limit
    if wanted > page_limit:
        raise HTTPException(400, f"limit is {wanted}, at most {page_limit} rows are given")
    chosen = rows[offset : offset + wanted]
    return {
        "total": len(rows),
        "offset": offset,
        "limit": wanted,
        "items": [item(row) for row in chosen],
    }


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
