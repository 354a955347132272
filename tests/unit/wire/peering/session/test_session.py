"""Commands, and two sessions under random legal ones: both agree, and nothing is left over."""

from __future__ import annotations

import gc
import hashlib
import hmac
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from laps_wire.errors import EncodeError, StateError
from laps_wire.nodeid import NodeId
from laps_wire.peering import cpp, laps2
from laps_wire.peering.errors import CloseCode
from laps_wire.peering.laps2 import (
    AuthScheme,
    Bases,
    Direction,
    Evidence,
    Feature,
    Mode,
    RelayType,
    Settings,
    SnsRefusal,
    Stamp,
)
from laps_wire.peering.session import (
    CPP_16,
    LAPS2,
    Arbiter,
    AuthenticationRequired,
    AuthenticationStep,
    Closed,
    ControlStreamLost,
    DataDropped,
    Draining,
    Drop,
    Dropped,
    Established,
    Event,
    Grant,
    NodesAdvertised,
    PeeringSession,
    Refused,
    Role,
    SnsAdvertised,
    SnsRefusedByPeer,
    SnsStanding,
    SnsWithdrawn,
    State,
    Staying,
    StreamData,
    SubscribesAdvertised,
    SyncBegan,
    SyncEnded,
    SyncRequested,
)
from testkit.peering_pair import DIALLER, LISTENER, Pair, agreeable, config, node

A, B, C = NodeId(1), NodeId(2), NodeId(3)
SUBSCRIBE = laps2.SubscribeInfo(A, Stamp(1, 1), (1,), 2, 3)


def silent(session: PeeringSession, now: float, event: object) -> None:
    """An application that does not answer."""


# Authentication: the session asks, the application signs and verifies


class SharedKey:
    """An application that proves and checks scheme 3: HMAC-SHA256 with a key that both know."""

    def __init__(self, key: bytes) -> None:
        self.key = key

    def evidence(self, session: PeeringSession) -> Evidence:
        draft = Evidence(AuthScheme.SHARED_KEY, b"key 1")
        signature = hmac.digest(self.key, session.transcript(evidence=draft), hashlib.sha256)
        return Evidence(draft.scheme, draft.credential, signature)

    def __call__(self, session: PeeringSession, now: float, event: Event) -> None:
        if not isinstance(event, AuthenticationRequired):
            return
        if event.step is AuthenticationStep.SIGN:
            session.prove(now, evidence=self.evidence(session))
            return
        assert event.evidence is not None
        expected = hmac.digest(self.key, event.transcript, hashlib.sha256)
        if not hmac.compare_digest(expected, event.evidence.signature):
            session.refuse(now, CloseCode.NOT_AUTHORIZED, "the proof does not hold")
        elif session.state is State.VERIFYING and event.peer_info is not None:
            listener = session._config.role is Role.LISTENER
            evidence = self.evidence(session) if listener else laps2.NO_EVIDENCE
            session.accept(now, evidence=evidence)


def authenticated(one: SharedKey, other: SharedKey) -> Pair:
    schemes = (AuthScheme.SHARED_KEY,)
    pair = Pair(
        config(Role.DIALLER, schemes=schemes),
        config(Role.LISTENER, schemes=schemes),
        answer=lambda session, now, event: (one if session is pair.dialler else other)(
            session, now, event
        ),
    )
    pair.dialler.connect(pair.now)
    pair.run()
    return pair


def test_two_relays_that_share_a_key() -> None:
    pair = authenticated(SharedKey(b"secret"), SharedKey(b"secret"))
    assert pair.dialler.established
    assert pair.listener.established


def test_a_dialler_with_another_key_is_refused() -> None:
    pair = authenticated(SharedKey(b"guess"), SharedKey(b"secret"))
    assert pair.events[DIALLER][-2:] == [
        Refused(code=0x2, reason="the proof does not hold"),
        Closed(code=0x2, reason="the proof does not hold", by_peer=True),
    ]
    assert pair.events[LISTENER][-1] == Closed(
        code=0x2, reason="the proof does not hold", by_peer=True
    )


def test_a_listener_that_can_not_prove_itself_is_left() -> None:
    class Forgetful(SharedKey):
        def evidence(self, session: PeeringSession) -> Evidence:
            assert session.state is State.VERIFYING
            return Evidence(AuthScheme.SHARED_KEY, b"key 1", b"?")

    pair = authenticated(SharedKey(b"secret"), Forgetful(b"secret"))
    assert pair.events[DIALLER][-1] == Closed(code=0x2, reason="the proof does not hold")
    assert not any(isinstance(event, Established) for event in pair.events[DIALLER])
    assert pair.events[LISTENER][-1] == Closed(
        code=0x2, reason="the proof does not hold", by_peer=True
    )


def test_a_refusal_may_say_where_to_go() -> None:
    pair = Pair(answer=silent)
    pair.dialler.connect(pair.now)
    pair.run()
    pair.dialler.prove(pair.now)
    pair.run()
    pair.listener.refuse(
        pair.now, CloseCode.OVERLOADED, "full", retry_after_ms=5000, redirect=("edge-2",)
    )
    pair.run()
    assert pair.events[DIALLER][-2] == Refused(
        code=0xF, reason="full", retry_after_ms=5000, redirect=("edge-2",)
    )


