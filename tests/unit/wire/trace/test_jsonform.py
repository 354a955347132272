"""A decoding as data."""

from __future__ import annotations

import json
import struct

import pytest

from laps_wire.trace.decode import Protocol, decode
from laps_wire.trace.jsonform import as_dicts
from testkit.trace import GREETINGS, HELLO


def test_a_message() -> None:
    (plain,) = as_dicts(decode(GREETINGS, bytes.fromhex("01 05 01 02 6869 01")))
    assert plain == {
        "protocol": "greet",
        "message": "GREET",
        "offset": 0,
        "length": 7,
        "fields": [
            {"path": "type", "offset": 0, "length": 1, "hex": "01", "value": 1, "note": "GREET"},
            {"path": "length", "offset": 1, "length": 1, "hex": "05", "value": 5},
            {"path": "GREET.words.count", "offset": 2, "length": 1, "hex": "01", "value": 1},
            {"path": "GREET.words[0].length", "offset": 3, "length": 1, "hex": "02", "value": 2},
            {"path": "GREET.words[0]", "offset": 4, "length": 2, "hex": "6869", "text": "hi"},
            {
                "path": "GREET.mood",
                "offset": 6,
                "length": 1,
                "hex": "01",
                "value": 1,
                "note": "KEEN",
            },
        ],
    }


def test_faults_are_with_the_last_message() -> None:
    first, bad = as_dicts(decode(GREETINGS, HELLO + b"\x09"))
    assert "error" not in first
    assert (first["offset"], first["length"]) == (0, 11)
    assert (bad["offset"], bad["length"]) == (11, 1)
    assert bad["error"] == {
        "kind": "bad",
        "path": "type",
        "reason": "nobody says 9",
        "offset": 11,
        "length": 1,
        "code": 3,
    }
    (cut,) = as_dicts(decode(GREETINGS, HELLO[:10]))
    assert cut["error"] == {
        "kind": "incomplete",
        "path": "GREET.mood",
        "reason": "the input ends here, at least 1 more byte(s) belong to it",
        "offset": 10,
        "length": 0,
        "missing": 1,
    }


def test_no_bytes() -> None:
    (plain,) = as_dicts(decode(GREETINGS, b""))
    assert plain["error"]["reason"] == "there are no bytes"


@pytest.mark.parametrize(
    ("number", "shown"), [("nan", "nan"), ("inf", "inf"), ("-inf", "-inf"), ("0.5", 0.5)]
)
def test_numbers_that_json_does_not_have(number: str, shown: object) -> None:
    protocol = Protocol("p", "", lambda reader: reader.f64("x"))
    (plain,) = as_dicts(decode(protocol, struct.pack(">d", float(number))))
    assert plain["fields"][0]["value"] == shown
    json.dumps(plain, allow_nan=False)


def test_bytes_that_are_no_text_are_only_hexadecimal() -> None:
    protocol = Protocol("p", "", lambda reader: reader.take(2, "x"))
    (plain,) = as_dicts(decode(protocol, b"\xff\x00"))
    assert plain["fields"] == [{"path": "x", "offset": 0, "length": 2, "hex": "ff00"}]
