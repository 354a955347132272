"""Codes and properties on their way from one draft to another."""

from __future__ import annotations

import pytest

from laps_sdk.edge.codes import (
    done_code,
    done_name,
    properties_for,
    request_code,
    reset_code,
    shorten,
    upstream_code,
)
from laps_wire.buffer import Reader, Writer
from laps_wire.moqt.codepoints import (
    PublishDoneCodeD16,
    PublishDoneCodeD18,
    RequestErrorCode,
)
from laps_wire.moqt.keyvalue import KeyValue, KeyValues, read_pairs, write_pairs
from laps_wire.moqt.messages import RequestError
from laps_wire.moqt.versions import Draft


def test_request_codes() -> None:
    load = RequestErrorCode.EXCESSIVE_LOAD
    assert request_code(Draft.D18, load) == load
    assert request_code(Draft.D16, load) == RequestErrorCode.INTERNAL_ERROR
    assert request_code(Draft.D16, RequestErrorCode.GOING_AWAY) == RequestErrorCode.GOING_AWAY
    assert request_code(Draft.D16, RequestErrorCode.TIMEOUT) == RequestErrorCode.TIMEOUT


@pytest.mark.parametrize(
    ("code", "means"),
    [
        (RequestErrorCode.DOES_NOT_EXIST, RequestErrorCode.DOES_NOT_EXIST),
        (RequestErrorCode.REDIRECT, RequestErrorCode.INTERNAL_ERROR),
        (0x777, RequestErrorCode.INTERNAL_ERROR),
    ],
)
def test_errors_of_publishers(code: int, means: RequestErrorCode) -> None:
    assert upstream_code(RequestError(1, code)) is means


def test_done_codes_change_their_numbers() -> None:
    name = done_name(Draft.D16, PublishDoneCodeD16.EXPIRED)
    assert done_code(Draft.D18, name) == PublishDoneCodeD18.EXPIRED
    assert done_name(Draft.D18, 0x777) == "INTERNAL_ERROR"
    assert done_code(Draft.D16, "EXCESSIVE_LOAD") == PublishDoneCodeD16.INTERNAL_ERROR


def test_reset_codes() -> None:
    assert reset_code(Draft.D18, "EXPIRED_AUTH_TOKEN") == 0x7
    assert reset_code(Draft.D16, "EXPIRED_AUTH_TOKEN") == 0x1


def test_reasons_fit() -> None:
    assert shorten("short") == "short"
    assert shorten("\N{EURO SIGN}" * 400) == "\N{EURO SIGN}" * 341


def _immutable(pairs: KeyValues, draft: Draft) -> bytes:
    writer = Writer(integers=draft.integers)
    write_pairs(writer, pairs, "test")
    return writer.getvalue()


def test_properties() -> None:
    unknown = KeyValue(0x1235, b"carried through")
    inner = (KeyValue(0x4, 100_000), KeyValue(0x5, b"x"))
    pairs = (
        KeyValue(0x2, 0),
        KeyValue(0x4, 1000),
        KeyValue(0xB, _immutable(inner, Draft.D18)),
        KeyValue(0x100, 2**63),
        unknown,
    )
    assert properties_for(pairs, Draft.D18, Draft.D18) is pairs
    older = properties_for(pairs, Draft.D18, Draft.D16)
    assert [pair.type for pair in older] == [0x4, 0xB, 0x1235]
    carried = older[1].value
    assert isinstance(carried, bytes)
    assert read_pairs(Reader(carried, integers=Draft.D16.integers)) == inner
    newer = properties_for(older, Draft.D16, Draft.D18)
    assert newer == (pairs[1], pairs[2], unknown)


def test_an_immutable_that_cannot_be_read_is_left_out() -> None:
    broken = (KeyValue(0xB, b"\x05\x44"), KeyValue(0xD, b"fine"))
    assert properties_for(broken, Draft.D16, Draft.D18) == (broken[1],)
