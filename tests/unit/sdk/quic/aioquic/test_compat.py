from __future__ import annotations

import pytest

from laps_sdk.quic.aioquic import compat


def test_a_trace_keeps_its_newest_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compat, "MAX_EVENTS", 3)
    trace = compat.BoundedTrace(is_client=True, odcid=b"\x01")
    for number in range(5):
        trace.log_event(category="test", event=str(number), data={})
    assert [event["name"] for event in trace.to_dict()["events"]] == ["test:2", "test:3", "test:4"]
