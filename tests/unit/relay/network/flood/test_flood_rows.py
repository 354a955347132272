"""Looking up the rows of a flood table, and what is told of their changes."""

from __future__ import annotations

from laps_wire.nodeid import NodeId
from testkit.flood_net import subscribe, table, unsubscribe


def test_what_can_be_used_is_found_in_every_way() -> None:
    made = table()
    for source, key, sequence in ((1, 7, 1), (1, 8, 2), (2, 7, 1), (5, 7, 1)):
        made.heard(0.0, 1, subscribe(source, key, sequence=sequence))
    made.heard_withdrawal(0.0, 1, unsubscribe(1, 8, sequence=3))
    assert [entry.source for entry in made.live()] == [1, 2]
    assert [entry.source for entry in made.live(1)] == [2]
    assert list(made.live(2)) == []
    assert [entry.source for entry in made.of_key(7)] == [1, 2]
    assert list(made.of_key(8)) == []
    assert [entry.full_name_hash for entry in made.of_source(NodeId(1))] == [7]
    assert list(made.of_source(NodeId(5))) == []
    assert made.size == 2
    assert made.sizes() == (2, 1, 1)
    assert made.given(1) == 3


def test_changes_are_told_once_and_those_that_end_where_they_began_are_none() -> None:
    made = table()
    node, entry = NodeId(1), subscribe(1, 7)
    identity = (node, 7)
    assert (made.get(identity), made.heard_on(identity)) == (None, None)
    assert made.get((NodeId(77), 7)) is None
    quiet = made.has_changes
    made.heard(0.0, 2, entry)
    assert (quiet, made.has_changes) == (False, True)
    assert made.take_changes() == [(identity, entry, None)]
    assert made.take_changes() == []
    assert (made.get(identity), made.heard_on(identity)) == (entry, 2)
    made.node_changed(0.0, node, None)
    assert (made.get(identity), made.size) == (None, 0)
    assert [*made.live(), *made.of_key(7), *made.of_source(node)] == []
    made.node_changed(0.0, node, 1)
    assert (made.get(identity), made.size) == (entry, 1)
    assert made.take_changes() == []
    made.heard_withdrawal(0.0, 2, unsubscribe(1, 7, sequence=2))
    assert made.take_changes() == [(identity, None, entry)]
