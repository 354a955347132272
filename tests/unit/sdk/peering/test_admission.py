"""Who may come in, which connection carries control, and what nodes say of themselves."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.peering import admission as module
from laps_sdk.peering.admission import (
    Admission,
    Judgement,
    KeyConflictError,
    Ruling,
    check_peer,
    judge_nodes,
)
from laps_sdk.peering.events import NOT_NOW, NodeUnproved, Refusal
from laps_sdk.peering.settings import PeeringSettings
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import (
    NotAuthorizedError,
    OverloadedError,
    PolicyError,
    RedundantControlError,
    StaleEpochError,
)
from laps_wire.peering.laps2 import (
    Direction,
    Evidence,
    Feature,
    Mode,
    NodeInfo,
    NodeSelf,
    NodeSignature,
    RelayType,
    Stamp,
)
from laps_wire.peering.session import AuthenticationRequired, AuthenticationStep, Role
from testkit.peer_nodes import ToyAuthenticator, banning

ME = NodeId(10)
STUB = NodeId(0)


def admission(
    *banned: int, max_sessions: int = 8, kept: dict[NodeId, bytes] | None = None
) -> Admission:
    return Admission(ToyAuthenticator(10), banning(*banned), max_sessions=max_sessions, kept=kept)


def key_of(number: int) -> bytes:
    return bytes([number]) * 32


def keys(**numbers: int) -> dict[NodeId, bytes]:
    """``n20=1``: node 20 has key 1."""
    return {NodeId(int(node[1:])): key_of(number) for node, number in numbers.items()}


def sign(peer: int, mode: Mode = Mode.BOTH) -> AuthenticationRequired:
    """Whom we reached."""
    return AuthenticationRequired(
        step=AuthenticationStep.SIGN,
        peer=NodeId(peer),
        peer_info=None,
        mode=mode,
        direction=Direction.BIDIRECTIONAL,
        schemes=(3,),
    )


def shown(
    peer: int, mode: Mode = Mode.BOTH, *, key: int = 1, epoch: int = 1, **changes: Any
) -> AuthenticationRequired:
    """What a peer shows of itself."""
    kind = RelayType.EDGE if peer else RelayType.STUB
    values: dict[str, Any] = {
        "step": AuthenticationStep.VERIFY,
        "peer": NodeId(peer),
        "peer_info": NodeInfo(NodeSelf(NodeId(peer), kind, Stamp(epoch, 0))),
        "mode": mode,
        "direction": Direction.BIDIRECTIONAL,
        "evidence": Evidence(3, bytes([key]) * 32, b"secret"),
        "transcript": b"transcript",
    }
    return AuthenticationRequired(**{**values, **changes})


def listen(door: Admission, session: int, question: AuthenticationRequired) -> Ruling:
    return door.judge(session, ME, Role.LISTENER, question)


# The dialler asks


def test_control_is_asked_for_once() -> None:
    door = admission()
    assert door.ask(1, ME, sign(20)) is Mode.BOTH
    assert door.ask(2, ME, sign(20)) is Mode.DATA
    assert door.ask(3, ME, sign(20, Mode.DATA)) is Mode.DATA
    with pytest.raises(RedundantControlError):
        door.ask(4, ME, sign(20, Mode.CONTROL))
    assert door.ask(5, ME, sign(30)) is Mode.BOTH


def test_a_stub_carries_everything_on_one_connection() -> None:
    door = admission()
    assert door.ask(1, STUB, sign(20)) is Mode.BOTH
    with pytest.raises(RedundantControlError):
        door.ask(2, STUB, sign(20))


def test_what_the_listener_granted_is_taken() -> None:
    door = admission()
    door.ask(1, ME, sign(20))
    ruling = door.judge(1, ME, Role.DIALLER, shown(20))
    assert ruling == Ruling(Mode.BOTH, bytes([1]) * 32, ())
    assert door.control_of(NodeId(20)) == 1
    door.ask(2, ME, sign(20))
    assert door.judge(2, ME, Role.DIALLER, shown(20, Mode.DATA)).mode is Mode.DATA
    assert door.control_of(NodeId(20)) == 1


def test_an_answer_of_a_former_life_is_stale() -> None:
    door = admission()
    listen(door, 1, shown(20, epoch=9))
    door.ask(2, ME, sign(20))
    with pytest.raises(StaleEpochError):
        door.judge(2, ME, Role.DIALLER, shown(20, Mode.DATA, epoch=8))


# The listener decides


def test_a_caller_is_granted_control_once() -> None:
    door = admission()
    assert listen(door, 1, shown(20)).mode is Mode.BOTH
    assert listen(door, 2, shown(20)).mode is Mode.DATA
    assert listen(door, 3, shown(20, Mode.DATA)).mode is Mode.DATA
    with pytest.raises(RedundantControlError):
        listen(door, 4, shown(20, Mode.CONTROL))
    door.closed(1)
    assert listen(door, 5, shown(20, Mode.CONTROL)).mode is Mode.CONTROL


def test_the_lower_node_keeps_what_it_asked_for() -> None:
    low, high = admission(), admission()
    low.ask(1, NodeId(10), sign(20))
    high.ask(1, NodeId(20), sign(10))
    assert low.judge(2, NodeId(10), Role.LISTENER, shown(20)).mode is Mode.DATA
    assert high.judge(2, NodeId(20), Role.LISTENER, shown(10)).mode is Mode.BOTH


def test_a_higher_epoch_supersedes_and_a_lower_one_is_stale() -> None:
    door = admission()
    listen(door, 1, shown(20, epoch=1))
    listen(door, 2, shown(20, epoch=1))
    ruling = listen(door, 3, shown(20, epoch=2))
    assert ruling.mode is Mode.BOTH
    assert ruling.superseded == (1, 2)
    with pytest.raises(StaleEpochError):
        listen(door, 4, shown(20, epoch=1))
    door.closed(4)
    assert door.control_of(NodeId(20)) == 3


def test_connections_of_a_node_are_bounded() -> None:
    door = admission(max_sessions=1)
    listen(door, 1, shown(20))
    with pytest.raises(OverloadedError):
        listen(door, 2, shown(20))
    listen(door, 3, shown(30))


def test_stubs_have_no_arbiter() -> None:
    door = admission()
    assert [listen(door, n, shown(0, key=n)).mode for n in (1, 2, 3)] == [Mode.BOTH] * 3
    assert len(door) == 0


# C++ relays: no proof, no moment to ask, nothing less than what was asked for


def test_a_cpp_relay_has_one_connection_in_either_direction() -> None:
    door = admission()
    plain: dict[str, Any] = {"transcript": b"", "evidence": None}
    assert listen(door, 1, shown(20, **plain)).mode is Mode.BOTH
    with pytest.raises(RedundantControlError):
        listen(door, 2, shown(20, **plain))
    with pytest.raises(RedundantControlError):
        door.judge(3, ME, Role.DIALLER, shown(20, **plain))
    assert door.judge(4, ME, Role.DIALLER, shown(30, **plain)).mode is Mode.BOTH
    assert door.control_of(NodeId(30)) == 4
    for session in (1, 2, 3, 4):
        door.closed(session)
    assert len(door) == 0  # without a key there is nothing to remember


# Refusals


def test_proof_then_policy() -> None:
    door = admission(20)
    with pytest.raises(NotAuthorizedError, match="the signature is bad"):
        listen(door, 1, shown(20, evidence=Evidence(3, b"", b"wrong")))
    with pytest.raises(PolicyError, match="not here"):
        listen(door, 2, shown(20))
    with pytest.raises(NotAuthorizedError, match="says nothing"):
        listen(door, 3, shown(30, peer_info=None))
    assert len(door) == 0


def test_a_node_id_belongs_to_the_key_that_had_it_first() -> None:
    door = admission()
    listen(door, 1, shown(20, key=1))
    with pytest.raises(KeyConflictError, match=r"0\.0:0\.20 is held by key 0101") as caught:
        listen(door, 2, shown(20, key=2, epoch=9))
    assert caught.value.node == 20
    assert caught.value.known == bytes([1]) * 32
    door.closed(1)
    with pytest.raises(KeyConflictError):
        listen(door, 3, shown(20, key=2, epoch=9))
    with pytest.raises(KeyConflictError, match="not by none"):
        listen(door, 4, shown(20, transcript=b""))
    assert listen(door, 5, shown(20, key=1)).mode is Mode.BOTH


# What is remembered


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_REMEMBERED", 2)
    door = admission()
    for session, peer in enumerate((20, 30, 40), start=1):
        listen(door, session, shown(peer))
        door.closed(session)
    assert len(door) == 2
    listen(door, 4, shown(20, key=2))  # forgotten, so it may have another key
    with pytest.raises(KeyConflictError):
        listen(door, 5, shown(30, key=2))


def test_a_key_is_forgotten_also_while_a_handshake_is_under_way() -> None:
    door = admission()
    assert not door.forget(NodeId(20))
    listen(door, 1, shown(20))
    door.closed(1)
    door.closed(1)
    assert door.forget(NodeId(20))
    assert not door.forget(NodeId(20))
    assert door.control_of(NodeId(20)) is None
    assert len(door) == 0
    listen(door, 2, shown(20))
    assert door.forget(NodeId(20))
    assert not door.forget(NodeId(20))
    door.closed(2)
    assert len(door) == 0
    listen(door, 3, shown(20, key=2))
    with pytest.raises(KeyConflictError):
        listen(door, 4, shown(20))


def test_an_unproved_meeting_leaves_nothing() -> None:
    door = admission()
    door.ask(1, ME, sign(20))
    door.closed(1)
    assert len(door) == 0
    assert door.ask(2, ME, sign(20)) is Mode.BOTH


# What outlasts a restart


def test_what_was_kept_holds_in_the_next_life() -> None:
    door = admission(kept=keys(n20=1, n30=1))
    with pytest.raises(KeyConflictError) as caught:
        listen(door, 1, shown(20, key=2, epoch=9))
    assert caught.value.known == key_of(1)
    door.ask(2, ME, sign(30))
    with pytest.raises(KeyConflictError):
        door.judge(2, ME, Role.DIALLER, shown(30, key=2))
    door.closed(2)
    assert listen(door, 3, shown(20)).mode is Mode.BOTH
    assert listen(door, 4, shown(30)).mode is Mode.BOTH
    assert door.poll_keys() is None  # nothing is new


def test_keys_are_told_when_they_are_others_and_who_was_away_for_longest_is_first() -> None:
    door = admission(kept=keys(n40=4))
    assert door.poll_keys() is None
    listen(door, 1, shown(20, key=2))
    listen(door, 2, shown(30, key=3))
    door.ask(3, ME, sign(50))  # has proved nothing
    door.closed(2)
    told = door.poll_keys()
    assert told is not None
    assert list(told.items()) == list(keys(n40=4, n30=3, n20=2).items())
    assert door.poll_keys() is None
    listen(door, 4, shown(20, key=2))
    with pytest.raises(KeyConflictError):
        listen(door, 5, shown(30, key=9))
    door.closed(1)
    door.closed(4)
    assert door.poll_keys() is None


def test_who_has_no_key_and_stubs_are_not_kept() -> None:
    door = admission(kept={NodeId(20): b"", STUB: key_of(1)})
    listen(door, 1, shown(20, transcript=b"", evidence=None))
    listen(door, 2, shown(0, key=2))
    assert door.poll_keys() is None
    listen(door, 3, shown(30, key=3))
    assert door.poll_keys() == keys(n30=3)


def test_what_was_kept_is_bounded_and_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_REMEMBERED", 2)
    door = admission(kept=keys(n20=1, n30=1, n40=1))
    assert door.poll_keys() == keys(n30=1, n40=1)
    listen(door, 1, shown(50))
    door.closed(1)
    assert door.poll_keys() == keys(n40=1, n50=1)
    with pytest.raises(KeyConflictError):  # whoever it was asks for it
        listen(door, 2, shown(40, key=2))
    for session, peer in ((3, 60), (4, 70)):
        listen(door, session, shown(peer))
        door.closed(session)
    assert door.poll_keys() == keys(n60=1, n70=1)
    assert len(door) == 2


def test_a_key_that_was_kept_is_forgotten_without_a_meeting() -> None:
    door = admission(kept=keys(n20=1, n30=1))
    assert door.forget(NodeId(20))
    assert not door.forget(NodeId(20))
    assert door.poll_keys() == keys(n30=1)
    with pytest.raises(KeyConflictError):
        listen(door, 1, shown(30, key=2))
    assert door.forget(NodeId(30))
    assert door.poll_keys() == {}
    listen(door, 2, shown(20, key=2))
    listen(door, 3, shown(30, key=2))
    assert door.poll_keys() == keys(n20=2, n30=2)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["come", "go", "forget", "restart"]),
            st.integers(20, 22),
            st.integers(1, 2),
        ),
        max_size=30,
    )
)
def test_a_node_id_stays_with_its_key_over_any_number_of_lives(
    steps: list[tuple[str, int, int]],
) -> None:
    holds: dict[NodeId, bytes] = {}
    written: dict[NodeId, bytes] = {}
    door, here = admission(), dict[int, NodeId]()
    for session, (step, number, key) in enumerate(steps, start=1):
        node = NodeId(number)
        if step == "come":
            if holds.setdefault(node, key_of(key)) == key_of(key):
                listen(door, session, shown(number, Mode.DATA, key=key))
                here[session] = node
            else:
                with pytest.raises(KeyConflictError):
                    listen(door, session, shown(number, Mode.DATA, key=key))
                door.closed(session)
        elif step == "go":
            for each in [each for each, peer in here.items() if peer == node]:
                door.closed(each)
                del here[each]
        elif step == "forget" and node not in here.values():
            assert door.forget(node) is (holds.pop(node, None) is not None)
        told = door.poll_keys()
        if told is not None:
            written = told
        assert written == holds
        if step == "restart":
            door, here = admission(kept=written), {}


EDGE, STUB_TYPE = RelayType.EDGE, RelayType.STUB
SIGNED = frozenset({int(Feature.SIGNED_NODES)})


class Keys(ToyAuthenticator):
    """The certificate of some nodes has ended."""

    def __init__(self, *ended: int) -> None:
        super().__init__(7)
        self.ended = ended

    def verify_node(self, info: NodeInfo) -> Refusal | None:
        if info.node.node_id in self.ended:
            return Refusal(NOT_NOW, "over")
        return super().verify_node(info)


def words(number: int, relay_type: RelayType = EDGE, signature: bytes = b"secret") -> NodeInfo:
    node = NodeSelf(NodeId(number), relay_type, Stamp(1, 1))
    return NodeInfo(node, NodeSignature(3, b"f" * 32, signature))


def question(
    info: NodeInfo | None,
    features: frozenset[int] = frozenset(),
    transcript: bytes = b"what was said",
) -> AuthenticationRequired:
    return AuthenticationRequired(
        step=AuthenticationStep.VERIFY,
        peer=NodeId(1),
        peer_info=info,
        mode=Mode.BOTH,
        direction=Direction.BIDIRECTIONAL,
        transcript=transcript,
        features=features,
    )


WANTED = PeeringSettings(signed_nodes=True)
PLAIN = PeeringSettings()


@pytest.mark.parametrize(
    ("settings", "asked", "reason"),
    [
        (WANTED, question(words(1)), "must be signed here"),
        (WANTED, question(words(1, signature=b""), SIGNED), "not its own words"),
        (PLAIN, question(words(1, signature=b""), SIGNED), "not its own words"),
        (WANTED, question(words(1), SIGNED), ""),
        (PLAIN, question(words(1, signature=b"")), ""),
        # Stubs say nothing of others, and C++ relays know no proofs.
        (WANTED, question(words(0, STUB_TYPE)), ""),
        (PeeringSettings(relay_type=STUB_TYPE, signed_nodes=True), question(words(1)), ""),
        (WANTED, question(words(1), transcript=b""), ""),
        (WANTED, question(None), ""),
    ],
)
def test_who_could_say_anything_of_others_is_refused(
    settings: PeeringSettings, asked: AuthenticationRequired, reason: str
) -> None:
    if reason:
        with pytest.raises(NotAuthorizedError, match=reason):
            check_peer(Keys(), settings, asked)
    else:
        check_peer(Keys(), settings, asked)


def test_what_nodes_have_said_themselves_counts() -> None:
    good, other, bad = words(1), words(2), words(3, signature=b"mine")
    assert judge_nodes(Keys(), [good, other]) == Judgement((good, other))
    assert judge_nodes(Keys(), []) == Judgement(())
    found = judge_nodes(Keys(), [good, bad, other])
    assert found == Judgement((), lie="node 0.0:0.3: not its own words (signature)")


def test_a_certificate_that_has_ended_is_nobodys_lie() -> None:
    good, late = words(1), words(2)
    found = judge_nodes(Keys(2), [late, good])
    assert found == Judgement((good,), (NodeUnproved(node=NodeId(2), reason="over"),))
