"""Both integer codings: the specifications' examples, every length, every edge."""

from __future__ import annotations

import pytest
from hypothesis import given

from laps_wire.errors import EncodeError, IncompleteError
from laps_wire.varint import QUIC, VI64, IntegerCoding
from testkit.strategies import varints

BOTH = pytest.mark.parametrize("coding", [QUIC, VI64], ids=["quic", "vi64"])


@pytest.mark.parametrize(
    ("data", "value"),
    [
        ("c2197c5eff14e88c", 151_288_809_941_952_652),  # RFC 9000, A.1
        ("9d7f3e7d", 494_878_333),
        ("7bbd", 15_293),
        ("25", 37),
        ("4025", 37),
    ],
)
def test_rfc_9000_examples(data: str, value: int) -> None:
    raw = bytes.fromhex(data)
    assert QUIC.decode(raw, 0, len(raw)) == (value, len(raw))


@pytest.mark.parametrize(
    ("data", "value"),
    [
        ("25", 37),  # moq-transport-18, 1.4.1
        ("8025", 37),
        ("bbbd", 15_293),
        ("ed7f3e7d", 226_442_877),
        ("faa1a0e403d8", 2_893_212_287_960),
        ("fc8998abc66bc0", 151_288_809_941_952),
        ("fefa318fa8e3ca11", 70_423_237_261_249_041),
        ("ffffffffffffffffff", 18_446_744_073_709_551_615),
    ],
)
def test_moqt_18_examples(data: str, value: int) -> None:
    raw = bytes.fromhex(data)
    assert VI64.decode(raw, 0, len(raw)) == (value, len(raw))


@pytest.mark.parametrize(
    ("coding", "value", "size"),
    [
        (QUIC, 0, 1),
        (QUIC, 63, 1),
        (QUIC, 64, 2),
        (QUIC, 2**14 - 1, 2),
        (QUIC, 2**14, 4),
        (QUIC, 2**30 - 1, 4),
        (QUIC, 2**30, 8),
        (QUIC, 2**62 - 1, 8),
        *[(VI64, 2 ** (7 * size) - 1, size) for size in range(1, 9)],
        *[(VI64, 2 ** (7 * size), size + 1) for size in range(1, 9)],
        (VI64, 2**64 - 1, 9),
    ],
)
def test_shortest_form_at_the_edges(coding: IntegerCoding, value: int, size: int) -> None:
    data = coding.encode(value)
    assert len(data) == size
    assert coding.decode(data, 0, size) == (value, size)


@BOTH
@pytest.mark.parametrize("excess", [-1, None], ids=["negative", "too large"])
def test_out_of_range_is_our_fault(coding: IntegerCoding, excess: int | None) -> None:
    value = coding.max_value + 1 if excess is None else excess
    with pytest.raises(EncodeError, match="does not fit"):
        coding.encode(value)


@given(value=varints(QUIC))
def test_quic_identity_and_prefixes(value: int) -> None:
    check_identity(QUIC, value)


@given(value=varints(VI64))
def test_vi64_identity_and_prefixes(value: int) -> None:
    check_identity(VI64, value)


def check_identity(coding: IntegerCoding, value: int) -> None:
    data = coding.encode(value)
    assert coding.decode(b"\xaa" + data + b"\xbb", 1, 1 + len(data)) == (value, 1 + len(data))
    for cut in range(len(data)):
        with pytest.raises(IncompleteError) as caught:
            coding.decode(data, 0, cut)
        assert 1 <= caught.value.needed <= len(data) - cut


@BOTH
def test_every_first_byte_has_one_length(coding: IntegerCoding) -> None:
    for first in range(256):
        data = bytes([first]) + b"\xff" * 8
        value, size = coding.decode(data, 0, len(data))
        assert 0 <= value <= coding.max_value
        with pytest.raises(IncompleteError):
            coding.decode(data, 0, size - 1)
