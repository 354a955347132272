from __future__ import annotations

import pickle

import pytest

from laps_relay.sim.clients.ledger import (
    FLIGHT,
    BreakError,
    GivenUp,
    Group,
    Interval,
    Ledger,
    Object,
    encode_object,
    read_object,
)


def item(flow: int = 1, group: int = 1, number: int = 0) -> Object:
    found = read_object(encode_object(flow, group, number, 1.0))
    assert found is not None
    return found


@pytest.fixture
def ledger() -> Ledger:
    made = Ledger()
    flow = made.flows.begin("a", 77, "")
    group = Group(flow, 1, 10.0, False)
    group.sent, group.ended, group.whole = 2, 10.5, True
    flow.groups[1] = group
    made.intervals.append(Interval("b", 77, 5.0))
    return made


def test_objects_say_what_they_are() -> None:
    data = encode_object(3, 4, 5, 1.5, padding=7) + b"more"
    found = read_object(data)
    assert found == Object(3, 4, 5, 1.5, len(data) - 4)
    assert read_object(data[:10]) is None
    assert read_object(data[:26]) is None
    with pytest.raises(BreakError, match="nobody published"):
        read_object(bytes(40))


def test_an_object_says_what_it_is_before_it_is_whole() -> None:
    data = encode_object(3, 4, 5, 1.5, padding=70)
    assert read_object(data[:40]) is None
    assert read_object(data[:40], whole=False) == read_object(data)
    assert read_object(data[:20], whole=False) is None


def test_only_what_was_given_up_on_the_way_may_be_missing(ledger: Ledger) -> None:
    group = ledger.group(1, 1, 10.0)
    late = 10.5 + FLIGHT

    def excused(*given_up: GivenUp) -> bool:
        group.given_up = given_up
        try:
            ledger.settle(late)
        except BreakError as error:
            return error.rule != "lost"
        return True

    assert not excused()
    assert excused(GivenUp("x", frozenset({"b"}), 1))
    assert excused(GivenUp("x", None, 1))
    assert not excused(GivenUp("x", frozenset({"c"}), 1))
    ledger.crossed(11.0, "x", "y", item())
    ledger.crossed(11.0, "y", "b", item())
    assert excused(GivenUp("x", frozenset(), 1))  # it went on from there
    assert not excused(GivenUp("z", frozenset(), 1))
    assert group.explained("b", (GivenUp("b", frozenset(), 3),), code=3)
    assert not group.explained("b", (GivenUp("b", frozenset(), 3),), code=4)
    assert group.explained("b", (GivenUp("b", frozenset(), None),), code=4)
    ledger.waiting = lambda: {group: (GivenUp("b", frozenset(), 0),)}
    assert excused()
    assert ledger.given_up > 0


def test_what_is_given_up_behind_its_header_explains_one_group_that_nobody_saw(
    ledger: Ledger,
) -> None:
    flow = ledger.flows.all[1]
    second = Group(flow, 2, 10.2, False)
    second.sent, second.ended, second.whole = 2, 10.6, True
    flow.groups[2] = second
    ledger.unnamed.append((10.7, 77, GivenUp("x", frozenset({"b"}), 1)))
    with pytest.raises(BreakError, match="1/2"):
        ledger.settle(11.0 + FLIGHT)
    ledger.unnamed.append((10.8, 77, GivenUp("x", frozenset({"b"}), 1)))
    ledger.settle(11.0 + FLIGHT)
    ledger.delivered(11.0, "b", 77, item(group=2))
    with pytest.raises(BreakError, match="missed 1 of 2 objects of 1/2"):
        ledger.settle(11.0 + FLIGHT)  # of this one more came than a header


def test_an_object_comes_once(ledger: Ledger) -> None:
    ledger.delivered(11.0, "b", 77, item())
    with pytest.raises(BreakError, match="doubled: b got 1/1/0 twice"):
        ledger.delivered(11.0, "b", 77, item())


def test_what_nobody_published_and_what_is_another_track_is_seen(ledger: Ledger) -> None:
    with pytest.raises(BreakError, match="never published"):
        ledger.delivered(11.0, "b", 77, item(flow=9))
    with pytest.raises(BreakError, match="wrong track"):
        ledger.delivered(11.0, "b", 78, item())


def test_a_link_is_crossed_once_except_while_things_break(ledger: Ledger) -> None:
    ledger.crossed(11.0, "a", "b", item())
    ledger.crossed(11.0, "b", "a", item())
    with pytest.raises(BreakError, match="link twice"):
        ledger.crossed(11.0, "a", "b", item())
    ledger.exempt(10.0, 12.0)
    ledger.crossed(11.0, "a", "b", item())
    assert ledger.loops == 1
    assert ledger.crossings == 4


