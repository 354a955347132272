"""What a session is configured with, if nothing is said."""

from __future__ import annotations

import pytest

from laps_wire.peering.laps2 import VERSION_2_0, AuthScheme, Direction, Mode, Settings
from laps_wire.peering.session.flavour import (
    DEFAULT_SETTINGS,
    HANDSHAKE_SECONDS,
    SessionConfig,
    SnsChange,
    SnsDescription,
    SnsEnd,
)
from laps_wire.peering.session.latching import Role
from testkit.peering_pair import node


def test_defaults() -> None:
    config = SessionConfig(role=Role.DIALLER, node_info=node(1), challenge=bytes(32))
    assert (config.mode, config.direction) == (Mode.BOTH, Direction.BIDIRECTIONAL)
    assert config.settings == DEFAULT_SETTINGS == Settings()
    assert config.versions == (VERSION_2_0,)
    assert config.schemes == (AuthScheme.NONE,)
    assert config.features == ()
    assert config.spki_hash == bytes(32)
    assert config.handshake_seconds == HANDSHAKE_SECONDS == 10.0


def test_a_configuration_is_a_value() -> None:
    config = SessionConfig(role=Role.DIALLER, node_info=node(1), challenge=bytes(32))
    with pytest.raises(AttributeError):
        config.role = Role.LISTENER  # type: ignore[misc]


def test_operations_are_values() -> None:
    assert SnsDescription(1, None, ()) == SnsDescription(1, None, (), 0)
    assert SnsChange(1, 2, (), ()) != SnsChange(1, 3, (), ())
    assert SnsEnd(1) == SnsEnd(1)
