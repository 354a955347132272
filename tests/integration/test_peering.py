"""Relays that peer over real QUIC on loopback: proofs, node ids, one control connection."""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit.peer_relay import PeerTask, eventually

pytestmark = pytest.mark.anyio


def place(tmp_path: Path, name: str) -> Path:
    path = tmp_path / name
    path.mkdir()
    return path


@pytest.mark.parametrize("method", ["shared-key", "none"])
@pytest.mark.parametrize("backend", ["aioquic", "qh3"])
async def test_two_relays_meet(tmp_path: Path, method: str, backend: str) -> None:
    async with (
        PeerTask(10, place(tmp_path, "a"), method=method, backend=backend) as a,
        PeerTask(20, place(tmp_path, "b"), method=method, backend=backend) as b,
    ):
        a.dial(b)
        await eventually(lambda: a.up and b.up)
        assert a.nodes() == [20]
        assert b.nodes() == [10]
        assert a.up[0].control
        assert b.up[0].control
        await eventually(lambda: a.relay.rtts and b.relay.rtts)
