"""The model of parameters: optional, immutable, one name for both drafts."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields

import pytest

from laps_wire.moqt.codepoints import ParameterTypeD16, ParameterTypeD18
from laps_wire.moqt.parameters import NO_PARAMETERS, Parameters, Scope
from laps_wire.moqt.structures import Token


def test_nothing_is_set_unless_said() -> None:
    for field in fields(Parameters):
        assert getattr(NO_PARAMETERS, field.name) in (None, ())


def test_there_is_a_field_for_each_parameter() -> None:
    names = {name.lower() for name in ParameterTypeD18.__members__}
    names -= {"authorization_token"}
    names |= {"authorization_tokens", "ignored"}
    assert {field.name for field in fields(Parameters)} == names
    # Draft 16 only has another name for one of them.
    assert {name.lower() for name in ParameterTypeD16.__members__} - names == {
        "delivery_timeout",
        "authorization_token",
    }


def test_fields_stand_in_the_order_of_the_wire() -> None:
    order = [member.name.lower() for member in ParameterTypeD18]
    order[order.index("authorization_token")] = "authorization_tokens"
    assert [field.name for field in fields(Parameters)] == [*order, "ignored"]


def test_parameters_are_values() -> None:
    one = Parameters(subscriber_priority=1, authorization_tokens=(Token.use_alias(1),))
    assert one == Parameters(authorization_tokens=(Token.use_alias(1),), subscriber_priority=1)
    assert hash(one) == hash(
        Parameters(subscriber_priority=1, authorization_tokens=(Token.use_alias(1),))
    )
    with pytest.raises(FrozenInstanceError):
        one.subscriber_priority = 2  # type: ignore[misc]


def test_scopes_have_words() -> None:
    assert Scope.UPDATE_FETCH.value == "REQUEST_UPDATE of a FETCH"
    assert len({scope.value for scope in Scope}) == len(Scope)
