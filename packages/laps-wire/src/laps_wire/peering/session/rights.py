"""Who may say what on an established session: modes, directions and relay types, as one table.

::

    what                    needs                        from a Stub    to a Stub
    ---------------------   --------------------------   ------------   ------------
    node information        control                      no             no
    announce information    control                      yes            no
    subscribe information   control                      yes            yes
    subscribe response      control                      yes            yes
    fetch messages          control                      no             no
    subscriber node sets    the sender may send data     no             no
    refusals of sets        the receiver may send data   no             no
    synchronising           what each of its bases needs, in the way the base goes
    everything else         nothing                      yes            yes

Control goes both ways wherever it goes. Data goes from the dialler to the listener, and back only
in bidirectional sessions (seed 000, Data Peering). A Stub is invisible beyond its Edge: it has no
node information to give or to take; it gives its announces and gets the subscribes that match them;
data between the two is forwarded by track and needs no sets (seed 000, Stub).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from laps_wire.peering.errors import ModeRefusedError
from laps_wire.peering.laps2.codepoints import Bases, Direction, Mode, RelayType
from laps_wire.peering.session.state import Kind, Role

__all__ = ["Rights", "check_relay_types"]


@dataclass(frozen=True, slots=True)
class _Rule:
    control: bool = False
    """Only where control is carried."""
    data_from_sender: bool = False
    """Only from who may send data."""
    data_to_sender: bool = False
    """Only to who may send data."""
    from_stub: bool = True
    to_stub: bool = True


_RULES: Final[dict[Kind, _Rule]] = {
    Kind.NODE: _Rule(control=True, from_stub=False, to_stub=False),
    Kind.ANNOUNCE: _Rule(control=True, to_stub=False),
    Kind.SUBSCRIBE: _Rule(control=True),
    Kind.SUBSCRIBE_RESPONSE: _Rule(control=True),
    Kind.FETCH: _Rule(control=True, from_stub=False, to_stub=False),
    Kind.SNS: _Rule(data_from_sender=True, from_stub=False, to_stub=False),
    Kind.SNS_REFUSED: _Rule(data_to_sender=True, from_stub=False, to_stub=False),
}
_FREE: Final = _Rule()

_BASE_KINDS: Final[dict[Bases, Kind]] = {
    Bases.NODES: Kind.NODE,
    Bases.ANNOUNCES: Kind.ANNOUNCE,
    Bases.SUBSCRIBES: Kind.SUBSCRIBE,
    Bases.SNS: Kind.SNS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """What each side of one session may do; computed alike by both."""

    role: Role
    """Which side we are."""
    mode: Mode
    direction: Direction
    local_type: RelayType
    peer_type: RelayType
    sending: Mapping[Kind, str] = field(init=False, repr=False, compare=False)
    """Why we may not send each kind; empty if we may. Sessions ask it for every message."""
    receiving: Mapping[Kind, str] = field(init=False, repr=False, compare=False)
    """The same of the peer."""
    _bases_sent: Bases = field(init=False, repr=False, compare=False)
    _bases_received: Bases = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Judge everything once: this is asked for every message."""
        ours, theirs = self.local_type, self.peer_type
        sending = {kind: self._against(kind, self.role, ours, theirs) for kind in Kind}
        object.__setattr__(self, "sending", sending)
        object.__setattr__(self, "_bases_sent", _bases(sending))
        other = _other(self.role)
        receiving = {kind: self._against(kind, other, theirs, ours) for kind in Kind}
        object.__setattr__(self, "receiving", receiving)
        object.__setattr__(self, "_bases_received", _bases(receiving))

    @property
    def sends_data(self) -> bool:
        """Whether we may send data."""
        return self._may_send_data(self.role)

    @property
    def receives_data(self) -> bool:
        """Whether the peer may send data."""
        return self._may_send_data(_other(self.role))

    def against_sending(self, kind: Kind) -> str:
        """Why we may not send this; empty if we may."""
        return self.sending[kind]

    def against_receiving(self, kind: Kind) -> str:
        """Why the peer may not send this; empty if it may."""
        return self.receiving[kind]

    def bases_sent(self) -> Bases:
        """The bases that we may send."""
        return self._bases_sent

    def bases_received(self) -> Bases:
        """The bases that the peer may send."""
        return self._bases_received

    def _may_send_data(self, sender: Role) -> bool:
        return self.mode.data and (
            sender is Role.DIALLER or self.direction is Direction.BIDIRECTIONAL
        )

    def _against(self, kind: Kind, sender: Role, from_type: RelayType, to_type: RelayType) -> str:
        rule = _RULES.get(kind, _FREE)
        if rule.control and not self.mode.control:
            return f"{kind.value} on a session without control"
        if rule.data_from_sender and not self._may_send_data(sender):
            return f"{kind.value} from the side that sends no data"
        if rule.data_to_sender and not self._may_send_data(_other(sender)):
            return f"{kind.value} to the side that sends no data"
        if from_type is RelayType.STUB and not rule.from_stub:
            return f"{kind.value} from a Stub"
        if to_type is RelayType.STUB and not rule.to_stub:
            return f"{kind.value} to a Stub"
        return ""


def _bases(against: Mapping[Kind, str]) -> Bases:
    allowed = Bases(0)
    for base, kind in _BASE_KINDS.items():
        if not against[kind]:
            allowed |= base
    return allowed


def _other(role: Role) -> Role:
    return Role.LISTENER if role is Role.DIALLER else Role.DIALLER


def check_relay_types(
    *, dialler: RelayType, listener: RelayType, mode: Mode, direction: Direction
) -> None:
    """Refuse what two types of relays can not have with each other."""
    if listener is RelayType.STUB:
        raise ModeRefusedError("a Stub accepts no connections")
    if dialler is RelayType.STUB:
        if listener is not RelayType.EDGE:
            raise ModeRefusedError("a Stub peers with Edges only")
        if mode is not Mode.BOTH or direction is not Direction.BIDIRECTIONAL:
            raise ModeRefusedError("a Stub peers in mode both, bidirectionally")
    if RelayType.CONTROL in (dialler, listener) and mode.data:
        raise ModeRefusedError("a control server carries no data")
