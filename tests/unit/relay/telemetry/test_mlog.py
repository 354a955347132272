from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from laps_relay.telemetry.mlog import MAX_EVENTS, MlogWriter
from laps_wire.moqt.messages import Goaway, PublishNamespace, Subscribe
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.session import AuthToken
from laps_wire.moqt.session import events as wire
from laps_wire.moqt.setup import SetupOptions
from laps_wire.moqt.structures import Token
from testkit.relay_views import TRACK

WORD = b"a very secret token"
SETUP = wire.SetupReceived(options=SetupOptions(), tokens=(AuthToken(1, WORD),))
SUBSCRIBE = wire.RequestReceived(
    request_id=2,
    message=Subscribe(2, TRACK, Parameters(authorization_tokens=(Token.use_value(1, WORD),))),
    tokens=(AuthToken(1, WORD),),
)


def trace(path: Path) -> list[dict[str, Any]]:
    (one,) = json.loads(path.read_text(encoding="utf-8"))["traces"]
    events: list[dict[str, Any]] = one["events"]
    return events


def test_a_sampled_session_has_its_file_when_it_ends(tmp_path: Path) -> None:
    writer = MlogWriter(tmp_path / "mlog", 1.0, boot=7)
    writer.session_event(10.0, 1, SETUP)
    writer.session_event(10.5, 1, SUBSCRIBE)
    writer.session_event(10.6, 1, wire.GoawayReceived(message=Goaway("moqt://b\x1b")))
    writer.session_event(
        10.7, 1, wire.RequestReceived(request_id=4, message=PublishNamespace(4, TRACK.namespace))
    )
    writer.session_event(10.8, 1, wire.Terminated(code=0, reason="bye", by_peer=True))
    writer.session_over(1)
    writer.session_over(1)
    writer.close()
    assert writer.counters == (1, 0, "")
    events = trace(tmp_path / "mlog" / "7-1_server.qlog")
    assert [event["name"] for event in events] == [
        *["moqt:control_message_parsed"] * 4,
        "laps:terminated",
    ]
    assert [event["data"]["message"]["type"] for event in events[:4]] == [
        "client_setup",
        "subscribe",
        "goaway",
        "publish_namespace",
    ]
    assert events[1]["time"] == 500.0
    assert events[1]["data"]["message"]["track"] == str(TRACK)
    assert events[2]["data"]["message"]["new_session_uri"] == "moqt://b\\x1b"
    assert events[4]["data"] == {"code": 0, "reason": "bye", "by_peer": True}


def test_tokens_are_never_in_it(tmp_path: Path) -> None:
    writer = MlogWriter(tmp_path, 1.0, boot=7)
    writer.session_event(1.0, 1, SETUP)
    writer.session_event(1.0, 1, SUBSCRIBE)
    writer.close()
    text = (tmp_path / "7-1_server.qlog").read_text(encoding="utf-8")
    assert "(token)" in text
    assert WORD.decode() not in text
    assert WORD.hex() not in text


def test_sessions_that_are_not_sampled_cost_nothing(tmp_path: Path) -> None:
    writer = MlogWriter(tmp_path, 0.0, boot=7)
    writer.session_event(1.0, 1, SETUP)
    writer.session_event(1.0, 1, SUBSCRIBE)
    writer.session_over(1)
    writer.close()
    assert list(tmp_path.iterdir()) == []
    half = MlogWriter(tmp_path, 0.5, boot=7)
    for number in range(200):
        half.session_event(1.0, number, SETUP)
    assert 50 < len(half._events) < 150
    half.close()


def test_a_long_session_keeps_its_newest(tmp_path: Path) -> None:
    writer = MlogWriter(tmp_path, 1.0, boot=7)
    writer.session_event(1.0, 1, SETUP)
    for number in range(MAX_EVENTS):
        writer.session_event(1.0, 1, wire.RequestsAllowed(max_request_id=number))
    assert len(writer._events[1]) == MAX_EVENTS
    assert writer._events[1][-1]["data"] == {"max_request_id": MAX_EVENTS - 1}
    writer.close()


def test_a_disk_that_refuses_is_counted(tmp_path: Path) -> None:
    directory = tmp_path / "mlog"
    writer = MlogWriter(directory, 1.0, boot=7)
    writer.session_event(1.0, 1, SETUP)
    directory.rmdir()
    writer.close()
    assert writer.counters.failed == 1
    assert "No such file" in writer.counters.last_error
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="Not a directory"):
        MlogWriter(tmp_path / "file" / "x", 1.0, boot=7)
