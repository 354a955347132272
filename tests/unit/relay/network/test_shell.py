"""What a shell does with the core: the real one has all of it."""

from __future__ import annotations

import inspect

from laps_relay.network.relay import NetworkRelay
from laps_relay.network.shell import PeerRelay


def test_the_core_takes_what_shells_give() -> None:
    names = [name for name in vars(PeerRelay) if not name.startswith("_")]
    assert {"connection_opened", "poll_transmit", "handle_timeout"} <= set(names)
    for name in names:
        asked = inspect.signature(getattr(PeerRelay, name)).parameters
        real = inspect.signature(getattr(NetworkRelay, name)).parameters
        assert list(real)[: len(asked)] == list(asked), name
        for parameter in list(real)[len(asked) :]:
            assert real[parameter].default is not inspect.Parameter.empty, name
