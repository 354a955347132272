"""A parent is left when what it began before the other one took over has ended."""

from __future__ import annotations

from laps_sdk.stub.stub_leaving import Leaving


class Rig:
    def __init__(self) -> None:
        self.streams: dict[tuple[str, int], set[int]] = {}
        self.left: list[tuple[float, str, int]] = []
        self.leaving: Leaving[str] = Leaving(
            lambda parent, key: set(self.streams.get((parent, key), ())),
            lambda now, parent, key: self.left.append((now, parent, key)),
        )


def test_without_streams_it_is_left_after_the_overlap() -> None:
    rig = Rig()
    rig.leaving.begin(10.0, "old", 7)
    rig.leaving.begin(11.0, "old", 7)
    assert rig.leaving.poll_timeout() == 12.0
    rig.leaving.handle_timeout(11.9)
    assert not rig.left
    rig.leaving.handle_timeout(12.0)
    assert rig.left == [(12.0, "old", 7)]
    assert rig.leaving.poll_timeout() is None


def test_streams_of_the_overlap_are_waited_for_and_later_ones_are_not() -> None:
    rig = Rig()
    rig.leaving.begin(10.0, "old", 7)
    rig.leaving.begin(10.0, "other", 7)
    rig.streams["old", 7] = {1, 2}
    rig.leaving.stream_ended(11.0, "old")  # more may come
    rig.leaving.handle_timeout(12.0)
    assert rig.left == [(12.0, "other", 7)]
    rig.streams["old", 7] = {2, 3}
    rig.leaving.stream_ended(13.0, "old")
    assert len(rig.left) == 1
    rig.streams["old", 7] = {3}
    rig.leaving.stream_ended(14.0, "other")
    rig.leaving.stream_ended(14.0, "old")
    assert rig.left[1:] == [(14.0, "old", 7)]
    assert rig.leaving.poll_timeout() is None


def test_a_stream_that_never_ends_is_not_waited_for_any_longer() -> None:
    rig = Rig()
    rig.leaving.begin(10.0, "old", 7)
    rig.streams["old", 7] = {1}
    rig.leaving.handle_timeout(12.0)
    assert rig.leaving.poll_timeout() == 22.0
    rig.leaving.handle_timeout(22.0)
    assert rig.left == [(22.0, "old", 7)]


def test_parents_and_tracks_can_be_forgotten() -> None:
    rig = Rig()
    for parent in ("old", "other"):
        for key in (7, 8):
            rig.leaving.begin(10.0, parent, key)
    rig.leaving.forget_parent("old")
    rig.leaving.forget_key(7)
    rig.leaving.handle_timeout(12.0)
    assert rig.left == [(12.0, "other", 8)]
