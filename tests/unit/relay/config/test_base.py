from __future__ import annotations

import pytest
from pydantic import ValidationError

from laps_relay.config.base import Section, key, lifecycle_of


class Example(Section):
    one: int = key(1, "A number.", "at-once", ge=1)
    two: str = key("x", "A secret.", secret=True)


def test_a_key_carries_what_the_page_needs() -> None:
    one, two = Example.model_fields["one"], Example.model_fields["two"]
    assert one.description == "A number."
    assert lifecycle_of(one.json_schema_extra) == "at-once"
    assert lifecycle_of(two.json_schema_extra) == "static"
    assert two.json_schema_extra == {"lifecycle": "static", "secret": True}
    assert lifecycle_of(None) == "static"


def test_sections_take_no_unknown_keys_and_do_not_change() -> None:
    with pytest.raises(ValidationError):
        Example.model_validate({"three": 3})
    with pytest.raises(ValidationError):
        Example.model_validate({"one": 0})
    with pytest.raises(ValidationError):
        Example().one = 5