def test_copies_may_meet_while_routes_change(ledger: Ledger) -> None:
    for sender, receiver in (("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("d", "e")):
        ledger.crossed(11.0, sender, receiver, item())
    ledger.moved["b"] = 10.0 - 2 * FLIGHT
    ledger.moved["e"] = 10.5  # nobody there has the track
    with pytest.raises(BreakError, match="link twice: 1/1/0 crossed d -> e twice"):
        ledger.crossed(11.0, "d", "e", item())
    ledger.moved["b"] = 10.0 - FLIGHT / 2
    ledger.crossed(11.0, "d", "e", item())
    assert ledger.loops == 1


def test_copies_may_meet_where_ways_of_a_class_do_and_no_more_of_them(ledger: Ledger) -> None:
    group = ledger.group(1, 1, 11.0)
    for sender, receiver in (("a", "b"), ("a", "c"), ("a", "f")):
        ledger.crossed(11.0, sender, receiver, item())
    for sender in ("b", "c", "f"):
        ledger.crossed(11.0, sender, "d", item())
    asked: list[tuple[object, ...]] = []

    def copies(*what: object) -> int:
        asked.append(what)
        return 2

    ledger.crossed(11.0, "d", "e", item())
    with pytest.raises(BreakError, match="link twice"):
        ledger.crossed(11.0, "d", "e", item())
    ledger.copies = copies
    ledger.crossed(11.0, "d", "e", item())
    with pytest.raises(BreakError, match="link twice"):
        ledger.crossed(11.0, "d", "e", item())
    assert asked == [(group, "d", "e")] * 2


def test_in_networks_with_stubs_any_route_lets_copies_meet(ledger: Ledger) -> None:
    for sender, receiver in (("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("d", "e")):
        ledger.crossed(11.0, sender, receiver, item())
    ledger.stirred = 10.0
    ledger.crossed(11.0, "d", "e", item())
    assert ledger.loops == 1


def test_no_relay_makes_two_of_one_whatever_happens(ledger: Ledger) -> None:
    ledger.exempt(0.0, 100.0)
    ledger.moved["b"] = 11.0
    ledger.crossed(11.0, "a", "b", item())
    with pytest.raises(BreakError, match="copied: a got 1/1/0 1 times, b more often"):
        ledger.crossed(11.0, "a", "b", item())
    ledger.crossed(11.0, "b", "c", item())
    with pytest.raises(BreakError, match="copied"):
        ledger.crossed(11.0, "b", "c", item())


def test_datagrams_cross_one_by_one(ledger: Ledger) -> None:
    ledger.crossed(11.0, "a", "b", item(number=0))
    ledger.crossed(11.0, "a", "b", item(number=1))
    with pytest.raises(BreakError, match="copied"):
        ledger.crossed(11.0, "a", "b", item(number=1))


def test_what_is_missing_is_lost(ledger: Ledger) -> None:
    ledger.settle(10.5 + FLIGHT / 2)  # it may still be under way
    ledger.delivered(11.0, "b", 77, item())
    with pytest.raises(BreakError, match="missed 1 of 2 objects"):
        ledger.settle(20.0)
    ledger.delivered(11.0, "b", 77, item(number=1))
    ledger.settle(20.0)


def test_where_packets_are_lost_a_stream_may_overtake_the_join(ledger: Ledger) -> None:
    ledger.intervals[0].start = 9.5
    with pytest.raises(BreakError, match="missed 2 of 2 objects"):
        ledger.settle(20.0)
    ledger.lossy = True
    ledger.settle(20.0)
    ledger.intervals[0].start = 8.5
    with pytest.raises(BreakError, match="missed 2 of 2 objects"):
        ledger.settle(20.0)


def test_what_is_missing_while_things_break_is_a_gap(ledger: Ledger) -> None:
    ledger.exempt(9.0, 10.1)
    ledger.settle(20.0)
    assert ledger.lost == 2


def test_who_came_later_or_left_earlier_misses_nothing(ledger: Ledger) -> None:
    ledger.intervals[0].start = 10.2
    ledger.settle(20.0)
    ledger.intervals[0].start = 5.0
    ledger.intervals[0].end = 10.4
    ledger.settle(20.0)
    ledger.intervals[0] = Interval("a", 77, 5.0)  # the publisher's own relay
    ledger.settle(20.0)


def test_a_break_travels_between_processes() -> None:
    error = pickle.loads(pickle.dumps(BreakError("doubled", "twice", 1.0)))  # noqa: S301
    assert (error.rule, error.text, error.when) == ("doubled", "twice", 1.0)
    assert str(error) == "doubled: twice (at 1.000 s)"


def test_a_fault_excuses_those_that_it_touches(ledger: Ledger) -> None:
    ledger.exempt(10.0, 12.0, frozenset({("a", "c")}))
    assert not ledger.exempted(11.0, 11.0, ("a", "b"))
    assert ledger.exempted(11.0, 11.0, ("a", "c"))
    assert ledger.exempted(11.0, 11.0)
    with pytest.raises(BreakError, match="missed 2 of 2"):
        ledger.settle(20.0)
    ledger.exempt(10.0, 12.5, frozenset({("a", "b")}))
    ledger.settle(20.0)
    assert ledger.lost == 2
    assert ledger.mended == 12.5
    ledger.exempt(10.0, 99.0, frozenset())
    assert ledger.mended == 12.5


def test_what_policy_rules_out_is_not_asked_for(ledger: Ledger) -> None:
    ledger.bar(9.0, frozenset({("a", "b", 78), ("a", "c", 77), ("c", "b", 77)}))
    with pytest.raises(BreakError, match="missed 2 of 2"):
        ledger.settle(20.0)
    ledger.bar(9.5, frozenset({("a", "b", 77)}))
    ledger.settle(20.0)
    assert ledger.lost == 0  # it is no loss either


def test_what_policy_allows_again_is_asked_for_again(ledger: Ledger) -> None:
    both = frozenset({("a", "b", 77)})
    ledger.bar(5.0, both)
    ledger.bar(6.0, both)
    ledger.bar(9.9, frozenset())
    with pytest.raises(BreakError, match="missed 2 of 2"):
        ledger.settle(20.0)
    ledger.bar(10.4, both)
    ledger.settle(20.0)
    assert ledger.barred(7.0, 8.0, ("a", "b", 77))
    assert not ledger.barred(9.95, 10.3, ("a", "b", 77))