# One control connection, with two real sessions


class Relay:
    """What a peer manager does with an arbiter and its sessions, for one peer."""

    def __init__(self, number: int, peer: int) -> None:
        self.arbiter: Arbiter[Pair] = Arbiter(number, peer)

    def answer(self, pair: Pair, session: PeeringSession, now: float, event: Event) -> None:
        if isinstance(event, Closed):
            self.arbiter.closed(pair)
        if not isinstance(event, AuthenticationRequired):
            return
        if event.step is AuthenticationStep.SIGN:
            ask = event.mode.control and self.arbiter.may_ask
            self.arbiter.dialled(pair, ask=ask)
            session.prove(now, mode=event.mode if ask else Mode.DATA)
            return
        assert event.peer_info is not None
        epoch = event.peer_info.node.stamp.epoch
        if session is pair.dialler:
            self.arbiter.answered(pair, control=event.mode.control, epoch=epoch)
            session.accept(now)
            return
        verdict = self.arbiter.answer(pair, ask=event.mode.control, epoch=epoch)
        session.accept(now, mode=event.mode if verdict.grant is Grant.CONTROL else Mode.DATA)


@pytest.mark.parametrize("slow", [0, 1])
def test_both_dial_at_once_and_the_lower_nodes_connection_carries_control(slow: int) -> None:
    relays = {10: Relay(10, 20), 20: Relay(20, 10)}
    pairs: list[Pair] = []
    for number, peer in ((10, 20), (20, 10)):
        pair = Pair(config(Role.DIALLER, number), config(Role.LISTENER, peer), answer=silent)

        def answer(session: PeeringSession, now: float, event: Event, pair: Pair = pair) -> None:
            relay = relays[int(session._config.node_info.node.node_id)]
            relay.answer(pair, session, now, event)

        pair.answer = answer
        pairs.append(pair)
    for pair in pairs:
        pair.dialler.connect(pair.now)
        pair.flush(DIALLER)
        pair.hop()
    for pair in pairs:
        pair.hop()  # CHALLENGE arrives: both have asked now
    for pair in (pairs[slow], pairs[1 - slow]):
        pair.run()
    modes = [pair.dialler.agreement.mode for pair in pairs if pair.dialler.agreement]
    assert modes == [Mode.BOTH, Mode.DATA]
    assert relays[10].arbiter.held is relays[20].arbiter.held is pairs[0]
    # The winner ends; nothing holds control, and the next one to dial gets it.
    pairs[0].dialler.close(pairs[0].now)
    pairs[0].run()
    assert [relay.arbiter.may_ask for relay in relays.values()] == [True, True]


# Messages


def test_send_and_receive() -> None:
    pair = Pair(chunk=1).establish()
    pair.dialler.send(pair.now, laps2.SyncBegin(Bases.NODES))
    pair.dialler.send(pair.now, laps2.NodeAdvertise((node(1), node(2))))
    pair.dialler.send(pair.now, laps2.SyncEnd(Bases.NODES))
    pair.dialler.send(pair.now, laps2.SyncRequest(Bases.SUBSCRIBES))
    pair.listener.send(pair.now, laps2.SubscribeAdvertise((SUBSCRIBE,)))
    pair.run()
    assert pair.events[LISTENER][:3] == [
        SyncBegan(bases=Bases.NODES),
        NodesAdvertised(nodes=(node(1), node(2))),
        SyncEnded(bases=Bases.NODES),
    ]
    assert pair.events[DIALLER] == [SubscribesAdvertised(subscribes=(SUBSCRIBE,))]


@pytest.mark.parametrize(
    "message",
    [
        laps2.Drain(5),
        laps2.ControlLatch(1),
        laps2.SnsAdvertise(1, 1, 0, (A,)),
        laps2.SnsRefused(1, 1, 1),
        laps2.ConnectRefused(1),
        object(),
    ],
)
def test_messages_with_a_command_of_their_own_are_not_sent(message: Any) -> None:
    session = Pair().establish().dialler
    with pytest.raises(StateError, match="is not sent with send"):
        session.send(200.0, message)


@pytest.mark.parametrize(
    ("mode", "message", "why"),
    [
        (Mode.DATA, laps2.NodeAdvertise(()), "node information on a session without control"),
        (Mode.DATA, laps2.SyncBegin(Bases.NODES), "has no place here"),
        (Mode.BOTH, laps2.SyncBegin(Bases.SNS), "has no place here"),
        (Mode.BOTH, laps2.SyncEnd(Bases.ALL), "has no place here"),
        (Mode.CONTROL, laps2.SyncRequest(Bases.SNS), "has no place here"),
    ],
)
def test_what_the_session_does_not_carry_is_not_sent(mode: Mode, message: Any, why: str) -> None:
    session = Pair(config(Role.DIALLER, mode=mode)).establish().dialler
    with pytest.raises(StateError, match=why):
        session.send(200.0, message)
    assert session.poll_transmit() is None


