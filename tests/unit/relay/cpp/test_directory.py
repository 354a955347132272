"""All names of an Edge, for peers that are no part of the network."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from laps_relay.cpp.directory import Directory
from laps_sdk.edge.events import (
    NamespaceAdded,
    NamespaceGone,
    PublisherAdded,
    PublisherGone,
    RelayEvent,
    TrackAdded,
)
from laps_sdk.upstream.announcements import namespace_name
from laps_wire.names import FullTrackName
from laps_wire.peering.laps2 import AnnounceKind
from testkit.edge_net import NAMESPACE, TRACK, track_of

NETWORK = 0
SPACE = (AnnounceKind.NAMESPACE, namespace_name(NAMESPACE))
PUSHED = (AnnounceKind.TRACK, TRACK)


class Watcher:
    """Knows what it was told."""

    def __init__(self) -> None:
        self.names: dict[tuple[AnnounceKind, FullTrackName], None] = {}

    def named(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        assert (kind, name) not in self.names
        self.names[kind, name] = None

    def unnamed(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        del self.names[kind, name]


def published(session: int, track: FullTrackName = TRACK, *, pushed: bool = True) -> RelayEvent:
    return PublisherAdded(session=session, track=track, pushed=pushed)


def ended(session: int, track: FullTrackName = TRACK) -> RelayEvent:
    return PublisherGone(session=session, track=track, reason="")


def test_names_of_all_but_the_own_session() -> None:
    directory, near, far = Directory(NETWORK), Watcher(), Watcher()
    directory.watch(1.0, -1, near)
    directory.observe(
        1.0, [NamespaceAdded(session=-1, namespace=NAMESPACE), TrackAdded(track=TRACK, number=1)]
    )
    directory.watch(1.0, -2, far)
    assert (list(near.names), list(far.names)) == ([], [SPACE])
    directory.observe(2.0, [NamespaceAdded(session=5, namespace=NAMESPACE), published(5)])
    assert list(near.names) == list(far.names) == [SPACE, PUSHED]
    # Others still publish it.
    directory.observe(3.0, [NamespaceGone(session=5, namespace=NAMESPACE), ended(5)])
    assert (list(near.names), list(far.names)) == ([], [SPACE])
    directory.unwatch(-2)
    directory.unwatch(-2)
    directory.observe(4.0, [NamespaceGone(session=-1, namespace=NAMESPACE)])
    assert list(far.names) == [SPACE]
    assert list(directory.visible(9)) == []


def test_tracks_of_the_network_come_by_themselves() -> None:
    directory, watcher = Directory(NETWORK), Watcher()
    directory.watch(1.0, -1, watcher)
    # The bridge publishes them only for those who watch.
    directory.observe(1.0, [published(NETWORK), ended(NETWORK)])
    assert not watcher.names
    directory.discovered(1.0, TRACK)
    directory.discovered(1.0, TRACK)
    assert list(watcher.names) == [PUSHED]
    directory.observe(1.0, [published(NETWORK), ended(NETWORK)])
    assert list(watcher.names) == [PUSHED]
    directory.vanished(1.0, TRACK)
    directory.vanished(1.0, TRACK)
    assert not watcher.names


def test_what_was_subscribed_to_is_not_announced() -> None:
    directory, watcher = Directory(NETWORK), Watcher()
    directory.watch(1.0, -1, watcher)
    directory.observe(1.0, [published(5, pushed=False), ended(5)])
    assert not watcher.names


@given(
    st.lists(
        st.tuples(st.booleans(), st.sampled_from([-1, -2, 3, 4]), st.sampled_from(["a", "b"])),
        max_size=30,
    ),
    st.integers(0, 30),
)
def test_watchers_know_what_there_is(steps: list[tuple[bool, int, str]], late: int) -> None:
    directory, watchers = Directory(NETWORK), {-1: Watcher(), -2: Watcher()}
    directory.watch(1.0, -1, watchers[-1])
    there: set[tuple[int, str]] = set()
    for index, (added, session, name) in enumerate(steps):
        if index == late:
            directory.watch(1.0, -2, watchers[-2])
        if added:
            there.add((session, name))
            directory.observe(1.0, [published(session, track_of(name))])
        else:
            there.discard((session, name))
            directory.observe(1.0, [ended(session, track_of(name))])
        for number, watcher in watchers.items():
            if number == -1 or index >= late:
                expected = {track_of(name) for session, name in there if session != number}
                assert {name for _, name in watcher.names} == expected
