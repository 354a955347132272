"""Probes: whom to ask, what answers teach, and answering."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from laps_relay.network.nodes.nib import Nib
from laps_relay.network.nodes.probing import MAX_PROBES, BadAnswer, Prober, Reading
from laps_relay.network.settings import NetworkSettings
from laps_relay.policy import OPEN_POLICY
from laps_sdk.timers import first_of
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    Location,
    Parameters,
    Probe,
    ProbeResponse,
    Reachable,
    encode,
)
from laps_wire.peering.laps2.codepoints import MAX_REACHABLE
from testkit.nib_net import node_info

WE, P, Q, T, U = (NodeId(number) for number in (10, 1, 2, 5, 6))
BERLIN, TOKYO = Location(13.4, 52.5), Location(139.7, 35.7)
SETTINGS = NetworkSettings()


def prober(settings: NetworkSettings = SETTINGS) -> Prober:
    nib = Nib(node_info(WE), replace(settings, light_time=False), policy=OPEN_POLICY)
    nib.add_peer(0.0, P, node_info(P, location=BERLIN), srtt_us=1_000, forwards=True)
    nib.advertised(0.0, P, [node_info(T, (P, 90_000), location=TOKYO)])
    made = Prober(WE, settings, nib.info)
    made.add_session(0.0, 7, P, srtt_us=8_000)
    made.set_targets(lambda: [U, T, WE, P])
    return made


def ask(made: Prober, now: float = 0.0) -> dict[NodeId, Probe]:
    return {probe.target: probe for _, probe in made.handle_timeout(now)}


def reply(probe: Probe, rtt_us: int | None, delay_us: int = 0) -> ProbeResponse:
    return ProbeResponse(probe.probe_id, probe.target, probe.timestamp, delay_us, rtt_us)


def test_each_session_is_asked_about_all_targets_but_its_peer() -> None:
    made = prober()
    made.add_session(3.0, 8, T, srtt_us=1_000)
    made.add_session(3.0, 9, Q, srtt_us=1_000, asks=False)
    assert made.poll_timeout() == 0.0
    assert [(session, probe.target) for session, probe in made.handle_timeout(2.0)] == [
        (7, T),
        (7, U),
    ]
    assert made.handle_timeout(2.0) == []
    assert [(session, probe.target) for session, probe in made.handle_timeout(3.0)] == [
        (8, P),
        (8, U),
    ]
    assert made.poll_timeout() == 12.0
    assert first_of(made.clocks) == 12.0
    made.remove_session(7)
    made.remove_session(8)
    made.remove_session(8)
    assert made.poll_timeout() is None


def test_many_targets_take_turns() -> None:
    made = prober()
    made.set_targets(lambda: map(NodeId, range(100, 100 + MAX_PROBES + 3)))
    first, second = ask(made), ask(made, 10.0)
    assert len(first) == len(second) == MAX_PROBES
    assert len({*first, *second}) == MAX_PROBES + 3
    made.set_targets(list)
    assert ask(made, 20.0) == {}


def test_what_an_answer_teaches() -> None:
    made = prober()
    probes = ask(made)
    learned = made.answered(0.0105, 7, reply(probes[T], 70_000, delay_us=500))
    assert learned == Reading(0.0105, P, T, 10_000, 70_000)
    assert learned.rtt_us == 80_000
    assert made.round_trips()[T] == 80_000
    nothing = made.answered(0.01, 7, reply(probes[U], None))
    assert isinstance(nothing, Reading)
    assert nothing.rtt_us is None
    assert U not in made.round_trips()
    made.add_session(1.0, 8, Q, srtt_us=1_000)
    probe = ask(made, 1.0)[T]
    made.answered(1.001, 8, reply(probe, 60_000))
    assert made.round_trips()[T] == 61_000


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda good: replace(good, target=U), "another question"),
        (lambda good: replace(good, timestamp=77), "another question"),
        (lambda good: replace(good, delay_us=10_001), "was back after 10000 us"),
        (lambda good: replace(good, rtt_us=5), "light would need longer"),
    ],
)
def test_answers_that_are_not_believed(
    change: Callable[[ProbeResponse], ProbeResponse], words: str
) -> None:
    made = prober()
    answer = change(reply(ask(made)[T], 70_000))
    learned = made.answered(0.01, 7, answer)
    assert isinstance(learned, BadAnswer)
    assert (learned.peer, learned.target) == (P, T)
    assert words in learned.reason
    assert T not in made.round_trips()
    assert made.answered(0.01, 7, answer) is None


def test_light_time_may_be_left_out_and_places_may_be_unknown() -> None:
    made = prober(replace(SETTINGS, light_time=False))
    assert isinstance(made.answered(0.01, 7, reply(ask(made)[T], 5)), Reading)
    made = prober()
    assert isinstance(made.answered(0.01, 7, reply(ask(made)[U], 5)), Reading)


def test_answers_that_nobody_waits_for() -> None:
    made = prober()
    made.add_session(0.0, 8, Q, srtt_us=1_000, asks=False)
    probe = ask(made)[T]
    assert made.answered(0.01, 8, reply(probe, 5)) is None
    assert made.answered(0.01, 9, reply(probe, 5)) is None
    ask(made, 10.0)
    assert made.answered(10.01, 7, reply(probe, 70_000)) is None


def test_what_was_learned_does_not_last_for_ever() -> None:
    made = prober()
    made.answered(0.01, 7, reply(ask(made)[T], 70_000))
    ask(made, 10.0)
    assert T in made.round_trips()
    ask(made, 40.0)
    assert T not in made.round_trips()
    made.answered(40.01, 7, reply(ask(made, 50.0)[T], 70_000))
    made.set_targets(lambda: [U])
    assert T not in made.round_trips()


def test_targets_are_asked_for_when_somebody_must_be_probed() -> None:
    made = prober()
    made.handle_timeout(0.0)
    asked: list[float] = []

    def targets() -> list[NodeId]:
        asked.append(1.0)
        return [T]

    for _ in range(5):
        made.set_targets(targets)
        made.handle_timeout(5.0)
    assert asked == []
    assert [probe.target for _, probe in made.handle_timeout(10.0)] == [T]
    assert asked == [1.0]


def test_the_shortest_round_trips() -> None:
    made = prober()
    made.add_session(0.0, 8, P, srtt_us=2_000, asks=False)
    made.add_session(0.0, 9, Q, srtt_us=0, asks=False)
    probes = ask(made)
    made.answered(0.01, 7, reply(probes[T], 70_000))
    made.answered(0.01, 7, reply(probes[U], None))
    assert made.round_trips() == {P: 2_000, T: 80_000}
    made.add_session(0.0, 6, T, srtt_us=60_000, asks=False)
    assert made.round_trips() == {P: 2_000, T: 60_000}


def test_what_a_peer_said_goes_with_its_last_session() -> None:
    made = prober()
    made.add_session(0.0, 8, P, srtt_us=2_000, asks=False)
    made.answered(0.01, 7, reply(ask(made)[T], 70_000))
    made.remove_session(8)
    assert T in made.round_trips()
    made.remove_session(7)
    assert T not in made.round_trips()


def test_whom_we_reach_ourselves() -> None:
    made = prober()
    made.add_session(0.0, 8, P, srtt_us=2_000)
    made.add_session(0.0, 9, NodeId(0xFFFF), srtt_us=1)
    made.measured(8, 3_000)
    made.measured(99, 1)
    assert made.reachable() == (Reachable(P, 3_000), Reachable(NodeId(0xFFFF), 1))
    for number in range(MAX_REACHABLE):
        made.add_session(0.0, 100 + number, NodeId(1000 + number), srtt_us=2)
    assert len(made.reachable()) == MAX_REACHABLE
    assert P not in {each.node_id for each in made.reachable()}


def test_we_answer_for_ourselves_and_for_our_own_sessions() -> None:
    made = prober()
    made.add_session(0.0, 8, P, srtt_us=9_000)
    answer = made.answer(Probe(5, P, 123), delay_us=40)
    assert answer == ProbeResponse(5, P, 123, 40, 8_000)
    assert made.answer(Probe(5, WE, 123)).rtt_us == 0
    assert made.answer(Probe(5, U, 123)).rtt_us is None


@pytest.mark.parametrize("padding", [b"", bytes(4096)])
def test_an_answer_is_hardly_longer_than_the_probe(padding: bytes) -> None:
    made = prober()
    made.measured(7, 2**62 - 1)
    probe = Probe(2**62 - 1, P, 2**64 - 1, padding, Parameters(((2, b"x"),)))
    answer = made.answer(probe, delay_us=2**62 - 1)
    assert len(encode(answer)) <= len(encode(probe)) + 32
