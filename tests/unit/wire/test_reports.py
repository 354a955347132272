"""The reports of players: what is written is read, and nothing else than a report is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.errors import EncodeError
from laps_wire.reports import (
    FORBIDDEN,
    KEYS,
    MAX_ERRORS,
    MAX_KEYS,
    MAX_OBJECT,
    MAX_RECORDS,
    STATES,
    Playback,
    PlayerReport,
    ReportError,
    decode_reports,
    encode_reports,
    hashed_id,
    playback_of,
)
from testkit.properties import check_bounded

PRINTABLE = st.just(" ") | st.characters(exclude_categories=("C", "Z"))
MS = st.none() | st.integers(0, 86_400_000)
KBPS = st.none() | st.integers(0, 10_000_000)
REPORTS = st.builds(
    PlayerReport,
    at_ms=st.integers(0, 2**53 - 1),
    event=st.sampled_from(["t", "ps", "e", "ce", "um"]),
    session=st.text(PRINTABLE, min_size=1, max_size=12),
    content=st.none() | st.text(PRINTABLE, min_size=1, max_size=12),
    sequence=st.none() | st.integers(0, 2**53 - 1),
    state=st.none() | st.sampled_from(sorted(STATES)),
    buffer_ms=MS,
    latency_ms=MS,
    startup_ms=st.none() | st.integers(0, 3_600_000),
    bitrate_kbps=KBPS,
    asked_kbps=KBPS,
    rate=st.none() | st.floats(0, 100),
    starved=st.none() | st.booleans(),
    stall_ms=MS,
    stalled_ms=MS,
    stalls=st.none() | st.integers(0, 1_000_000),
    gaps=st.none() | st.integers(0, 1_000_000_000),
    errors=st.lists(
        st.from_regex(r"[A-Za-z0-9._:-]{1,32}", fullmatch=True), max_size=MAX_ERRORS
    ).map(tuple),
)


def data(**keys: object) -> bytes:
    """One record with these keys; ``_`` stands for a hyphen."""
    plain = {name.replace("_", "-"): value for name, value in keys.items()}
    return json.dumps([{"T": 5, "data": {"v": 2, "sid": "s", **plain}}]).encode()


def read(**keys: object) -> PlayerReport:
    (report,) = decode_reports(data(**keys))
    return report


def refused(raw: bytes | object) -> str:
    with pytest.raises(ReportError) as caught:
        decode_reports(raw if isinstance(raw, bytes) else json.dumps(raw).encode())
    return str(caught.value)


# What is written is read


@given(st.lists(REPORTS, min_size=1, max_size=3))
def test_what_is_written_is_read(reports: list[PlayerReport]) -> None:
    assert decode_reports(encode_reports(reports)) == tuple(reports)


def test_the_bytes_of_a_report() -> None:
    report = PlayerReport(
        at_ms=1756885678361, session="6e2f", state="p", buffer_ms=2100, errors=("drm", "net")
    )
    assert encode_reports([report]) == (
        b'[{"T":1756885678361,"data":{"v":2,"e":"t","sid":"6e2f","sta":"p","bl":2100,'
        b'"ec":"(\\"drm\\" \\"net\\")"}}]'
    )


@given(st.binary(max_size=200) | st.lists(REPORTS, max_size=2).map(lambda r: repr(r).encode()))
def test_any_bytes_are_a_report_or_refused(raw: bytes) -> None:
    try:
        found = decode_reports(raw)
    except ReportError:
        return
    assert found == decode_reports(encode_reports(found))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([key.name for key in KEYS]), JSON))
def test_any_value_of_a_key_is_read_or_refused(keys: dict[str, Any]) -> None:
    try:
        found = decode_reports(data(**keys))
    except ReportError:
        return
    assert found == decode_reports(encode_reports(found))


@given(st.binary(max_size=MAX_OBJECT))
def test_memory_is_linear_in_the_object(raw: bytes) -> None:
    check_bounded(lambda all_: (decode_reports(all_), len(all_)), raw)


@pytest.mark.parametrize("raw", [b"[" * MAX_OBJECT, b"[[" * 1000 + b"]]" * 1000, b"1" * MAX_OBJECT])
def test_depth_and_length_cost_nothing(raw: bytes) -> None:
    check_bounded(lambda all_: (decode_reports(all_), len(all_)), raw)
    refused(raw)


# Forms of values


def test_what_was_not_said_is_none() -> None:
    assert read() == PlayerReport(at_ms=5, session="s")


@pytest.mark.parametrize(
    ("keys", "field", "value"),
    [
        ({"bl": 2100}, "buffer_ms", 2100),
        ({"bl": "2100"}, "buffer_ms", 2100),
        ({"bl": "(2100;v 900;a)"}, "buffer_ms", 900),
        ({"br": "(5000;v 320;a)"}, "bitrate_kbps", 5320),
        ({"br": "(5000)"}, "bitrate_kbps", 5000),
        ({"bsd": "(300 40;v)"}, "stall_ms", 340),
        ({"bsda": "(300;a 400;v)"}, "stalled_ms", 400),
        ({"bsa": "(3;a 4;v)"}, "stalls", 4),
        ({"pr": "1.5"}, "rate", 1.5),
        ({"pr": 0}, "rate", 0.0),
        ({"bs": "?1"}, "starved", True),
        ({"bs": "false"}, "starved", False),
        ({"bs": True}, "starved", True),
        ({"ec": "decode"}, "errors", ("decode",)),
        ({"ec": '("a" "b";v)'}, "errors", ("a", "b")),
        ({"laps_gaps": 3}, "gaps", 3),
        ({"laps_rtp": 8000}, "asked_kbps", 8000),
        ({"e": "ps"}, "event", "ps"),
    ],
)
def test_forms_of_values(keys: dict[str, object], field: str, value: object) -> None:
    assert getattr(read(**keys), field) == value


@pytest.mark.parametrize(
    "keys",
    [
        {"v": 1},
        {"v": None},
        {"sid": ""},
        {"sid": "x" * 65},
        {"sid": "a\nb"},
        {"sid": "\ud800"},
        {"sid": 7},
        {"cid": "x" * 129},
        {"sta": "z"},
        {"sta": ["p"]},
        {"e": "rr"},
        {"e": "h"},
        {"e": "T"},
        {"e": 1},
        {"bl": -1},
        {"bl": 86_400_001},
        {"bl": True},
        {"bl": 1.5},
        {"bl": "1.5"},
        {"bl": "()"},
        {"bl": "( )"},
        {"bl": "(1"},
        {"bl": "(1;v x)"},
        {"bl": "(" + "1 " * 200 + ")"},
        {"br": "(9000000 9000000)"},
        {"msd": 3_600_001},
        {"pr": -1},
        {"pr": 101},
        {"pr": "fast"},
        {"pr": True},
        {"bs": 1},
        {"bs": "yes"},
        {"bs": [True]},
        {"ec": 404},
        {"ec": "not a word"},
        {"ec": '("a" b)'},
        {"ec": '("a" "b" "c" "d" "e")'},
        {"sn": 2**53},
    ],
)
def test_values_that_no_playback_has_are_refused(keys: dict[str, object]) -> None:
    assert refused(data(**keys)).startswith("[0].data.")


@pytest.mark.parametrize("name", sorted(FORBIDDEN))
def test_keys_about_requests_are_refused(name: str) -> None:
    assert refused(data(**{name: 1})) == f"[0].data: {name} has no place in a report track"


def test_keys_that_are_not_read_are_left_alone() -> None:
    assert read(mtp=900, com_example_x=[1, {"a": None}]) == read()


# Objects


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "not JSON"),
        (b"\x1f\x8b\x08", "not UTF-8"),
        (b"{}", "not a list of 1 to 16 records"),
        (b"[]", "not a list of 1 to 16 records"),
        (b"[1]", "[0]: not a record"),
        (b"[{}]", "[0].T: not an integer"),
        (b'[{"T":-1,"data":{}}]', "[0].T: not from 0 to"),
        (b'[{"T":1}]', "[0].data: not an object of at most"),
        (b'[{"T":1,"data":{"v":2}}]', "[0].data: no sid"),
        (b'[{"T":1,"T":2}]', "two values for one key"),
        (b"[NaN]", "NaN is not JSON"),
        (b"[1e999]", "a number that is too large"),
        (b"[111111111111111111111]", "a number that is too large"),
        (b" " * (MAX_OBJECT + 1), "4097 bytes, over the limit of 4096"),
    ],
)
def test_what_is_no_object_of_reports(raw: bytes, words: str) -> None:
    assert words in refused(raw)


def test_the_second_record_is_named() -> None:
    good = {"t": 1, "data": {"v": "2", "sid": "s"}}
    assert refused([good, {**good, "data": {"v": 2, "sid": "s", "sta": "?"}}]).startswith(
        "[1].data.sta: not one of"
    )


def test_so_many_records_and_keys() -> None:
    record = {"T": 1, "data": {"v": 2, "sid": "s"}}
    assert len(decode_reports(json.dumps([record] * MAX_RECORDS).encode())) == MAX_RECORDS
    refused([record] * (MAX_RECORDS + 1))
    many = {f"x-{number}": 0 for number in range(MAX_KEYS - 2)}
    read(**many)
    assert "keys" in refused(data(**many, one_more=0))


@pytest.mark.parametrize(
    "report",
    [
        PlayerReport(at_ms=-1, session="s"),
        PlayerReport(at_ms=1, session=""),
        PlayerReport(at_ms=1, session="s", rate=float("nan")),
        PlayerReport(at_ms=1, session="s", content=b"x"),  # type: ignore[arg-type]
        PlayerReport(at_ms=1, session="s", errors=("a b",)),
    ],
)
def test_what_nobody_would_read_is_not_written(report: PlayerReport) -> None:
    with pytest.raises(EncodeError):
        encode_reports([report])


def test_too_many_records_are_not_written() -> None:
    with pytest.raises(EncodeError, match="1 to 16"):
        encode_reports([PlayerReport(at_ms=1, session="s")] * 17)


IDS = "sid%3D%226e2f%22%2Ccid%3D%22match-42%22"


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (f"/moq?CMCD={IDS}", Playback("6e2f", "match-42")),
        (f"?a=b&CMCD=br%3D5000%2C{IDS}%2Csu&c=d", Playback("6e2f", "match-42")),
        ("/moq?CMCD=sid%3D%22a%20b+c%22", Playback("a b c", None)),
        ("/moq?CMCD=cid%3D%22x%22", Playback(None, "x")),
        ("/moq", Playback()),
        ("", Playback()),
        ("/CMCD=sid%3D%22a%22", Playback()),
        ("/moq?CMCD=", Playback()),
        ("/moq?CMCD=sid%3D6e2f", Playback()),
        ("/moq?CMCD=sid%3D%22%22", Playback()),
        ("/moq?CMCD=sid%3D%22a%22x", Playback()),
        # What another key has in its quotes is not an id.
        ("/moq?CMCD=nor%3D%22x%2Csid%3D%5C%22a%5C%22%22", Playback()),
        ("/moq?CMCD=sid%3D%22a%22%2Csid%3D%22b%22", Playback()),
        ("/moq?CMCD=sid%3D%22a%22&CMCD=sid%3D%22b%22", Playback()),
        (f"/moq?CMCD=sid%3D%22{'a' * 64}%22", Playback("a" * 64, None)),
        (f"/moq?CMCD=sid%3D%22{'a' * 65}%22%2Ccid%3D%22{'b' * 128}%22", Playback(None, "b" * 128)),
        (f"/moq?CMCD={IDS}&" + "a" * 1024, Playback()),
        (f"/moq?CMCD={IDS}" + "&a=b" * 16, Playback()),
        ("/moq?CMCD=sid%3D%22%ff%22", Playback()),
        ("/moq?CMCD=sid%3D%22%0a%22", Playback()),
    ],
)
def test_ids_in_the_address_that_a_player_connects_to(path: str, found: Playback) -> None:
    assert playback_of(path) == found


@given(st.text(max_size=300))
def test_any_path_has_ids_or_none(text: str) -> None:
    for path in (text, f"/moq?CMCD={text}"):
        found = playback_of(path)
        assert found.session is None or 0 < len(found.session) <= 64
        assert found.content is None or 0 < len(found.content) <= 128


def test_an_id_is_hashed_with_a_key_of_any_length() -> None:
    assert hashed_id(b"key", "6e2f") == "8c11deece57aa0dd"
    assert hashed_id(b"other", "6e2f") != hashed_id(b"key", "6e2f") != hashed_id(b"key", "6e2e")
