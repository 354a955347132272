"""The events of peering, field by field as a relay writes them."""

from __future__ import annotations

from typing import Any

import pytest

from laps_wire.telemetry import network
from laps_wire.telemetry.codec import from_plain, to_plain
from laps_wire.telemetry.schema import struct_of

NODE, TRACK = "0.1:0.2", "070750223dab53b6"

RECORDS: list[tuple[type, dict[str, Any]]] = [
    (network.PeerRefuse, {"session_id": "p3", "code": 7, "contact": "a:1", "reason": "no"}),
    (network.PeerFault, {"session_id": "p3", "code": 3, "peer": NODE}),
    (network.PeerDrain, {"session_id": "p3", "peer": NODE, "by": "remote"}),
    (network.DialFail, {"contact": "a:1", "on_demand": False, "reason": "nobody there"}),
    (network.NodeSuspect, {"node_id": NODE, "peer": "0.1:0.3", "reason": "faster than light"}),
    (network.RouteChange, {"node_id": NODE, "changes": 3, "hops": 0, "cost_us": 0}),
    (network.SubRefuse, {"track": TRACK, "source_node": NODE, "code": 2}),
    (
        network.SnsRefuse,
        {"session_id": "p3", "sns_id": 2, "peer": NODE, "targets": 2, "reason": "no_route"},
    ),
    (network.PolicyChange, {"revision": 1}),
    (network.TypeChange, {"old": "edge", "new": "via"}),
]


@pytest.mark.parametrize(("cls", "plain"), RECORDS, ids=lambda value: getattr(value, "TYPE", None))
def test_a_record_as_a_relay_writes_it(cls: type, plain: dict[str, Any]) -> None:
    record: Any = from_plain(cls, plain)
    assert record.extra == {}
    assert to_plain(record) == plain


def test_with_which_version_they_came() -> None:
    assert {cls.__name__ for cls, _ in RECORDS} == set(network.__all__)
    for cls, _ in RECORDS:
        since = "1.3" if cls is network.TypeChange else "1.1"
        assert {field.since for field in struct_of(cls).fields} == {since}
