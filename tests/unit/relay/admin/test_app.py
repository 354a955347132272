from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, HTTPException
from fastapi.routing import APIRoute

from laps_relay.admin.app import add_network, make_app, paged
from laps_relay.admin.server import MAX_WATCHERS, LiveFeed
from laps_relay.admin.views import LazyRows
from laps_sdk.edge.events import NamespaceRow
from laps_sdk.quic.base import ConnectionStats
from testkit.http import http_client
from testkit.network_views import A, FakeNetwork
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


def test_some_rows_of_a_table() -> None:
    assert paged([1, 2, 3, 4], 2, 1, 10, str) == {
        "total": 4,
        "offset": 1,
        "limit": 2,
        "items": ["2", "3"],
    }
    assert paged([1], None, 5, 10, str)["items"] == []
    assert paged(range(200), None, 0, 1000, str)["limit"] == 100


def test_only_the_rows_of_a_page_are_made() -> None:
    made = []

    def rows(part: slice) -> list[int]:
        made.append((part.start, part.stop))
        return list(range(part.start, part.stop))

    table = LazyRows(1_000_000, rows)
    assert paged(table, 2, 500_000, 10, str) == {
        "total": 1_000_000,
        "offset": 500_000,
        "limit": 2,
        "items": ["500000", "500001"],
    }
    assert paged(table, 2, 2_000_000, 10, str)["items"] == []
    assert (table[7], table[-1]) == (7, 999_999)
    assert made == [(500_000, 500_002), (1_000_000, 1_000_000), (7, 8), (999_999, 1_000_000)]
    small = LazyRows(4, lambda part: range(4)[part])
    assert (list(small), list(small[::2]), list(reversed(small))) == (
        [0, 1, 2, 3],
        [0, 2],
        [3, 2, 1, 0],
    )
    with pytest.raises(IndexError):
        small[4]


def test_more_than_an_answer_holds() -> None:
    with pytest.raises(HTTPException, match="at most 3"):
        paged([1], 4, 0, 3, str)


def get(network: FakeNetwork | None, path: str) -> httpx.Response:
    app = FastAPI()
    add_network(app, lambda: network, page_limit=10)

    async def ask() -> httpx.Response:
        async with http_client("http://relay", transport=httpx.ASGITransport(app)) as http:
            return await http.get(path)

    return asyncio.run(ask())


def items(network: FakeNetwork, path: str) -> list[dict[str, Any]]:
    answer = get(network, path)
    assert answer.status_code == 200
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


def test_peers_with_their_connections() -> None:
    network = FakeNetwork()
    via, unknown = items(network, "/v1/network/peers")
    assert (via["node"], via["type"], via["srtt_ms"]) == ("100.2:0.7", "via", 1.5)
    assert "\x1b" not in via["region"]
    assert (via["age_seconds"], via["bytes_sent"]) == (10.0, None)
    assert unknown["node"] is None
    network.stats = ConnectionStats(*[7] * len(ConnectionStats._fields))
    assert items(network, "/v1/network/peers")[0]["bytes_sent"] == 7


def test_contacts_that_are_there_and_that_are_not() -> None:
    there, missing = items(FakeNetwork(), "/v1/network/contacts")
    assert (there["state"], there["session"], there["next_try_seconds"]) == ("up", 3, None)
    assert (missing["state"], missing["failures"], missing["next_try_seconds"]) == (
        *("waiting", 4),
        2.5,
    )
    assert "nobody answers" in missing["reason"]
    assert "\x1b" not in missing["reason"] + missing["contact"]


def test_nodes_and_the_ways_to_them() -> None:
    own, via = items(FakeNetwork(), "/v1/network/nodes")
    assert (own["next_hop"], own["contacts"]) == (None, ["a:1"])
    assert (via["next_hop"], via["load"], via["cost_ms"]) == ("100.2:0.7", 0.5, 0.9)
    assert (own["rtt_ms"], via["rtt_ms"]) == (None, 0.8)


def test_announces_and_subscribes() -> None:
    (announce,) = items(FakeNetwork(), "/v1/network/announces")
    assert announce["name"] == "example-room--video"
    assert announce["key"] == "00000000000000ab"
    assert len(items(FakeNetwork(), "/v1/network/subscribes")) == 2
    (one,) = items(FakeNetwork(), "/v1/network/subscribes?key=cd")
    assert (one["kind"], one["sequence"]) == ("subscribe", 6)
    assert get(FakeNetwork(), "/v1/network/subscribes?key=xyz").status_code == 422


def test_sets_and_the_fib() -> None:
    (one,) = items(FakeNetwork(), "/v1/network/sets")
    assert (one["direction"], one["scope"], one["targets"]) == ("out", "gold", ["100.2:0.7"])
    (entry,) = items(FakeNetwork(), "/v1/network/fib")
    assert (entry["egress"], entry["key"]) == ([{"session": 3, "sns_id": 1}], None)


def test_the_policy() -> None:
    assert get(FakeNetwork(), "/v1/network/policy").json()["rules"] == ["everything is allowed"]


@pytest.mark.parametrize("table", ["peers", "nodes", "fib", "policy"])
def test_a_relay_that_stands_alone_says_so(table: str) -> None:
    answer = get(None, f"/v1/network/{table}")
    assert answer.status_code == 404
    assert "network.enabled" in answer.json()["detail"]


def test_more_rows_than_allowed() -> None:
    assert get(FakeNetwork(), "/v1/network/nodes?limit=11").status_code == 400


def test_a_plan_is_offered_shown_and_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    network = FakeNetwork()
    app = FastAPI()
    add_network(app, lambda: network, page_limit=10)
    monkeypatch.setattr("laps_relay.admin.app._MAX_PLAN", 10)

    async def talk() -> None:
        async with http_client("http://relay", transport=httpx.ASGITransport(app)) as http:
            assert (await http.get("/v1/plan")).json()["id"] == ""
            assert (await http.delete("/v1/plan")).status_code == 404
            refused = await http.post("/v1/plan", content=b"bad")
            assert (refused.status_code, refused.json()["detail"]) == (
                409,
                "its signature is wrong",
            )
            assert (await http.post("/v1/plan", content=b"world")).json()["id"] == "world"
            assert (await http.post("/v1/plan", content=b"x" * 11)).status_code == 413
            assert (await http.get("/v1/plan")).json()["id"] == "world"
            assert (await http.delete("/v1/plan")).json()["id"] == ""

    asyncio.run(talk())


@pytest.mark.parametrize(
    ("node", "status", "says"),
    [
        ("100.1:1", 200, ""),
        ("100.2:7", 409, "it has a connection"),
        ("nobody", 400, "nobody"),
    ],
)
def test_a_key_is_forgotten(node: str, status: int, says: str) -> None:
    network = FakeNetwork()
    app = FastAPI()
    add_network(app, lambda: network, page_limit=10)

    async def ask() -> httpx.Response:
        async with http_client("http://relay", transport=httpx.ASGITransport(app)) as http:
            return await http.post(f"/v1/network/nodes/{node}/forget-key")

    answer = asyncio.run(ask())
    assert answer.status_code == status
    assert network.forgotten == ([A] if status == 200 else [])
    if says:
        assert says in answer.json()["detail"]
