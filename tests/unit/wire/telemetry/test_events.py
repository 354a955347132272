"""The list of events: every type of the table in the reference, and fields with units."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.telemetry import is_sampled
from laps_wire.telemetry.events import BODIES, HopStat, KnownBody, UnknownBody
from laps_wire.telemetry.histogram import MsHistogram
from laps_wire.telemetry.schema import from_plain, struct_of, to_plain
from testkit.telemetry import bodies

TYPES = [
    *("session.open", "session.close", "quic.sample"),
    *("node.adv", "node.wd", "sub.adv", "sub.wd", "ann.adv", "ann.wd", "sns.adv", "sns.wd"),
    *("hop.stat", "delivery.sample", "cache.stat", "client.report", "policy.applied"),
    *("peer.refuse", "peer.fault", "peer.drain", "dial.fail", "node.suspect", "route.change"),
    *("sub.refuse", "sns.refuse", "policy.change", "type.change"),
]


def test_every_type_is_there() -> None:
    assert list(BODIES) == TYPES
    assert set(get_args(KnownBody)) == set(BODIES.values())
    assert {name: cls.TYPE for name, cls in BODIES.items()} == {name: name for name in TYPES}


@pytest.mark.parametrize("name", TYPES)
def test_what_is_written_is_read(name: str) -> None:
    cls = BODIES[name]

    @given(bodies(cls))
    def check(body: KnownBody) -> None:
        assert from_plain(cls, to_plain(body)) == body

    check()


@pytest.mark.parametrize("name", TYPES)
def test_every_column_is_described(name: str) -> None:
    spec = struct_of(BODIES[name])
    assert spec.doc.endswith(".")
    for field in spec.fields:
        assert field.doc.endswith((".", "]."))
        assert field.doc[0].isupper() or field.doc[0].isdigit()


#: Numbers that are counts, ids, ratios or degrees; everything else has a unit in its name.
UNITLESS = {
    *("draft", "close_code", "epoch", "seq", "ns_depth", "sns_id", "members", "objects"),
    *("pto_count", "group_id", "object_id", "first_group_id", "last_group_id", "one_in"),
    *("fetch_joins", "gaps", "plan_version", "load", "longitude", "latitude", "playback_rate"),
    *("code", "changes", "hops", "targets", "revision"),
}
UNITS = ("_us", "_ms", "_bytes", "_packets", "_kbps")


def test_units_are_in_the_names() -> None:
    numbers = {
        field.name
        for cls in BODIES.values()
        for field in struct_of(cls).fields
        if field.type.name in {"long", "double"}
    }
    assert {name for name in numbers if not name.endswith(UNITS)} == UNITLESS


def test_a_hop_as_a_relay_writes_it() -> None:
    hop = HopStat(
        track="070750223dab53b6",
        window_ms=10_000,
        objects=250,
        in_bytes=1_000_000,
        out_bytes=990_000,
        drops={"ttl": 2, "cc": 1},
        in_peer="1.2:3.4",
        queue_ms=MsHistogram.of([0.05, 0.4, 12.0]),
        first_group_id=7,
        last_group_id=11,
    )
    plain = to_plain(hop)
    assert plain["drops"] == {"ttl": 2, "cc": 1}
    assert plain["queue_ms"]["counts"] == [1, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]
    assert "out_peer" not in plain
    assert from_plain(HopStat, plain) == hop


@given(st.dictionaries(st.text(), st.integers()))
def test_an_unknown_body_is_kept_as_it_came(data: dict[str, object]) -> None:
    assert UnknownBody("x.y", data) == UnknownBody("x.y", dict(data))


TRACK = 0x1F0E_3DAD_9990_8345


def chosen(one_in: int, track: int = TRACK, groups: int = 20_000) -> set[int]:
    return {group for group in range(groups) if is_sampled(track, group, one_in)}


def test_none_and_all() -> None:
    assert chosen(0, groups=100) == set()
    assert chosen(-1, groups=100) == set()
    assert chosen(1, groups=100) == set(range(100))


@pytest.mark.parametrize("one_in", [2, 10, 100])
def test_as_many_as_were_asked_for(one_in: int) -> None:
    expected = 20_000 / one_in
    assert 0.75 * expected < len(chosen(one_in)) < 1.25 * expected


def test_who_takes_more_takes_those_too() -> None:
    assert chosen(1000) <= chosen(100) <= chosen(99) <= chosen(7)


def test_tracks_are_sampled_apart() -> None:
    assert len(chosen(10) & chosen(10, TRACK + 1)) < 400
    assert len(chosen(10) & {group - 1 for group in chosen(10)}) < 400


def test_the_choice_never_changes() -> None:
    # Relays of different versions must agree.
    assert sorted(chosen(100, groups=400)) == [67, 85, 93, 198, 271, 309, 328, 361, 383]


def test_any_number_will_do() -> None:
    assert is_sampled((1 << 64) - 1, (1 << 64) - 1, 3) in (True, False)
