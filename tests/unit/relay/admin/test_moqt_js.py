"""The browser's codec against laps_wire: the same bytes out, the same values in."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import laps_relay
from laps_wire.moqt.codepoints import FilterType, ObjectStatus, RequestErrorCode
from laps_wire.moqt.control import encode
from laps_wire.moqt.data import ObjectDatagram, PaddingDatagram, SubgroupHeader, encode_datagram
from laps_wire.moqt.data.subgroup import SubgroupWriter
from laps_wire.moqt.data.types import encode_extensions
from laps_wire.moqt.keyvalue import KeyValue
from laps_wire.moqt.messages import (
    ClientSetup,
    Goaway,
    PublishDone,
    RequestError,
    ServerSetup,
    Setup,
    Subscribe,
    SubscribeOk,
    Unsubscribe,
)
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.setup import SetupOptions
from laps_wire.moqt.structures import Location, SubscriptionFilter, Token
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from testkit.javascript import call_javascript

MODULE = Path(laps_relay.__file__).parent / "admin" / "static" / "moqt.js"
CAPTURE = 0x14C50
DRAFTS = pytest.mark.parametrize("draft", [Draft.D16, Draft.D18])


def js(*calls: list[Any]) -> list[Any]:
    return call_javascript(MODULE, calls)


@DRAFTS
def test_integers(draft: Draft) -> None:
    top = draft.integers.max_value
    values = {0, top}
    for bits in range(1, top.bit_length() + 1):
        values |= {min((1 << bits) - 1, top), min(1 << bits, top)}
    ordered = sorted(values)
    coded = [draft.integers.encode(value) for value in ordered]
    number = int(draft)
    assert js(*[["encodeInteger", number, value] for value in ordered]) == coded
    read = js(*[["integer", number, data + b"more"] for data in coded])
    assert read == [[value, len(data)] for value, data in zip(ordered, coded, strict=True)]
    cut = js(*[["integer", number, data[:-1]] for data in coded])
    assert cut == [{"error": "Incomplete"}] * len(coded)
    assert js(["encodeInteger", number, top + 1]) == [{"error": "RangeError"}]


def test_longer_forms_are_read() -> None:
    assert js(
        ["integer", 16, bytes.fromhex("c000000000000007")],
        ["integer", 18, bytes.fromhex("ff0000000000000007")],
        ["integer", 18, bytes.fromhex("fe00000000000007")],
        ["integer", 18, bytes.fromhex("8007")],
    ) == [[7, 8], [7, 9], [7, 8], [7, 2]]


def test_setup() -> None:
    options = SetupOptions(moqt_implementation="laps-player")
    assert js(["encodeSetup", 16, "laps-player"], ["encodeSetup", 18, "laps-player"]) == [
        encode(ClientSetup(options=options), Draft.D16),
        encode(Setup(options=options), Draft.D18),
    ]


@DRAFTS
def test_subscribe(draft: Draft) -> None:
    namespace, name = [b"live", "ä/b".encode()], b"camera"
    track = FullTrackName(Namespace.of(*namespace), name)

    def expected(**parameters: Any) -> bytes:
        filled = {"subscription_filter": SubscriptionFilter(FilterType.LARGEST_OBJECT)} | parameters
        return encode(Subscribe(request_id=0, track=track, parameters=Parameters(**filled)), draft)

    call = ["encodeSubscribe", int(draft), 0, namespace, name]
    assert js(
        call,
        [*call, {"priority": 200}],
        [*call, {"filter": 1, "priority": 0, "token": b"secret"}],
    ) == [
        expected(),
        expected(subscriber_priority=200),
        expected(
            subscription_filter=SubscriptionFilter(FilterType.NEXT_GROUP_START),
            subscriber_priority=0,
            authorization_tokens=(Token.use_value(1, b"secret"),),
        ),
    ]


def test_unsubscribe_and_too_much() -> None:
    assert js(["encodeUnsubscribe", 4], ["encodeSubscribe", 18, 0, [bytes(70000)], b""]) == [
        encode(Unsubscribe(request_id=4), Draft.D16),
        {"error": "RangeError"},
    ]


@DRAFTS
def test_answers(draft: Draft) -> None:
    request_id = 0 if draft is Draft.D16 else None
    setup = ServerSetup() if draft is Draft.D16 else Setup()
    answers = [
        setup,
        SubscribeOk(
            request_id=request_id,
            track_alias=300,
            parameters=Parameters(expires=5, largest_object=Location(3, 4)),
        ),
        RequestError(
            request_id=request_id,
            error_code=RequestErrorCode.DOES_NOT_EXIST,
            retry_interval=0,
            reason="no such track",
        ),
        PublishDone(request_id=request_id, status_code=2, stream_count=70, reason="over"),
        Goaway(new_session_uri="https://other/"),
    ]
    data = b"".join(encode(answer, draft) for answer in answers)
    number = int(draft)
    (read,) = js(["messages", number, data + draft.integers.encode(0x99) + b"\0\1x"])
    reply = {"requestId": request_id}
    assert read == [
        {"type": "SETUP"},
        {"type": "SUBSCRIBE_OK", **reply, "trackAlias": 300},
        {"type": "REQUEST_ERROR", **reply, "code": 0x10, "reason": "no such track"},
        {"type": "PUBLISH_DONE", **reply, "code": 2, "reason": "over"},
        {"type": "GOAWAY", "uri": "https://other/"},
        {"type": "0x99"},
    ]
    short = encode(answers[2], draft)
    assert js(["messages", number, short[:-1]], ["messages", number, b"\x05\x00\x01\x00"]) == [
        {"error": "Incomplete"},
        {"error": "ProtocolError"},
    ]


def stream_of(rng: random.Random, draft: Draft) -> tuple[bytes, list[dict[str, Any]]]:
    """A subgroup stream, and what a reader must find in it."""
    mode = rng.choice([0, 7, None])
    header = SubgroupHeader(
        rng.choice([3, 70000]),
        rng.choice([0, 200, 1 << 55]),
        mode,
        rng.choice([None, 128]),
        has_extensions=rng.random() < 0.5,
        end_of_group=rng.random() < 0.5,
        first_object=draft is Draft.D18 and rng.random() < 0.5,
    )
    writer = SubgroupWriter(header, draft)
    data, expected = writer.start, []
    object_id = rng.choice([0, 5])
    first = object_id
    for index in range(rng.randrange(4)):
        extensions = b""
        if header.has_extensions and rng.random() < 0.7:
            pairs = [KeyValue(CAPTURE, 1 << 50), KeyValue(3, b"odd")]
            extensions = encode_extensions(pairs, draft)
        payload = rng.randbytes(rng.choice([0, 1, 100, 3000]))
        ending = index == 2 and not payload and not extensions
        status = ObjectStatus.END_OF_GROUP if ending else ObjectStatus.NORMAL
        data += writer.object(object_id, payload, extensions=extensions, status=status)
        expected.append(
            {
                "trackAlias": header.track_alias,
                "group": header.group_id,
                "subgroup": first if mode is None else mode,
                "object": object_id,
                "status": int(status),
                "extensions": extensions,
                "payload": payload,
            }
        )
        object_id += 1 + rng.choice([0, 0, 3])
    return data, expected


@DRAFTS
def test_subgroup_streams_in_any_chunks(draft: Draft) -> None:
    rng = random.Random(18)
    calls, results = [], []
    for _ in range(150):
        data, expected = stream_of(rng, draft)
        size = rng.choice([1, 7, 64, 5000])
        chunks = [data[i : i + size] for i in range(0, len(data), size)]
        calls.append(["subgroup", int(draft), chunks])
        results.append(expected)
    assert js(*calls) == results


@DRAFTS
def test_streams_that_are_refused(draft: Draft) -> None:
    integer = draft.integers.encode
    huge = b"\x10\x01\x01\x00" + b"\0" + integer(1 << 30)
    number = int(draft)
    assert (
        js(
            ["subgroup", number, [b"\x16\x01\x01"]],
            ["subgroup", number, [b"\x05\x01"]],
            ["subgroup", number, [integer((1 << 32) + 0x10)]],
            ["subgroup", number, [huge]],
            ["subgroup", number, [b"\x11\x01\x01\x00\0" + integer(1 << 30)]],
        )
        == [{"error": "ProtocolError"}] * 5
    )


def test_the_first_object_bit_is_draft_18s() -> None:
    assert js(["isSubgroup", 16, 0x50], ["isSubgroup", 18, 0x50], ["isSubgroup", 18, 0x2F00]) == [
        False,
        True,
        False,
    ]


@DRAFTS
def test_datagrams(draft: Draft) -> None:
    pairs = encode_extensions([KeyValue(CAPTURE, 77)], draft)
    datagrams = [
        ObjectDatagram(3, 1, 70, b"payload", 128),
        ObjectDatagram(3, 1, 0, b"p", None, ObjectStatus.NORMAL, pairs, end_of_group=True),
        ObjectDatagram(3, 1 << 40, 5, status=ObjectStatus.END_OF_TRACK),
    ]
    calls = [["readDatagram", int(draft), encode_datagram(item, draft)] for item in datagrams]
    expected: list[Any] = [
        {
            "trackAlias": item.track_alias,
            "group": item.group_id,
            "subgroup": None,
            "object": item.object_id,
            "status": int(item.status),
            "extensions": item.extensions,
            "payload": item.payload,
        }
        for item in datagrams
    ]
    if draft is Draft.D18:
        calls.append(["readDatagram", 18, encode_datagram(PaddingDatagram(4), draft)])
        expected.append(None)
    calls.append(["readDatagram", int(draft), b"\x10\0\0\0"])
    calls.append(["readDatagram", int(draft), b"\0\0"])
    assert js(*calls) == [*expected, None, {"error": "Incomplete"}]


@DRAFTS
def test_the_capture_time(draft: Draft) -> None:
    pairs = [KeyValue(2, 1), KeyValue(3, b"x"), KeyValue(CAPTURE, 1_700_000_000_000_000)]
    plain = encode_extensions(pairs, draft)
    inside = encode_extensions([KeyValue(2, 1)], draft, immutable=pairs)
    number = int(draft)
    assert js(
        ["captureTime", number, plain],
        ["captureTime", number, inside],
        ["captureTime", number, encode_extensions(pairs[:2], draft, immutable=pairs[:1])],
        ["captureTime", number, b""],
        ["captureTime", number, plain[:-1]],
    ) == [1_700_000_000_000_000, 1_700_000_000_000_000, None, None, None]


def test_names() -> None:
    assert js(
        ["parseNamespace", "a/b"],
        ["parseNamespace", "/a%2Fb/ä%ff/"],
        ["parseNamespace", ""],
        ["parseName", "50% a/b"],
    ) == [[b"a", b"b"], [b"a/b", "ä".encode() + b"\xff"], [], b"50% a/b"]


def test_the_text_form_of_names_is_understood() -> None:
    namespace = Namespace.of(b"example.net", b"\xff\x00-/", "ä".encode())
    (text,) = js(["fromTextForm", str(namespace)])
    assert js(["parseNamespace", text]) == [list(namespace.fields)]


def test_addresses_for_webtransport() -> None:
    addresses = ["moqt://127.0.0.1:33435", "https://[::1]:4/moq?a", "nothing", None]
    assert js(*[["webUrl", address] for address in addresses]) == [
        "https://127.0.0.1:33435/",
        "https://[::1]:4/moq?a",
        "",
        "",
    ]
