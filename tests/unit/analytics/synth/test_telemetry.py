"""The synthetic world writes true telemetry that agrees with itself, and tells what it put in."""

from __future__ import annotations

import json
import tomllib
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from laps_analytics.errors import OutputError
from laps_analytics.synth.dataset import QUICK, DatasetConfig, Track, Tree, make_config
from laps_analytics.synth.telemetry import DatasetFiles, write_after, write_present
from laps_wire.telemetry import Event, dump_line, load_line

SIZE = replace(QUICK, days=1, step_hours=12)


class Written:
    """A world, and everything in its files."""

    def __init__(self, config: DatasetConfig, files: DatasetFiles) -> None:
        self.config = config
        self.files = files
        self.truth = json.loads(files.truth.read_text())
        self.paths = sorted(files.telemetry.glob("*.jsonl")) + sorted(files.late.glob("*.jsonl"))
        unique = {
            line for path in self.paths for line in path.read_text(encoding="ascii").splitlines()
        }
        self.lines = sorted(unique)
        self.events = [load_line(line) for line in self.lines]

    def of(self, kind: str) -> list[Event]:
        return [event for event in self.events if event.type == kind]

    def incident(self, kind: str) -> dict[str, Any]:
        return next(item for item in self.truth["incidents"] if item["kind"] == kind)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Written:
    config = make_config(7, SIZE)
    return Written(config, write_present(config, tmp_path_factory.mktemp("world")))


def test_lines_are_those_that_a_relay_writes(world: Written) -> None:
    for line, event in zip(world.lines, world.events, strict=True):
        assert dump_line(event) == line


def test_every_type_that_gold_needs_is_there(world: Written) -> None:
    assert {event.type for event in world.events} == {
        *("session.open", "session.close", "quic.sample", "node.adv", "node.wd"),
        *("sub.adv", "sub.wd", "ann.adv", "sns.adv", "sns.wd"),
        *("hop.stat", "delivery.sample", "cache.stat", "client.report", "route.change"),
    }


def test_no_event_is_missing_in_the_numbers(world: Written) -> None:
    seen: dict[tuple[str, int], list[int]] = defaultdict(list)
    for event in world.events:
        seen[event.relay, event.boot].append(event.seq)
    for numbers in seen.values():
        assert sorted(numbers) == list(range(1, len(numbers) + 1))
    assert sum(map(len, seen.values())) == world.truth["lines"]


def test_what_one_relay_sends_is_what_the_other_receives(world: Written) -> None:
    out: dict[Any, int] = defaultdict(int)
    into: dict[Any, set[int]] = defaultdict(set)
    for event in world.of("hop.stat"):
        body: Any = event.body
        error = 2_500_000 if event.relay == world.incident("clock")["relay"] else 0
        key = (body.track, event.ts_us - error)
        if body.out_peer is not None:
            out[(*key, event.relay, body.out_peer)] += body.out_bytes
        if body.in_peer is not None:
            into[(*key, body.in_peer, event.relay)].add(body.in_bytes)
    assert {key: {value} for key, value in out.items()} == into
    assert sum(out.values()) == world.truth["totals"]["link_bytes"]


def test_totals_are_those_of_the_lines(world: Written) -> None:
    clients: dict[str, int] = defaultdict(int)
    for event in world.of("hop.stat"):
        body: Any = event.body
        if body.out_peer is None:
            clients[event.tenant or ""] += body.out_bytes
    assert clients == world.truth["totals"]["client_bytes"]


def test_sets_have_the_same_members_at_both_ends(world: Written) -> None:
    peer = {}
    for event in world.of("session.open"):
        body: Any = event.body
        if body.kind == "peer":
            peer[event.relay, event.boot, body.session_id] = body.peer
    dead = world.incident("outage")["relay"]
    state: dict[Any, set[str]] = {}
    changes = [*world.of("sns.adv"), *world.of("sns.wd")]
    error = {world.incident("clock")["relay"]: 2_500_000}
    for event in sorted(changes, key=lambda e: (e.ts_us - error.get(e.relay, 0), e.seq)):
        body = event.body
        other = peer[event.relay, event.boot, body.session_id]
        link = (event.relay, other) if body.direction == "out" else (other, event.relay)
        if dead in link:
            continue
        members = state.setdefault((*link, body.sns_id, body.direction), set())
        members -= set(body.removed)
        if event.type == "sns.adv":
            members |= set(body.added)
            assert len(members) == body.members
        else:
            assert not members
    for (one, other, number, direction), members in state.items():
        twin = "in" if direction == "out" else "out"
        assert state[one, other, number, twin] == members


