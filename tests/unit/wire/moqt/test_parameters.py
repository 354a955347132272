"""Message parameters in both drafts, and the properties of tracks."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import testkit.moqt  # noqa: F401 - registers the strategies
from laps_wire.buffer import Reader, Writer
from laps_wire.errors import EncodeError, MalformedError, ProtocolViolation, RemoteError
from laps_wire.moqt.codepoints import (
    FilterType,
    GroupOrder,
    ParameterTypeD16,
    ParameterTypeD18,
    grease,
    registries,
)
from laps_wire.moqt.keyvalue import KeyValue, KeyValues
from laps_wire.moqt.parameters import (
    NO_PARAMETERS,
    PUBLISHER_INSTANCE,
    Parameters,
    ParametersCodec,
    Scope,
    TrackProperties,
    TrackPropertiesCodec,
    check_scope,
    entries_of,
)
from laps_wire.moqt.structures import Location, SubscriptionFilter, Token
from laps_wire.moqt.versions import Draft
from laps_wire.names import Namespace
from testkit.moqt import parameter_values
from testkit.properties import check_any_bytes, check_bounded, check_prefixes, check_round_trip
from testkit.strategies import values_of


def test_nothing_is_set_unless_said() -> None:
    for field in fields(Parameters):
        assert getattr(NO_PARAMETERS, field.name) in (None, ())


def test_there_is_a_field_for_each_parameter() -> None:
    names = {name.lower() for name in ParameterTypeD18.__members__}
    names -= {"authorization_token"}
    names |= {"authorization_tokens", "ignored"}
    assert {field.name for field in fields(Parameters)} == names
    # Draft 16 only has another name for one of them.
    assert {name.lower() for name in ParameterTypeD16.__members__} - names == {
        "delivery_timeout",
        "authorization_token",
    }


def test_fields_stand_in_the_order_of_the_wire() -> None:
    order = [member.name.lower() for member in ParameterTypeD18]
    order[order.index("authorization_token")] = "authorization_tokens"
    assert [field.name for field in fields(Parameters)] == [*order, "ignored"]


def test_parameters_are_values() -> None:
    one = Parameters(subscriber_priority=1, authorization_tokens=(Token.use_alias(1),))
    assert one == Parameters(authorization_tokens=(Token.use_alias(1),), subscriber_priority=1)
    assert hash(one) == hash(
        Parameters(subscriber_priority=1, authorization_tokens=(Token.use_alias(1),))
    )
    with pytest.raises(FrozenInstanceError):
        one.subscriber_priority = 2  # type: ignore[misc]


def test_scopes_have_words() -> None:
    assert Scope.UPDATE_FETCH.value == "REQUEST_UPDATE of a FETCH"
    assert len({scope.value for scope in Scope}) == len(Scope)


# On the wire

D16, D18 = Draft.D16, Draft.D18
DRAFTS = pytest.mark.parametrize("draft", list(Draft))
NONE: frozenset[int] = frozenset()


def encode(
    parameters: Parameters, draft: Draft, scope: Scope, extensions: frozenset[int] = NONE
) -> bytes:
    writer = Writer(integers=draft.integers)
    ParametersCodec(draft, scope, extensions).write(writer, parameters, "parameters")
    return writer.getvalue()


def decode(
    data: bytes,
    draft: Draft,
    scope: Scope,
    extensions: frozenset[int] = NONE,
    *,
    partial: bool = False,
) -> tuple[Parameters, int]:
    reader = Reader(data, integers=draft.integers, partial=partial)
    return ParametersCodec(draft, scope, extensions).read(reader, "parameters"), reader.pos


FILTER = SubscriptionFilter(FilterType.ABSOLUTE_RANGE, Location(10, 3), 20)
SUBSCRIBE = Parameters(
    object_delivery_timeout=5000,
    authorization_tokens=(Token.use_alias(1), Token.use_value(0, b"t")),
    forward=True,
    subscriber_priority=200,
    subscription_filter=FILTER,
    group_order=GroupOrder.DESCENDING,
    new_group_request=0,
)
UPDATE_18 = Parameters(
    object_delivery_timeout=0,
    subgroup_delivery_timeout=1,
    track_namespace_prefix=Namespace.of(b"a", b"b"),
)


@pytest.mark.parametrize(
    ("draft", "scope", "parameters", "data"),
    [
        (
            D16,
            Scope.SUBSCRIBE,
            SUBSCRIBE,
            "08 02 5388 01 02 0201 00 03 030074 0d 01 10 40c8 01 04 040a0314 01 02 10 00",
        ),
        (
            D18,
            Scope.SUBSCRIBE,
            SUBSCRIBE,
            "08 02 9388 01 02 0201 00 03 030074 0d 01 10 c8 01 04 040a030a 01 02 10 00",
        ),
        (D18, Scope.REQUEST_UPDATE, UPDATE_18, "03 02 00 04 01 2e 02 01 61 01 62"),
        (
            D16,
            Scope.SUBSCRIBE_OK,
            Parameters(expires=30, largest_object=Location(10, 3)),
            "02 08 1e 01 02 0a03",
        ),
        (
            D18,
            Scope.SUBSCRIBE_OK,
            Parameters(expires=30, largest_object=Location(10, 3)),
            "02 08 1e 01 0a03",
        ),
        (D18, Scope.SUBSCRIBE, Parameters(rendezvous_timeout=0), "01 04 00"),
        (D18, Scope.FETCH, Parameters(fill_timeout=300), "01 0a 812c"),
        (D16, Scope.FETCH_OK, NO_PARAMETERS, "00"),
    ],
)
def test_bytes(draft: Draft, scope: Scope, parameters: Parameters, data: str) -> None:
    raw = bytes.fromhex(data)
    assert encode(parameters, draft, scope) == raw
    assert decode(raw, draft, scope) == (parameters, len(raw))


# Scope: the drafts' own lists ("MAY appear in"), written out by hand

UPDATES = {"REQUEST_UPDATE", "UPDATE_SUBSCRIPTION", "UPDATE_FETCH", "UPDATE_PREFIX", "UPDATE_OTHER"}
OF_SUBSCRIPTION = {"REQUEST_UPDATE", "UPDATE_SUBSCRIPTION"}
SUBSCRIBER = {"SUBSCRIBE", "PUBLISH_OK"} | OF_SUBSCRIPTION
REQUESTS = {
    "PUBLISH",
    "SUBSCRIBE",
    "SUBSCRIBE_NAMESPACE",
    "PUBLISH_NAMESPACE",
    "TRACK_STATUS",
    "FETCH",
}
OKS = {"REQUEST_OK", "REQUEST_UPDATE_OK", "TRACK_STATUS_OK"}
MAY_APPEAR: dict[Draft, dict[str, set[str]]] = {
    D16: {
        "DELIVERY_TIMEOUT": SUBSCRIBER,
        "AUTHORIZATION_TOKEN": REQUESTS | UPDATES,
        "EXPIRES": {"SUBSCRIBE_OK", "PUBLISH", "PUBLISH_OK"} | OKS,
        "LARGEST_OBJECT": {"SUBSCRIBE_OK", "PUBLISH"} | OKS,
        "FORWARD": SUBSCRIBER | {"PUBLISH", "SUBSCRIBE_NAMESPACE"},
        "SUBSCRIBER_PRIORITY": SUBSCRIBER | {"FETCH", "UPDATE_FETCH"},
        "SUBSCRIPTION_FILTER": SUBSCRIBER,
        "GROUP_ORDER": {"SUBSCRIBE", "PUBLISH_OK", "FETCH"},
        "NEW_GROUP_REQUEST": SUBSCRIBER,
    },
    D18: {
        "OBJECT_DELIVERY_TIMEOUT": SUBSCRIBER | UPDATES,
        "AUTHORIZATION_TOKEN": REQUESTS | UPDATES | {"SUBSCRIBE_TRACKS"},
        "RENDEZVOUS_TIMEOUT": {"SUBSCRIBE"},
        "SUBGROUP_DELIVERY_TIMEOUT": SUBSCRIBER | UPDATES,
        "EXPIRES": {"SUBSCRIBE_OK", "PUBLISH", "PUBLISH_OK"} | OKS,
        "LARGEST_OBJECT": {"SUBSCRIBE_OK", "PUBLISH"} | OKS,
        "FILL_TIMEOUT": {"FETCH"},
        "FORWARD": SUBSCRIBER | {"PUBLISH", "SUBSCRIBE_TRACKS"},
        "SUBSCRIBER_PRIORITY": SUBSCRIBER | {"FETCH", "UPDATE_FETCH"},
        "SUBSCRIPTION_FILTER": SUBSCRIBER,
        "GROUP_ORDER": {"SUBSCRIBE", "PUBLISH_OK", "FETCH"},
        "NEW_GROUP_REQUEST": SUBSCRIBER,
        "TRACK_NAMESPACE_PREFIX": {"REQUEST_UPDATE", "UPDATE_PREFIX"},
    },
}


@DRAFTS
@pytest.mark.parametrize("scope", list(Scope), ids=lambda scope: scope.name)
def test_scopes(draft: Draft, scope: Scope) -> None:
    expected = {name for name, scopes in MAY_APPEAR[draft].items() if scope.name in scopes}
    if draft is D18 and scope is Scope.REQUEST_OK:  # it may be a PUBLISH_OK
        expected |= {name for name, scopes in MAY_APPEAR[D18].items() if "PUBLISH_OK" in scopes}
    entries = entries_of(draft, scope)
    assert {entry.name for entry in entries.values()} == expected
    assert list(entries) == sorted(entries)


@DRAFTS
def test_types_are_those_of_the_draft(draft: Draft) -> None:
    found = {
        entry.name: entry.type for scope in Scope for entry in entries_of(draft, scope).values()
    }
    assert found == registries(draft)["message_parameters"]


def test_draft_16_ignores_what_does_not_belong() -> None:
    # FORWARD of 7 and a LARGEST_OBJECT that is no location: not looked at in PUBLISH_NAMESPACE.
    data = bytes.fromhex("02 09 01 ff 07 07")
    parameters, used = decode(data, D16, Scope.PUBLISH_NAMESPACE)
    assert parameters == Parameters(ignored=(KeyValue(9, b"\xff"), KeyValue(0x10, 7)))
    assert parameters.forward is None
    assert used == len(data)
    assert encode(parameters, D16, Scope.PUBLISH_NAMESPACE) == data


def test_draft_18_refuses_what_does_not_belong() -> None:
    with pytest.raises(MalformedError, match="FORWARD: does not belong in PUBLISH_NAMESPACE"):
        decode(bytes.fromhex("01 10 01"), D18, Scope.PUBLISH_NAMESPACE)


@DRAFTS
def test_unknown_parameters_are_refused(draft: Draft) -> None:
    with pytest.raises(MalformedError, match=f"parameter 0x38: is not one of draft {draft}") as it:
        decode(bytes.fromhex("01 38 01"), draft, Scope.SUBSCRIBE)
    assert it.value.code == 0x3


def test_negotiated_parameters() -> None:
    extensions = frozenset({0x39})
    parameters = Parameters(forward=True, ignored=(KeyValue(0x39, b"x"), KeyValue(0x39, b"")))
    data = encode(parameters, D16, Scope.SUBSCRIBE, extensions)
    assert data.hex(" ") == "03 10 01 29 01 78 00 00"
    assert decode(data, D16, Scope.SUBSCRIBE, extensions) == (parameters, len(data))
    # Draft 18 has no form for them: only a definition could say how long their values are.
    with pytest.raises(MalformedError, match="0x39: is not one of draft 18"):
        decode(bytes.fromhex("01 39 00"), D18, Scope.SUBSCRIBE, extensions)


@pytest.mark.parametrize(
    ("parameters", "draft", "scope", "words"),
    [
        (
            Parameters(expires=1),
            D16,
            Scope.SUBSCRIBE,
            "EXPIRES does not belong in SUBSCRIBE of draft 16",
        ),
        (Parameters(fill_timeout=1), D16, Scope.FETCH, "draft 16 has no parameter FILL_TIMEOUT"),
        (Parameters(forward=False), D18, Scope.FETCH_OK, "FORWARD does not belong in FETCH_OK"),
        (
            Parameters(authorization_tokens=(Token.use_alias(1),)),
            D18,
            Scope.REQUEST_OK,
            "AUTHORIZATION_TOKEN does not belong in REQUEST_OK",
        ),
        (Parameters(ignored=(KeyValue(8, 1),)), D18, Scope.FETCH, "no parameters to ignore"),
        (Parameters(ignored=(KeyValue(0x10, 1),)), D16, Scope.PUBLISH, "FORWARD is not to be"),
        (Parameters(ignored=(KeyValue(0x38, 1),)), D16, Scope.PUBLISH, "0x38 is not one of"),
    ],
)
def test_what_can_not_be_written(
    parameters: Parameters, draft: Draft, scope: Scope, words: str
) -> None:
    with pytest.raises(EncodeError, match=words):
        encode(parameters, draft, scope)


# Ranges and forms


@pytest.mark.parametrize(
    ("draft", "data", "code", "words"),
    [
        (D16, "01 02 00", 0x3, "DELIVERY_TIMEOUT: 0 is outside 1"),
        (D16, "01 20 4100", 0x3, "SUBSCRIBER_PRIORITY: 256 is outside 0..255"),
        (D16, "01 10 02", 0x3, "FORWARD: 2 is neither"),
        (D16, "01 22 00", 0x3, "GROUP_ORDER: 0 is not one of"),
        (D16, "01 22 03", 0x3, "GROUP_ORDER: 3 is not one of"),
        (D16, "01 21 01 07", 0x3, "SUBSCRIPTION_FILTER: 7 is not a filter type"),
        (D16, "01 21 02 02 00", 0x3, "SUBSCRIPTION_FILTER: 1 byte\\(s\\) left over"),
        (D16, "01 21 02 03 00", 0x3, "truncated"),
        (D16, "01 03 00", 0x6, "AUTHORIZATION_TOKEN: truncated"),
        (D16, "01 03 03 02 01 00", 0x6, "AUTHORIZATION_TOKEN: 1 byte\\(s\\) left over"),
        (D16, "01 03 80010000", 0x3, "length 65536 is over the limit"),
        (D16, "01 03 05 02", 0x3, "truncated"),
        (D16, "02 20 01 00 01", 0x3, "SUBSCRIBER_PRIORITY: stands twice"),
        (D16, "02 20 01", 0x3, "truncated"),
        (D18, "01 10 02", 0x3, "FORWARD: 2 is neither"),
        (D18, "01 10 8001", 0x3, "FORWARD: 128 is neither"),
        (D18, "01 22 00", 0x3, "GROUP_ORDER: 0 is not one of"),
        (D18, "01 22 03", 0x3, "GROUP_ORDER: 3 is not one of"),
        (D18, "01 21 02 02 00", 0x3, "SUBSCRIPTION_FILTER: 1 byte\\(s\\) left over"),
        (D18, "01 21 0c 04 ffffffffffffffffff 00 01", 0x3, "above 2\\*\\*64 - 1"),
        (D18, "01 03 01 07", 0x6, "AUTHORIZATION_TOKEN: 7 is not an alias type"),
        (D18, "02 22 01 00 01", 0x3, "GROUP_ORDER: stands twice"),
        (D18, "02 20 01 ffffffffffffffffff 00", 0x3, "above 2\\*\\*64 - 1"),
    ],
)
def test_what_is_refused_in_subscribe(draft: Draft, data: str, code: int, words: str) -> None:
    with pytest.raises(RemoteError, match=words) as caught:
        decode(bytes.fromhex(data), draft, Scope.SUBSCRIBE)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("parameters", "draft", "words"),
    [
        (Parameters(object_delivery_timeout=0), D16, "DELIVERY_TIMEOUT: 0 is outside"),
        (Parameters(subscriber_priority=256), D16, "SUBSCRIBER_PRIORITY: 256 is outside"),
        (Parameters(subscriber_priority=256), D18, "SUBSCRIBER_PRIORITY: 256 does not fit"),
        (Parameters(new_group_request=2**62), D16, "NEW_GROUP_REQUEST: .* QUIC varint"),
    ],
)
def test_values_that_can_not_be_written(parameters: Parameters, draft: Draft, words: str) -> None:
    with pytest.raises(EncodeError, match=words):
        encode(parameters, draft, Scope.SUBSCRIBE)


def test_a_largest_object_without_its_form() -> None:
    for data in ("01 09 01 0a", "01 09 03 0a 03 00"):
        with pytest.raises(RemoteError, match="LARGEST_OBJECT") as caught:
            decode(bytes.fromhex(data), D16, Scope.SUBSCRIBE_OK)
        assert caught.value.code == 0x6


def test_a_namespace_prefix_may_be_empty() -> None:
    parameters = Parameters(track_namespace_prefix=Namespace())
    data = encode(parameters, D18, Scope.REQUEST_UPDATE)
    assert data.hex(" ") == "01 34 00"
    assert decode(data, D18, Scope.REQUEST_UPDATE)[0] == parameters


# What only the session knows


def test_the_session_narrows_the_scope() -> None:
    priority = Parameters(subscriber_priority=1)
    check_scope(priority, D18, Scope.UPDATE_FETCH)
    check_scope(priority, D18, Scope.UPDATE_SUBSCRIPTION)
    with pytest.raises(ProtocolViolation, match="SUBSCRIBER_PRIORITY does not belong in REQUEST_U"):
        check_scope(priority, D16, Scope.UPDATE_PREFIX)
    check_scope(Parameters(expires=1), D18, Scope.PUBLISH_OK)
    with pytest.raises(ProtocolViolation, match="EXPIRES does not belong in REQUEST_OK to a req"):
        check_scope(Parameters(expires=1), D18, Scope.NAMESPACE_OK)
    # What draft 16 ignores stays ignored.
    check_scope(Parameters(ignored=(KeyValue(8, 1),)), D16, Scope.UPDATE_OTHER)


def test_draft_16_ends_the_session_for_updates_only() -> None:
    # An answer is a message like others: what does not belong in it is ignored (9.2.2).
    data = bytes.fromhex("02 08 01 01 02 0102")
    parameters = decode(data, D16, Scope.REQUEST_OK)[0]
    assert parameters == Parameters(expires=1, largest_object=Location(1, 2))
    for scope in (Scope.NAMESPACE_OK, Scope.REQUEST_UPDATE_OK, Scope.TRACK_STATUS_OK):
        check_scope(parameters, D16, scope)
    for scope in (Scope.UPDATE_SUBSCRIPTION, Scope.UPDATE_FETCH, Scope.UPDATE_OTHER):
        with pytest.raises(ProtocolViolation):
            check_scope(parameters, D16, scope)


# The properties of every codec


@DRAFTS
@pytest.mark.parametrize("scope", list(Scope), ids=lambda scope: scope.name)
@given(data=st.data())
def test_round_trips(draft: Draft, scope: Scope, data: st.DataObject) -> None:
    extensions = frozenset({0x38, 0x39}) if draft is D16 else NONE
    codec = ParametersCodec(draft, scope, extensions)
    parameters = data.draw(parameter_values(codec))

    def write(value: Parameters) -> bytes:
        return encode(value, draft, scope, extensions)

    def read(raw: bytes) -> tuple[Parameters, int]:
        return decode(raw, draft, scope, extensions, partial=True)

    check_round_trip(write, read, parameters, suffix=b"\x01")
    # A value that stands inside a length is only read when it is whole, so prefixes are partial.
    check_prefixes(write, read, parameters)


@DRAFTS
@given(data=st.binary(max_size=60))
def test_any_bytes(draft: Draft, data: bytes) -> None:
    check_any_bytes(lambda raw: decode(raw, draft, Scope.SUBSCRIBE, partial=True), data)


@DRAFTS
def test_memory_is_bounded(draft: Draft) -> None:
    def read(raw: bytes) -> tuple[Parameters, int]:
        return decode(raw, draft, Scope.SUBSCRIBE, partial=True)

    count = draft.integers.encode(2**62 - 1)
    check_bounded(read, count)
    # As many tokens as a message can hold, each as small as can be.
    check_bounded(read, count + b"\x03\x02\x00\x00" + b"\x00\x02\x00\x00" * 16000)


# Track properties


def properties_encode(pairs: KeyValues, draft: Draft) -> bytes:
    writer = Writer(integers=draft.integers)
    TrackPropertiesCodec(draft).write(writer, pairs, "track_properties")
    return writer.getvalue()


def properties_decode(data: bytes, draft: Draft) -> tuple[KeyValues, int]:
    reader = Reader(data, integers=draft.integers)
    return TrackPropertiesCodec(draft).read(reader, "track_properties"), reader.pos


def immutable(*pairs: KeyValue, draft: Draft = D18) -> KeyValue:
    return KeyValue(0x0B, properties_encode(pairs, draft))


# The codec


def test_bytes_of_properties() -> None:
    pairs = (KeyValue(0x02, 5000), KeyValue(0x0E, 128), KeyValue(0x22, 2), KeyValue(0x30, 1))
    assert properties_encode(pairs, D16).hex(" ") == "02 53 88 0c 40 80 14 02 0e 01"
    assert properties_encode(pairs, D18).hex(" ") == "02 93 88 0c 80 80 14 02 0e 01"
    for draft in Draft:
        assert properties_decode(properties_encode(pairs, draft), draft)[0] == pairs


@DRAFTS
@pytest.mark.parametrize(
    ("data", "pair", "words"),
    [
        ("0e c00100", KeyValue(0x0E, 256), "PRIORITY is 256, outside 0..255"),
        ("22 00", KeyValue(0x22, 0), "GROUP_ORDER is 0, outside 1..2"),
        ("22 03", KeyValue(0x22, 3), "GROUP_ORDER is 3, outside 1..2"),
        ("30 02", KeyValue(0x30, 2), "DYNAMIC_GROUPS is 2, outside 0..1"),
    ],
)
def test_ranges(draft: Draft, data: str, pair: KeyValue, words: str) -> None:
    raw = bytes.fromhex("0e 4100" if draft is D16 and "PRIORITY" in words else data)
    with pytest.raises(MalformedError, match=words) as caught:
        properties_decode(raw, draft)
    assert caught.value.code == 0x3
    assert caught.value.offset == 0
    with pytest.raises(EncodeError, match=words):
        properties_encode((pair,), draft)


def test_a_delivery_timeout_of_0() -> None:
    pair = (KeyValue(0x02, 0),)
    with pytest.raises(MalformedError, match="DELIVERY_TIMEOUT is 0"):
        properties_decode(b"\x02\x00", D16)
    with pytest.raises(EncodeError, match="DELIVERY_TIMEOUT is 0"):
        properties_encode(pair, D16)
    assert properties_decode(properties_encode(pair, D18), D18)[0] == pair
    assert TrackProperties.of(pair, D18).object_delivery_timeout is None


@DRAFTS
@given(data=st.data())
def test_round_trips_of_properties(draft: Draft, data: st.DataObject) -> None:
    pairs: Any = data.draw(values_of(TrackPropertiesCodec(draft), draft.integers))
    check_round_trip(
        lambda value: properties_encode(value, draft),
        lambda raw: properties_decode(raw, draft),
        pairs,
    )
    TrackProperties.of(pairs, draft)


# The view


@DRAFTS
def test_defaults(draft: Draft) -> None:
    view = TrackProperties.of((), draft)
    assert view == TrackProperties()
    assert view.publisher_priority == 128
    assert view.group_order is GroupOrder.ASCENDING
    assert not view.dynamic_groups
    assert view.object_delivery_timeout is None
    assert view.max_cache_duration is None


def test_everything_at_once() -> None:
    pairs = (
        KeyValue(0x02, 5000),
        KeyValue(0x04, 0),
        KeyValue(0x06, 70),
        KeyValue(0x0E, 1),
        KeyValue(0x22, 2),
        KeyValue(0x30, 1),
        KeyValue(0x39, b"application's own"),
        KeyValue(grease(1), 7),
        KeyValue(PUBLISHER_INSTANCE, (1 << 48) - 1),
    )
    view = TrackProperties.of(pairs, D18)
    assert view == TrackProperties(
        object_delivery_timeout=5000,
        subgroup_delivery_timeout=70,
        max_cache_duration=0,
        publisher_priority=1,
        group_order=GroupOrder.DESCENDING,
        dynamic_groups=True,
        publisher_instance=(1 << 48) - 1,
    )
    # 0x06 is no property of tracks in draft 16.
    assert TrackProperties.of(pairs, D16).subgroup_delivery_timeout is None


def test_immutable_properties_count() -> None:
    pairs = (immutable(KeyValue(0x0E, 9), KeyValue(0x30, 1)), KeyValue(0x30, 0))
    view = TrackProperties.of(pairs, D18)
    assert view.publisher_priority == 9
    assert not view.dynamic_groups  # what stands outside was first
    assert not view.malformed


@pytest.mark.parametrize(
    "pair",
    [
        KeyValue(0x0B, b"\x0e"),
        immutable(KeyValue(0x0B, b"")),
        KeyValue(0x0B, b"\x22\x07"),
    ],
    ids=["cut", "nested", "range"],
)
def test_bad_immutable_properties_make_the_track_malformed(pair: KeyValue) -> None:
    # But they do not end the session.
    assert properties_decode(properties_encode((pair,), D18), D18)[0] == (pair,)
    assert TrackProperties.of((pair,), D18).malformed


def test_mandatory_properties() -> None:
    pairs = (KeyValue(0x3FFF, b""), KeyValue(0x4000, 1), KeyValue(0x7FFF, b""), KeyValue(0x8000, 1))
    assert TrackProperties.of(pairs, D18).mandatory == (0x4000, 0x7FFF)
    assert TrackProperties.of(pairs, D16).mandatory == ()
    assert TrackProperties.of((immutable(KeyValue(0x4001, b"")),), D18).mandatory == (0x4001,)
