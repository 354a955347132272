from __future__ import annotations

import gc
import weakref

from laps_relay.server.collector import THRESHOLDS, rare_collections


def test_collections_are_rare_inside_and_as_before_behind() -> None:
    before = gc.get_threshold()
    with rare_collections():
        assert gc.get_threshold() == THRESHOLDS
        assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


def test_cycles_that_are_made_inside_can_be_collected() -> None:
    class Node:
        def __init__(self) -> None:
            self.me = self

    with rare_collections():
        gone = weakref.ref(Node())
        gc.collect()
        assert gone() is None
