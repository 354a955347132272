from __future__ import annotations

import base64

import pytest

from laps_sdk.cli.shown import record_of
from laps_sdk.client.core.objects import Object, capture_time
from laps_wire.moqt.codepoints import ObjectStatus


def test_text_is_text_and_bytes_are_base64() -> None:
    assert record_of(Object(3, 4, "gr\u00fcn".encode())) == {
        "group": 3, "object": 4, "subgroup": 0, "size": 5, "text": "gr\u00fcn",
    }  # fmt: skip
    found = record_of(Object(3, 4, b"\xff\x00", subgroup=None))
    assert found["subgroup"] is None
    assert base64.b64decode(found["base64"]) == b"\xff\x00"
    assert "text" not in found


def test_status_is_named() -> None:
    assert record_of(Object(3, 4, b"", status=ObjectStatus.END_OF_TRACK))["status"] == (
        "END_OF_TRACK"
    )


def test_latency_is_in_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert capture_time(()) is None
    monkeypatch.setattr("laps_sdk.client.core.objects.capture_time", lambda _: 99.5)
    assert record_of(Object(0, 0, b"", received_at=100.0))["latency_ms"] == 500.0
