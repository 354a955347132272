"""What the benchmark measures: one case for each message kind, most from the test vectors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from laps_wire import EncodeError, FullTrackName, Namespace, moqt, quicr
from laps_wire.buffer import QUIC, VI64
from laps_wire.moqt import control, data
from laps_wire.moqt.codepoints import GroupOrder
from laps_wire.moqt.control import layouts_of
from laps_wire.moqt.setup import SetupOptions
from laps_wire.moqt.structures import Location
from laps_wire.moqt.versions import Draft
from laps_wire.peering import cpp, laps2

VECTORS = Path(__file__).resolve().parent.parent / "tests" / "vectors"


@dataclass(frozen=True, slots=True)
class Case:
    """Something to encode and to decode."""

    name: str
    size: int
    """Bytes on the wire for one unit."""
    encode: Callable[[], object] | None
    decode: Callable[[], object] | None
    units: int = 1
    """How many messages or objects one call handles."""


def all_cases() -> list[Case]:
    """Every case, the ones that run for every object first."""
    return [
        *varint_cases(),
        *object_cases(),
        *header_cases(),
        *moqt_control_cases(Draft.D16),
        *moqt_control_cases(Draft.D18),
        *laps2_cases(),
        *cpp_cases(),
        *quicr_cases(),
    ]


def vectors(name: str) -> dict[str, Any]:
    """One of the vector files that the tests use."""
    loaded: dict[str, Any] = json.loads((VECTORS / name).read_text(encoding="utf-8"))
    return loaded


def codec_case(
    name: str, raw: bytes, decode: Callable[[bytes], Any], encode: Callable[[Any], Any]
) -> Case:
    """A case for a pair of functions, from bytes that decode; most also give the next position."""
    result = decode(raw)
    message = result[0] if type(result) is tuple else result
    return Case(name, len(raw), lambda: encode(message), lambda: decode(raw))


def varint_cases() -> Iterator[Case]:
    """Both codings at each size that occurs often."""
    for coding, short in ((QUIC, "quic"), (VI64, "vi64")):
        for value in (37, 15_293, 494_878_333, 151_288_809_941_952_652):
            raw = coding.encode(value)

            def encode(coding: Any = coding, value: int = value) -> object:
                return coding.encode(value)

            def decode(coding: Any = coding, raw: bytes = raw) -> object:
                return coding.decode(raw, 0, len(raw))

            yield Case(f"varint {short} {len(raw)} bytes", len(raw), encode, decode)


def object_cases() -> Iterator[Case]:
    """Objects on a subgroup stream: the inner loop of every relay."""
    count = 100
    for draft in (Draft.D16, Draft.D18):
        for payload_size in (100, 1200, 16_384):
            for extensions in (b"", b"\x3c\x05"):
                yield subgroup_case(draft, payload_size, extensions, count)


def subgroup_case(draft: Draft, payload_size: int, extensions: bytes, count: int) -> Case:
    """``count`` objects written and read, the stream arriving in QUIC-sized chunks."""
    header = data.SubgroupHeader(7, 1, 0, 128, has_extensions=bool(extensions))
    payload = bytes(payload_size)

    def encode() -> bytes:
        writer = data.SubgroupWriter(header, draft)
        parts = [writer.start]
        for object_id in range(count):
            parts.append(writer.object_header(object_id, payload_size, extensions=extensions))
            parts.append(payload)
        return b"".join(parts)

    stream = encode()
    chunks = [stream[start : start + 1400] for start in range(0, len(stream), 1400)]

    def decode() -> object:
        parser = data.SubgroupParser(draft)
        for chunk in chunks:
            parser.feed(chunk)
        return parser.object_id

    kind = "with extensions" if extensions else "plain"
    name = f"subgroup object d{draft} {payload_size} B {kind}"
    return Case(name, len(stream) // count, encode, decode, units=count)


def header_cases() -> Iterator[Case]:
    """Datagrams and the data headers of peering and QuicR."""
    for draft in (Draft.D16, Draft.D18):
        decoded = data.ObjectDatagram(7, 4, 9, bytes(1100), priority=128)
        raw = data.encode_datagram(decoded, draft)

        def encode(decoded: Any = decoded, draft: Draft = draft) -> object:
            return data.encode_datagram(decoded, draft)

        def decode(raw: bytes = raw, draft: Draft = draft) -> object:
            return data.decode_datagram(raw, draft)

        yield Case(f"object datagram d{draft} 1100 B", len(raw), encode, decode)
    first = vectors("laps2.json")["data_headers"][0]
    raw = bytes.fromhex(first["hex"])
    yield codec_case("laps-2 data header", raw, laps2.decode_data_header, laps2.encode_data_header)
    rewritten = bytearray(raw)
    yield Case(
        "laps-2 data header, SNS id at a Via",
        len(raw),
        lambda: laps2.rewrite_sns_id(rewritten, 77),
        lambda: laps2.sns_id_at(rewritten),
    )
    header = cpp.StreamHeader(2, 0x06563237CFE9CBB0, 128, 5000)
    raw = cpp.encode_stream_header(header)
    yield codec_case(
        "laps-cpp stream header", raw, cpp.decode_stream_header, cpp.encode_stream_header
    )
    raw = bytes.fromhex(vectors("quicr.json")["datagrams"][0]["hex"])
    yield codec_case("quicr datagram header", raw, quicr.decode_header, quicr.encode_header)


def moqt_messages() -> list[moqt.Message]:
    """A usual one of each control message; those with a request id twice, for draft 18 has none."""
    track = FullTrackName(Namespace.of(b"example.net", b"room1", b"alice"), b"camera")
    asked = moqt.Parameters(subscriber_priority=64, group_order=GroupOrder.ASCENDING, forward=True)
    told = moqt.Parameters(expires=60_000, largest_object=Location(41, 7))
    options = SetupOptions(path="/laps", authority="example.net", moqt_implementation="laps")
    whole = moqt.StandaloneFetch(track, Location(1, 0), Location(41, 0))
    messages: list[moqt.Message] = [
        moqt.ClientSetup(options),
        moqt.ServerSetup(SetupOptions(max_request_id=256, moqt_implementation="laps")),
        moqt.Setup(options),
        moqt.Goaway("moqt://other.example.net/laps"),
        moqt.MaxRequestId(256),
        moqt.RequestsBlocked(256),
        moqt.RequestUpdate(8, 6, moqt.Parameters(forward=False)),
        moqt.RequestUpdate(8, None, moqt.Parameters(forward=False)),
        moqt.Subscribe(8, track, asked),
        moqt.Unsubscribe(8),
        moqt.Publish(9, track, 7, told),
        moqt.PublishOk(9, asked),
        moqt.TrackStatus(8, track),
        moqt.Fetch(8, whole, moqt.Parameters(subscriber_priority=64)),
        moqt.FetchCancel(8),
        moqt.PublishNamespace(8, track.namespace),
        moqt.PublishNamespaceDone(8),
        moqt.PublishNamespaceCancel(8, 1, "no longer wanted"),
        moqt.SubscribeNamespace(8, track.namespace),
        moqt.SubscribeTracks(8, track.namespace),
        moqt.NamespaceMessage(Namespace.of(b"bob")),
        moqt.NamespaceDone(Namespace.of(b"bob")),
        moqt.PublishBlocked(track),
    ]
    for request_id in (8, None):
        messages += [
            moqt.RequestOk(request_id, moqt.Parameters(expires=60_000)),
            moqt.RequestError(request_id, 0x10, reason="no such track"),
            moqt.SubscribeOk(request_id, 7, told),
            moqt.PublishDone(request_id, 0x2, 41, "the end"),
            moqt.FetchOk(request_id, False, Location(41, 0)),
        ]
    return messages


def moqt_control_cases(draft: Draft) -> Iterator[Case]:
    """Every control message that the draft has."""
    missing = {entry.layout.cls for entry in layouts_of(draft)}
    for message in moqt_messages():
        try:
            raw = control.encode(message, draft)
        except EncodeError:
            continue  # a message, or a form of one, of the other draft
        missing.discard(type(message))
        yield codec_case(
            f"moqt-{draft} {control.message_name(type(message))}",
            raw,
            lambda raw: control.decode(raw, draft),
            lambda message: control.encode(message, draft),
        )
    if missing:
        raise LookupError(f"draft {draft}: no case for {missing}")


def laps2_cases() -> Iterator[Case]:
    """One of each peering message."""
    seen: set[str] = set()
    for vector in vectors("laps2.json")["messages"]:
        if vector["type"] in seen or not isinstance(vector["type"], str):
            continue
        seen.add(vector["type"])
        raw = bytes.fromhex(vector["hex"])
        yield codec_case(f"laps-2 {vector['type']}", raw, laps2.decode, laps2.encode)


def cpp_cases() -> Iterator[Case]:
    """Every control message that the C++ relay's own code wrote."""
    for vector in vectors("laps-cpp.json")["code"]:
        if vector["name"].startswith("data_"):
            continue  # data headers have their own rows
        yield codec_case(
            f"laps-cpp {vector['name']}",
            bytes.fromhex(vector["draft16"]),
            lambda raw: cpp.decode(raw, cpp.DRAFT16),
            lambda message: cpp.encode(message, cpp.DRAFT16),
        )


def quicr_cases() -> Iterator[Case]:
    """One of each control message of both families."""
    seen: set[str] = set()
    for vector in vectors("quicr.json")["control"]:
        if vector["type"] in seen or vector.get("read_only") or vector.get("untyped"):
            continue
        seen.add(vector["type"])
        raw = bytes.fromhex(vector["hex"])
        yield codec_case(f"quicr {vector['type']}", raw, quicr.decode, quicr.encode)
