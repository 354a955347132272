"""What an Edge takes of what players say: so much, what can be true, and one window each."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.edge.authorization import Action, Decision, Grant
from laps_sdk.edge.events import PublisherAdded, ReportsRefused, TrackAdded
from laps_sdk.edge.reports import PlaybackReports, PlayerWindow, Refused, ReportLimits
from laps_sdk.edge.settings import EdgeSettings
from laps_wire.moqt.codepoints import RequestErrorCode
from laps_wire.moqt.messages import Publish, StandaloneFetch
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.session import (
    RequestAccepted,
    RequestCancelled,
    RequestReceived,
    RequestRejected,
)
from laps_wire.moqt.structures import Location
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from laps_wire.reports import NAMESPACE, PlayerReport, encode_reports
from testkit.edge_net import DRAFTS, EdgeNet, Peer, RuleBook

ON = ReportLimits(enabled=True)


def said(**values: Any) -> bytes:
    return encode_reports([PlayerReport(**{"at_ms": 1, "session": "s", **values})])


def desk(limits: ReportLimits = ON, *sessions: int) -> PlaybackReports:
    made = PlaybackReports(limits)
    for session in sessions or (1,):
        assert made.open(100.0, session) is None
    return made


def window(made: PlaybackReports, now: float = 110.0) -> PlayerWindow:
    (found,) = made.take_windows(now)
    return found


def refused(made: PlaybackReports) -> list[tuple[str, int]]:
    return [(each.kind, each.times) for each in made.poll_refused()]


def test_records_of_a_window_are_one_row() -> None:
    made = desk()
    made.take(
        101.0,
        1,
        said(content="c", state="s", startup_ms=400, buffer_ms=900, asked_kbps=8000, rate=1.0),
    )
    made.take(103.0, 1, said(content="c", state="r", latency_ms=70, stalls=1, gaps=2))
    made.take(104.0, 1, said(content="c", state="p", bitrate_kbps=5, errors=("drm", "net")))
    assert window(made) == PlayerWindow(
        session=1,
        window=10.0,
        records=3,
        playback="s",
        content="c",
        state="p",
        buffer_ms=900,
        latency_ms=70,
        startup_ms=400,
        bitrate_kbps=5,
        asked_kbps=8000,
        rate=1.0,
        stalled=True,
        stall_ms=None,
        gaps=2,
        error="drm",
    )
    assert made.take_windows(120.0) == []
    assert (made.take_count(), made.take_count()) == (3, 0)
    made.take(125.0, 1, said(state="p"))
    # It goes back to the end of the last one: what a player says covers all its time.
    quiet = window(made, 130.0)
    assert (quiet.window, quiet.startup_ms, quiet.error, quiet.stalled) == (20.0, None, None, False)
    assert refused(made) == []


def test_sums_are_told_as_what_they_grew() -> None:
    made = desk()
    made.take(101.0, 1, said(stalled_ms=500, gaps=3))
    made.take(102.0, 1, said(stalled_ms=1500, gaps=3))
    first = window(made)
    assert (first.stall_ms, first.gaps, first.stalled) == (1500, 3, True)
    made.take(111.0, 1, said(stalled_ms=1500, gaps=4))
    made.take(112.0, 1, said())
    made.take(113.0, 1, said(stalled_ms=1600))
    second = window(made, 120.0)
    assert (second.stall_ms, second.gaps, second.stalled) == (100, 1, True)


def test_stalls_that_have_ended_are_added_up() -> None:
    made = desk()
    made.take(101.0, 1, said(stall_ms=300))
    made.take(102.0, 1, said(stall_ms=40, starved=True))
    assert window(made).stall_ms == 340


def test_nobody_stalls_for_longer_than_the_window_is() -> None:
    made = desk()
    made.take(101.0, 1, said(stalled_ms=20_000))
    assert window(made).stall_ms == 10_000
    assert refused(made) == []


def test_a_startup_is_told_once_for_each_playback() -> None:
    made = desk()
    made.take(101.0, 1, said(startup_ms=400))
    made.take(102.0, 1, said(startup_ms=500))
    assert window(made).startup_ms == 400
    made.take(111.0, 1, said(startup_ms=600))
    assert window(made, 120.0).startup_ms is None
    made.take(121.0, 1, said(session="t", startup_ms=700))
    assert window(made, 130.0).startup_ms == 700


def test_a_playback_that_comes_from_elsewhere_brings_its_sums() -> None:
    made = desk()
    made.take(101.0, 1, said(sequence=40, stalled_ms=90_000, gaps=900_000))
    made.take(102.0, 1, said(sequence=41, stalled_ms=90_100, gaps=900_001))
    found = window(made)
    assert (found.stall_ms, found.gaps) == (100, 1)
    assert refused(made) == []


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ({"sequence": 4}, {"sequence": 4}, "a sequence number that does not rise"),
        ({"stalled_ms": 500}, {"stalled_ms": 400}, "a sum that falls"),
        ({"gaps": 5}, {"gaps": 4}, "a sum that falls"),
        ({}, {"stalled_ms": 60_000}, "stalls that took longer than the time that passed"),
        ({}, {"stall_ms": 60_000}, "stalls that took longer than the time that passed"),
        ({"stalled_ms": 31_000}, {"stalled_ms": 62_500}, "stalls that took longer"),
        ({}, {"gaps": 60_000}, "more gaps than objects"),
    ],
)
def test_what_cannot_be_true(first: dict[str, Any], second: dict[str, Any], reason: str) -> None:
    made = desk()
    made.take(101.0, 1, said(**first))
    made.take(102.0, 1, said(**second, state="f"))
    ((session, kind, words, times),) = made.poll_refused()
    assert (session, kind, times) == (1, "value", 1)
    assert reason in words
    found = window(made)
    assert (found.records, found.state) == (1, None)


def test_garbage_is_refused_and_costs_its_sender_only() -> None:
    made = desk(ON, 1, 2)
    for number in range(5):
        made.take(101.0 + number, 1, b"\x00garbage")
    made.take(106.0, 1, b"x" * 5000)
    made.take(107.0, 2, said(state="p"))
    assert refused(made) == [("form", 5), ("size", 1)]
    assert made.poll_refused() == []
    assert [found.session for found in made.take_windows(110.0)] == [2]


def test_a_flood_is_limited_and_others_do_not_notice() -> None:
    made = desk(ReportLimits(enabled=True, rate=1.0, burst=5), 1, 2)
    for number in range(1000):
        made.take(101.0, 1, said(sequence=number))
    made.take(101.0, 2, said(state="p"))
    (flood,) = made.poll_refused()
    assert flood == Refused(1, "rate", "more than 1 objects a second", 995)
    assert [(found.session, found.records) for found in made.take_windows(110.0)] == [
        (1, 5),
        (2, 1),
    ]
    made.take(103.5, 1, said(sequence=2000))  # two more are earned
    made.take(103.5, 1, said(sequence=2001))
    made.take(103.5, 1, said(sequence=2002))
    assert refused(made) == [("rate", 1)]


def test_who_may_report() -> None:
    made = PlaybackReports(ReportLimits(namespace=Namespace.of(b"x")))
    assert made.open(1.0, 1) == "this relay takes no reports"
    made = desk()
    assert made.open(101.0, 1) == "a session has one track of reports"
    made.take(101.0, 9, said())
    assert made.take_windows(110.0) == []


def test_the_last_words_of_a_session_are_kept() -> None:
    made = desk(ON, 1, 2)
    made.take(101.0, 1, said(state="q"))
    made.close(104.0, 1)
    made.close(104.0, 1)
    made.close(104.0, 2)
    found = window(made)
    assert (found.session, found.window, found.state) == (1, 4.0, "q")
    assert made.open(105.0, 1) is None


@given(
    st.lists(
        st.tuples(
            st.integers(0, 40),
            st.builds(
                dict,
                session=st.sampled_from("ab"),
                sequence=st.none() | st.integers(0, 5),
                stalled_ms=st.none() | st.integers(0, 100_000),
                stall_ms=st.none() | st.integers(0, 100_000),
                gaps=st.none() | st.integers(0, 100_000),
                state=st.sampled_from("spr"),
            ),
            st.booleans(),
        ),
        max_size=30,
    )
)
def test_nobody_counts_for_more_than_its_own_time(
    steps: list[tuple[int, dict[str, Any], bool]],
) -> None:
    """Whatever is said: windows are the time that passed, and stalls are no longer than they."""
    made = desk(ReportLimits(enabled=True, rate=1000.0, burst=1000))
    now, windows = 100.0, []
    for wait, values, look in steps:
        now += wait
        made.take(now, 1, said(**values))
        if look:
            windows += made.take_windows(now)
    windows += made.take_windows(now)
    assert sum(found.window for found in windows) <= now - 100.0
    for found in windows:
        assert 0 <= (found.stall_ms or 0) <= found.window * 1000
        assert 0 <= found.gaps <= (found.window + 30) * 1000
    told = made.take_count() + sum(each.times for each in made.poll_refused())
    assert told == len(steps)


# The reserved namespace: one track of reports for a session, taken by this relay alone.


PLAYER = FullTrackName(NAMESPACE, b"p")


SAID = encode_reports([PlayerReport(at_ms=1, session="s", state="p")])


def scene(
    *, enabled: bool = True, authorizer: RuleBook | None = None, **settings: int
) -> tuple[EdgeNet, PlaybackReports]:
    desk = PlaybackReports(ReportLimits(enabled=enabled))
    edge = EdgeSettings(**settings)  # type: ignore[arg-type]
    return EdgeNet(desk=desk, authorizer=authorizer, settings=edge), desk


def answer(peer: Peer) -> Parameters:
    return peer.one(RequestAccepted).message.parameters


def reason(peer: Peer) -> str:
    return peer.one(RequestRejected).message.reason


@pytest.mark.parametrize("draft", DRAFTS)
def test_a_player_publishes_and_this_relay_takes_it(draft: Draft) -> None:
    net, desk = scene()
    watcher = net.connect(draft)
    watcher.session.subscribe_namespace(Namespace.of(b"laps"))
    net.settle()
    player = net.publisher(draft, PLAYER)
    assert answer(player).forward in (None, True)
    assert net.plane.intakes == {(player.id, 5): desk}
    # It is no track: nobody is told of it, here or in the network.
    assert (net.plane.tracks, net.plane.ingress, net.relay.tracks()) == ({}, {}, [])
    assert not [e for e in net.log if isinstance(e, TrackAdded | PublisherAdded)]
    assert watcher.take(RequestReceived) == []
    assert net.relay.sessions()[1].publishes == 1
    net.plane.intakes[player.id, 5].take(net.now, player.id, SAID)
    (window,) = desk.take_windows(net.now)
    assert (window.session, window.state) == (player.id, "p")


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("enabled", [True, False])
def test_nothing_else_can_be_done_there(draft: Draft, enabled: bool) -> None:
    net, _ = scene(enabled=enabled)
    net.publisher(draft, PLAYER)
    other = net.connect(draft)
    other.session.subscribe(PLAYER)
    other.session.fetch(StandaloneFetch(PLAYER, Location(0, 0), Location(1, 0)))
    other.session.track_status(PLAYER)
    other.session.publish_namespace(NAMESPACE)
    other.session.subscribe_namespace(Namespace((*NAMESPACE.fields, b"deeper")))
    net.settle()
    told = other.take(RequestRejected)
    assert {each.message.reason for each in told} == {
        "this namespace is for the reports of players"
    }
    assert len(told) == 5


def test_a_relay_that_takes_none_refuses_them() -> None:
    net, _ = scene(enabled=False)
    player = net.publisher(Draft.D18, PLAYER)
    rejected = player.one(RequestRejected).message
    assert rejected.error_code == RequestErrorCode.NOT_SUPPORTED
    assert rejected.reason == "this relay takes no reports"
    assert net.plane.intakes == {}


def test_without_a_desk_nothing_is_reserved() -> None:
    net = EdgeNet()
    net.publisher(Draft.D18, PLAYER)
    assert list(net.plane.tracks.values()) == [PLAYER]
    net.relay.remove_session(net.now, 1)


def test_it_needs_the_grant_that_any_publish_needs() -> None:
    book = RuleBook()
    net, _ = scene(authorizer=book)
    book.rules[Action.PUBLISH] = Decision(allowed=False, reason="no token")
    player = net.publisher(Draft.D18, PLAYER)
    assert reason(player) == "no token"
    assert (Action.PUBLISH, NAMESPACE, b"p") in book.asked
    book.rules[Action.PUBLISH] = Decision(allowed=True, expires=net.now + 5)
    player = net.publisher(Draft.D18, PLAYER)
    assert answer(player).expires == 5000
    book.rules[Action.PUBLISH] = Decision(allowed=False, reason="too late")
    net.advance(6.0)
    player.one(RequestCancelled)
    assert net.plane.intakes == {}


@pytest.mark.parametrize("allowed", [True, False])
def test_an_update_is_judged(allowed: bool) -> None:
    book = RuleBook()
    net, _ = scene(authorizer=book)
    player = net.publisher(Draft.D18, PLAYER)
    book.rules[Action.REQUEST_UPDATE] = Decision(allowed=allowed, reason="not you")
    player.session.update(player.request, Parameters())
    net.settle()
    assert bool(net.plane.intakes) is allowed


def test_one_for_a_session_and_the_next_when_it_has_ended() -> None:
    net, desk = scene()
    player = net.publisher(Draft.D18, PLAYER)
    second = FullTrackName(NAMESPACE, b"q")
    player.session.publish(second, 6)
    net.settle()
    assert reason(player) == "a session has one track of reports"
    player.session.publish_done(player.request, 2, 1)
    net.settle()
    # Its last words may come behind its end.
    net.plane.intakes[player.id, 5].take(net.now, player.id, SAID)
    request = player.session.publish(second, 6)
    net.settle()
    assert list(net.plane.intakes) == [(player.id, 6)]
    (window,) = desk.take_windows(net.now)
    assert window.records == 1
    player.session.publish_done(request, 2, 0)
    net.settle()
    net.advance(10.0)
    assert net.plane.intakes == {}
    assert net.relay.sessions()[0].publishes == 0


def test_a_player_that_is_gone_before_the_answer() -> None:
    net, desk = scene()
    player = net.publisher(Draft.D18, FullTrackName(NAMESPACE, b"other"))
    player.session.publish_done(player.request, 2, 0)
    net.settle()
    net.advance(10.0)
    client = net.relay._state.clients[player.id]
    client.closed = True
    message = Publish(request_id=2, track=PLAYER, track_alias=6)
    grant = Grant(action=Action.PUBLISH, namespace=NAMESPACE, name=b"p", tokens=(), expires=None)
    net.relay._reports.publish_received(net.now, client, message, grant)
    assert net.plane.intakes == {}
    assert desk.open(net.now, player.id) is None


def test_caps_hold_for_it_too() -> None:
    net, _ = scene(session_publishes=0)
    player = net.publisher(Draft.D18, PLAYER)
    assert "a session may have 0 publishes" in reason(player)


@pytest.mark.parametrize("done", [True, False])
def test_a_session_that_goes_leaves_its_last_words(done: bool) -> None:
    net, desk = scene()
    player = net.publisher(Draft.D18, PLAYER)
    desk.take(net.now, player.id, SAID)
    if done:
        player.session.publish_done(player.request, 2, 1)
        net.settle()
    net.relay.remove_session(net.now, player.id)
    assert len(desk.take_windows(net.now)) == 1
    assert desk.open(net.now, player.id) is None
    net.advance(10.0)


def test_what_is_refused_is_an_event() -> None:
    net, desk = scene()
    player = net.publisher(Draft.D18, PLAYER)
    desk.take(net.now, player.id, b"?")
    desk.take(net.now, player.id, b"?")
    (event,) = net.relay.poll_events()
    assert event == ReportsRefused(player.id, "form", "not JSON: Expecting value (at byte 0)", 2)
