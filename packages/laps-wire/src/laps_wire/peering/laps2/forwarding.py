"""Messages about subscriber node sets: to whom data with an SNS ID goes (seed 000, Source Routing).

They go over the control stream of the very session that carries the data, in every mode. The sender
of the data owns the ID and the set; the receiver can only refuse::

    sender of data                          receiver of data
       |  SNS_ADVERTISE  id 7 v1 {A, B}        |
       |-------------------------------------->|  installs the set; data may come before or after
       |  SNS_UPDATE     id 7 v2 +C -A         |
       |-------------------------------------->|
       |  SNS_REFUSED    id 7 v2 {C}           |
       |<--------------------------------------|  C was withdrawn meanwhile: nothing is sent there
       |  SNS_WITHDRAW   id 7                  |
       |-------------------------------------->|
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from laps_wire.errors import EncodeError
from laps_wire.fields import U32, VARINT, Constrained
from laps_wire.layout import Layout
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2.codepoints import ParameterId
from laps_wire.peering.laps2.fields import NODE_SET, Ascending
from laps_wire.peering.laps2.limits import MAX_BATCH, MAX_HOPS, MAX_SCOPE_BYTES
from laps_wire.peering.laps2.parameters import NO_PARAMETERS, PARAMETERS, Parameters
from laps_wire.peering.laps2.sns import FIRST_SNS_ID, MAX_SNS_ID
from laps_wire.varint import QUIC_MAX

__all__ = [
    "SNS_ADVERTISE",
    "SNS_ID",
    "SNS_REFUSED",
    "SNS_UPDATE",
    "SNS_WITHDRAW",
    "SnsAdvertise",
    "SnsRefused",
    "SnsUpdate",
    "SnsWithdraw",
    "scope_parameters",
]


@dataclass(frozen=True, slots=True)
class SnsAdvertise:
    """A subscriber node set, whole: a new one, or in place of what the ID had."""

    sns_id: int
    set_version: int
    """1 or more; grows with every advertise and update of this ID."""
    hops: int
    """0 from the o-relay; a Via writes one more than the set has that it came from."""
    targets: tuple[NodeId, ...]
    """The s-relays that need the data, lowest first."""
    parameters: Parameters = NO_PARAMETERS

    @property
    def scope(self) -> str:
        """The class of service in the parameter SCOPE; "" if there is none, or none that counts.

        A value that is not what the table says is ignored like an unknown one (laps-2, 3.2).
        """
        value = self.parameters.get(ParameterId.SCOPE)
        if value is None or len(value) > MAX_SCOPE_BYTES:
            return ""
        try:
            return value.decode()
        except UnicodeDecodeError:
            return ""


@dataclass(frozen=True, slots=True)
class SnsUpdate:
    """A change to a set: first ``remove``, then ``add``."""

    sns_id: int
    set_version: int
    """One more than the version that it changes."""
    add: tuple[NodeId, ...] = ()
    """Not in the set before; lowest first."""
    remove: tuple[NodeId, ...] = ()
    """In the set before; lowest first."""
    parameters: Parameters = NO_PARAMETERS

    def __post_init__(self) -> None:
        if not set(self.add).isdisjoint(self.remove):
            raise EncodeError("a target is both added and removed")


@dataclass(frozen=True, slots=True)
class SnsWithdraw:
    """Sets that are over; their IDs may be used again after the series has gone around."""

    sns_ids: tuple[int, ...]
    """Lowest first."""
    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class SnsRefused:
    """The receiver of data does not serve a set, or some of its targets."""

    sns_id: int
    set_version: int
    """The version that is answered; 0 if the set is unknown."""
    code: int
    """A :class:`~laps_wire.peering.laps2.codepoints.SnsRefusal`."""
    targets: tuple[NodeId, ...] = ()
    """The targets that get nothing; empty: the whole set."""
    parameters: Parameters = NO_PARAMETERS


def scope_parameters(scope: str) -> Parameters:
    """The parameters of a set whose data has this class of service; none for ""."""
    if not scope:
        return NO_PARAMETERS
    value = scope.encode()
    if len(value) > MAX_SCOPE_BYTES:
        raise EncodeError(f"scope: {len(value)} bytes are over the limit of {MAX_SCOPE_BYTES}")
    return NO_PARAMETERS.with_bytes(ParameterId.SCOPE, value)


SNS_ID: Final = Constrained(U32, FIRST_SNS_ID, MAX_SNS_ID)
"""The ID of a set, 32 bits as in data headers; 0 is no ID."""

_VERSION: Final = Constrained(VARINT, 1, QUIC_MAX)  # 0 in SNS_REFUSED: a set that is not known

SNS_ADVERTISE: Final = Layout(
    SnsAdvertise,
    ("sns_id", SNS_ID),
    ("set_version", _VERSION),
    ("hops", Constrained(VARINT, 0, MAX_HOPS)),
    ("targets", NODE_SET),
    ("parameters", PARAMETERS),
)
SNS_UPDATE: Final = Layout(
    SnsUpdate,
    ("sns_id", SNS_ID),
    ("set_version", _VERSION),
    ("add", NODE_SET),
    ("remove", NODE_SET),
    ("parameters", PARAMETERS),
)
SNS_WITHDRAW: Final = Layout(
    SnsWithdraw, ("sns_ids", Ascending(SNS_ID, MAX_BATCH)), ("parameters", PARAMETERS)
)
SNS_REFUSED: Final = Layout(
    SnsRefused,
    ("sns_id", SNS_ID),
    ("set_version", VARINT),
    ("code", VARINT),
    ("targets", NODE_SET),
    ("parameters", PARAMETERS),
)
