"""The events of peering, field by field as a relay writes them."""

from __future__ import annotations

from typing import Any

import pytest

from laps_wire.telemetry import events
from laps_wire.telemetry.schema import from_plain, struct_of, to_plain

NODE, TRACK = "0.1:0.2", "070750223dab53b6"

RECORDS: list[tuple[type, dict[str, Any]]] = [
    (events.PeerRefuse, {"session_id": "p3", "code": 7, "contact": "a:1", "reason": "no"}),
    (events.PeerFault, {"session_id": "p3", "code": 3, "peer": NODE}),
    (events.PeerDrain, {"session_id": "p3", "peer": NODE, "by": "remote"}),
    (events.DialFail, {"contact": "a:1", "on_demand": False, "reason": "nobody there"}),
    (events.NodeSuspect, {"node_id": NODE, "peer": "0.1:0.3", "reason": "faster than light"}),
    (events.RouteChange, {"node_id": NODE, "changes": 3, "hops": 0, "cost_us": 0}),
    (events.SubRefuse, {"track": TRACK, "source_node": NODE, "code": 2}),
    (
        events.SnsRefuse,
        {"session_id": "p3", "sns_id": 2, "peer": NODE, "targets": 2, "reason": "no_route"},
    ),
    (events.PolicyChange, {"revision": 1}),
    (events.TypeChange, {"old": "edge", "new": "via"}),
]


@pytest.mark.parametrize(("cls", "plain"), RECORDS, ids=lambda value: getattr(value, "TYPE", None))
def test_a_record_as_a_relay_writes_it(cls: type, plain: dict[str, Any]) -> None:
    record: Any = from_plain(cls, plain)
    assert record.extra == {}
    assert to_plain(record) == plain


def test_with_which_version_they_came() -> None:
    for cls, _ in RECORDS:
        since = "1.3" if cls is events.TypeChange else "1.1"
        assert {field.since for field in struct_of(cls).fields} == {since}
