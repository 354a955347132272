"""What clients publish is announced once, however many publish it."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.edge.events import (
    NamespaceAdded,
    NamespaceGone,
    PublisherAdded,
    PublisherGone,
    RelayEvent,
    TrackAdded,
)
from laps_sdk.upstream.announcements import Announcements, namespace_name
from laps_wire.peering.laps2 import AnnounceKind
from testkit.edge_net import NAMESPACE, TRACK, track_of

NETWORK = 9
SPACE = (AnnounceKind.NAMESPACE, namespace_name(NAMESPACE))
PUSHED = (AnnounceKind.TRACK, TRACK)


def announcements() -> Announcements:
    return Announcements(lambda session: session == NETWORK)


def test_a_namespace_is_named_with_an_empty_track_name() -> None:
    assert namespace_name(NAMESPACE) == track_of("")


def test_the_first_and_the_last_count() -> None:
    found = announcements()
    events: list[RelayEvent] = [
        NamespaceAdded(session=1, namespace=NAMESPACE),
        NamespaceAdded(session=2, namespace=NAMESPACE),
        PublisherAdded(session=1, track=TRACK, pushed=True),
        PublisherAdded(session=2, track=TRACK, pushed=True),
        TrackAdded(track=TRACK, number=1),
    ]
    assert found.observe(events) == [(True, SPACE), (True, PUSHED)]
    assert found.current() == [SPACE, PUSHED]
    assert (
        found.observe(
            [
                NamespaceGone(session=1, namespace=NAMESPACE),
                PublisherGone(session=1, track=TRACK, reason=""),
            ]
        )
        == []
    )
    assert found.observe(
        [
            NamespaceGone(session=2, namespace=NAMESPACE),
            PublisherGone(session=2, track=TRACK, reason=""),
        ]
    ) == [(False, SPACE), (False, PUSHED)]
    assert found.current() == []


def test_our_own_network_and_answers_to_subscribes_do_not_count() -> None:
    found = announcements()
    assert not found.observe(
        [
            NamespaceAdded(session=NETWORK, namespace=NAMESPACE),
            PublisherAdded(session=NETWORK, track=TRACK, pushed=True),
            PublisherAdded(session=1, track=TRACK, pushed=False),
            PublisherGone(session=1, track=TRACK, reason=""),
            PublisherGone(session=NETWORK, track=TRACK, reason=""),
            NamespaceGone(session=NETWORK, namespace=NAMESPACE),
        ]
    )


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=40))
def test_it_is_a_count(steps: list[tuple[int, int]]) -> None:
    """Each step begins what a session does not publish, and ends what it does."""
    found, held, told = announcements(), set[tuple[int, int]](), Counter[int]()
    for session, number in steps:
        track = track_of(str(number))
        if (session, number) in held:
            held.discard((session, number))
            changes = found.observe([PublisherGone(session=session, track=track, reason="")])
        else:
            held.add((session, number))
            changes = found.observe([PublisherAdded(session=session, track=track, pushed=True)])
        for added, _ in changes:
            told[number] += 1 if added else -1
        assert {key for key, count in told.items() if count} == {key for _, key in held}
        assert set(told.values()) <= {0, 1}
