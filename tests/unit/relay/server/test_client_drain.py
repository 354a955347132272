"""How long a relay stays that leaves: its clients and its peers are stand-ins with a plan."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from laps_relay.server.client_drain import ClientDrain
from laps_relay.telemetry.logs import configure
from testkit.logs import restored_logging


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    with restored_logging():
        yield


class Peers:
    """A network in which something is under way for so many looks."""

    def __init__(self, looks: int, unsent: int = 0) -> None:
        self.looks = looks
        self.unsent = unsent
        self.told: list[float] = []
        self.patience = 0.0

    def drain(self, seconds: float) -> None:
        self.told.append(seconds)

    def stay(self) -> None:
        self.told.clear()

    @property
    def in_transit(self) -> bool:
        return self.looks > 0

    @property
    def stays(self) -> bool:
        self.looks -= 1
        return self.looks >= 0


def made(peers: Peers | None, text: io.StringIO) -> ClientDrain:
    return ClientDrain(
        cast("Any", SimpleNamespace(ports={}, running=False)),
        lambda: cast("Any", peers),
        configure("json", "info", text),
        lambda: 5.0,
    )


def leave(peers: Peers | None, seconds: float = 20.0, *, hurry: bool = False) -> str:
    text = io.StringIO()
    drain = made(peers, text)
    if hurry:
        drain.hurry()
    asyncio.run(drain.finish(seconds))
    return text.getvalue()


@pytest.mark.parametrize("peers", [None, Peers(0)], ids=["alone", "with peers"])
def test_peers_hear_that_it_stays(peers: Peers | None) -> None:
    drain = made(peers, io.StringIO())
    assert drain.take_back() == "the relay does not drain"
    drain.begin()
    assert peers is None or peers.told == [5.0]
    assert drain.take_back() is None
    assert not drain.draining
    assert peers is None or peers.told == []


def test_who_has_no_network_and_no_clients_leaves_at_once() -> None:
    assert leave(None) == ""


def test_it_stays_until_nothing_is_under_way() -> None:
    peers = Peers(3)
    text = leave(peers)
    assert peers.looks == -1
    assert peers.told[0] == 20.0
    assert "draining" in text
    assert "everything" not in text


def test_nothing_is_said_of_a_relay_that_only_waits_for_a_flight() -> None:
    peers = Peers(0)
    assert leave(peers) == ""
    assert peers.looks == -1


def test_what_peers_did_not_get_is_said() -> None:
    text = leave(Peers(10_000, unsent=3), 0.0)
    assert "peers did not get everything" in text
    assert '"streams": 3' in text or '"streams":3' in text


def test_who_hurries_waits_for_nobody() -> None:
    peers = Peers(5)
    leave(peers, hurry=True)
    assert peers.looks == 5
