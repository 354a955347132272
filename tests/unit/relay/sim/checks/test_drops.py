from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from laps_relay.peer_forwarding.relayed_stream import RelayedStream
from laps_relay.peer_forwarding.state import Fanout
from laps_relay.sim.clients.ledger import encode_object
from laps_relay.sim.mutants import MUTANTS, applied
from laps_relay.sim.runner import Outcome, simulate
from laps_relay.sim.scenarios.features import NARROW
from laps_relay.sim.scenarios.scenario import scenario
from laps_relay.sim.world.build import network_relay
from laps_relay.sim.world.world import Seen, identify
from laps_wire.peering.laps2 import DataHeader, DataKind, encode_data_header


def played(seed: int) -> Outcome:
    return simulate(scenario(seed, relays=8, topology="random", kind=NARROW), network_relay)[0]


def test_a_stream_says_what_it_is_with_its_first_object() -> None:
    header = DataHeader(DataKind.STREAM, 1, 77, 5, priority=9, ttl_ms=300)
    data = encode_data_header(header) + encode_object(1, 2, 3, 4.0, padding=500)
    assert identify(data[:20], framed=False, datagram=False) is None
    assert identify(data[:40], framed=False, datagram=False) is None
    seen = identify(data[:100], framed=False, datagram=False)
    assert isinstance(seen, Seen)
    assert (seen.header.priority, seen.header.ttl_ms) == (9, 300)
    assert (seen.item.flow, seen.item.group, seen.item.number) == (1, 2, 3)


@pytest.mark.parametrize(
    ("name", "seed", "rule"),
    [("ttl-ignored", 2, "stale"), ("priority-ignored", 1, "priority")],
)
def test_who_ignores_ttl_or_priority_is_seen(name: str, seed: int, rule: str) -> None:
    with applied(MUTANTS[name]):
        assert played(seed).rule == rule


def test_what_is_given_up_too_soon_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = Fanout.open

    def hasty(self: Fanout, now: float, priority: int, deadline: Any, *, expires: bool) -> None:
        begin(self, now, priority, deadline and now + 0.01, expires=expires)

    def renew(self: RelayedStream, now: float) -> None:
        for branch in self.branches:
            branch.stream.set_deadline(now + 0.01)

    monkeypatch.setattr(Fanout, "open", hasty)
    monkeypatch.setattr(RelayedStream, "renew", renew)
    assert played(2).rule == "hasty"


def test_on_a_wire_that_takes_everything_nothing_expires() -> None:
    """A network that offers nothing to speak of must not let anything expire."""
    made = scenario(2, relays=8, topology="random", kind=NARROW)
    assert simulate(made, network_relay)[0].ok
    assert simulate(replace(made, offered=1.0), network_relay)[0].rule == "needless"
