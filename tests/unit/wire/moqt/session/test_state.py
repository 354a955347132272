"""The transition tables of a session, and its request IDs."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.errors import StateError
from laps_wire.moqt.errors import InvalidRequestId, TooManyRequests
from laps_wire.moqt.session import Kind, RequestsBlockedError, State
from laps_wire.moqt.session.state import (
    CONTROL,
    MAX_GAPS,
    MIGRATION,
    TABLES,
    Actor,
    Control,
    ControlSignal,
    Migration,
    OwnRequestIds,
    PeerRequestIds,
    RequestCredit,
    Signal,
    Table,
    advance,
)
from laps_wire.moqt.versions import Draft

REQ, RESP = Actor.REQUESTER, Actor.RESPONDER
P, E, F, D, T = State.PENDING, State.ESTABLISHED, State.FAILING, State.DATA_ENDED, State.TERMINATED

ALL = [
    pytest.param(draft, kind, id=f"{draft.name}-{kind.name}")
    for draft, tables in TABLES.items()
    for kind in tables
]


def table_of(draft: Draft, kind: Kind) -> Table:
    return TABLES[draft][kind]


def states_of(table: Table) -> set[State]:
    """Every state that can be reached from PENDING."""
    reached, todo = {P}, [P]
    while todo:
        state = todo.pop()
        for (before, _, _), after in table.items():
            if before is state and after not in reached:
                reached.add(after)
                todo.append(after)
    return reached


def test_each_draft_has_its_requests() -> None:
    assert set(TABLES[Draft.D16]) == set(Kind) - {Kind.SUBSCRIBE_TRACKS}
    assert set(TABLES[Draft.D18]) == set(Kind)


def test_actors_have_each_other() -> None:
    assert REQ.other is RESP
    assert RESP.other is REQ


# The drafts' diagram of a subscription (moq-transport-16, 5.1)


@pytest.mark.parametrize("draft", list(Draft))
@pytest.mark.parametrize(
    ("kind", "row", "after"),
    [
        (Kind.SUBSCRIBE, (P, RESP, Signal.OK), E),
        (Kind.SUBSCRIBE, (P, RESP, Signal.ERROR), T),
        (Kind.SUBSCRIBE, (P, REQ, Signal.CANCEL), T),
        (Kind.SUBSCRIBE, (E, REQ, Signal.CANCEL), T),
        (Kind.SUBSCRIBE, (E, RESP, Signal.DONE), T),
        (Kind.SUBSCRIBE, (E, REQ, Signal.UPDATE), E),
        (Kind.SUBSCRIBE, (E, RESP, Signal.UPDATE_OK), E),
        (Kind.SUBSCRIBE, (E, RESP, Signal.UPDATE_ERROR), F),
        (Kind.SUBSCRIBE, (F, RESP, Signal.DONE), T),
        (Kind.SUBSCRIBE, (P, RESP, Signal.DONE), None),
        (Kind.SUBSCRIBE, (P, REQ, Signal.OK), None),
        (Kind.SUBSCRIBE, (E, RESP, Signal.OK), None),
        (Kind.SUBSCRIBE, (E, RESP, Signal.ERROR), None),
        (Kind.SUBSCRIBE, (E, REQ, Signal.DONE), None),
        (Kind.SUBSCRIBE, (E, RESP, Signal.UPDATE), None),
        (Kind.SUBSCRIBE, (P, RESP, Signal.UPDATE_OK), None),
        (Kind.PUBLISH, (P, RESP, Signal.OK), E),
        (Kind.PUBLISH, (P, RESP, Signal.ERROR), T),
        (Kind.PUBLISH, (P, REQ, Signal.DONE), T),
        (Kind.PUBLISH, (E, REQ, Signal.DONE), T),
        (Kind.PUBLISH, (E, RESP, Signal.CANCEL), T),
        (Kind.PUBLISH, (E, REQ, Signal.UPDATE), E),
        (Kind.PUBLISH, (E, RESP, Signal.UPDATE), E),
        (Kind.PUBLISH, (E, REQ, Signal.UPDATE_ERROR), F),
        (Kind.PUBLISH, (E, RESP, Signal.UPDATE_ERROR), F),
        (Kind.PUBLISH, (F, REQ, Signal.DONE), T),
        (Kind.PUBLISH, (E, RESP, Signal.DONE), None),
        (Kind.PUBLISH, (P, RESP, Signal.UPDATE), None),
        (Kind.FETCH, (P, RESP, Signal.OK), E),
        (Kind.FETCH, (E, REQ, Signal.CANCEL), T),
        (Kind.FETCH, (P, RESP, Signal.DATA_END), D),
        (Kind.FETCH, (D, RESP, Signal.OK), T),
        (Kind.FETCH, (D, RESP, Signal.ERROR), T),
        (Kind.FETCH, (E, REQ, Signal.DATA_END), T),
        (Kind.FETCH, (E, RESP, Signal.UPDATE_ERROR), E),
        (Kind.FETCH, (E, RESP, Signal.DONE), None),
        (Kind.TRACK_STATUS, (P, RESP, Signal.OK), T),
        (Kind.TRACK_STATUS, (P, REQ, Signal.UPDATE), None),
        (Kind.PUBLISH_NAMESPACE, (P, RESP, Signal.OK), E),
        (Kind.PUBLISH_NAMESPACE, (E, REQ, Signal.CANCEL), T),
        (Kind.PUBLISH_NAMESPACE, (E, RESP, Signal.CANCEL), T),
        (Kind.PUBLISH_NAMESPACE, (E, RESP, Signal.NAMESPACE), None),
        (Kind.SUBSCRIBE_NAMESPACE, (E, RESP, Signal.NAMESPACE), E),
        (Kind.SUBSCRIBE_NAMESPACE, (P, RESP, Signal.NAMESPACE), None),
        (Kind.SUBSCRIBE_NAMESPACE, (E, REQ, Signal.NAMESPACE), None),
        (Kind.SUBSCRIBE_NAMESPACE, (E, RESP, Signal.BLOCKED), None),
    ],
)
def test_rows_of_both_drafts(
    draft: Draft, kind: Kind, row: tuple[State, Actor, Signal], after: State | None
) -> None:
    assert advance(draft, kind, *row) is after


@pytest.mark.parametrize(
    ("draft", "kind", "row", "after"),
    [
        # No message of draft 16 cancels a subscription for its publisher, or before PUBLISH_OK.
        (Draft.D16, Kind.SUBSCRIBE, (E, RESP, Signal.CANCEL), None),
        (Draft.D16, Kind.PUBLISH, (P, RESP, Signal.CANCEL), None),
        (Draft.D16, Kind.PUBLISH_NAMESPACE, (P, RESP, Signal.CANCEL), None),
        (Draft.D16, Kind.SUBSCRIBE, (E, REQ, Signal.FIN), None),
        (Draft.D18, Kind.SUBSCRIBE, (E, RESP, Signal.CANCEL), T),
        (Draft.D18, Kind.PUBLISH, (P, RESP, Signal.CANCEL), T),
        (Draft.D18, Kind.PUBLISH, (P, REQ, Signal.CANCEL), T),
        # A failed update of a namespace request ends it only in draft 18 (10.9.1).
        (Draft.D16, Kind.PUBLISH_NAMESPACE, (E, RESP, Signal.UPDATE_ERROR), E),
        (Draft.D18, Kind.PUBLISH_NAMESPACE, (E, RESP, Signal.UPDATE_ERROR), T),
        (Draft.D16, Kind.SUBSCRIBE_NAMESPACE, (E, RESP, Signal.UPDATE_ERROR), E),
        (Draft.D18, Kind.SUBSCRIBE_NAMESPACE, (E, RESP, Signal.UPDATE_ERROR), T),
        # What a FIN means.
        (Draft.D16, Kind.SUBSCRIBE_NAMESPACE, (E, REQ, Signal.FIN), T),
        (Draft.D18, Kind.SUBSCRIBE_TRACKS, (E, RESP, Signal.FIN), T),
        (Draft.D18, Kind.SUBSCRIBE_TRACKS, (E, RESP, Signal.BLOCKED), E),
        (Draft.D18, Kind.SUBSCRIBE_TRACKS, (E, RESP, Signal.NAMESPACE), None),
        (Draft.D18, Kind.SUBSCRIBE, (E, REQ, Signal.FIN), E),
        (Draft.D18, Kind.SUBSCRIBE, (E, RESP, Signal.FIN), T),
        (Draft.D18, Kind.PUBLISH, (E, REQ, Signal.FIN), T),
        (Draft.D18, Kind.PUBLISH, (E, RESP, Signal.FIN), E),
        (Draft.D18, Kind.PUBLISH, (P, RESP, Signal.FIN), T),
        (Draft.D18, Kind.FETCH, (E, RESP, Signal.FIN), E),
        (Draft.D18, Kind.FETCH, (D, RESP, Signal.FIN), T),
        (Draft.D18, Kind.TRACK_STATUS, (P, REQ, Signal.FIN), P),
        (Draft.D18, Kind.PUBLISH_NAMESPACE, (E, REQ, Signal.FIN), T),
        (Draft.D18, Kind.PUBLISH_NAMESPACE, (E, RESP, Signal.FIN), E),
    ],
)
def test_rows_of_one_draft(
    draft: Draft, kind: Kind, row: tuple[State, Actor, Signal], after: State | None
) -> None:
    assert advance(draft, kind, *row) is after


# Any table


@pytest.mark.parametrize(("draft", "kind"), ALL)
def test_nothing_leaves_terminated_and_every_row_can_be_reached(draft: Draft, kind: Kind) -> None:
    table = table_of(draft, kind)
    reached = states_of(table)
    for state, _, _ in table:
        assert state is not T
        assert state in reached


@pytest.mark.parametrize(("draft", "kind"), ALL)
def test_one_side_or_the_other_can_end_every_state(draft: Draft, kind: Kind) -> None:
    table = table_of(draft, kind)
    for state in states_of(table) - {T}:
        enders = [row for row, after in table.items() if row[0] is state and after is T]
        assert enders, state


@pytest.mark.parametrize(("draft", "kind"), ALL)
def test_exactly_one_reply(draft: Draft, kind: Kind) -> None:
    table = table_of(draft, kind)
    for (state, actor, signal), after in table.items():
        if signal in (Signal.OK, Signal.ERROR):
            assert actor is RESP
            assert state in (P, D)
            assert after not in (P, D)


@pytest.mark.parametrize(("draft", "kind"), ALL)
def test_signals_of_the_two_sides_commute(draft: Draft, kind: Kind) -> None:
    """Acts that cross on the wire lead to the same state on both sides, unless one is an end."""
    table = table_of(draft, kind)
    # DATA_END crosses no wire: each side sees it for itself.
    steps = [(a, signal) for _, a, signal in table if signal is not Signal.DATA_END]
    for state in states_of(table) - {T}:
        for one, other in product(steps, steps):
            if one[0] is other[0]:
                continue
            first, second = table.get((state, *one)), table.get((state, *other))
            if first in (None, T) or second in (None, T):
                continue
            assert first is not None
            assert second is not None
            # Each is still allowed after the other, and they meet.
            assert table.get((first, *other)) is not None, (state, one, other)
            assert table[first, *other] is table[second, *one], (state, one, other)


@pytest.mark.parametrize(("draft", "kind"), ALL)
def test_every_update_can_be_answered(draft: Draft, kind: Kind) -> None:
    table = table_of(draft, kind)
    for state, actor, signal in table:
        if signal is Signal.UPDATE and state in (E, F):
            assert (state, actor.other, Signal.UPDATE_OK) in table
            assert (state, actor.other, Signal.UPDATE_ERROR) in table


# Control streams


def test_setup_comes_first_and_once() -> None:
    assert CONTROL[Control.AWAITING_SETUP, ControlSignal.SETUP] is Control.OPEN
    for signal in (ControlSignal.GOAWAY, ControlSignal.MESSAGE):
        assert (Control.AWAITING_SETUP, signal) not in CONTROL
    for control in (Control.OPEN, Control.LEAVING):
        assert (control, ControlSignal.SETUP) not in CONTROL
        assert CONTROL[control, ControlSignal.MESSAGE] is control


def test_goaway_comes_once() -> None:
    assert CONTROL[Control.OPEN, ControlSignal.GOAWAY] is Control.LEAVING
    assert (Control.LEAVING, ControlSignal.GOAWAY) not in CONTROL
    assert MIGRATION == {Migration.STAYING: Migration.LEAVING}


# Request IDs

DRAFTS = pytest.mark.parametrize("draft", list(Draft))


# Ours


def test_own_ids_have_one_parity_and_step_by_two() -> None:
    assert [OwnRequestIds(0, None).take()] == [0]
    server = OwnRequestIds(1, None)
    assert [server.take(), server.take(), server.next] == [1, 3, 5]
    assert [i for i in range(8) if server.used(i)] == [1, 3]


def test_own_ids_stay_below_the_maximum() -> None:
    ids = OwnRequestIds(0, 3)
    assert [ids.take(), ids.take()] == [0, 2]
    with pytest.raises(RequestsBlockedError, match=r"request 4 must wait.*below 3") as caught:
        ids.take()
    assert isinstance(caught.value, StateError)
    assert (caught.value.request_id, caught.value.maximum, ids.next) == (4, 3, 4)
    ids.maximum = 4
    with pytest.raises(RequestsBlockedError):
        ids.check()
    ids.maximum = 5
    assert ids.take() == 4


# The peer's


@DRAFTS
@pytest.mark.parametrize(("first", "wrong", "parity"), [(0, 1, "even"), (1, 0, "odd")])
def test_the_wrong_parity_is_refused(draft: Draft, first: int, wrong: int, parity: str) -> None:
    ids = PeerRequestIds(first, draft)
    with pytest.raises(InvalidRequestId, match=parity):
        ids.use(wrong, ordered=False)


@DRAFTS
def test_an_id_is_used_once(draft: Draft) -> None:
    ids = PeerRequestIds(1, draft)
    ids.use(1, ordered=False)
    with pytest.raises(InvalidRequestId, match="used before"):
        ids.use(1, ordered=False)


@DRAFTS
def test_streams_overtake_each_other(draft: Draft) -> None:
    ids = PeerRequestIds(0, draft)
    ids.use(4, ordered=False)
    assert (ids.next, ids.count) == (6, 3)
    assert [i for i in range(8) if ids.used(i)] == [4]
    ids.use(0, ordered=False)
    ids.use(2, ordered=False)
    assert [i for i in range(8) if ids.used(i)] == [0, 2, 4]
    with pytest.raises(InvalidRequestId):
        ids.use(2, ordered=False)


def test_the_control_stream_of_draft_16_has_order() -> None:
    ids = PeerRequestIds(0, Draft.D16)
    ids.use(2, ordered=True)
    ids.use(0, ordered=False)  # a SUBSCRIBE_NAMESPACE that was overtaken
    ids.use(6, ordered=False)  # one that overtakes
    ids.use(4, ordered=True)
    with pytest.raises(InvalidRequestId, match="4 after 4"):
        ids.use(4, ordered=True)
    ids = PeerRequestIds(0, Draft.D16)
    ids.use(2, ordered=True)
    with pytest.raises(InvalidRequestId, match="0 after 2: ids must ascend"):
        ids.use(0, ordered=True)


@DRAFTS
def test_too_long_a_gap_is_not_an_overtaking(draft: Draft) -> None:
    limit = MAX_GAPS[draft]
    PeerRequestIds(0, draft).use(2 * limit, ordered=False)
    with pytest.raises(InvalidRequestId, match="too many ids were left out"):
        PeerRequestIds(0, draft).use(2 * limit + 2, ordered=False)


def test_gaps_add_up_in_draft_16() -> None:
    ids = PeerRequestIds(0, Draft.D16)
    ids.use(2 * 40, ordered=False)
    ids.use(2 * 65, ordered=False)
    with pytest.raises(InvalidRequestId, match="left out"):
        ids.use(2 * 67, ordered=False)


def test_old_gaps_are_forgotten_in_draft_18() -> None:
    ids = PeerRequestIds(0, Draft.D18)
    limit = MAX_GAPS[Draft.D18]
    ids.use(2 * limit, ordered=False)  # misses 0 to 2 * (limit - 1)
    ids.use(2 * limit + 4, ordered=False)  # and one more: the oldest is given up
    assert ids.used(0)
    assert not ids.used(2)
    with pytest.raises(InvalidRequestId, match="used before"):
        ids.use(0, ordered=False)
    ids.use(2, ordered=False)


@given(st.permutations(range(24)), st.sampled_from(list(Draft)), st.integers(0, 1))
def test_any_order_is_good_once(order: list[int], draft: Draft, first: int) -> None:
    ids = PeerRequestIds(first, draft)
    for index in order:
        assert not ids.used(2 * index + first)
        ids.use(2 * index + first, ordered=False)
        assert ids.used(2 * index + first)
    assert ids.count == 24
    for index in order:
        with pytest.raises(InvalidRequestId):
            ids.use(2 * index + first, ordered=False)


# How many


@pytest.mark.parametrize(("request_id", "fits"), [(6, True), (7, True), (8, False), (9, False)])
def test_credit_ends_at_the_maximum(request_id: int, fits: bool) -> None:
    credit = RequestCredit(4)
    assert credit.maximum == 8
    if fits:
        credit.spend(request_id)
        assert credit.busy == 1
    else:
        with pytest.raises(TooManyRequests, match="not below 8"):
            credit.spend(request_id)


def test_no_window_grants_nothing() -> None:
    # MAX_REQUEST_ID must grow: to say 0 again would end the session (16: 9.5).
    assert RequestCredit(0).grant(0) is None


def test_the_smallest_window_moves() -> None:
    credit = RequestCredit(1)
    credit.spend(0)
    assert credit.grant(1) is None
    credit.release()
    assert credit.grant(1) == 4
    assert credit.grant(1) is None


def test_credit_returns_in_steps_of_half_a_window() -> None:
    credit = RequestCredit(4)
    for request_id in (0, 2, 4):
        credit.spend(request_id)
    assert credit.grant(3) is None
    credit.release()
    assert credit.grant(3) is None
    credit.release()
    # 3 used, 1 busy: 3 more may be used, so ids below 12.
    assert credit.grant(3) == 12
    assert credit.maximum == 12
    assert credit.grant(3) is None


@given(st.integers(1, 12), st.lists(st.booleans(), max_size=200))
def test_never_more_than_a_window_is_busy_and_none_jams(window: int, starts: list[bool]) -> None:
    credit, used = RequestCredit(window), 0
    for start in starts:
        if start and 2 * used < credit.maximum:
            credit.spend(2 * used)
            used += 1
        elif credit.busy:
            credit.release()
        before = credit.maximum
        granted = credit.grant(used)
        assert granted is None or granted > before
        assert credit.busy <= window
        assert credit.busy + (credit.maximum // 2 - used) <= window
    if credit.busy == 0:
        assert 2 * used < credit.maximum
