"""Control messages: byte vectors of both drafts, the shared properties, and what is refused."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.buffer import Reader
from laps_wire.errors import EncodeError, IncompleteError, MalformedError, RemoteError
from laps_wire.moqt import control
from laps_wire.moqt import messages as m
from laps_wire.moqt.codepoints import GroupOrder, ParameterTypeD16, PropertyTypeD16
from laps_wire.moqt.control import (
    MAX_BODY_LENGTH,
    ControlCodec,
    decode_subscribe_body,
    encode_subscribe_body,
    message_name,
)
from laps_wire.moqt.errors import UnknownMessageType
from laps_wire.moqt.keyvalue import KeyValue
from laps_wire.moqt.layouts import layouts_of
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.structures import Token
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