def test_a_synchronisation_begins_and_ends_once() -> None:
    pair = Pair().establish()
    session = pair.dialler
    with pytest.raises(StateError, match=r"Bases\.NODES.* has no place"):
        session.send(pair.now, laps2.SyncEnd(Bases.NODES))
    session.send(pair.now, laps2.SyncBegin(Bases.NODES | Bases.ANNOUNCES))
    with pytest.raises(StateError, match=r"Bases\.NODES.* has no place"):
        session.send(pair.now, laps2.SyncBegin(Bases.NODES | Bases.SUBSCRIBES))
    session.send(pair.now, laps2.SyncEnd(Bases.NODES))
    session.send(pair.now, laps2.SyncBegin(Bases.NODES))
    # A move makes it void: it is to be begun anew, and not to be ended.
    session.open_control_stream(pair.now, 4)
    with pytest.raises(StateError, match="has no place"):
        session.send(pair.now, laps2.SyncEnd(Bases.ANNOUNCES))
    session.send(pair.now, laps2.SyncBegin(Bases.ANNOUNCES))
    session.send(pair.now, laps2.SyncEnd(Bases.ANNOUNCES))
    pair.run()
    assert pair.listener.established


def test_a_stub_is_kept_from_its_own_mistakes() -> None:
    stub = Pair(config(Role.DIALLER, node_info=node(0, RelayType.STUB))).establish().dialler
    with pytest.raises(StateError, match="node information from a Stub"):
        stub.send(200.0, laps2.NodeAdvertise(()))
    with pytest.raises(StateError, match="subscriber node set from a Stub"):
        stub.advertise_sns(200.0, [A])
    stub.send(200.0, laps2.SubscribeAdvertise((SUBSCRIBE,)))


def test_a_message_that_can_not_be_written_changes_nothing() -> None:
    session = Pair().establish().dialler
    before = session.poll_timeout()
    with pytest.raises(EncodeError):
        session.send(session._now + 1, laps2.NodeWithdraw((B, A)))  # not ascending
    assert session.poll_transmit() is None
    assert session.poll_timeout() == before


def test_commands_before_the_session_is_established() -> None:
    session = Pair().dialler
    with pytest.raises(StateError, match="KEEPALIVE can not be sent: the session is idle"):
        session.send(1.0, laps2.Keepalive())
    with pytest.raises(StateError, match="PROOF can not be sent"):
        session.prove(1.0)
    with pytest.raises(StateError, match="nothing to accept: the session is idle"):
        session.accept(1.0)
    with pytest.raises(StateError, match="nothing to refuse"):
        session.refuse(1.0, 1)
    with pytest.raises(StateError, match="CONTROL_LATCH can not be sent"):
        session.open_control_stream(1.0, 4)
    with pytest.raises(StateError, match="DRAIN can not be sent"):
        session.drain(1.0, 5.0)
    for command in (
        lambda: session.advertise_sns(1.0, [A]),
        lambda: session.update_sns(1.0, 1, [A]),
        lambda: session.withdraw_sns(1.0, 1),
        lambda: session.refuse_sns(1.0, 1, SnsRefusal.POLICY),
    ):
        with pytest.raises(StateError, match="can not be sent"):
            command()
    with pytest.raises(StateError, match="CONNECT can not be sent: the session is listening"):
        Pair().listener.connect(1.0)
    session.connect(1.0)
    with pytest.raises(StateError, match="CONNECT can not be sent: the session is connect sent"):
        session.connect(1.0)


def test_closing() -> None:
    pair = Pair().establish()
    pair.listener.close(pair.now)
    with pytest.raises(StateError, match="closed already"):
        pair.listener.close(pair.now)
    with pytest.raises(StateError, match="the session is closed"):
        pair.listener.send(pair.now, laps2.Keepalive())
    pair.run()
    assert pair.events[DIALLER] == [Closed(code=0, by_peer=True)]


# Control streams


def test_only_newer_streams_of_the_dialler() -> None:
    pair = Pair().establish()
    with pytest.raises(StateError, match="not a newer bidirectional stream"):
        pair.dialler.open_control_stream(pair.now, 0)
    with pytest.raises(StateError, match="can not be sent"):
        pair.listener.open_control_stream(pair.now, 4)
    assert pair.dialler.poll_transmit() is None


def test_the_cpp_relay_has_one_control_stream() -> None:
    pair = Pair(flavour=CPP_16).establish()
    with pytest.raises(StateError, match="can not be sent"):
        pair.dialler.open_control_stream(pair.now, 4)


def test_sets_survive_a_move() -> None:
    pair = Pair(stream_delay={0: 3.0}).establish()
    first = pair.dialler.advertise_sns(pair.now, [A], scope="gold")
    second = pair.dialler.advertise_sns(pair.now, [B])
    pair.run()
    pair.forget()
    # These two are lost with the old stream; the synchronisation makes up for them.
    pair.dialler.update_sns(pair.now, first, [A, C])
    pair.dialler.withdraw_sns(pair.now, second)
    pair.flush(DIALLER)
    pair.dialler.open_control_stream(pair.now, 4)
    pair.run()
    sets = [
        event for event in pair.events[LISTENER] if isinstance(event, SnsAdvertised | SnsWithdrawn)
    ]
    assert sets == [
        SnsAdvertised(
            sns_id=first,
            version=3,
            hops=0,
            targets=frozenset({A, C}),
            added=(C,),
            removed=(),
            scope="gold",
        ),
        SnsWithdrawn(sns_id=second, targets=(B,)),
    ]


