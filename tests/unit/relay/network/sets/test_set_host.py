"""What sets ask of their relay: the world of the tests has all of it."""

from __future__ import annotations

import inspect

from laps_relay.network.sets.set_host import SetHost
from testkit.set_world import SetWorld


def test_a_host_has_everything() -> None:
    host: SetHost = SetWorld(2, [(1, 2)])[1]
    names = [name for name in vars(SetHost) if not name.startswith("_")]
    assert "detour" in names
    for name in names:
        asked = inspect.signature(getattr(SetHost, name)).parameters
        assert list(inspect.signature(getattr(host, name)).parameters) == list(asked)[1:]
