"""Settings: defaults are not sent, ranges are kept both ways, the hold time is common."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.errors import EncodeError, MalformedError
from laps_wire.peering.laps2 import settings as module
from laps_wire.peering.laps2.codepoints import ParameterId
from laps_wire.peering.laps2.limits import MAX_MESSAGE_BYTES, MIN_MESSAGE_BYTES
from laps_wire.peering.laps2.parameters import NO_PARAMETERS, Parameters
from laps_wire.peering.laps2.settings import HASH_CHECK_NAME, Settings

NUMBERS = module._NUMBERS
u64 = st.integers(0, 2**64 - 1)


# Default, least and greatest value, as the page has them.
EXPECTED = {
    "unknown_sns_ms": (1_000, 0, 60_000),
    "unknown_sns_bytes": (1_048_576, 0, 2**32),
    "max_message_size": (65_536, 65_536, 1_048_576),
    "hold_ms": (15_000, 0, 86_400_000),
    "max_sns_targets": (4_096, 1, 65_536),
    "max_sns_sets": (65_536, 0, 2**32 - 1),
    "max_nodes": (65_536, 0, 2**62 - 1),
    "max_announces": (1_048_576, 0, 2**62 - 1),
    "max_subscribes": (16_777_216, 0, 2**62 - 1),
    "hash_scheme": (1, 0, 2**62 - 1),
    "batch_ms": (20, 0, 10_000),
}


@st.composite
def any_settings(draw: st.DrawFn) -> Settings:
    values: dict[str, Any] = {
        name: draw(st.integers(low, high)) for name, (_, low, high) in NUMBERS.items()
    }
    return Settings(
        **values,
        hash_check=draw(st.none() | u64),
        expected_node=draw(st.none() | u64),
        implementation=draw(st.text(st.characters(codec="utf-8"), max_size=20)),
    )


@given(any_settings())
def test_identity(settings: Settings) -> None:
    assert Settings.from_parameters(settings.to_parameters()) == settings


def test_every_default_and_both_ends() -> None:
    assert set(EXPECTED) == set(NUMBERS)
    for name, (default, low, high) in EXPECTED.items():
        assert getattr(Settings(), name) == default
        assert NUMBERS[name][1:] == (low, high)


def test_defaults_cost_nothing() -> None:
    assert Settings().to_parameters() == NO_PARAMETERS
    assert Settings.from_parameters(NO_PARAMETERS) == Settings()


def test_other_parameters_stay() -> None:
    others = Parameters(((0x3F, b"x"),))
    parameters = Settings(hold_ms=9000).to_parameters(others)
    assert parameters.entries == ((ParameterId.HOLD_MS, b"\x63\x28"), (0x3F, b"x"))
    assert Settings.from_parameters(parameters) == Settings(hold_ms=9000)


def test_bytes_by_hand() -> None:
    parameters = Settings(
        unknown_sns_ms=64, hash_check=1, expected_node=2, implementation="laps"
    ).to_parameters()
    assert parameters.entries == (
        (0x02, b"\x40\x40"),
        (0x16, bytes(7) + b"\x01"),
        (0x1A, bytes(7) + b"\x02"),
        (0x1C, b"laps"),
    )


def test_every_setting_has_its_own_even_parameter() -> None:
    identifiers = [identifier for identifier, _, _ in NUMBERS.values()]
    identifiers += [ParameterId.HASH_CHECK, ParameterId.EXPECTED_NODE, ParameterId.IMPLEMENTATION]
    assert len(set(identifiers)) == len(identifiers) == len(fields(Settings))
    assert all(identifier % 2 == 0 for identifier in identifiers)  # never carried on


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("unknown_sns_ms", 60_001),
        ("unknown_sns_bytes", 2**32 + 1),
        ("max_message_size", MIN_MESSAGE_BYTES - 1),
        ("max_message_size", MAX_MESSAGE_BYTES + 1),
        ("hold_ms", 86_400_001),
        ("max_sns_targets", 0),
        ("max_sns_targets", 65_537),
        ("max_sns_sets", 2**32),
        ("batch_ms", 10_001),
    ],
)
def test_ranges_are_kept_both_ways(name: str, value: int) -> None:
    with pytest.raises(EncodeError, match=f"{name}: {value} is outside"):
        Settings(**{name: value})  # type: ignore[arg-type] # all of these are numbers
    parameters = NO_PARAMETERS.with_number(NUMBERS[name][0], value)
    with pytest.raises(MalformedError, match=f"{name}: {value} is outside"):
        Settings.from_parameters(parameters)


@pytest.mark.parametrize("identifier", [ParameterId.HASH_CHECK, ParameterId.EXPECTED_NODE])
@pytest.mark.parametrize("size", [0, 7, 9])
def test_fixed_sizes(identifier: ParameterId, size: int) -> None:
    with pytest.raises(MalformedError, match=f"{identifier.name}: {size} bytes where 8 belong"):
        Settings.from_parameters(Parameters(((identifier, bytes(size)),)))


def test_a_setting_that_is_no_number() -> None:
    with pytest.raises(MalformedError, match="parameter 0x8: not one varint"):
        Settings.from_parameters(Parameters(((ParameterId.HOLD_MS, b""),)))


@pytest.mark.parametrize("check", [-1, 2**64])
def test_u64_values_that_do_not_fit(check: int) -> None:
    with pytest.raises(EncodeError, match=r"hash_check: .* does not fit 64 bits"):
        Settings(hash_check=check)
    with pytest.raises(EncodeError, match=r"expected_node: .* does not fit 64 bits"):
        Settings(expected_node=check)


def test_an_implementation_name_that_is_not_text() -> None:
    odd = Settings.from_parameters(Parameters(((ParameterId.IMPLEMENTATION, b"\xff"),)))
    assert odd.implementation == "?"


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [(100, 200, 100), (200, 100, 100), (0, 200, 200), (200, 0, 200), (0, 0, 0)],
)
def test_the_lesser_hold_time_counts(one: int, other: int, both: int) -> None:
    assert Settings(hold_ms=one).hold_with(Settings(hold_ms=other)) == both


def test_the_name_that_is_hashed_to_compare_keys() -> None:
    assert HASH_CHECK_NAME == ((b"laps-2",), b"check")
