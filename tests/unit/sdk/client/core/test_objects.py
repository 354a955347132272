from __future__ import annotations

import pytest

from laps_sdk.client.core.objects import (
    CAPTURE_TIMESTAMP,
    Object,
    capture_time,
    encode_object_extensions,
)
from laps_wire.errors import EncodeError
from laps_wire.moqt.data import parse_extensions
from laps_wire.moqt.keyvalue import KeyValue
from laps_wire.moqt.versions import Draft


@pytest.mark.parametrize("draft", list(Draft))
def test_a_stamp_is_read_back(draft: Draft) -> None:
    block = encode_object_extensions([(0x100, 7), (0x101, b"x")], 1_700_000_000.25, draft)
    pairs = parse_extensions(block, draft).pairs
    assert pairs[:2] == (KeyValue(0x100, 7), KeyValue(0x101, b"x"))
    assert capture_time(pairs) == 1_700_000_000.25
    obj = Object(1, 0, b"", extensions=pairs, received_at=1_700_000_000.75)
    assert obj.captured_at == 1_700_000_000.25
    assert obj.latency == 0.5


def test_without_a_stamp_there_is_no_latency() -> None:
    assert encode_object_extensions([], None, Draft.D18) == b""
    assert capture_time(()) is None
    obj = Object(1, 0, b"", extensions=(KeyValue(0x100, 7),), received_at=5.0)
    assert obj.latency is None


def test_a_stamp_of_the_application_wins() -> None:
    block = encode_object_extensions([(CAPTURE_TIMESTAMP, 5_000_000)], 9.0, Draft.D16)
    assert parse_extensions(block, Draft.D16).pairs == (KeyValue(CAPTURE_TIMESTAMP, 5_000_000),)


@pytest.mark.parametrize("pair", [(0x100, b"bytes"), (0x101, 5)])
def test_a_value_of_the_wrong_kind_is_refused(pair: tuple[int, int | bytes]) -> None:
    with pytest.raises(EncodeError, match="takes"):
        encode_object_extensions([pair], None, Draft.D18)
