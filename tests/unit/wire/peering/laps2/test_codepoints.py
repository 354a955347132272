"""Code points and limits: as the page has them, and as the C++ relay has those that it shares."""

from __future__ import annotations

import re
from enum import IntEnum, IntFlag
from pathlib import Path

import pytest

from laps_wire.buffer import QUIC_MAX
from laps_wire.peering.errors import CloseCode, StreamCode
from laps_wire.peering.laps2 import codepoints
from laps_wire.peering.laps2.codepoints import (
    ALPN,
    VERSION_2_0,
    AnnounceKind,
    Bases,
    MessageType,
    Mode,
    ParameterId,
    RelayType,
)

PAGE = (Path(__file__).parents[5] / "docs" / "spec" / "laps-2.md").read_text()
ENUMS = [getattr(codepoints, name) for name in codepoints.__all__ if name[1].islower()]
LIMITS = sorted(
    name for name in codepoints.__all__ if name.isupper() and name not in ("ALPN", "VERSION_2_0")
)


def table(anchor: str) -> dict[str, int]:
    """The table behind ``(anchor)=``: rows that begin with a number and a name."""
    start = PAGE.index(f"({anchor})=\n")
    end = PAGE.find("\n(", start + 1)
    rows = re.findall(r"^\| (0x[0-9a-f]+|\d+) \| ([A-Z0-9_]+) \|", PAGE[start:end], re.MULTILINE)
    found = {name: int(number, 0) for number, name in rows}
    assert len(found) == len(rows), anchor
    return found


@pytest.mark.parametrize("enum", [*ENUMS, CloseCode, StreamCode])
def test_the_page_lists_exactly_these(enum: type[IntEnum | IntFlag]) -> None:
    anchor = "laps2-codes-" + re.sub(r"(?<!^)(?=[A-Z])", "-", enum.__name__).lower()
    assert table(anchor) == {name: int(member) for name, member in enum.__members__.items()}


def test_every_enumeration_is_looked_at() -> None:
    assert len(ENUMS) == 15


def test_alpn_and_version() -> None:
    assert ALPN == "laps-2"
    assert VERSION_2_0 >> 8 == 2
    assert VERSION_2_0 & 0xFF == 0


def test_numbers_shared_with_the_cpp_relay() -> None:
    assert [Mode.CONTROL, Mode.DATA, Mode.BOTH] == [0, 1, 2]
    assert [RelayType.VIA, RelayType.EDGE, RelayType.STUB] == [0, 1, 2]
    assert [AnnounceKind.TRACK, AnnounceKind.NAMESPACE] == [0, 1]


def test_only_what_may_be_ignored_has_an_odd_type() -> None:
    odd = {kind for kind in MessageType if kind % 2}
    assert odd == {MessageType.PROBE, MessageType.PROBE_RESPONSE}


def test_only_what_goes_end_to_end_has_an_odd_parameter() -> None:
    odd = {parameter for parameter in ParameterId if parameter % 2}
    assert odd == {
        ParameterId.FULL_NAME_DIGEST,
        ParameterId.NODE_CREDENTIAL,
        ParameterId.SCOPE,
    }


@pytest.mark.parametrize(
    ("mode", "control", "data"),
    [(Mode.CONTROL, True, False), (Mode.DATA, False, True), (Mode.BOTH, True, True)],
)
def test_what_a_mode_carries(mode: Mode, control: bool, data: bool) -> None:
    assert (mode.control, mode.data) == (control, data)


def test_an_answer_may_only_narrow_a_mode() -> None:
    allowed = {(asked, got) for asked in Mode for got in Mode if asked.allows(got)}
    assert allowed == {
        (Mode.CONTROL, Mode.CONTROL),
        (Mode.DATA, Mode.DATA),
        (Mode.BOTH, Mode.BOTH),
        (Mode.BOTH, Mode.CONTROL),
        (Mode.BOTH, Mode.DATA),
    }


def test_all_bases() -> None:
    assert Bases.ALL == Bases.NODES | Bases.ANNOUNCES | Bases.SUBSCRIBES | Bases.SNS


@pytest.mark.parametrize("name", LIMITS)
def test_the_page_lists_each_limit(name: str) -> None:
    value = getattr(codepoints, name)
    assert 0 < value <= QUIC_MAX
    written = f"{value:,}".replace(",", " ")
    assert f"| `{name}` | {written} |" in PAGE


def test_relations_of_the_limits() -> None:
    assert codepoints.MIN_MESSAGE_BYTES <= codepoints.MAX_MESSAGE_BYTES
    # What one entry may hold fits into the message that everybody accepts.
    response = codepoints.MAX_SUBSCRIBE_DATA_BYTES + codepoints.MAX_REASON_BYTES
    assert response < codepoints.MIN_MESSAGE_BYTES
    evidence = codepoints.MAX_CREDENTIAL_BYTES + codepoints.MAX_SIGNATURE_BYTES
    assert evidence < codepoints.MIN_MESSAGE_BYTES
    assert codepoints.MAX_TARGETS * 8 < codepoints.MIN_MESSAGE_BYTES
    assert codepoints.MAX_DATA_HEADER_BYTES == 255
    assert codepoints.DATA_HEADER_BYTES == 1 + 1 + 1 + 1 + 4 + 8 + 4 + 4
