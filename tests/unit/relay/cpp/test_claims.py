"""Things that several nodes of a C++ network claim."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from laps_relay.cpp.cpp_link import Claims
from laps_wire.nodeid import NodeId

A, B = NodeId(1), NodeId(2)


def test_a_thing_is_there_as_long_as_one_claims_it() -> None:
    claims: Claims[str] = Claims()
    claims.add("x", B)
    claims.add("x", A)
    claims.add("x", A)
    assert (claims.of("x"), len(claims), "x" in claims) == ((A, B), 2, True)
    assert claims.remove("x", A)
    assert not claims.remove("x", A)
    assert not claims.remove("y", A)
    assert claims.of("x") == (B,)
    assert claims.remove("x", B)
    assert (claims.of("x"), len(claims), "x" in claims) == ((), 0, False)


def test_nodes_that_are_gone_are_remembered() -> None:
    claims: Claims[str] = Claims()
    claims.add("x", A)
    claims.add("y", B)
    assert claims.hide(A) == ["x"]
    assert (claims.of("x"), "x" in claims, claims.of("y")) == ((), True, (B,))
    assert claims.show(B) == []  # it was never gone
    assert claims.show(A) == ["x"]
    assert claims.show(A) == []
    assert claims.of("x") == (A,)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "remove", "hide", "show"]),
            st.sampled_from("xy"),
            st.integers(1, 3).map(NodeId),
        ),
        max_size=40,
    )
)
def test_claims_are_a_relation(steps: list[tuple[str, str, NodeId]]) -> None:
    claims: Claims[str] = Claims()
    pairs: set[tuple[str, NodeId]] = set()
    gone: set[NodeId] = set()
    for step, thing, node in steps:
        if step == "add":
            claims.add(thing, node)
            pairs.add((thing, node))
        elif step == "remove":
            assert claims.remove(thing, node) is ((thing, node) in pairs)
            pairs.discard((thing, node))
            gone &= {who for _, who in pairs}
        elif step == "hide":
            assert set(claims.hide(node)) == {each for each, who in pairs if who == node}
            gone |= {node} & {who for _, who in pairs}
        else:
            shown = {each for each, who in pairs if who == node and node in gone}
            assert set(claims.show(node)) == shown
            gone.discard(node)
        assert len(claims) == len(pairs)
        for each in "xy":
            there = sorted(who for what, who in pairs if what == each and who not in gone)
            assert claims.of(each) == tuple(there)
        assert claims._gone == gone


def test_nodes_that_claim_nothing_leave_nothing() -> None:
    claims: Claims[str] = Claims()
    for number in range(1, 1000):
        assert claims.hide(NodeId(number)) == []
    claims.add("x", A)
    claims.hide(A)
    claims.remove("x", A)
    assert not claims._gone
    assert not claims._by_node
