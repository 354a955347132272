"""Rows and counters of sets."""

from __future__ import annotations

import pytest

from laps_relay.network.sets.set_rows import EgressRow, SetRow, SetsCounters
from laps_relay.peer_forwarding.forwarding import EgressSet, Ingress
from laps_wire.nodeid import NodeId


def test_rows_do_not_change() -> None:
    egress = EgressRow(EgressSet(3, 7), (NodeId(1),), False)
    row = SetRow(
        ingress=Ingress(0, 1),
        key=5,
        hops=0,
        scope="gold",
        local=False,
        targets=(NodeId(1), NodeId(2)),
        egress=(egress,),
        unserved=((NodeId(2), "no way"),),
    )
    with pytest.raises(AttributeError):
        row.scope = "silver"  # type: ignore[misc] # that is what is tested
    assert row.egress[0].egress.sns_id == 7


def test_counters_begin_at_zero() -> None:
    counters = SetsCounters()
    counters.made += 1
    assert counters == SetsCounters(made=1)
    assert SetsCounters().made == 0
