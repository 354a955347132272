"""States: every transition that exists, written out once more, and nothing beside them."""

from __future__ import annotations

from itertools import product

import pytest

from laps_wire.errors import ProtocolViolation, StateError
from laps_wire.peering.session.state import (
    ESTABLISHED_STATES,
    HANDSHAKE_STATES,
    TRANSITIONS,
    Kind,
    Role,
    Shape,
    State,
    StateMachine,
    Way,
)

# From docs/spec/laps-2.md, 4.1: "before: way KIND -> after", for each role.
DIALLER_PROVED = """
idle: sent CONNECT -> connect sent
connect sent: received CHALLENGE -> signing
connect sent: received CONNECT_REFUSED -> refused
signing: sent PROOF -> proof sent
signing: received CONNECT_REFUSED -> refused
proof sent: received CONNECT_RESPONSE -> verifying
proof sent: received CONNECT_REFUSED -> refused
verifying: inside acceptance -> established
"""
LISTENER_PROVED = """
listening: received CONNECT -> choosing
choosing: sent CHALLENGE -> challenge sent
choosing: sent CONNECT_REFUSED -> refused
challenge sent: received PROOF -> verifying
challenge sent: sent CONNECT_REFUSED -> refused
verifying: sent CONNECT_RESPONSE -> established
verifying: sent CONNECT_REFUSED -> refused
"""
DIALLER_PLAIN = """
idle: sent CONNECT -> connect sent
connect sent: received CONNECT_RESPONSE -> verifying
connect sent: received CONNECT_REFUSED -> refused
verifying: inside acceptance -> established
"""
LISTENER_PLAIN = """
listening: received CONNECT -> verifying
verifying: sent CONNECT_RESPONSE -> established
verifying: sent CONNECT_REFUSED -> refused
"""
DRAINS = """
established: sent DRAIN -> draining
established: received DRAIN -> peer draining
draining: received DRAIN -> both draining
peer draining: sent DRAIN -> both draining
draining: sent STAY -> established
peer draining: received STAY -> established
both draining: sent STAY -> peer draining
both draining: received STAY -> draining
"""
EVERYWHERE = {
    Kind.KEEPALIVE,
    Kind.NODE,
    Kind.ANNOUNCE,
    Kind.SUBSCRIBE,
    Kind.SUBSCRIBE_RESPONSE,
    Kind.FETCH,
    Kind.SYNC_REQUEST,
    Kind.SYNC,
    Kind.SNS,
    Kind.SNS_REFUSED,
    Kind.PROBE,
    Kind.PLAN,
    Kind.IGNORED,
}


def parse(text: str) -> dict[tuple[State, Way, Kind], State]:
    table = {}
    for line in text.strip().splitlines():
        before, _, rest = line.partition(": ")
        step, _, after = rest.partition(" -> ")
        way, _, kind = step.partition(" ")
        table[State(before), Way(way), Kind(kind)] = State(after)
    return table


def expected(shape: Shape, role: Role) -> dict[tuple[State, Way, Kind], State]:
    handshake = {
        (Shape.PROVED, Role.DIALLER): DIALLER_PROVED,
        (Shape.PROVED, Role.LISTENER): LISTENER_PROVED,
        (Shape.PLAIN, Role.DIALLER): DIALLER_PLAIN,
        (Shape.PLAIN, Role.LISTENER): LISTENER_PLAIN,
    }[shape, role]
    table = parse(handshake) | parse(DRAINS)
    for state, way, kind in product(ESTABLISHED_STATES, (Way.SENT, Way.RECEIVED), EVERYWHERE):
        table[state, way, kind] = state
    if shape is Shape.PROVED:
        way = Way.SENT if role is Role.DIALLER else Way.RECEIVED
        table |= {(state, way, Kind.LATCH): state for state in ESTABLISHED_STATES}
    return table | {(state, Way.RECEIVED, Kind.IGNORED): state for state in HANDSHAKE_STATES}


ALL = list(product(Shape, Role))


@pytest.mark.parametrize(("shape", "role"), ALL)
def test_the_table_is_what_the_specification_says(shape: Shape, role: Role) -> None:
    assert TRANSITIONS[shape, role] == expected(shape, role)


@pytest.mark.parametrize(("shape", "role"), ALL)
def test_everything_else_is_the_senders_fault(shape: Shape, role: Role) -> None:
    table = expected(shape, role)
    faults = 0
    for state, kind in product(State, Kind):
        machine = StateMachine(shape, role)
        machine.state = state
        assert machine.can_send(kind) is ((state, Way.SENT, kind) in table)
        if (state, Way.RECEIVED, kind) not in table:
            with pytest.raises(ProtocolViolation, match="while the session is") as caught:
                machine.received(kind)
            assert caught.value.code == 0x3
            faults += 1
        if (state, Way.SENT, kind) not in table:
            with pytest.raises(StateError, match="can not be sent"):
                machine.sent(kind)
        assert machine.state is state  # a fault changes nothing
    assert faults > 150


@pytest.mark.parametrize(("shape", "role"), ALL)
def test_every_row_is_taken(shape: Shape, role: Role) -> None:
    for (state, way, kind), after in expected(shape, role).items():
        machine = StateMachine(shape, role)
        machine.state = state
        if way is Way.SENT:
            machine.sent(kind)
        elif way is Way.RECEIVED:
            machine.received(kind)
        else:
            machine.accepted()
        assert machine.state is after


def test_roles_begin_in_their_own_states() -> None:
    assert StateMachine(Shape.PROVED, Role.DIALLER).state is State.IDLE
    assert StateMachine(Shape.PLAIN, Role.LISTENER).state is State.LISTENING


@pytest.mark.parametrize("role", Role)
def test_every_state_is_reached_and_every_state_can_end(role: Role) -> None:
    start = StateMachine(Shape.PROVED, role).state
    reached = {start}
    grown = True
    while grown:
        after = {
            to for (state, _, _), to in TRANSITIONS[Shape.PROVED, role].items() if state in reached
        }
        grown = not after <= reached
        reached |= after
    others = {State.IDLE, State.CONNECT_SENT, State.SIGNING, State.PROOF_SENT}
    if role is Role.DIALLER:
        others = {State.LISTENING, State.CHOOSING, State.CHALLENGE_SENT}
    assert reached == set(State) - others - {State.CLOSED}
    for state in reached:
        machine = StateMachine(Shape.PROVED, role)
        machine.state = state
        machine.closed()
        assert machine.state is State.CLOSED
        assert machine.is_deaf()


def test_acceptance_where_there_is_nothing_to_accept() -> None:
    machine = StateMachine(Shape.PROVED, Role.DIALLER)
    with pytest.raises(StateError, match="nothing to accept: the session is idle"):
        machine.accepted()


def test_established_and_deaf() -> None:
    for state in State:
        machine = StateMachine(Shape.PROVED, Role.LISTENER)
        machine.state = state
        assert machine.established is ("draining" in state.value or state is State.ESTABLISHED)
        assert machine.is_deaf() is (state in {State.REFUSED, State.CLOSED})
