"""Two implementations of docs/spec/laps-2.md read everything alike: the package, and the oracle."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from enum import IntEnum, IntFlag
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.errors import IncompleteError, RemoteError
from laps_wire.names import Namespace
from laps_wire.peering import laps2
from laps_wire.peering.laps2 import forwarding
from laps_wire.peering.laps2.messages import LAYOUTS, TYPES
from testkit import laps2_oracle as oracle
from testkit.laps2 import data_headers, messages, named
from testkit.strategies import values_of


def plain(value: Any) -> Any:
    """Tuples of plain values: what the two must agree on is order and content, not names."""
    if isinstance(value, Namespace):
        return value.fields
    if isinstance(value, laps2.Parameters):
        return value.entries
    if is_dataclass(value):
        return tuple(plain(getattr(value, field.name)) for field in fields(value))
    if isinstance(value, dict):
        return tuple(plain(item) for item in value.values())
    if isinstance(value, (list, tuple)):
        return tuple(plain(item) for item in value)
    if isinstance(value, float):
        return repr(value)  # -0.0 is not 0.0
    return int(value) if isinstance(value, (IntEnum, IntFlag)) else value


def by_package(data: bytes, limit: int = 65_536) -> Any:
    try:
        message, after = laps2.decode(data, max_size=limit)
    except IncompleteError:
        return "more"
    except RemoteError as error:
        return error.code
    if isinstance(message, laps2.UnknownMessage):
        return None, (), after
    return TYPES[type(message)].name, plain(message), after


def by_oracle(data: bytes, limit: int = 65_536) -> Any:
    try:
        name, found, after = oracle.decode(data, limit)
    except oracle.More:
        return "more"
    except oracle.Refused as refused:
        return refused.code
    return name, plain(found), after


def header_by_package(data: bytes) -> Any:
    try:
        header = laps2.decode_data_header(data)
    except IncompleteError:
        return "more"
    except RemoteError as error:
        return error.code
    return plain(header), header.size


def header_by_oracle(data: bytes) -> Any:
    try:
        found, after = oracle.decode_header(data)
    except oracle.More:
        return "more"
    except oracle.Refused as refused:
        return refused.code
    return plain(found), after


@st.composite
def damaged(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> bytes:
    """Bytes with a few changes, rather at the beginning, where counts and lengths are."""
    data = bytearray(draw(whole))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, min(len(data), draw(st.sampled_from([4, 40, 400])))))
        gone = draw(st.integers(0, 2))
        data[at : at + gone] = draw(st.binary(max_size=2))
    return bytes(data)


def test_they_know_the_same_messages() -> None:
    assert {int(kind): kind.name for kind in LAYOUTS} == oracle.NAMES
    for kind, layout in LAYOUTS.items():
        line = next(row for row in oracle.TABLES.splitlines() if f" {kind.name}:" in row)
        names = [item.split()[0] for item in line.partition(":")[2].split(",")]
        assert names == [name for name, _ in layout.table]


@pytest.mark.parametrize("kind", LAYOUTS, ids=lambda kind: kind.name)
@given(data=st.data())
def test_what_the_package_writes_is_what_the_oracle_reads(
    kind: laps2.MessageType, data: st.DataObject
) -> None:
    message = data.draw(values_of(LAYOUTS[kind]))
    written = laps2.encode(message)
    assert by_oracle(written, len(written)) == (kind.name, plain(message), len(written))


@pytest.mark.parametrize("kind", LAYOUTS, ids=lambda kind: kind.name)
@given(data=st.data())
def test_damaged_messages(kind: laps2.MessageType, data: st.DataObject) -> None:
    bad = data.draw(damaged(values_of(LAYOUTS[kind]).map(laps2.encode)))
    assert by_package(bad) == by_oracle(bad)


@given(damaged(messages().map(laps2.encode)), st.sampled_from([0, 8, 65_536]))
def test_messages_of_any_type_under_a_limit(data: bytes, limit: int) -> None:
    assert by_package(data, limit) == by_oracle(data, limit)


@given(damaged(data_headers().map(laps2.encode_data_header)))
def test_damaged_data_headers(data: bytes) -> None:
    assert header_by_package(data) == header_by_oracle(data)


@pytest.mark.parametrize("vector", named("messages") + named("other_forms") + named("errors"))
def test_vectors_and_all_their_beginnings(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    found = by_oracle(data)
    assert found == (vector["code"] if "code" in vector else by_package(data))
    for size in range(len(data)):
        assert by_package(data[:size]) == by_oracle(data[:size])


@pytest.mark.parametrize("vector", named("data_headers") + named("data_errors"))
def test_vectors_of_data_headers(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    found = header_by_oracle(data)
    assert found == (vector["code"] if "code" in vector else header_by_package(data))


def nodes(count: int) -> bytes:
    ids = b"".join(number.to_bytes(8, "big") for number in range(1, count + 1))
    return bytes([0x40 | count >> 8, count & 0xFF]) + ids


@pytest.mark.parametrize(
    ("kind", "body", "accepted"),
    [
        (0x12, nodes(4096) + b"\0", True),
        (0x12, nodes(4097) + b"\0", False),
        (0x16, b"\x44\x00" + 1024 * bytes(20) + b"\0", True),
        (0x16, b"\x44\x01" + 1025 * bytes(20) + b"\0", False),
        (0x24, b"\0\0\0\1\1\0" + nodes(4096) + b"\0", True),
        (0x24, b"\0\0\0\1\1\0" + nodes(4097) + b"\0", False),
        (0x28, b"\x44\x00" + b"".join(n.to_bytes(4, "big") for n in range(1, 1025)) + b"\0", True),
        (0x28, b"\x44\x01" + b"".join(n.to_bytes(4, "big") for n in range(1, 1026)) + b"\0", False),
        (0x36, bytes(17) + b"\x44\x00" + 1024 * bytes(9) + b"\0", True),
        (0x36, bytes(17) + b"\x44\x01" + 1025 * bytes(9) + b"\0", False),
        (0x3A, bytes(17) + b"\1" + bytes(8) + b"\x44\x00" + 1024 * b"\0\1\0\0\0" + b"\0", True),
        (0x3A, bytes(17) + b"\1" + bytes(8) + b"\x44\x01" + 1025 * b"\0\1\0\0\0" + b"\0", False),
        (0x0E, b"\x01\x2a\x50\x00" + bytes(4096), True),
        (0x0E, b"\x01\x2a\x50\x01" + bytes(4097), False),
    ],
)
def test_limits_that_are_too_large_to_draw(kind: int, body: bytes, accepted: bool) -> None:
    data = bytes([kind]) + (0x8000_0000 | len(body)).to_bytes(4, "big") + body
    found = by_oracle(data)
    assert found == by_package(data)
    assert (found[2] == len(data)) if accepted else (found == oracle.VIOLATION)


sns_ids = st.integers(1, 2**32 - 1) | st.sampled_from([1, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 1])


@given(sns_ids, sns_ids, st.sampled_from([0, 1, 2**31 - 1, 2**31]))
def test_the_order_of_sns_ids(a: int, b: int, ahead: int) -> None:
    for other in (b, (a - 1 + ahead) % (2**32 - 1) + 1):
        assert forwarding.is_later(other, than=a) == oracle.later(a, other)
    assert forwarding.successor(a) == oracle.following(a)


@given(
    values_of(LAYOUTS[laps2.MessageType.CONNECT]),
    values_of(LAYOUTS[laps2.MessageType.CHALLENGE]),
    values_of(LAYOUTS[laps2.MessageType.PROOF]),
    values_of(LAYOUTS[laps2.MessageType.CONNECT_RESPONSE]),
    st.binary(min_size=32, max_size=32),
)
def test_what_is_signed(
    connect: laps2.Connect,
    challenge: laps2.Challenge,
    proof: laps2.Proof,
    response: laps2.ConnectResponse,
    spki: bytes,
) -> None:
    first, second, asked, granted = (
        oracle.decode(laps2.encode(message))[1] for message in (connect, challenge, proof, response)
    )
    by_dialler = laps2.dialler_transcript(connect, challenge, proof, spki)
    assert by_dialler == oracle.connect_transcript("dialler", first, second, asked, spki)
    by_listener = laps2.listener_transcript(connect, challenge, response, spki)
    assert by_listener == oracle.connect_transcript("listener", first, second, granted, spki)
