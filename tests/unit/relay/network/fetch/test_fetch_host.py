"""The borders of fetches: who stands on either side has the shape that is expected."""

from __future__ import annotations

import pytest

from laps_relay.network.fetch.fetch_host import FetchHost, entry_of
from laps_relay.network.fetch.fetch_roads import FetchRoads, RelayParts
from laps_relay.network.parts import NetworkParts
from laps_relay.network.relay import NetworkRelay
from laps_sdk.upstream.fetching import FetchNetwork
from laps_sdk.upstream.interfaces import FetchSide
from laps_sdk.upstream.network import NetworkBridge
from laps_wire.nodeid import NodeId
from testkit.fetch_rig import request_of

# For the type checker: these lines fail if one side of a border moves alone.
HOST: type[FetchHost] = FetchRoads
SIDE: type[FetchSide] = NetworkBridge
NETWORK: type[FetchNetwork] = NetworkRelay
PARTS: type[RelayParts] = NetworkParts


@pytest.mark.parametrize(
    ("border", "made"),
    [
        (FetchHost, FetchRoads),
        (FetchSide, NetworkBridge),
        (FetchNetwork, NetworkRelay),
        (RelayParts, NetworkParts),
    ],
)
def test_every_method_of_a_border_is_there(border: type, made: type) -> None:
    wanted = [name for name in vars(border) if not name.startswith("_")]
    assert wanted
    assert [name for name in wanted if not hasattr(made, name)] == []


def test_policy_sees_a_fetch_as_a_subscribe() -> None:
    request = request_of(2, 1)
    entry = entry_of(request)
    assert entry.source == NodeId(2)
    assert entry.full_name_hash == request.full_name_hash
    assert (entry.element_hashes, entry.name_hash) == (request.element_hashes, request.name_hash)
    assert (entry.scope, entry.data) == (request.scope, request.data)
