"""What a session is configured with, if nothing is said."""

from __future__ import annotations

from typing import Any

import pytest

from laps_wire.errors import EncodeError
from laps_wire.nodeid import NodeId
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


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"challenge": bytes(31)}, "challenge: 31 bytes where 32 belong"),
        ({"spki_hash": bytes(33)}, "spki_hash: 33 bytes where 32 belong"),
        ({"versions": (2, 1)}, r"versions: \(2, 1\) must strictly ascend"),
        ({"features": (3, 3)}, r"features: \(3, 3\) must strictly ascend"),
        ({"schemes": (1, 0)}, r"schemes: \(1, 0\) must strictly ascend"),
        ({"versions": ()}, "versions: at least one"),
        ({"schemes": ()}, "schemes: at least one"),
        ({"node_info": node(1).passed_on(NodeId(2), 5)}, "an empty path"),
    ],
)
def test_what_could_not_be_sent_is_refused_at_once(changes: dict[str, Any], why: str) -> None:
    values: dict[str, Any] = {
        "role": Role.LISTENER,
        "node_info": node(1),
        "challenge": bytes(32),
        "features": (),
    }
    with pytest.raises(EncodeError, match=why):
        SessionConfig(**{**values, **changes})


def test_operations_are_values() -> None:
    assert SnsDescription(1, None, ()) == SnsDescription(1, None, (), 0)
    assert SnsChange(1, 2, (), ()) != SnsChange(1, 3, (), ())
    assert SnsEnd(1) == SnsEnd(1)
