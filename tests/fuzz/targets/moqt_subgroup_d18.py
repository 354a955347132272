"""Subgroup streams of draft 18: read as they arrive and field by field, and written again."""

from __future__ import annotations

from laps_wire.moqt.versions import Draft

from .moqt_subgroup_d16 import check, streams


def one_input(data: bytes) -> None:
    """Read one stream."""
    check(data, Draft.D18)


def seeds() -> list[bytes]:
    """A few streams."""
    return streams(Draft.D18)
