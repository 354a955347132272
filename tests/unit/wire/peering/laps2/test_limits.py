"""Limits: all named, all positive, and in the relations that the protocol needs."""

from __future__ import annotations

from pathlib import Path

from laps_wire.peering.laps2 import limits
from laps_wire.varint import QUIC_MAX

PAGE = Path(__file__).parents[5] / "docs" / "spec" / "laps-2.md"


def test_every_limit_is_public_and_explained() -> None:
    source = Path(limits.__file__).read_text()
    names = {name for name in vars(limits) if name.isupper()}
    assert names == set(limits.__all__)
    for name in names:
        line = source.index(f"\n{name}: Final = ")
        assert source[source.index("\n", line + 1) + 1 :].startswith('"""'), name
        assert 0 < getattr(limits, name) <= QUIC_MAX


def test_relations() -> None:
    assert limits.MIN_MESSAGE_BYTES <= limits.MAX_MESSAGE_BYTES
    # What one entry may hold fits into the message that everybody accepts.
    assert limits.MAX_SUBSCRIBE_DATA_BYTES + limits.MAX_REASON_BYTES < limits.MIN_MESSAGE_BYTES
    assert limits.MAX_CREDENTIAL_BYTES + limits.MAX_SIGNATURE_BYTES < limits.MIN_MESSAGE_BYTES
    assert limits.MAX_TARGETS * 8 < limits.MIN_MESSAGE_BYTES
    assert limits.MAX_DATA_HEADER_BYTES == 255
    assert limits.DATA_HEADER_BYTES == 1 + 1 + 1 + 1 + 4 + 8 + 4 + 4


def test_the_page_has_them_all() -> None:
    page = PAGE.read_text()
    for name in limits.__all__:
        value = f"{getattr(limits, name):,}".replace(",", " ")
        assert f"| `{name}` | {value} |" in page, name
