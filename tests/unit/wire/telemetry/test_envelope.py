"""The envelope: identity of events, versions, unknown types."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from laps_wire.errors import EncodeError
from laps_wire.telemetry.envelope import Event
from laps_wire.telemetry.events import PolicyApplied, UnknownBody
from laps_wire.telemetry.schema import VERSION, TelemetryError
from testkit.telemetry import bodies, events, unknown_bodies

BODY = PolicyApplied(plan_id="p", plan_version=3, outcome="accepted")
PLAIN: dict[str, Any] = {
    "v": VERSION,
    "event_id": "1.2:3.4:9:17",
    "ts_us": 1_700_000_000_000_000,
    "relay": "1.2:3.4",
    "boot": 9,
    "type": "policy.applied",
    "tenant": "acme",
    "region": "eu-1",
    "body": {"plan_id": "p", "plan_version": 3, "outcome": "accepted"},
}


def make() -> Event:
    return Event.of(
        BODY,
        relay="1.2:3.4",
        boot=9,
        seq=17,
        ts_us=1_700_000_000_000_000,
        tenant="acme",
        region="eu-1",
    )


def test_an_event_and_its_dict() -> None:
    assert make().as_dict() == PLAIN
    assert list(make().as_dict()) == list(PLAIN)
    assert Event.from_dict(PLAIN) == make()
    assert (make().v, make().seq) == (VERSION, 17)


@given(events(bodies(PolicyApplied) | unknown_bodies))
def test_what_is_written_is_read(event: Event) -> None:
    assert Event.from_dict(event.as_dict()) == event


def test_a_type_of_a_later_version_is_kept() -> None:
    plain = {**PLAIN, "v": "1.7", "type": "moon.phase", "body": {"phase": 3}, "shard": 5}
    event = Event.from_dict(plain)
    assert event.body == UnknownBody("moon.phase", {"phase": 3})
    assert (event.v, event.extra) == ("1.7", {"shard": 5})
    assert event.as_dict() == plain
    made = Event.of(UnknownBody("moon.phase", {}), relay="r", boot=1, seq=0, ts_us=0)
    assert made.type == "moon.phase"


@pytest.mark.parametrize(
    ("change", "where", "reason"),
    [
        ({"v": "2.0"}, "v", "version 2.0, but this reader knows 1.x"),
        ({"v": "0.9"}, "v", "version 0.9"),
        ({"v": "one"}, "v", "'one' is not a version"),
        ({"v": 1}, "v", "1 is not a string"),
        ({"body": None}, "body", "missing or not an object"),
        ({"body": []}, "body", "missing or not an object"),
        ({"body": {"plan_id": 7}}, "body.plan_id", "7 is not a string"),
        ({"type": None}, "type", "null"),
        ({"event_id": "1.2:3.4:9:"}, "", "is not relay:boot:seq"),
        ({"event_id": "1.2:3.4:9:x"}, "", "is not relay:boot:seq"),
        ({"event_id": "1.2:3.4:9:017"}, "", "is not relay:boot:seq"),
        ({"event_id": "1.2:3.4:9:-1"}, "", "is not relay:boot:seq"),
        ({"event_id": "1.2:3.4:9:²"}, "", "is not relay:boot:seq"),
        ({"event_id": "1.2:3.4:9:" + "1" * 20}, "", "is not relay:boot:seq"),
        ({"event_id": "1.2:3.4:8:17"}, "", "is not relay:boot:seq"),
        ({"relay": "other"}, "", "is not relay:boot:seq"),
        ({"event_id": "x" * 500}, "", "is not relay:boot:seq"),
    ],
)
def test_faults_are_named(change: dict[str, Any], where: str, reason: str) -> None:
    with pytest.raises(TelemetryError) as caught:
        Event.from_dict({**PLAIN, **change})
    assert caught.value.where == where
    assert reason in caught.value.reason
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("bad", [None, [], "text", 7])
def test_an_event_is_an_object(bad: object) -> None:
    with pytest.raises(TelemetryError, match="is not an object"):
        Event.from_dict(bad)


def test_type_and_body_belong_together() -> None:
    with pytest.raises(EncodeError, match=r"type 'x' has a body of 'policy\.applied'"):
        Event(v="1.0", event_id="r:1:1", ts_us=0, relay="r", boot=1, type="x", body=BODY)


def test_faults_in_a_body_are_ours_when_writing() -> None:
    bad = PolicyApplied(plan_id="p", plan_version=2**63, outcome="accepted")
    with pytest.raises(EncodeError, match=r"body\.plan_version: .* 64 signed bits"):
        Event.of(bad, relay="r", boot=1, seq=1, ts_us=0).as_dict()


def test_the_longest_sequence_number() -> None:
    event = Event.of(BODY, relay="r", boot=1, seq=10**19 - 1, ts_us=0)
    assert event.seq == 10**19 - 1
    with pytest.raises(EncodeError, match="is not relay:boot:seq"):
        Event.of(BODY, relay="r", boot=1, seq=10**19, ts_us=0)
