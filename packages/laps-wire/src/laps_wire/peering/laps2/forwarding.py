"""Messages about subscriber node sets: the targets of an SNS ID (seed 000, Source Routing).

They use the control stream of the session that carries the data, in every mode. The sender of the
data owns the ID and the set; the receiver can only refuse::

    sender of data                          receiver of data
       |  SNS_ADVERTISE  id 7 v1 {A, B}        |
       |-------------------------------------->|  installs the set; data may arrive before it
       |  SNS_UPDATE     id 7 v2 +C -A         |
       |-------------------------------------->|
       |  SNS_REFUSED    id 7 v2 {C}           |
       |<--------------------------------------|  C has been withdrawn: C gets no data
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
    """A complete subscriber node set; replaces the previous set of the ID, if any."""

    sns_id: int
    set_version: int
    """1 or more; grows with every advertise and update of this ID."""
    hops: int
    """0 from the o-relay; a Via writes the hops of its incoming set plus 1."""
    targets: tuple[NodeId, ...]
    """The s-relays that need the data, lowest first."""
    parameters: Parameters = NO_PARAMETERS

    @property
    def scope(self) -> str:
        """The class of service in the parameter SCOPE; "" if it is absent or invalid.

        An invalid value is ignored like an unknown parameter (laps-2, 3.2).
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
    """The version that the update changes, plus 1."""
    add: tuple[NodeId, ...] = ()
    """Targets to add, lowest first; they must not be in the set."""
    remove: tuple[NodeId, ...] = ()
    """Targets to remove, lowest first; they must be in the set."""
    parameters: Parameters = NO_PARAMETERS

    def __post_init__(self) -> None:
        if not set(self.add).isdisjoint(self.remove):
            raise EncodeError("a target is both added and removed")


@dataclass(frozen=True, slots=True)
class SnsWithdraw:
    """Withdraws sets; their IDs may be used again after the series has wrapped around."""

    sns_ids: tuple[int, ...]
    """The IDs of the sets, lowest first."""
    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class SnsRefused:
    """The receiver of data does not serve a set, or some of its targets."""

    sns_id: int
    set_version: int
    """The refused version; 0 if the set is unknown."""
    code: int
    """A :class:`~laps_wire.peering.laps2.codepoints.SnsRefusal`."""
    targets: tuple[NodeId, ...] = ()
    """The targets that are not served; empty: the whole set."""
    parameters: Parameters = NO_PARAMETERS


def scope_parameters(scope: str) -> Parameters:
    """Return the parameters of a set whose data has this class of service; none for ""."""
    if not scope:
        return NO_PARAMETERS
    value = scope.encode()
    if len(value) > MAX_SCOPE_BYTES:
        raise EncodeError(f"scope: {len(value)} bytes are over the limit of {MAX_SCOPE_BYTES}")
    return NO_PARAMETERS.with_bytes(ParameterId.SCOPE, value)


SNS_ID: Final = Constrained(U32, FIRST_SNS_ID, MAX_SNS_ID)
"""The ID of a set: 32 bits, as in data headers; 0 is not an ID."""

_VERSION: Final = Constrained(VARINT, 1, QUIC_MAX)  # SNS_REFUSED has 0 for an unknown set

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
