from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.errors import StateError
from laps_wire.moqt.errors import InvalidRequestId, TooManyRequests
from laps_wire.moqt.session import RequestsBlockedError
from laps_wire.moqt.session.ids import MAX_GAPS, OwnRequestIds, PeerRequestIds, RequestCredit
from laps_wire.moqt.versions import Draft

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
