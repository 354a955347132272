"""Transition tables and the rights of each side."""

from __future__ import annotations

from itertools import product

import pytest

from laps_wire.errors import ProtocolViolation, StateError
from laps_wire.peering.errors import ModeRefusedError
from laps_wire.peering.laps2.codepoints import Bases, Direction, Mode, RelayType
from laps_wire.peering.session import Kind, Rights, Role, State
from laps_wire.peering.session.state import (
    ESTABLISHED_STATES,
    HANDSHAKE_STATES,
    TRANSITIONS,
    Shape,
    StateMachine,
    Way,
    check_relay_types,
)

# States: every transition that exists, written out once more, and nothing beside them


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
    Kind.REPAIR,
    Kind.SYNC_REQUEST,
    Kind.SYNC,
    Kind.SNS,
    Kind.SNS_REFUSED,
    Kind.PROBE,
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
        assert machine.is_ignoring()


def test_acceptance_where_there_is_nothing_to_accept() -> None:
    machine = StateMachine(Shape.PROVED, Role.DIALLER)
    with pytest.raises(StateError, match="nothing to accept: the session is idle"):
        machine.accepted()


def test_established_and_deaf() -> None:
    for state in State:
        machine = StateMachine(Shape.PROVED, Role.LISTENER)
        machine.state = state
        assert machine.established is ("draining" in state.value or state is State.ESTABLISHED)
        assert machine.is_ignoring() is (state in {State.REFUSED, State.CLOSED})


# Rights: the table of docs/spec/laps-2.md, 4.5, cell by cell


ONE_WAY, BOTH_WAYS = Direction.UNIDIRECTIONAL, Direction.BIDIRECTIONAL
EDGE, VIA, STUB, CONTROL = RelayType.EDGE, RelayType.VIA, RelayType.STUB, RelayType.CONTROL


def rights(
    role: Role = Role.DIALLER,
    mode: Mode = Mode.BOTH,
    direction: Direction = BOTH_WAYS,
    local: RelayType = EDGE,
    peer: RelayType = EDGE,
) -> Rights:
    return Rights(role=role, mode=mode, direction=direction, local_type=local, peer_type=peer)


INFORMATION = (
    Kind.NODE,
    Kind.ANNOUNCE,
    Kind.SUBSCRIBE,
    Kind.SUBSCRIBE_RESPONSE,
    Kind.FETCH,
    Kind.REPAIR,
)
FREE = (Kind.KEEPALIVE, Kind.DRAIN, Kind.STAY, Kind.SYNC, Kind.SYNC_REQUEST, Kind.PROBE, Kind.LATCH)


@pytest.mark.parametrize("kind", INFORMATION)
def test_information_needs_control(kind: Kind) -> None:
    for mode in (Mode.CONTROL, Mode.BOTH):
        assert rights(mode=mode).against_sending(kind) == ""
        assert rights(mode=mode, direction=ONE_WAY).against_receiving(kind) == ""
    assert rights(mode=Mode.DATA).against_sending(kind) == (
        f"{kind.value} on a session without control"
    )
    assert "without control" in rights(mode=Mode.DATA).against_receiving(kind)


@pytest.mark.parametrize("kind", FREE)
def test_the_rest_needs_nothing(kind: Kind) -> None:
    for mode in Mode:
        for local in (EDGE, STUB):
            assert rights(mode=mode, local=local).against_sending(kind) == ""
            assert rights(mode=mode, peer=local).against_receiving(kind) == ""


@pytest.mark.parametrize(
    ("role", "mode", "direction", "sends", "receives"),
    [
        (Role.DIALLER, Mode.DATA, ONE_WAY, True, False),
        (Role.LISTENER, Mode.DATA, ONE_WAY, False, True),
        (Role.DIALLER, Mode.BOTH, ONE_WAY, True, False),
        (Role.DIALLER, Mode.DATA, BOTH_WAYS, True, True),
        (Role.LISTENER, Mode.BOTH, BOTH_WAYS, True, True),
        (Role.DIALLER, Mode.CONTROL, BOTH_WAYS, False, False),
        (Role.LISTENER, Mode.CONTROL, ONE_WAY, False, False),
    ],
)
def test_sets_follow_data(
    role: Role, mode: Mode, direction: Direction, sends: bool, receives: bool
) -> None:
    mine = rights(role, mode, direction)
    assert (mine.sends_data, mine.receives_data) == (sends, receives)
    assert (mine.against_sending(Kind.SNS) == "") is sends
    assert (mine.against_receiving(Kind.SNS) == "") is receives
    # Who receives data may refuse it, and nobody else.
    assert (mine.against_sending(Kind.SNS_REFUSED) == "") is receives
    assert (mine.against_receiving(Kind.SNS_REFUSED) == "") is sends
    assert bool(mine.bases_sent() & Bases.SNS) is sends
    assert bool(mine.bases_received() & Bases.SNS) is receives