# Draining


def test_a_synchronisation_that_lost_its_stream_is_not_ended_on_another() -> None:
    pair = Pair().establish()
    pair.dialler.send(pair.now, laps2.SyncBegin(Bases.NODES))
    pair.run()
    pair.dialler.handle_stop_sending(pair.now, 0)
    pair.dialler.send(pair.now, laps2.NodeAdvertise((node(7),)))
    pair.dialler.send(pair.now, laps2.SyncEnd(Bases.NODES))
    pair.dialler.open_control_stream(pair.now, 4)
    pair.run()
    assert pair.listener.established
    assert SyncEnded(bases=Bases.NODES) not in pair.events[LISTENER]
    assert NodesAdvertised(nodes=(node(7),)) in pair.events[LISTENER]
    assert SyncRequested(bases=Bases.ALL & ~Bases.SNS) in pair.events[DIALLER]


def refuse_every_set(session: PeeringSession, now: float, event: Event) -> None:
    agreeable(session, now, event)
    if isinstance(event, SnsAdvertised):
        session.refuse_sns(now, event.sns_id, SnsRefusal.POLICY)


@pytest.mark.parametrize("side", [DIALLER, LISTENER])
def test_a_refused_set_is_advertised_again_in_a_synchronisation_only(side: int) -> None:
    pair = Pair(answer=refuse_every_set).establish()
    session, peer = pair.sessions[side], pair.sessions[1 - side]
    first = session.advertise_sns(pair.now, [A])
    pair.run()
    assert pair.events[side] == [
        SnsRefusedByPeer(sns_id=first, version=1, code=SnsRefusal.POLICY, targets=())
    ]
    # Whatever happens to the set or to others: no SNS_ADVERTISE of an ID that the peer gave up.
    session.update_sns(pair.now, first, [A, B])
    session.advertise_sns(pair.now, [C])
    session.update_sns(pair.now, first, [B])
    pair.run()
    peer.send(pair.now, laps2.SyncRequest(Bases.SNS))
    pair.run()
    session.handle_stop_sending(pair.now, 0)
    session.update_sns(pair.now, first, [C])
    pair.dialler.open_control_stream(pair.now, 4)
    pair.run()
    session.withdraw_sns(pair.now, first)
    pair.run()
    assert session.established
    assert peer.established


def test_a_synchronisation_of_sets_that_is_cut_by_a_move_begins_anew() -> None:
    """The rest of it must not follow on the new stream: outside it would be a violation."""
    pair = Pair(answer=refuse_every_set).establish()
    large = [NodeId(number) for number in range(1, 4097)]
    for _ in range(4):
        pair.listener.advertise_sns(pair.now, large)
    pair.run()
    pair.listener.handle_stream_data(pair.now, 0, laps2.encode(laps2.SyncRequest(Bases.SNS)))
    begun = pair.listener.poll_transmit()  # the transport takes no more for now
    assert isinstance(begun, StreamData)
    pair.dialler.handle_stream_data(pair.now, 0, begun.data)
    pair.stream_delay[0] = 1.0  # the new stream is faster than the end of the old one
    pair.dialler.open_control_stream(pair.now, 4)
    pair.flush(DIALLER)
    while not pair.quiet:
        pair.hop()
    assert pair.closed == [None, None]
    assert pair.dialler.control_stream == pair.listener.control_stream == 4


def test_draining() -> None:
    pair = Pair().establish()
    pair.dialler.drain(pair.now, 2.5, "upgrade", ("edge-2",))
    start = pair.now
    pair.run()
    assert pair.events[LISTENER] == [
        Draining(deadline=pair.now + 2.5, reason="upgrade", alternates=("edge-2",))
    ]
    with pytest.raises(StateError, match="DRAIN can not be sent: the session is draining"):
        pair.dialler.drain(pair.now, 1.0)
    pair.listener.drain(pair.now, 60.0)
    pair.run()
    assert pair.dialler.state is pair.listener.state is State.BOTH_DRAINING
    pair.advance(2.0)
    assert pair.dialler.established
    pair.advance(1.0)
    assert pair.events[DIALLER][-1] == Closed(code=0x10, reason="drained")
    assert pair.events[LISTENER][-1] == Closed(code=0x10, reason="drained", by_peer=True)
    assert pair.now >= start + 2.5


@pytest.mark.parametrize("seconds", [-1.0, float("inf"), float("nan")])
def test_draining_takes_a_time(seconds: float) -> None:
    session = Pair().establish().dialler
    with pytest.raises(StateError, match="seconds"):
        session.drain(200.0, seconds)
    assert session.state is State.ESTABLISHED
    assert session.poll_transmit() is None


def test_draining_a_cpp_session_just_closes_later() -> None:
    pair = Pair(flavour=CPP_16).establish()
    pair.dialler.drain(pair.now, 1.0)
    pair.advance(0.9)
    assert (pair.events[LISTENER], pair.dialler.state) == ([], State.ESTABLISHED)
    pair.advance(0.2)
    assert pair.events[LISTENER] == [Closed(code=0x10, reason="drained", by_peer=True)]