def test_stamps_of_an_object_fit_to_each_other_but_for_the_clocks(world: Written) -> None:
    skew = world.incident("clock")
    slow = {}
    for event in world.of("delivery.sample"):
        body: Any = event.body
        error = int(skew["amount"]) if event.relay == skew["relay"] else 0
        slow[body.track, body.group_id, event.relay] = body.in_us - error
        assert body.in_us <= body.out_us == event.ts_us
    chains = 0
    for event in world.of("delivery.sample"):
        body = event.body
        if body.out_peer is not None:
            error = int(skew["amount"]) if event.relay == skew["relay"] else 0
            way = slow[body.track, body.group_id, body.out_peer] - (body.out_us - error)
            assert way >= world.config.dataset.rtt_us[event.relay, body.out_peer] // 2 - 1
            chains += 1
    assert chains > 100


def test_the_slow_link_is_slow_while_it_is(world: Written) -> None:
    item = world.incident("slow_link")
    inside: list[int] = []
    outside: list[int] = []
    for event in world.of("quic.sample"):
        body: Any = event.body
        if {event.relay, body.peer} == {item["relay"], item["peer"]}:
            within = item["first_us"] <= event.ts_us < item["last_us"]
            (inside if within else outside).append(body.srtt_us)
    assert inside
    assert min(inside) > max(outside) + 200_000


def test_the_lossy_region_loses_and_its_viewers_stall(world: Written) -> None:
    item = world.incident("lossy_region")
    stalls: dict[bool, int] = {True: 0, False: 0}
    for event in world.of("client.report"):
        body: Any = event.body
        if event.region == item["region"]:
            within = item["first_us"] <= event.ts_us < item["last_us"]
            stalls[within] += body.stalled
    assert stalls[True] > 3 * max(1, stalls[False])


def test_a_relay_that_was_out_starts_again(world: Written) -> None:
    item = world.incident("outage")
    boots: dict[int, list[int]] = defaultdict(list)
    for event in world.events:
        if event.relay == item["relay"]:
            boots[event.boot].append(event.ts_us)
    assert sorted(boots) == [1, 2]
    assert max(boots[1]) < item["first_us"]
    assert min(boots[2]) >= item["last_us"]
    gone = [event for event in world.of("node.wd") if event.body.node_id == item["relay"]]  # type: ignore[union-attr]
    assert gone


def test_the_flapping_subscriber_flaps(world: Written) -> None:
    item = world.incident("flap")
    times = [
        event
        for event in world.of("sub.wd")
        if event.relay == item["relay"] and event.body.track == item["track"]  # type: ignore[union-attr]
    ]
    assert len(times) >= 2 * (item["last_us"] - item["first_us"]) // 60_000_000


def test_one_file_is_there_twice_and_one_is_late(world: Written) -> None:
    again = [path for path in world.paths if path.stem.endswith("-again")]
    assert len(again) == 1
    assert len(list(world.files.late.iterdir())) == 1
    total = sum(len(path.read_text().splitlines()) for path in world.paths)
    assert total == world.truth["lines"] + len(again[0].read_text().splitlines())


def test_dimensions_name_every_track_and_relay(world: Written) -> None:
    plain = tomllib.loads(world.files.dimensions.read_text())
    assert set(plain["track"]) == {track.track for track in world.config.dataset.tracks}
    assert set(plain["relay"]) == {relay.node for relay in world.config.dataset.relays}


def test_the_same_seed_is_the_same_world(world: Written, tmp_path: Path) -> None:
    write_present(make_config(7, SIZE), tmp_path)
    for path in world.files.telemetry.iterdir():
        assert (tmp_path / "telemetry" / path.name).read_bytes() == path.read_bytes()
    assert (tmp_path / "truth.json").read_bytes() == world.files.truth.read_bytes()


class OverOne:
    """A routing that sends everything over one Via."""

    def __init__(self, via: str) -> None:
        self.via = via

    def tree(self, track: Track, targets: frozenset[str]) -> Tree:
        far = dict.fromkeys(targets, self.via)
        return Tree(track.origin, far | ({self.via: track.origin} if far else {}))


def test_with_a_plan_relays_say_so_and_carry_less(world: Written, tmp_path: Path) -> None:
    config = world.config
    via = next(relay.node for relay in config.dataset.relays if relay.kind == "via")
    files = write_after(config, OverOne(via), tmp_path, plan=("p-1", 2))
    events = [
        load_line(line)
        for path in files.telemetry.glob("*.jsonl")
        for line in path.read_text().splitlines()
    ]
    applied = [event for event in events if event.type == "policy.applied"]
    assert len(applied) == len(config.dataset.relays)
    assert {event.boot for event in events} == {3}
    copies: dict[str, set[str | None]] = defaultdict(set)
    for event in events:
        body: Any = event.body
        if event.type == "hop.stat" and body.in_peer is None:
            copies[body.track].add(body.out_peer)
    assert all(outs <= {via, None} for outs in copies.values())
    assert min(event.ts_us for event in events) > world.config.quiet()[1]


def test_a_folder_that_cannot_be_written_is_named(world: Written, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        write_present(world.config, tmp_path / "file")
