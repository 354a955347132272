"""The events of the control plane, field by field as a relay writes them."""

from __future__ import annotations

from typing import Any

import pytest

from laps_wire.telemetry.events import (
    AnnAdv,
    AnnWd,
    NodeAdv,
    NodeWd,
    PathItem,
    SnsAdv,
    SnsWd,
    SubAdv,
    SubWd,
)
from laps_wire.telemetry.schema import from_plain, struct_of, to_plain

INTEREST = {"track": "070750223dab53b6", "ns_depth": 1, "source_node": "0.1:0.2"}
SNS = {"session_id": "p-3", "sns_id": 2, "direction": "out", "removed": []}

RECORDS: list[tuple[type, dict[str, Any]]] = [
    (
        NodeAdv,
        {
            "node_id": "0.1:0.2",
            "node_type": "via",
            "path": [{"node_id": "0.1:0.3", "srtt_us": 20_000}],
            "sum_srtt_us": 20_000,
            "best": True,
            "longitude": -122.3,
            "latitude": 47.6,
            "load": 0.25,
            "epoch": 9,
            "seq": 1,
            "session_id": "p-3",
        },
    ),
    (NodeWd, {"node_id": "0.1:0.2", "reason": "session_closed"}),
    (SubAdv, INTEREST),
    (SubWd, {**INTEREST, "delayed": True}),
    (AnnAdv, {**INTEREST, "scope": "track", "epoch": 9, "seq": 4}),
    (AnnWd, {**INTEREST, "scope": "namespace"}),
    (SnsAdv, {**SNS, "added": ["0.1:0.2"], "members": 1}),
    (SnsWd, {**SNS, "track": "070750223dab53b6"}),
    (PathItem, {"node_id": "0.1:0.3", "srtt_us": 20_000}),
]


@pytest.mark.parametrize(("cls", "plain"), RECORDS, ids=lambda value: getattr(value, "TYPE", None))
def test_a_record_as_a_relay_writes_it(cls: type, plain: dict[str, Any]) -> None:
    record: Any = from_plain(cls, plain)
    assert record.extra == {}
    assert isinstance(record, cls)
    assert to_plain(record) == plain


def test_adverts_and_withdrawals_name_the_same_things() -> None:
    """A withdrawal can be joined with its advert: what identifies is in both."""
    for advert, withdrawal, keys in [
        (NodeAdv, NodeWd, {"node_id", "session_id", "epoch", "seq"}),
        (SubAdv, SubWd, {"track", "source_node", "session_id", "epoch", "seq"}),
        (AnnAdv, AnnWd, {"scope", "track", "source_node", "session_id", "epoch", "seq"}),
        (SnsAdv, SnsWd, {"session_id", "sns_id", "direction", "track"}),
    ]:
        for cls in (advert, withdrawal):
            assert keys <= {field.name for field in struct_of(cls).fields}
