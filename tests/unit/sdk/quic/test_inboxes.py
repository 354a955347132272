from __future__ import annotations

from laps_sdk.quic.dispatch import Inboxes
from laps_sdk.quic.events import DatagramReceived, Event


def some(count: int, first: int = 0) -> list[Event]:
    return [DatagramReceived(b"%d" % number) for number in range(first, first + count)]


def test_a_busy_one_does_not_keep_the_others_waiting() -> None:
    inboxes: Inboxes[str] = Inboxes(quota=3, limit=100)
    inboxes.put("busy", some(7))
    inboxes.put("quiet", some(1))
    assert inboxes.round() == [("busy", some(3)), ("quiet", some(1))]
    inboxes.put("quiet", some(1, 1))
    assert inboxes.round() == [("busy", some(3, 3)), ("quiet", some(1, 1))]
    assert inboxes
    assert inboxes.round() == [("busy", some(1, 6))]
    assert not inboxes
    assert inboxes.round() == []


def test_order_is_kept_when_more_comes() -> None:
    inboxes: Inboxes[str] = Inboxes(quota=2)
    inboxes.put("one", some(3))
    inboxes.put("one", some(1, 3))
    assert [inboxes.round()[0][1], inboxes.round()[0][1]] == [some(2), some(2, 2)]


def test_who_has_too_much_is_full_until_it_was_taken() -> None:
    inboxes: Inboxes[str] = Inboxes(quota=2, limit=3)
    assert not inboxes.full("one")
    inboxes.put("one", some(3))
    assert inboxes.full("one")
    assert not inboxes.full("two")
    inboxes.round()
    assert not inboxes.full("one")
