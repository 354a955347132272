from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute

from laps_relay.admin.app import make_app
from laps_relay.admin.live import MAX_WATCHERS, LiveFeed
from laps_sdk.edge.events import NamespaceRow
from testkit.http import http_client
from testkit.relay_views import (
    NO_COUNTERS,
    SHA256,
    TRACK,
    FakeView,
    session_row,
    subscription_row,
    track_row,
)

WORD = "0123456789abcdef"


class Client:
    """Asks the application without a socket."""

    def __init__(self, app: FastAPI) -> None:
        self.app = app

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            async with http_client("http://127.0.0.1:33480", transport=transport) as http:
                return await http.request(method, path, **options)

        return asyncio.run(ask())

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.request("GET", path, **options)

    def post(self, path: str, **options: Any) -> httpx.Response:
        return self.request("POST", path, **options)


def client(
    view: FakeView, *, token: str | None = None, feed: LiveFeed | None = None, **options: Any
) -> Client:
    return Client(make_app(view, token=token, page_limit=3, version="1", feed=feed, **options))


def filled() -> FakeView:
    view = FakeView()
    view.session_rows = [session_row(number) for number in range(5)]
    view.track_rows = [track_row(1, NO_COUNTERS._replace(cached_bytes=9, cached_objects=2))]
    view.subscription_rows = [subscription_row()]
    view.namespace_rows = [NamespaceRow(namespace=TRACK.namespace, session=1, expires=None)]
    return view


def test_health_and_readiness() -> None:
    view = FakeView()
    http = client(view)
    assert http.get("/healthz").text == "ok\n"
    assert http.get("/readyz").text == "ready\n"
    view.ready = False
    assert http.get("/readyz").status_code == 503
    assert http.get("/healthz").status_code == 200


def test_metrics_info_config_and_certificate() -> None:
    http = client(FakeView())
    metrics = http.get("/metrics")
    assert metrics.text == "laps_sessions_open 1\n"
    assert metrics.headers["content-type"].startswith("text/plain")
    assert http.get("/v1/info").json()["url"] == "moqt://127.0.0.1:1"
    assert http.get("/v1/config").json()[0]["key"] == "listen.host"
    assert http.get("/certificate.sha256").text == SHA256 + "\n"


def test_tables() -> None:
    http = client(filled())
    assert http.get("/v1/tracks").json()["items"][0]["track"] == str(TRACK)
    assert http.get("/v1/subscriptions").json()["items"][0]["expires_seconds"] == 10.0
    assert http.get("/v1/namespaces").json()["items"][0]["namespace"] == "example-canary"
    cache = http.get("/v1/cache").json()
    assert cache == {
        "bytes": 9,
        "objects": 2,
        "groups": 0,
        "tracks": 1,
        "limits": {"max_bytes": 5.0},
    }


def test_pages() -> None:
    http = client(filled())
    first = http.get("/v1/sessions").json()
    assert (first["total"], first["limit"], len(first["items"])) == (5, 3, 3)
    rest = http.get("/v1/sessions", params={"limit": 2, "offset": 4}).json()
    assert [item["session"] for item in rest["items"]] == [4]
    assert http.get("/v1/sessions", params={"offset": 99}).json()["items"] == []
    over = http.get("/v1/sessions", params={"limit": 4})
    assert over.status_code == 400
    assert over.json()["detail"] == "limit is 4, at most 3 rows are given"
    assert http.get("/v1/sessions", params={"limit": 0}).status_code == 422
    assert http.get("/v1/sessions", params={"offset": -1}).status_code == 422