def stayers() -> Pair:
    features = (Feature.STAYS,)
    return Pair(
        config(Role.DIALLER, features=features), config(Role.LISTENER, features=features)
    ).establish()


def test_a_drain_is_taken_back_and_said_again() -> None:
    pair = stayers()
    with pytest.raises(StateError, match="nothing can be taken back"):
        pair.dialler.stay(pair.now)
    for _ in range(2):
        pair.dialler.drain(pair.now, 2.5)
        pair.run()
        assert pair.dialler.can_stay
        pair.dialler.stay(pair.now)
        pair.run()
        assert pair.events[LISTENER][-1] == Staying()
        assert pair.dialler.state is pair.listener.state is State.ESTABLISHED
    pair.advance(10.0)
    assert pair.closed == [None, None]


def test_one_of_two_that_drain_stays() -> None:
    pair = stayers()
    pair.dialler.drain(pair.now, 5.0)
    pair.listener.drain(pair.now, 60.0)
    pair.run()
    pair.dialler.stay(pair.now)
    pair.run()
    assert pair.dialler.state is State.PEER_DRAINING
    assert pair.listener.state is State.DRAINING
    pair.advance(10.0)
    assert pair.closed == [None, None]


def test_who_does_not_know_how_is_not_told() -> None:
    pair = Pair().establish()
    pair.dialler.drain(pair.now, 2.5)
    assert not pair.dialler.can_stay
    with pytest.raises(StateError, match="nothing can be taken back: the session is draining"):
        pair.dialler.stay(pair.now)


def test_nobody_stays_who_has_not_said_that_he_goes() -> None:
    pair = stayers()
    pair.dialler.handle_stream_data(pair.now, 0, laps2.encode(laps2.Stay()))
    pair.run()
    closed = pair.events[DIALLER][-1]
    assert isinstance(closed, Closed)
    assert closed.code == CloseCode.PROTOCOL_VIOLATION


def test_a_cpp_session_just_stays() -> None:
    pair = Pair(flavour=CPP_16).establish()
    pair.dialler.drain(pair.now, 1.0)
    pair.dialler.stay(pair.now)
    pair.advance(5.0)
    assert pair.closed == [None, None]


# Subscriber node sets and early data


def test_sets() -> None:
    pair = Pair().establish()
    sns_id = pair.dialler.advertise_sns(pair.now, [B, A], hops=1, scope="gold")
    pair.dialler.update_sns(pair.now, sns_id, [A, C])
    pair.dialler.update_sns(pair.now, sns_id, [A, C])  # no change, no message
    pair.dialler.withdraw_sns(pair.now, sns_id)
    pair.run()
    made, changed, ended = pair.events[LISTENER]
    assert isinstance(made, SnsAdvertised)
    assert (made.sns_id, made.hops, made.targets) == (1, 1, frozenset({A, B}))
    assert isinstance(changed, SnsAdvertised)
    assert (changed.added, changed.removed) == ((C,), (B,))
    assert made.scope == changed.scope == "gold"
    assert ended == SnsWithdrawn(sns_id=1, targets=(A, C))


def test_a_set_that_is_emptied_before_it_ends() -> None:
    pair = Pair().establish()
    sns_id = pair.dialler.advertise_sns(pair.now, [A, B])
    pair.dialler.withdraw_sns(pair.now, sns_id, empty=True)
    pair.run()
    _, emptied, ended = pair.events[LISTENER]
    assert isinstance(emptied, SnsAdvertised)
    assert (emptied.targets, emptied.removed) == (frozenset(), (A, B))
    assert ended == SnsWithdrawn(sns_id=1, targets=())


def test_refusing_targets_and_sets() -> None:
    pair = Pair().establish()
    sns_id = pair.dialler.advertise_sns(pair.now, [A, B])
    pair.run()
    pair.listener.refuse_sns(pair.now, sns_id, SnsRefusal.NOT_ADVERTISED, [B, B])
    pair.run()
    assert pair.events[DIALLER] == [
        SnsRefusedByPeer(sns_id=1, version=1, code=SnsRefusal.NOT_ADVERTISED, targets=(B,))
    ]
    assert pair.listener.hold_data(pair.now, sns_id, "x", 1) == (SnsStanding.LIVE, ())
    pair.listener.refuse_sns(pair.now, sns_id, SnsRefusal.POLICY)
    pair.run()
    assert pair.events[DIALLER][-1] == SnsRefusedByPeer(
        sns_id=1, version=1, code=SnsRefusal.POLICY, targets=()
    )
    assert pair.listener.hold_data(pair.now, sns_id, "x", 1)[0] is SnsStanding.GONE
    with pytest.raises(StateError, match="no subscriber node set 1"):
        pair.listener.refuse_sns(pair.now, sns_id, SnsRefusal.POLICY)


