"""Lines: one event each, printable ASCII, and every fault with its place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.errors import EncodeError
from laps_wire.telemetry.envelope import (
    MAX_DEPTH,
    MAX_LINE,
    BadLine,
    Event,
    dump_line,
    load_line,
    load_lines,
)
from laps_wire.telemetry.events import BODIES, SessionClose, UnknownBody
from laps_wire.telemetry.schema import TelemetryError
from testkit.telemetry import bodies, events, unknown_bodies

GOOD = (
    '{"v":"1.0","event_id":"r:1:2","ts_us":5,"relay":"r","boot":1,"type":"policy.applied",'
    '"body":{"plan_id":"p","plan_version":3,"outcome":"accepted"}}'
)


def unknown(data: dict[str, Any]) -> Event:
    return Event.of(UnknownBody("x", data), relay="r", boot=1, seq=1, ts_us=0)


@pytest.mark.parametrize("name", BODIES)
def test_what_is_written_is_read(name: str) -> None:
    @given(events(bodies(BODIES[name])))
    def check(event: Event) -> None:
        line = dump_line(event)
        assert load_line(line) == event
        assert load_line(line.encode()) == event

    check()


@given(events(unknown_bodies))
def test_unknown_types_too(event: Event) -> None:
    assert load_line(dump_line(event)) == event


def test_the_text_of_a_line() -> None:
    assert dump_line(load_line(GOOD)) == GOOD


@given(st.text(st.characters(codec="utf-8")))
def test_no_word_of_a_peer_breaks_a_line(words: str) -> None:
    """Newlines, escapes, direction marks: a line is printable ASCII (security, T11)."""
    body = SessionClose(
        session_id=words,
        kind="client",
        duration_ms=1.0,
        closed_by="remote",
        in_bytes=0,
        out_bytes=0,
        reason=f"\x1b[2J\n{words}",
    )
    line = dump_line(Event.of(body, relay=words, boot=1, seq=1, ts_us=0))
    assert line.isascii()
    assert line.replace("\x7f", "").isprintable()
    assert load_line(line).body == body


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "not JSON at column 1"),
        ("{", "not JSON at column 2"),
        (GOOD + "x", f"not JSON at column {len(GOOD) + 1}: Extra data"),
        ("[]", r"\[\] is not an object"),
        ("\ufeff" + GOOD, "not JSON at column 1"),
        (b"\xff" + GOOD.encode(), "not UTF-8 at byte 0"),
        (GOOD.replace('"boot":1', '"boot":1,"boot":1'), "two fields are named 'boot'"),
        (GOOD.replace('"ts_us":5', '"ts_us":NaN'), "NaN is not JSON"),
        (GOOD.replace('"ts_us":5', '"x":-Infinity,"ts_us":5'), "-Infinity is not JSON"),
        (GOOD.replace('"ts_us":5', '"x":1e999,"ts_us":5'), "1e999 is too large"),
        (GOOD.replace('"ts_us":5', f'"x":{"9" * 41},"ts_us":5'), "9+... is too large"),
        (GOOD.replace('"ts_us":5', '"ts_us":5.0'), "ts_us: 5.0 is not a long"),
        (GOOD.replace('"p"', '"\\ud800"'), "half a surrogate pair"),
        (GOOD.replace('"boot":1', '"boot":1,"\\udc00":1'), "half a surrogate pair"),
        (GOOD.replace('"boot":1', '"boot":1,"x":["\\ud800"]'), "half a surrogate pair"),
        (GOOD.replace('"boot":1', '"boot":1,"x":"\ud800"'), "half a surrogate pair"),
        ("[" * 100_000, f"nested deeper than {MAX_DEPTH}"),
        (
            GOOD.replace('"boot":1', f'"boot":1,"x":{"[" * 32}{"]" * 32}'),
            f"nested deeper than {MAX_DEPTH}",
        ),
        (
            GOOD.replace('"boot":1', '"boot":1,"x":' + '{"y":' * 32 + "1" + "}" * 32),
            f"nested deeper than {MAX_DEPTH}",
        ),
        (
            GOOD.replace('"boot":1', f'"boot":1,"x":{"[" * 40}{"]" * 40}'),
            f"nested deeper than {MAX_DEPTH}",
        ),
        (" " * (MAX_LINE + 1), "is over the limit of 1048576"),
    ],
)
def test_bad_lines(line: str | bytes, reason: str) -> None:
    with pytest.raises(TelemetryError, match=reason) as caught:
        load_line(line)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300


def test_what_is_allowed_up_to_the_limits() -> None:
    assert MAX_DEPTH == 32
    deep = "[" * 31 + '"x"' + "]" * 31
    assert load_line(GOOD.replace('"boot":1', f'"boot":1,"x":{deep}')).extra
    longest = GOOD.replace('"ts_us":5', f'"x":{"9" * 40},"ts_us":5')
    assert load_line(longest).extra == {"x": int("9" * 40)}
    pair = GOOD.replace('"p"', '"\\ud83d\\ude00"')
    assert load_line(pair).as_dict()["body"]["plan_id"] == "\U0001f600"
    many = GOOD.replace('"boot":1', f'"boot":1,"x":{json.dumps([[]] * 50)}')
    assert load_line(many).extra == {"x": [[]] * 50}


@given(st.text() | st.binary())
def test_any_line_is_an_event_or_a_fault(line: str | bytes) -> None:
    with pytest.raises(TelemetryError):
        load_line(line)


@given(st.data())
def test_a_damaged_line_is_an_event_or_a_fault(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(GOOD)))
    cut = data.draw(st.integers(0, 3))
    damaged = GOOD[:at] + data.draw(st.text(max_size=3)) + GOOD[at + cut :]
    (read,) = load_lines([damaged])
    if isinstance(read, BadLine):
        assert str(read.error).isprintable()
    else:
        assert load_line(dump_line(read)) == read


def test_many_lines() -> None:
    lines: list[str | bytes] = [GOOD + "\n", "\n", b"  \r\n", "{}\n", b"\xff\n", GOOD.encode()]
    first, missing, broken, last = load_lines(lines)
    assert isinstance(first, Event)
    assert first == last
    assert isinstance(missing, BadLine)
    assert (missing.line, missing.raw) == (4, b"{}")
    assert str(missing.error) == "v: missing, but the field is never null (line 4)"
    assert isinstance(broken, BadLine)
    assert (broken.line, broken.raw, broken.error.line) == (5, b"\xff", 5)


def test_a_text_line_that_is_not_utf8_is_kept_as_well_as_can_be() -> None:
    (bad,) = load_lines(["\ud800"])
    assert isinstance(bad, BadLine)
    assert bad.raw == b"?"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({"x": object()}, "an unknown field is not JSON"),
        ({"x": float("nan")}, "an unknown field is not JSON"),
        ({"x": {"\ud800": 1}}, "half a surrogate pair"),
        ({"x": "a" * MAX_LINE}, "over the limit"),
    ],
)
def test_unknown_fields_that_cannot_be_written(data: dict[str, Any], reason: str) -> None:
    with pytest.raises(EncodeError, match=reason):
        dump_line(unknown(data))


def test_what_could_not_be_read_again_is_not_written() -> None:
    deep: list[Any] = []
    for _ in range(MAX_DEPTH - 2):
        deep = [deep]
    with pytest.raises(EncodeError, match="nested deeper"):
        dump_line(unknown({"x": deep}))
    fits = unknown({"x": deep[0]})
    assert load_line(dump_line(fits)) == fits
