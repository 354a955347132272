"""What a publisher holds of its last objects."""

from __future__ import annotations

from laps_sdk.client.core.held import HeldObject, HeldObjects, Sending
from laps_wire.moqt.structures import Location


def held_object(
    object_: int,
    payload: bytes = b"x",
    *,
    subgroup: str = "a",
    stream: str | None = "one",
    end: int = 1,
) -> HeldObject[str, str]:
    return HeldObject(subgroup, Location(1, object_), payload, (), None, None, stream, end)


def ids(held: HeldObjects[str, str]) -> list[int]:
    return [each.location.object for some in held.subgroups().values() for each in some]


def holding(
    *objects: HeldObject[str, str], seconds: float = 10.0, size: int = 100
) -> HeldObjects[str, str]:
    """Objects that were written a second after each other, from 0 on."""
    held: HeldObjects[str, str] = HeldObjects(seconds, size)
    for at, each in enumerate(objects):
        held.add(each, float(at))
    return held


def test_the_oldest_is_dropped_first() -> None:
    held = holding(*(held_object(number, b"x" * 40) for number in range(3)))
    assert (ids(held), held.bytes, len(held)) == ([1, 2], 80, 2)
    held.add(held_object(3, b"x" * 101), 3.0)
    assert (ids(held), held.bytes) == ([], 0)


def test_objects_grow_too_old() -> None:
    held = holding(*map(held_object, range(3)))
    assert held.expire(9.5) == 0.5
    assert held.expire(11.0) == 1.0
    assert ids(held) == [2]
    assert held.expire(12.0) is None
    assert ids(held) == []


def test_no_time_passes_without_a_connection() -> None:
    held = holding(*map(held_object, range(3)))
    held.pause(3.0)
    held.pause(50.0)
    assert held.expire(100.0) is None
    held.go_on(103.0)
    held.go_on(200.0)
    assert held.expire(109.0) == 1.0
    assert ids(held) == [0, 1, 2]
    held.add(held_object(3), 109.0)
    held.expire(118.0)
    assert ids(held) == [3]


def test_what_did_not_arrive_is_at_risk_until_it_is_sent_again() -> None:
    objects = [held_object(number, end=number) for number in range(4)]
    held = holding(*objects)
    assert held.lose(lambda each: each.end <= 1) == 2
    assert held.lose(lambda _: False) == 2
    assert held.at_risk == 4
    held.sent_again(objects[2], "two", 7, 5.0)
    assert (held.at_risk, held.lost, objects[2].sending, objects[2].end) == (3, 0, Sending.SENT, 7)
    held.expire(12.9)
    assert (ids(held), held.at_risk, held.lost) == ([2, 3], 1, 2)
    held.drop(lambda each: each.location.object == 2)
    assert (ids(held), held.lost) == ([3], 2)
    held.drop()
    assert (ids(held), held.at_risk, held.lost, held.bytes) == ([], 0, 3, 0)


def test_unsent_objects_are_not_at_risk() -> None:
    held = holding(held_object(0, stream=None))
    assert held.lose(lambda _: False) == 0
    assert held.any(lambda each: each.sending is Sending.UNSENT)
    held.drop()
    assert held.lost == 0


def test_objects_by_subgroup() -> None:
    names = ["a", "b", "a", "c"]
    held = holding(*(held_object(number, subgroup=name) for number, name in enumerate(names)))
    found = held.subgroups(lambda each: each.subgroup != "c")
    assert {name: [each.location.object for each in some] for name, some in found.items()} == {
        "a": [0, 2],
        "b": [1],
    }


def test_nothing_is_held_without_time() -> None:
    assert holding(seconds=0.0).size == 0