def test_sets_need_data_in_that_direction() -> None:
    one_way = Pair(config(Role.DIALLER, direction=Direction.UNIDIRECTIONAL)).establish()
    with pytest.raises(StateError, match="sends no data"):
        one_way.listener.advertise_sns(one_way.now, [A])
    with pytest.raises(StateError, match="to the side that sends no data"):
        one_way.dialler.refuse_sns(one_way.now, 1, SnsRefusal.POLICY)
    assert one_way.dialler.advertise_sns(one_way.now, [A]) == 1


def test_data_that_overtakes_its_set() -> None:
    pair = Pair().establish()
    sns_id = pair.dialler.advertise_sns(pair.now, [A])
    assert pair.listener.hold_data(pair.now, sns_id, "first", 10) == (SnsStanding.UNKNOWN, ())
    pair.run()
    (made,) = pair.events[LISTENER]
    assert isinstance(made, SnsAdvertised)
    assert made.released == ("first",)


def test_data_before_the_dialler_has_verified_the_listener_waits() -> None:
    pair = Pair(answer=silent)
    pair.dialler.connect(pair.now)
    pair.run()
    pair.dialler.prove(pair.now)
    pair.run()
    pair.listener.accept(pair.now)
    sns_id = pair.listener.advertise_sns(pair.now, [A])
    pair.run()
    assert pair.dialler.hold_data(pair.now, sns_id, "x", 1) == (SnsStanding.UNKNOWN, ())
    pair.dialler.accept(pair.now)
    made = pair.dialler.poll_events()[-1]
    assert isinstance(made, SnsAdvertised)
    assert made.released == ("x",)


def test_data_that_overtakes_the_acceptance_waits() -> None:
    """A listener is established when it answers; its data may be faster than its answer."""
    pair = waiting_for_the_answer()
    session = pair.dialler
    assert session.hold_data(pair.now, 1, "x", 1) == (SnsStanding.UNKNOWN, ())
    pair.listener.accept(pair.now)
    pair.listener.advertise_sns(pair.now, [A])
    pair.run()
    session.accept(pair.now)
    made = session.poll_events()[-1]
    assert isinstance(made, SnsAdvertised)
    assert made.released == ("x",)


def waiting_for_the_answer(**changes: Any) -> Pair:
    pair = Pair(config(Role.DIALLER, **changes), answer=silent)
    pair.dialler.connect(pair.now)
    pair.run()
    pair.dialler.prove(pair.now)
    pair.run()
    return pair


def test_data_that_overtakes_the_acceptance_of_a_cpp_relay_waits() -> None:
    pair = Pair(flavour=CPP_16)
    pair.dialler.connect(pair.now)
    assert pair.dialler.hold_data(pair.now, 2, "x", 1) == (SnsStanding.UNKNOWN, ())
    pair.run()
    pair.listener.advertise_sns(pair.now, [A])
    pair.run()
    made = pair.events[DIALLER][-1]
    assert isinstance(made, SnsAdvertised)
    assert (made.sns_id, made.released) == (2, ("x",))


def test_data_that_overtook_an_acceptance_without_data() -> None:
    pair = waiting_for_the_answer()
    pair.dialler.hold_data(pair.now, 1, "x", 1)
    pair.listener.accept(pair.now, mode=Mode.CONTROL)
    pair.run()
    dropped, closed = pair.events[DIALLER][-2:]
    assert dropped == DataDropped(dropped=(Dropped(1, "x", Drop.CLOSED),))
    assert closed == Closed(code=0x3, reason="data from the side that sends no data")


def test_data_before_the_answer_that_can_not_be_granted() -> None:
    pair = waiting_for_the_answer(direction=Direction.UNIDIRECTIONAL)
    pair.dialler.hold_data(pair.now, 1, "x", 1)
    assert pair.dialler.state is State.CLOSED


def test_the_end_of_a_session_leaves_no_data_waiting() -> None:
    pair = waiting_for_the_answer()
    pair.dialler.hold_data(pair.now, 1, "x", 1)
    pair.dialler.close(pair.now)
    dropped = pair.dialler.poll_events()[0]
    assert dropped == DataDropped(dropped=(Dropped(1, "x", Drop.CLOSED),))
    # And what comes after the end does not wait for what can not come.
    gone = (SnsStanding.GONE, (Dropped(1, "y", Drop.GONE),))
    assert pair.dialler.hold_data(pair.now, 1, "y", 1) == gone
    session = Pair().establish().listener
    session.close(200.0)
    assert session.hold_data(200.0, 1, "y", 1) == gone
    assert session.forwarding is not None
    assert len(session.forwarding.unknown) == 0


def test_data_whose_time_is_over_is_told_also_when_newer_data_comes_first() -> None:
    """A timer may be late; the peer is told all the same that its set did not come."""
    pair = Pair().establish()
    pair.listener.hold_data(pair.now, 5, "x", 1)
    pair.now += 1.5
    assert pair.listener.hold_data(pair.now, 6, "y", 1) == (SnsStanding.UNKNOWN, ())
    pair.run()
    assert pair.events[LISTENER] == [DataDropped(dropped=(Dropped(5, "x", Drop.TIME),))]
    assert pair.events[DIALLER] == [
        SnsRefusedByPeer(sns_id=5, version=0, code=SnsRefusal.UNKNOWN_SET, targets=())
    ]