@pytest.mark.parametrize(
    ("kind", "from_stub", "to_stub"),
    [
        (Kind.NODE, False, False),
        (Kind.ANNOUNCE, True, False),
        (Kind.SUBSCRIBE, True, True),
        (Kind.SUBSCRIBE_RESPONSE, True, True),
        (Kind.FETCH, False, False),
        (Kind.REPAIR, False, False),
        (Kind.SNS, False, False),
        (Kind.SNS_REFUSED, False, False),
    ],
)
def test_stubs(kind: Kind, from_stub: bool, to_stub: bool) -> None:
    stub = rights(Role.DIALLER, local=STUB)
    edge = rights(Role.LISTENER, peer=STUB)
    assert stub.against_sending(kind) == ("" if from_stub else f"{kind.value} from a Stub")
    assert edge.against_receiving(kind) == ("" if from_stub else f"{kind.value} from a Stub")
    assert edge.against_sending(kind) == ("" if to_stub else f"{kind.value} to a Stub")
    assert stub.against_receiving(kind) == ("" if to_stub else f"{kind.value} to a Stub")


def test_bases() -> None:
    assert rights().bases_sent() == Bases.ALL
    assert rights(mode=Mode.CONTROL).bases_sent() == Bases.ALL & ~Bases.SNS
    assert rights(mode=Mode.DATA).bases_sent() == Bases.SNS
    assert rights(mode=Mode.DATA, direction=ONE_WAY).bases_received() == Bases(0)
    stub = rights(Role.DIALLER, local=STUB)
    assert stub.bases_sent() == Bases.ANNOUNCES | Bases.SUBSCRIBES
    assert stub.bases_received() == Bases.SUBSCRIBES


@pytest.mark.parametrize(
    ("dialler", "listener", "mode", "direction"),
    [
        (STUB, EDGE, Mode.BOTH, BOTH_WAYS),
        (EDGE, EDGE, Mode.BOTH, BOTH_WAYS),
        (EDGE, VIA, Mode.DATA, ONE_WAY),
        (VIA, VIA, Mode.CONTROL, ONE_WAY),
        (EDGE, CONTROL, Mode.CONTROL, BOTH_WAYS),
        (CONTROL, EDGE, Mode.CONTROL, ONE_WAY),
        (CONTROL, CONTROL, Mode.CONTROL, BOTH_WAYS),
    ],
)
def test_what_relay_types_can_have(
    dialler: RelayType, listener: RelayType, mode: Mode, direction: Direction
) -> None:
    check_relay_types(dialler=dialler, listener=listener, mode=mode, direction=direction)


@pytest.mark.parametrize(
    ("dialler", "listener", "mode", "direction", "why"),
    [
        (EDGE, STUB, Mode.BOTH, BOTH_WAYS, "accepts no connections"),
        (STUB, STUB, Mode.BOTH, BOTH_WAYS, "accepts no connections"),
        (STUB, VIA, Mode.BOTH, BOTH_WAYS, "Edges only"),
        (STUB, CONTROL, Mode.BOTH, BOTH_WAYS, "Edges only"),
        (STUB, EDGE, Mode.CONTROL, BOTH_WAYS, "mode both"),
        (STUB, EDGE, Mode.DATA, BOTH_WAYS, "mode both"),
        (STUB, EDGE, Mode.BOTH, ONE_WAY, "bidirectionally"),
        (EDGE, CONTROL, Mode.BOTH, BOTH_WAYS, "carries no data"),
        (CONTROL, EDGE, Mode.DATA, ONE_WAY, "carries no data"),
    ],
)
def test_what_relay_types_can_not_have(
    dialler: RelayType, listener: RelayType, mode: Mode, direction: Direction, why: str
) -> None:
    with pytest.raises(ModeRefusedError, match=why) as caught:
        check_relay_types(dialler=dialler, listener=listener, mode=mode, direction=direction)
    assert caught.value.code == 0x8
