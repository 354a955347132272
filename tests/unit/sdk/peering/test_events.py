"""What is told of connections: values that can be kept, compared and shown."""

from __future__ import annotations

import dataclasses

import pytest

from laps_sdk.peering import events
from laps_sdk.peering.events import NodeIdConflict, PeerRefused
from laps_wire.nodeid import NodeId


def test_events_are_values() -> None:
    first = PeerRefused(session=1, code=2, reason="no")
    assert first == PeerRefused(session=1, code=2, reason="no", redirect=(), retry_after=0.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.code = 3  # type: ignore[misc]  # that it fails is the point
    assert first.node is None
    assert not first.to_self


def test_a_conflict_names_both_keys() -> None:
    conflict = NodeIdConflict(session=1, node=NodeId(7), known=b"a", shown=b"b")
    assert (conflict.known, conflict.shown) == (b"a", b"b")


def test_all_is_complete() -> None:
    assert all(hasattr(events, name) for name in events.__all__)