@pytest.mark.parametrize(
    ("pair", "side"),
    [
        (Pair(config(Role.DIALLER, mode=Mode.CONTROL)).establish(), LISTENER),
        (Pair(config(Role.DIALLER, direction=Direction.UNIDIRECTIONAL)).establish(), DIALLER),
        (Pair(), LISTENER),
    ],
)
def test_data_from_the_side_that_sends_none(pair: Pair, side: int) -> None:
    session = pair.sessions[side]
    gone = (SnsStanding.GONE, (Dropped(1, "x", Drop.GONE),))
    assert session.hold_data(pair.now, 1, "x", 1) == gone
    closed = session.poll_events()[-1]
    assert closed == Closed(code=0x3, reason="data from the side that sends no data")
    assert session.hold_data(pair.now, 1, "x", 1) == gone  # nothing more happens


# Growth


def reachable(session: PeeringSession) -> int:
    """How many objects a session keeps alive, code not counted."""
    code = (type, ModuleType, FunctionType, BuiltinFunctionType)
    found: dict[int, object] = {}
    waiting: list[object] = [session]
    while waiting:
        each = waiting.pop()
        if id(each) not in found and not isinstance(each, code):
            found[id(each)] = each
            waiting.extend(gc.get_referents(each))
    return len(found)


def test_sets_and_moves_leave_nothing_behind() -> None:
    pair = Pair(delay=0.0).establish()

    def churn(rounds: int) -> list[int]:
        for _ in range(rounds):
            for session in pair.sessions:
                sns_id = session.advertise_sns(pair.now, [A, B])
                session.update_sns(pair.now, sns_id, [B, C])
                session.withdraw_sns(pair.now, sns_id)
            newest = pair.dialler.control_stream
            assert newest is not None
            pair.dialler.open_control_stream(pair.now, newest + 4)
            pair.run()
        return [reachable(session) for session in pair.sessions]

    before, after = churn(10), churn(200)
    for was, now in zip(before, after, strict=True):
        assert now <= was + 10  # small numbers are shared, larger ones are not
    for session in pair.sessions:
        forwarding = session.forwarding
        assert forwarding is not None
        assert (len(forwarding.sender), len(forwarding.receiver)) == (0, 0)
        assert (session._streams.stale, session._streams.buffered) == (0, 0)


# The C++ relay


def test_a_whole_cpp_session() -> None:
    pair = Pair(flavour=CPP_16, chunk=5)
    pair.dialler.connect(pair.now)
    pair.run()
    assert pair.dialler.established
    info = cpp.NodeInfo(A, cpp.NodeType.EDGE, b"relay-b")
    pair.dialler.send(pair.now, cpp.NodeInfoAdvertise(info))
    sns_id = pair.dialler.advertise_sns(pair.now, [B])
    pair.dialler.update_sns(pair.now, sns_id, [B, C])
    pair.dialler.withdraw_sns(pair.now, sns_id)
    pair.run()
    nodes, made, changed, ended = pair.events[LISTENER][-4:]
    assert nodes == NodesAdvertised(nodes=(info,))
    assert isinstance(made, SnsAdvertised)
    assert made.sns_id == 2
    assert isinstance(changed, SnsAdvertised)
    assert changed.added == (C,)
    assert ended == SnsWithdrawn(sns_id=2, targets=(B, C))
    pair.advance(3600.0)
    assert pair.dialler.established  # it has no hold time


def test_a_cpp_listener_refuses() -> None:
    def refuse(session: PeeringSession, now: float, event: Event) -> None:
        if isinstance(event, AuthenticationRequired):
            session.refuse(now, CloseCode.NOT_AUTHORIZED, "no")

    pair = Pair(flavour=CPP_16, answer=refuse)
    pair.dialler.connect(pair.now)
    pair.run()
    assert pair.events[DIALLER] == [
        Refused(code=0x2, reason="C++ relay error 2"),
        Closed(code=0x2, reason="C++ relay error 2", by_peer=True),
    ]


# Two whole sessions under random commands


