"""The admin's HTTP application: health, metrics, tables, commands, pages.

Handlers are coroutines and do not wait, so they run in the relay's own loop and see its tables
between two turns, never in the middle of one.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from fastapi import FastAPI, HTTPException, Response
from fastapi.responses import PlainTextResponse, StreamingResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, ConfigDict, Field, field_validator

from laps_relay.admin.guard import Guard
from laps_relay.admin.live import LiveFeed
from laps_relay.admin.network_api import add_network
from laps_relay.admin.paging import Limit, Offset, paged
from laps_relay.admin.views import (
    CacheState,
    ConfigValue,
    Info,
    NamespaceItem,
    NetworkView,
    Page,
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
from laps_relay.telemetry.metrics import CONTENT_TYPE
from laps_wire.errors import TextFormError
from laps_wire.names import FullTrackName

__all__ = ["make_app"]

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
