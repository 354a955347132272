"""Settings: what each side of a ``laps-2`` session allows the other, as connect parameters.

Both sides send their settings, in CONNECT and CONNECT_RESPONSE. A setting states what its sender
accepts or keeps, so it is not negotiated. Only the hold time is common: the lower of both values.
An absent parameter means the default. A value outside its range is malformed.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final, Self

from laps_wire.errors import EncodeError, MalformedError
from laps_wire.fields import readable
from laps_wire.peering.laps2.codepoints import HashScheme, ParameterId
from laps_wire.peering.laps2.limits import MAX_MESSAGE_BYTES, MIN_MESSAGE_BYTES
from laps_wire.peering.laps2.parameters import NO_PARAMETERS, Parameters

__all__ = ["HASH_CHECK_NAME", "Settings"]

HASH_CHECK_NAME: Final = ((b"laps-2",), b"check")
"""The full name (namespace fields, track name) whose hash both sides compare (HASH_CHECK)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of one side, called the sender below."""

    unknown_sns_ms: int = 1_000
    """How long the sender keeps data with an unknown SNS ID."""
    unknown_sns_bytes: int = 1_048_576
    """How much of such data the sender keeps for this session; the oldest is dropped first."""
    max_message_size: int = MIN_MESSAGE_BYTES
    """The longest message body that the sender accepts."""
    hold_ms: int = 15_000
    """A session without received messages is closed after this time; 0: never."""
    max_sns_targets: int = 4_096
    """The largest subscriber node set that the sender serves."""
    max_sns_sets: int = 65_536
    """The most sets that the sender serves at a time in this session."""
    max_nodes: int = 65_536
    """The most nodes that the sender accepts from the peer."""
    max_announces: int = 1_048_576
    """The most announces that the sender accepts from the peer."""
    max_subscribes: int = 16_777_216
    """The most subscribes that the sender accepts from the peer."""
    hash_scheme: int = HashScheme.BLAKE2B_64
    """The hash scheme for names; must be the same on both sides."""
    batch_ms: int = 20
    """How long the sender collects changes before it sends them."""
    hash_check: int | None = None
    """The hash of :data:`HASH_CHECK_NAME`, 64 bits; it differs if the keys differ."""
    expected_node: int | None = None
    """In CONNECT: the node that the dialler intends to reach."""
    implementation: str = ""
    """Name and version of the software, for display only."""

    def __post_init__(self) -> None:
        for name, (_, minimum, maximum) in _NUMBERS.items():
            if not minimum <= getattr(self, name) <= maximum:
                raise EncodeError(f"{name}: {getattr(self, name)} is outside {minimum}..{maximum}")
        for name in ("hash_check", "expected_node"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < 1 << 64:
                raise EncodeError(f"{name}: {value} does not fit 64 bits")

    def hold_with(self, other: Settings) -> int:
        """Return the hold time of a session between both sides, in milliseconds; 0: none."""
        if 0 in (self.hold_ms, other.hold_ms):
            return max(self.hold_ms, other.hold_ms)
        return min(self.hold_ms, other.hold_ms)

    def to_parameters(self, others: Parameters = NO_PARAMETERS) -> Parameters:
        """Return the settings as parameters, added to ``others``; defaults are omitted."""
        parameters = others
        for name, (identifier, _, _) in _NUMBERS.items():
            value: int = getattr(self, name)
            if value != _DEFAULTS[name]:
                parameters = parameters.with_number(identifier, value)
        if self.hash_check is not None:
            parameters = parameters.with_bytes(
                ParameterId.HASH_CHECK, self.hash_check.to_bytes(8, "big")
            )
        if self.expected_node is not None:
            parameters = parameters.with_bytes(
                ParameterId.EXPECTED_NODE, self.expected_node.to_bytes(8, "big")
            )
        if self.implementation:
            parameters = parameters.with_bytes(
                ParameterId.IMPLEMENTATION, self.implementation.encode()
            )
        return parameters

    @classmethod
    def from_parameters(cls, parameters: Parameters) -> Self:
        """Return the settings in a peer's parameters; other parameters are ignored."""
        numbers = {name: parameters.number(entry[0]) for name, entry in _NUMBERS.items()}
        try:
            return cls(
                **{name: value for name, value in numbers.items() if value is not None},
                hash_check=_u64(parameters, ParameterId.HASH_CHECK),
                expected_node=_u64(parameters, ParameterId.EXPECTED_NODE),
                implementation=readable(parameters.get(ParameterId.IMPLEMENTATION) or b""),
            )
        except EncodeError as error:
            raise MalformedError(str(error), field="settings") from None


def _u64(parameters: Parameters, identifier: ParameterId) -> int | None:
    value = parameters.get(identifier)
    if value is None:
        return None
    if len(value) != 8:
        raise MalformedError(f"{len(value)} bytes where 8 belong", field=identifier.name)
    return int.from_bytes(value, "big")


_DAY_MS: Final = 86_400_000
_MANY: Final = (1 << 62) - 1

# Parameter, least value, greatest value.
_NUMBERS: Final[dict[str, tuple[ParameterId, int, int]]] = {
    "unknown_sns_ms": (ParameterId.UNKNOWN_SNS_MS, 0, 60_000),
    "unknown_sns_bytes": (ParameterId.UNKNOWN_SNS_BYTES, 0, 1 << 32),
    "max_message_size": (ParameterId.MAX_MESSAGE_SIZE, MIN_MESSAGE_BYTES, MAX_MESSAGE_BYTES),
    "hold_ms": (ParameterId.HOLD_MS, 0, _DAY_MS),
    "max_sns_targets": (ParameterId.MAX_SNS_TARGETS, 1, 65_536),
    "max_sns_sets": (ParameterId.MAX_SNS_SETS, 0, (1 << 32) - 1),
    "max_nodes": (ParameterId.MAX_NODES, 0, _MANY),
    "max_announces": (ParameterId.MAX_ANNOUNCES, 0, _MANY),
    "max_subscribes": (ParameterId.MAX_SUBSCRIBES, 0, _MANY),
    "hash_scheme": (ParameterId.HASH_SCHEME, 0, _MANY),
    "batch_ms": (ParameterId.BATCH_MS, 0, 10_000),
}
_DEFAULTS: Final = {field.name: field.default for field in fields(Settings)}
