"""Rows are plain values: they can be compared, and stay as they were."""

from __future__ import annotations

import pytest

from laps_relay.network import views
from testkit.network_views import FakeNetwork


def test_rows_are_tuples_of_plain_values() -> None:
    network = FakeNetwork()
    for rows in (network.peers(), network.nodes(), network.announces(), network.sets()):
        assert list(rows) == list(rows)
    row = network.fib()[0]
    assert isinstance(row, views.FibRow)
    with pytest.raises(AttributeError):
        row.local = True  # type: ignore[misc]
