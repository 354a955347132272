"""Tables of the network over HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from laps_relay.admin.network_api import add_network
from laps_sdk.quic.base import ConnectionStats
from testkit.http import http_client
from testkit.network_views import A, FakeNetwork


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
    monkeypatch.setattr("laps_relay.admin.network_api._MAX_PLAN", 10)

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