class PairMachine(RuleBasedStateMachine):
    """Two sessions, any legal command, any chunking and delay: both sides keep agreeing.

    Streams are lossless here, but a move of the control stream may lose what was under way; after
    the synchronisation that follows, the receiver's sets are the sender's again.
    """

    @initialize(
        mode=st.sampled_from([Mode.BOTH, Mode.DATA, Mode.CONTROL]),
        direction=st.sampled_from(list(Direction)),
        chunk=st.sampled_from([None, 1, 7, 100]),
        delays=st.dictionaries(st.sampled_from([0, 4, 8]), st.sampled_from([0.0, 0.3, 2.0])),
    )
    def begin(
        self,
        mode: Mode,
        direction: Direction,
        chunk: int | None,
        delays: dict[int, float],
    ) -> None:
        settings = Settings(max_sns_sets=4, max_sns_targets=5, hash_check=7)
        self.pair = Pair(
            config(Role.DIALLER, mode=mode, direction=direction, settings=settings),
            config(Role.LISTENER, settings=settings),
            chunk=chunk,
            stream_delay=delays,
            answer=self.answer,
        )
        self.next_stream = 4
        self.sent: tuple[list[int], list[int]] = ([], [])
        self.got: tuple[list[int], list[int]] = ([], [])
        self.lossy = False
        self.pair.dialler.connect(self.pair.now)
        self.pair.run()
        assert self.pair.dialler.established
        assert self.pair.listener.established

    def answer(self, session: PeeringSession, now: float, event: Event) -> None:
        agreeable(session, now, event)
        if isinstance(event, NodesAdvertised):
            side = DIALLER if session is self.pair.dialler else LISTENER
            self.got[side].extend(int(each.node.node_id) for each in event.nodes)

    def running(self) -> bool:
        return all(session.established for session in self.pair.sessions)

    @precondition(lambda self: self.running())
    @rule(side=st.integers(0, 1))
    def send_a_node(self, side: int) -> None:
        session = self.pair.sessions[side]
        number = len(self.sent[side]) + 1
        assert session.rights is not None
        if session.rights.mode.control:
            session.send(self.pair.now, laps2.NodeAdvertise((node(number),)))
            self.sent[side].append(number)

    def sets(self, side: int) -> list[int]:
        forwarding = self.pair.sessions[side].forwarding
        assert forwarding is not None
        return [each.sns_id for each in forwarding.sender]

    @precondition(lambda self: self.running())
    @rule(
        side=st.integers(0, 1),
        nodes=st.sets(st.integers(1, 9).map(NodeId), min_size=1, max_size=5),
        choice=st.integers(0, 9),
    )
    def change_sets(self, side: int, nodes: set[NodeId], choice: int) -> None:
        session, live = self.pair.sessions[side], self.sets(side)
        assert session.rights is not None
        if not session.rights.sends_data:
            return
        if not live or (choice < 5 and len(live) < 4):
            session.advertise_sns(self.pair.now, nodes)
        elif choice < 8:
            session.update_sns(self.pair.now, live[choice % len(live)], nodes)
        else:
            session.withdraw_sns(self.pair.now, live[choice % len(live)])

    @precondition(lambda self: self.running() and self.next_stream <= 12)
    @rule()
    def move_the_control_stream(self) -> None:
        self.pair.dialler.open_control_stream(self.pair.now, self.next_stream)
        self.next_stream += 4
        self.lossy = True

    @precondition(lambda self: self.running())
    @rule(side=st.integers(0, 1), sns_id=st.integers(1, 12))
    def early_data(self, side: int, sns_id: int) -> None:
        session = self.pair.sessions[side]
        assert session.rights is not None
        if session.rights.receives_data:
            session.hold_data(self.pair.now, sns_id, "item", 100)

    @rule(steps=st.integers(1, 12))
    def let_things_arrive(self, steps: int) -> None:
        for side in (DIALLER, LISTENER):
            self.pair.flush(side)
        for _ in range(steps):
            if not self.pair.quiet:
                self.pair.hop()

    @rule(seconds=st.sampled_from([0.1, 1.0, 20.0]))
    def time_goes_by(self, seconds: float) -> None:
        self.pair.advance(seconds)

    @invariant()
    def nobody_has_found_a_fault(self) -> None:
        if not hasattr(self, "pair"):
            return
        for events in self.pair.events:
            for event in events:
                assert not isinstance(event, Closed), event

    @invariant()
    def information_keeps_its_order(self) -> None:
        if not hasattr(self, "pair"):
            return
        for side in (DIALLER, LISTENER):
            assert self.got[side] == sorted(set(self.got[side]))
            assert set(self.got[side]) <= set(self.sent[1 - side])

    def teardown(self) -> None:
        if not hasattr(self, "pair"):
            return
        pair = self.pair
        pair.run()
        for side in (DIALLER, LISTENER):
            theirs, ours = pair.sessions[side].forwarding, pair.sessions[1 - side].forwarding
            assert theirs is not None
            assert ours is not None
            assert len(theirs.sender) == len(ours.receiver)
            for each in theirs.sender:
                served = ours.receiver.get(each.sns_id)
                assert served is not None
                assert (served.targets, served.version) == (each.targets, each.version)
            if not self.lossy:
                assert self.got[1 - side] == self.sent[side]
        assert pair.dialler.control_stream == pair.listener.control_stream == self.next_stream - 4
        # The end: every table is as empty as it was in the beginning, on both sides.
        pair.dialler.close(pair.now)
        pair.run()
        for session in pair.sessions:
            assert session.state is State.CLOSED
            assert session.poll_timeout() is None
            assert session.poll_transmit() is None
            forwarding = session.forwarding
            assert forwarding is not None
            assert (len(forwarding.sender), len(forwarding.receiver)) == (0, 0)
            assert (len(forwarding.unknown), forwarding.unknown.used_bytes) == (0, 0)


TestPairMachine = PairMachine.TestCase


def test_control_streams_that_are_lost_are_told_to_the_application() -> None:
    pair = Pair().establish()
    pair.listener.handle_stream_data(pair.now, 0, b"", fin=True)
    assert pair.listener.poll_events() == (ControlStreamLost(stream_id=0),)
    assert LAPS2.alpn == "laps-2"