def test_orders() -> None:
    view = filled()
    http = client(view)
    assert http.post("/v1/cache/purge", json={}).json() == {"bytes": 77}
    assert http.post("/v1/cache/purge", json={"track": str(TRACK)}).status_code == 200
    assert view.purged == [None, TRACK]
    bad = http.post("/v1/cache/purge", json={"track": "no name"})
    assert bad.status_code == 400
    assert "track name" in bad.json()["detail"]
    assert http.post("/v1/drain", json={"new_uri": "moqt://b"}).status_code == 202
    for wrong in (
        "moqt://" + "x" * 8193,
        "moqt://\u00fc",
        "moqt://b\n",
        "\x1b[2J",
        "banana",
        "moqt://:5",
        "moqt://b:0",
        "https://b:x",
    ):
        assert http.post("/v1/drain", json={"new_uri": wrong}).status_code == 422
    assert view.drained == ["moqt://b"]
    assert http.request("DELETE", "/v1/drain").json() == {"state": "ready"}
    refused = http.request("DELETE", "/v1/drain")
    assert (refused.status_code, refused.json()["detail"]) == (409, "the relay does not drain")
    assert http.post("/v1/redirect", json={"sessions": [3, 4]}).json() == {"sessions": 2}
    assert http.post("/v1/redirect", json={"share": 0.5}).json() == {"sessions": 4}
    assert http.post("/v1/redirect", json={"sessions": []}).json() == {"sessions": 0}
    gone = http.post("/v1/redirect", json={"sessions": [3, 99, 7]})
    told = "no such session: 7, 99; nobody was told to go"
    assert (gone.status_code, gone.json()["detail"]) == (404, told)
    many = http.post("/v1/redirect", json={"sessions": [*range(100, 130)]}).json()["detail"]
    assert many.endswith("118, 119 and 10 more; nobody was told to go")
    for strange in ({}, {"sessions": [1], "share": 0.5}):
        assert http.post("/v1/redirect", json=strange).status_code == 400
    misspelt = {"sessions": [1], "to": "moqt://b"}
    assert http.post("/v1/drain", json={"newuri": "moqt://b"}).status_code == 422
    for bad_order in ({"share": 0}, {"share": 1.5}, {"share": 1, "new_uri": "banana"}, misspelt):
        assert http.post("/v1/redirect", json=bad_order).status_code == 422
    assert http.get("/v1/drain").status_code == 404


def test_every_route_but_health_needs_the_token() -> None:
    http = client(filled(), token=WORD)
    routes = [route for route in http.app.routes if isinstance(route, APIRoute)]
    assert len(routes) >= 13
    for route in routes:
        for method in route.methods or ():
            expected = 200 if route.path == "/healthz" else 401
            assert http.request(method, route.path).status_code == expected, route.path
    for path in ("/openapi.json", "/nothing", "/static/app.js", "/../app.py", "/%2e%2e/app.py"):
        assert http.get(path).status_code == 401
    # The pages hold no data: they ask for it, with the token that their reader types.
    for path in ("/", "/index.html", "/app.js", "/admin.js", "/style.css", "/player.html"):
        assert http.get(path).status_code == 200
    good = http.get("/v1/info", headers={"Authorization": f"Bearer {WORD}"})
    assert good.status_code == 200


def test_the_api_describes_itself() -> None:
    paths = client(FakeView()).get("/openapi.json").json()["paths"]
    assert {"/healthz", "/v1/live", "/v1/cache/purge", "/v1/drain"} <= set(paths)


def test_pages_from_the_directory(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<p>hello", encoding="ascii")
    http = client(FakeView(), static=tmp_path)
    assert http.get("/").text == "<p>hello"
    assert http.get("/../secret").status_code == 404
    assert client(FakeView(), static=tmp_path / "none").get("/").status_code == 404


def test_too_many_watchers() -> None:
    view = FakeView()
    feed = LiveFeed(view)
    feed.watchers = MAX_WATCHERS
    assert client(view, feed=feed).get("/v1/live").status_code == 503


def test_a_live_page_gets_snapshots_until_the_relay_stops() -> None:
    view = filled()
    feed = LiveFeed(view, 0.0)
    feed.stop()
    answer = client(view, feed=feed).get("/v1/live")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.text == ""


@pytest.mark.parametrize("path", ["/healthz", "/v1/info", "/nothing"])
def test_headers_on_every_answer(path: str) -> None:
    headers = client(FakeView()).get(path).headers
    assert "default-src 'self'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert "set-cookie" not in headers
    assert "access-control-allow-origin" not in headers
