"""Control messages: framing, vectors, and the layouts of both drafts."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.buffer import Reader, Writer
from laps_wire.errors import EncodeError, IncompleteError, MalformedError, RemoteError
from laps_wire.fields import VARINT
from laps_wire.moqt import control
from laps_wire.moqt import messages as m
from laps_wire.moqt.codepoints import (
    GroupOrder,
    ParameterTypeD16,
    PropertyTypeD16,
    SubscribeOptions,
    registries,
)
from laps_wire.moqt.control import (
    MAX_BODY_LENGTH,
    RESERVED,
    Absent,
    ControlCodec,
    Needed,
    Trailing,
    decode_subscribe_body,
    encode_subscribe_body,
    layouts_of,
    message_name,
)
from laps_wire.moqt.errors import UnknownMessageType
from laps_wire.moqt.keyvalue import KeyValue
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.structures import Location, Redirect, Token
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from testkit.foreign import draft16_messages, draft16_vectors, foreign
from testkit.moqt import load_vectors, message_values, messages, plain_message
from testkit.properties import check_any_bytes, check_bounded, check_prefixes, check_round_trip

D16, D18 = Draft.D16, Draft.D18
OURS = [(D16, vector) for vector in load_vectors("draft16")] + [
    (D18, vector) for vector in load_vectors("draft18")
]
DRAFTS = pytest.mark.parametrize("draft", list(Draft))


def encoder(draft: Draft) -> Any:
    return partial(control.encode, draft=draft)


def decoder(draft: Draft) -> Any:
    return partial(control.decode, draft=draft)


# Byte vectors made by hand from the drafts


@pytest.mark.parametrize(
    ("draft", "vector"), OURS, ids=[f"{draft.name}-{vector['id']}" for draft, vector in OURS]
)
def test_our_vectors(draft: Draft, vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    if vector.get("error") == "incomplete":
        with pytest.raises(IncompleteError):
            control.decode(data, draft)
    elif "error" in vector:
        with pytest.raises(RemoteError) as caught:
            control.decode(data, draft)
        assert caught.value.code == int(vector["error"], 16)
        assert vector["reason"] in str(caught.value)
    else:
        message, used = control.decode(data + b"\xff", draft)
        assert used == len(data)
        assert plain_message(message) == vector["decoded"]
        written = control.encode(message, draft)
        assert (written == data) is vector.get("canonical", True)
        assert control.decode(written, draft) == (message, len(written))


@DRAFTS
def test_every_message_has_a_vector(draft: Draft) -> None:
    seen = {bytes.fromhex(vector["hex"].split()[0]) for of, vector in OURS if of is draft}
    if draft is D16:
        seen |= _MOQTAP_TYPES
    for entry in layouts_of(draft):
        assert draft.integers.encode(entry.type) in seen, entry.name


# The vectors of moqtap for draft 16 lie beside the repository, if at all

_MOQTAP_TYPES = {
    bytes([code])
    for code in (3, 4, 5, 6, 7, 8, 9, 0xA, 0xB, 0xD, 0xE, 0x15, 0x17, 0x1A, 0x1D, 0x20, 0x21)
}
#: Vectors that contradict the draft, which is the authority, and why.
EXCLUDED = {
    ("subscribe", "unknown-extension-param"): (
        "it wants an unknown message parameter skipped; draft 16 closes the session (9.2)"
    ),
}
_PARAMETERS = {
    "object_delivery_timeout": "delivery_timeout",
    "authorization_tokens": "authorization_token",
}


def _moqtap_token(token: Token) -> dict[str, str]:
    parts = {
        "alias_type": str(int(token.alias_type)),
        "token_alias": None if token.alias is None else str(token.alias),
        "token_type": None if token.token_type is None else str(token.token_type),
        "token_value": None if token.value is None else token.value.hex(),
    }
    return {name: part for name, part in parts.items() if part is not None}


def _moqtap_value(name: str, value: Any) -> Any:
    if name == "authorization_tokens":
        (token,) = value  # no vector has two
        return _moqtap_token(token)
    if name == "largest_object":
        return {"group": str(value.group), "object": str(value.object)}
    if name == "subscription_filter":
        parts = {"filter_type": str(int(value.type))}
        if value.start is not None:
            parts |= {
                "start_group": str(value.start.group),
                "start_object": str(value.start.object),
            }
        return parts if value.end_group is None else parts | {"end_group": str(value.end_group)}
    return value if isinstance(value, str) else str(int(value))


def _moqtap(message: Any) -> dict[str, Any]:
    """A message in the words of the moqtap vectors; no parameter is there unless it was sent."""
    out: dict[str, Any] = {}
    for name in message.__slots__:
        value = getattr(message, name)
        if name == "track":
            out["track_namespace"] = [field.decode() for field in value.namespace.fields]
            out["track_name"] = value.name.decode()
        elif name in ("suffix", "namespace"):
            key = "namespace_suffix" if name == "suffix" else "track_namespace"
            out[key] = [field.decode() for field in value.fields]
        elif name in ("options", "parameters"):
            found = {
                _PARAMETERS.get(slot, slot): _moqtap_value(slot, item)
                for slot in value.__slots__
                if slot not in ("ignored", "unknown")
                and (item := getattr(value, slot)) not in (None, ())
            }
            for pair in getattr(value, "ignored", ()):
                found[ParameterTypeD16(pair.type).name.lower()] = str(pair.value)
            out["parameters"] = found
        elif name == "track_properties":
            if value:
                out["track_extensions"] = {
                    PropertyTypeD16(pair.type).name.lower(): str(pair.value) for pair in value
                }
        elif name == "reason":
            out["reason_phrase"] = value
        elif name != "redirect":
            out[name] = str(value)
    return out


def _moqtap_vectors() -> list[Any]:
    return [
        pytest.param(name, vector, id=f"{name}-{vector['id']}")
        for name in draft16_messages()
        for vector in draft16_vectors(f"messages/{name}.json")
    ]


@foreign
@pytest.mark.parametrize(("name", "vector"), _moqtap_vectors())
def test_moqtap_vectors(name: str, vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    if (name, vector["id"]) in EXCLUDED:
        with pytest.raises(MalformedError, match="0x41: is not one of draft 16"):
            control.decode(data, D16)
        # With the extension negotiated it is kept, as the vector has it.
        message, _ = ControlCodec(D16, extensions=frozenset({0x41})).decode(data)
        assert isinstance(message, m.Subscribe)
        assert message.parameters.ignored == (KeyValue(0x41, b"\xde\xad\xbe\xef"),)
        return
    error = vector.get("error")
    if error is not None:
        expected = {"incomplete": IncompleteError, "unknown_message": UnknownMessageType}[error]
        with pytest.raises(expected):
            control.decode(data, D16)
        return
    message, used = control.decode(data, D16)
    assert used == len(data)
    assert _moqtap(message) == vector["decoded"]
    if vector.get("canonical", True):
        assert control.encode(message, D16) == data


# The properties of every codec


@pytest.mark.parametrize(
    ("draft", "entry"),
    [(draft, entry) for draft in Draft for entry in layouts_of(draft)],
    ids=lambda value: value.name,
)
@given(data=st.data())
def test_every_message_round_trips(draft: Draft, entry: Any, data: st.DataObject) -> None:
    message = data.draw(message_values(entry, draft))
    check_round_trip(encoder(draft), decoder(draft), message, suffix=b"\x00")
    check_prefixes(encoder(draft), decoder(draft), message)


@DRAFTS
@given(data=st.binary(max_size=80))
def test_any_bytes(draft: Draft, data: bytes) -> None:
    check_any_bytes(decoder(draft), data)


@DRAFTS
@given(data=st.data())
def test_a_damaged_message(draft: Draft, data: st.DataObject) -> None:
    written = bytearray(control.encode(data.draw(messages(draft)), draft))
    written[data.draw(st.integers(0, len(written) - 1))] = data.draw(st.integers(0, 255))
    check_any_bytes(decoder(draft), bytes(written))
    check_bounded(decoder(draft), bytes(written))


@DRAFTS
def test_lying_counts_cost_nothing(draft: Draft) -> None:
    # 2**62 - 1 parameters in an otherwise empty SUBSCRIBE.
    count = draft.integers.encode(2**62 - 1)
    body = bytes.fromhex("000100") + count
    check_bounded(decoder(draft), b"\x03" + len(body).to_bytes(2, "big") + body)


# Framing


@DRAFTS
def test_messages_follow_one_another(draft: Draft) -> None:
    first, second = m.NamespaceMessage(Namespace.of(b"a")), m.Goaway("x")
    data = control.encode(first, draft) + control.encode(second, draft)
    message, pos = control.decode(data, draft)
    assert message == first
    assert control.decode(data, draft, pos=pos) == (second, len(data))


@DRAFTS
def test_end_bounds_the_input(draft: Draft) -> None:
    data = control.encode(m.Goaway("moqt://x"), draft)
    with pytest.raises(IncompleteError):
        control.decode(data, draft, end=len(data) - 1)


@DRAFTS
def test_what_is_missing_is_counted(draft: Draft) -> None:
    with pytest.raises(IncompleteError) as caught:
        control.decode(bytes.fromhex("0e000801"), draft)
    assert caught.value.needed == 7


def test_an_unknown_type_is_refused_before_its_body() -> None:
    with pytest.raises(UnknownMessageType) as caught:
        control.decode(b"\x3f", D16)
    assert caught.value.code == 0x3
    assert (caught.value.message_type, caught.value.draft) == (0x3F, 16)


def test_a_peer_of_another_version_is_told_so() -> None:
    with pytest.raises(UnknownMessageType, match="CLIENT_SETUP up to draft 16"):
        control.decode(control.encode(m.ClientSetup(), D16), D18)
    with pytest.raises(UnknownMessageType, match="SETUP from draft 17 on"):
        control.decode(b"\x6f\x00", D16)


def test_a_body_of_65535_bytes_fits_and_more_does_not() -> None:
    def publish(size: int) -> m.Publish:
        track = FullTrackName(Namespace.of(b"n"), b"t")
        return m.Publish(0, track, 0, track_properties=(KeyValue(1, b"x" * size),))

    overhead = len(control.encode(publish(20000), D16)) - 3 - 20000
    data = control.encode(publish(MAX_BODY_LENGTH - overhead), D16)
    assert data[1:3] == b"\xff\xff"
    assert control.decode(data, D16) == (publish(MAX_BODY_LENGTH - overhead), len(data))
    with pytest.raises(EncodeError, match="PUBLISH: a body of 65536 bytes, at most 65535 fit"):
        control.encode(publish(MAX_BODY_LENGTH - overhead + 1), D16)


# What a draft can not express


@pytest.mark.parametrize(
    ("message", "draft", "words"),
    [
        (m.Unsubscribe(0), D18, "draft 18 has no message UNSUBSCRIBE"),
        (m.PublishOk(0), D18, "draft 18 has no message PUBLISH_OK"),
        (m.ClientSetup(), D18, "draft 18 has no message CLIENT_SETUP"),
        (m.Setup(), D16, "draft 16 has no message SETUP"),
        (m.SubscribeTracks(0, Namespace()), D16, "draft 16 has no message SUBSCRIBE_TRACKS"),
    ],
)
def test_messages_that_a_draft_has_not(message: m.Message, draft: Draft, words: str) -> None:
    with pytest.raises(EncodeError, match=f"^{words}$"):
        control.encode(message, draft)


def test_message_names() -> None:
    assert message_name(m.RequestOk) == "REQUEST_OK"
    assert message_name(m.NamespaceMessage) == "NAMESPACE"
    assert message_name(m.PublishOk) == "PUBLISH_OK"
    assert {message_name(cls) for cls in m.Message.__args__} == {
        entry.name for draft in Draft for entry in layouts_of(draft)
    }


# Negotiated parameters of draft 16


def test_negotiated_parameters_are_kept_and_written() -> None:
    codec = ControlCodec(D16, extensions=frozenset({0x41}))
    parameters = Parameters(subscriber_priority=1, ignored=(KeyValue(0x41, b"?"),))
    message = m.Subscribe(0, FullTrackName(Namespace.of(b"a"), b"b"), parameters)
    data = codec.encode(message)
    assert data.hex() == "03000c" + "00" + "010161" + "0162" + "02" + "2001" + "21" + "013f"
    assert codec.decode(data) == (message, len(data))
    with pytest.raises(EncodeError, match="0x41 is not one of draft 16"):
        control.encode(message, D16)


# SUBSCRIBE as LAPS peering carries it: the bytes of a live C++ relay

LIVE = m.Subscribe(
    0,
    FullTrackName(Namespace.of(b"demo/room1"), b"events"),
    Parameters(subscriber_priority=128, group_order=GroupOrder.ASCENDING),
)
LIVE_BODY = {
    D16: "00 01 0a 64656d6f2f726f6f6d31 06 6576656e7473 02 20 4080 02 01",
    D18: "00 01 0a 64656d6f2f726f6f6d31 06 6576656e7473 02 20 80 02 01",
}


@DRAFTS
def test_subscribe_bodies(draft: Draft) -> None:
    data = bytes.fromhex(LIVE_BODY[draft])
    assert encode_subscribe_body(LIVE, draft) == data
    assert decode_subscribe_body(data, draft) == LIVE
    assert control.encode(LIVE, draft) == b"\x03" + len(data).to_bytes(2, "big") + data


@DRAFTS
def test_a_subscribe_body_is_a_whole(draft: Draft) -> None:
    data = bytes.fromhex(LIVE_BODY[draft])
    with pytest.raises(MalformedError, match="left over"):
        decode_subscribe_body(data + b"\x00", draft)
    for cut in range(len(data)):
        with pytest.raises(MalformedError):
            decode_subscribe_body(data[:cut], draft)


def test_reading_through_a_given_reader() -> None:
    data = control.encode(LIVE, D18)
    reader = Reader(data, integers=D18.integers)
    assert ControlCodec(D18).read(reader) == LIVE
    assert reader.at_end


# Layouts

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
