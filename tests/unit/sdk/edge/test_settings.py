"""Settings: the defaults that others rely on."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from laps_sdk.edge.settings import EdgeSettings, SessionInfo
from laps_wire.moqt.versions import Draft


def test_defaults() -> None:
    settings = EdgeSettings()
    assert settings.linger == 5.0
    # The public interop case for an unknown track waits less than 2 seconds.
    assert settings.rendezvous_wait <= 1.0
    with pytest.raises(FrozenInstanceError):
        settings.linger = 1.0  # type: ignore[misc]  # the point of the test


def test_info() -> None:
    info = SessionInfo(peer_address="192.0.2.1:4433", draft=Draft.D18)
    assert not info.webtransport
    assert info.path == info.authority == ""
