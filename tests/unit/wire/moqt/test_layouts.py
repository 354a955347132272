"""Layouts: what a draft leaves out, needs or may end with, and the tables themselves."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.buffer import Reader, Writer
from laps_wire.errors import EncodeError, MalformedError
from laps_wire.fields import VARINT
from laps_wire.moqt import messages as m
from laps_wire.moqt.codepoints import SubscribeOptions, registries
from laps_wire.moqt.keyvalue import KeyValue
from laps_wire.moqt.layouts import RESERVED, Absent, Needed, Trailing, layouts_of
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.structures import Location, Redirect
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from testkit.moqt import messages

D16, D18 = Draft.D16, Draft.D18
DRAFTS = pytest.mark.parametrize("draft", list(Draft))
PROPERTIES = (KeyValue(4, 1),)


def body(message: Any, draft: Draft) -> str:
    for entry in layouts_of(draft):
        if entry.layout.cls is type(message):
            writer = Writer(integers=draft.integers)
            entry.layout.write(writer, message, entry.name)
            return writer.getvalue().hex(" ")
    raise AssertionError("no such message")


def read(name: str, data: str, draft: Draft) -> Any:
    (entry,) = [entry for entry in layouts_of(draft) if entry.name == name]
    reader = Reader(bytes.fromhex(data), integers=draft.integers)
    message = entry.layout.read(reader, name)
    reader.expect_end(name)
    return message


# The three wrappers


def test_absent() -> None:
    codec = Absent(0, "there is no such thing")
    reader, writer = Reader(b"\x05"), Writer()
    assert codec.read(reader, "it") == 0
    assert reader.pos == 0
    codec.write(writer, 0, "it")
    assert len(writer) == 0
    with pytest.raises(EncodeError, match="it: 7 can not be sent: there is no such thing"):
        codec.write(writer, 7, "it")


def test_needed() -> None:
    codec = Needed(VARINT, "because")
    writer = Writer()
    codec.write(writer, 5, "it")
    assert codec.read(Reader(writer.getvalue()), "it") == 5
    with pytest.raises(EncodeError, match="it: is needed: because"):
        codec.write(writer, None, "it")


def test_trailing() -> None:
    codec = Trailing(VARINT)
    writer = Writer()
    codec.write(writer, None, "it")
    assert len(writer) == 0
    assert codec.read(Reader(b""), "it") is None
    codec.write(writer, 5, "it")
    assert codec.read(Reader(writer.getvalue()), "it") == 5


# The tables


@DRAFTS
def test_there_is_a_row_for_each_type(draft: Draft) -> None:
    rows = {entry.name: entry.type for entry in layouts_of(draft)}
    assert rows == registries(draft)["message_types"]
    assert len({entry.type for entry in layouts_of(draft)}) == len(rows)


@DRAFTS
def test_reserved_types_are_not_in_use(draft: Draft) -> None:
    assert not RESERVED[draft].keys() & {entry.type for entry in layouts_of(draft)}


def test_reserved_types_are_those_of_the_drafts() -> None:
    older = {
        0x01: "SETUP of version 00",
        0x40: "CLIENT_SETUP up to draft 10",
        0x41: "SERVER_SETUP up to draft 10",
    }
    expected = {
        D16: older | {0x2F00: "SETUP from draft 17 on"},
        D18: older | {0x20: "CLIENT_SETUP up to draft 16", 0x21: "SERVER_SETUP up to draft 16"},
    }
    for draft, hints in expected.items():
        assert RESERVED[draft] == hints


def test_tables_are_made_once() -> None:
    assert layouts_of(D16) is layouts_of(D16)
    assert layouts_of(D16, frozenset({0x41})) is not layouts_of(D16)


def test_request_ok_is_written_as_itself_in_draft_18() -> None:
    names = [entry.name for entry in layouts_of(D18) if entry.layout.cls is m.RequestOk]
    assert names == ["REQUEST_OK", "PUBLISH_OK"]


# Where the drafts differ

TRACK = FullTrackName(Namespace.of(b"a"), b"b")
EMPTY = FullTrackName(Namespace(), b"")


@pytest.mark.parametrize(
    ("message16", "message18", "data16", "data18"),
    [
        (m.Goaway("u"), m.Goaway("u", 200, 4), "01 75", "01 75 80 c8 04"),
        (m.Goaway(), m.Goaway(), "00", "00 00"),
        (m.RequestOk(9), m.RequestOk(), "09 00", "00"),
        (
            m.RequestError(9, 1, 2, "x"),
            m.RequestError(None, 1, 2, "x"),
            "09 01 02 01 78",
            "01 02 01 78",
        ),
        (
            m.SubscribeOk(9, 70, track_properties=PROPERTIES),
            m.SubscribeOk(None, 70, track_properties=PROPERTIES),
            "09 40 46 00 04 01",
            "46 00 04 01",
        ),
        (m.RequestUpdate(9, 3), m.RequestUpdate(9), "09 03 00", "09 00"),
        (m.PublishDone(9, 2, 1), m.PublishDone(None, 2, 1), "09 02 01 00", "02 01 00"),
        (
            m.FetchOk(9, False, Location(1, 2)),
            m.FetchOk(None, False, Location(1, 2)),
            "09 00 01 02 00",
            "00 01 02 00",
        ),
        (
            m.SubscribeNamespace(9, Namespace.of(b"a")),
            m.SubscribeNamespace(9, Namespace.of(b"a")),
            "09 01 01 61 01 00",
            "09 01 01 61 00",
        ),
        (
            m.Publish(9, TRACK, 0, Parameters(forward=False), PROPERTIES),
            m.Publish(9, TRACK, 0, Parameters(forward=False), PROPERTIES),
            "09 01 01 61 01 62 00 01 10 00 04 01",
            "09 01 01 61 01 62 00 01 10 00 04 01",
        ),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_bodies(message16: Any, message18: Any, data16: str, data18: str) -> None:
    assert body(message16, D16) == data16
    assert body(message18, D18) == data18


@pytest.mark.parametrize(
    ("message", "draft", "words"),
    [
        (m.Goaway(timeout=1), D16, "GOAWAY.timeout: 1 can not be sent: GOAWAY of draft 16"),
        (m.Goaway(request_id=1), D16, "GOAWAY.request_id: 1 can not be sent"),
        (m.RequestOk(), D16, "REQUEST_OK.request_id: is needed: draft 16 names the request"),
        (m.RequestOk(1), D18, "draft 18 answers on the stream of the request"),
        (m.RequestOk(1, track_properties=PROPERTIES), D16, "has no track extensions"),
        (m.RequestError(None, 1), D16, "is needed"),
        (m.RequestError(1, 0x34, redirect=Redirect()), D16, "draft 16 has no redirects"),
        (m.RequestError(1, 1), D18, "answers on the stream"),
        (m.RequestError(None, 1, redirect=Redirect()), D18, "a redirect without the code"),
        (m.RequestError(None, 0x34), D18, "the code is REDIRECT without a redirect"),
        (m.SubscribeOk(None, 1), D16, "is needed"),
        (m.SubscribeOk(1, 1), D18, "answers on the stream"),
        (m.RequestUpdate(1), D16, "draft 16 names the request to change"),
        (m.RequestUpdate(1, 1), D18, "draft 18 updates the request of the stream"),
        (m.PublishDone(None, 1, 1), D16, "draft 16 names the subscription that ends"),
        (m.PublishDone(1, 1, 1), D18, "draft 18 ends the subscription of the stream"),
        (m.FetchOk(None, True, Location(0, 0)), D16, "is needed"),
        (m.FetchOk(1, True, Location(0, 0)), D18, "answers on the stream"),
        (
            m.SubscribeNamespace(1, Namespace(), SubscribeOptions.BOTH),
            D18,
            "draft 18 has SUBSCRIBE_TRACKS for that",
        ),
        (m.Subscribe(1, EMPTY), D16, "0 fields where at least 1 belong"),
        (m.PublishNamespace(1, Namespace()), D16, "0 fields where at least 1 belong"),
        (m.Subscribe(2**62, TRACK), D16, "SUBSCRIBE.request_id: .* does not fit a QUIC varint"),
    ],
)
def test_what_a_draft_can_not_express(message: Any, draft: Draft, words: str) -> None:
    with pytest.raises(EncodeError, match=words):
        body(message, draft)


def test_draft_18_allows_empty_namespaces() -> None:
    assert body(m.Subscribe(1, EMPTY), D18) == "01 00 00 00"
    assert body(m.PublishNamespace(1, Namespace()), D18) == "01 00 00"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("34 00 00", "the code is REDIRECT without a redirect"),
        ("01 00 00 00 00 00", "a redirect without the code REDIRECT"),
    ],
)
def test_redirects_and_their_code(data: str, words: str) -> None:
    with pytest.raises(MalformedError, match=words) as caught:
        read("REQUEST_ERROR", data, D18)
    assert caught.value.offset == 0


def test_a_redirect_is_read() -> None:
    expected = m.RequestError(None, 0x34, 0, "", Redirect("", TRACK))
    assert read("REQUEST_ERROR", "34 00 00 00 01 01 61 01 62", D18) == expected
    # In draft 16 the number means nothing, so there is no redirect to ask for.
    assert read("REQUEST_ERROR", "00 34 00 00", D16) == m.RequestError(0, 0x34)


@DRAFTS
def test_a_name_and_namespace_share_4096_bytes(draft: Draft) -> None:
    field = Namespace.of(b"x" * 4000)
    fits = m.Subscribe(0, FullTrackName(field, b"y" * 96))
    assert read("SUBSCRIBE", body(fits, draft), draft) == fits
    # Draft 16: 2-byte lengths; the name's is the last of the two.
    raw = bytes.fromhex(body(fits, draft))
    at = raw.index(b"y") - len(draft.integers.encode(96))
    longer = raw[:at] + draft.integers.encode(97) + b"y" * 97 + b"\x00"
    with pytest.raises(MalformedError, match="length 97 is over the limit of 96"):
        read("SUBSCRIBE", longer.hex(), draft)


@DRAFTS
@given(data=st.data())
def test_bodies_round_trip(draft: Draft, data: st.DataObject) -> None:
    message = data.draw(messages(draft))
    (name, *_) = [entry.name for entry in layouts_of(draft) if entry.layout.cls is type(message)]
    assert read(name, body(message, draft), draft) == message
