"""Rights: the table of docs/spec/laps-2.md, 4.5, cell by cell."""

from __future__ import annotations

import pytest

from laps_wire.peering.errors import ModeRefusedError
from laps_wire.peering.laps2.codepoints import Bases, Direction, Mode, RelayType
from laps_wire.peering.session.rights import Rights, check_relay_types
from laps_wire.peering.session.state import Kind, Role

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
    Kind.PLAN,
    Kind.FETCH,
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
        (Kind.PLAN, False, False),
        (Kind.ANNOUNCE, True, False),
        (Kind.SUBSCRIBE, True, True),
        (Kind.SUBSCRIBE_RESPONSE, True, True),
        (Kind.FETCH, False, False),
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
