"""Records to dicts and back: strict about what is known, careful with what is not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
from hypothesis import given

from laps_wire.errors import EncodeError
from laps_wire.telemetry.schema import (
    LONG_MAX,
    LONG_MIN,
    Column,
    TelemetryError,
    fields_from_plain,
    fields_to_plain,
    from_plain,
    struct_of,
    to_plain,
)
from testkit.telemetry import structs

Extra = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Item:
    """An item."""

    size: Annotated[int, Column("Size.")]
    extra: Extra = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.size == 13:
            raise EncodeError("13 is refused")


@dataclass(frozen=True, slots=True)
class Record:
    """A record."""

    text: Annotated[str, Column("Text.")]
    real: Annotated[float, Column("Real.")]
    flag: Annotated[bool, Column("Flag.")]
    items: Annotated[tuple[Item, ...], Column("Items.")]
    named: Annotated[Mapping[str, int], Column("Named.")]
    maybe: Annotated[int | None, Column("Maybe.")] = None
    extra: Extra = field(default_factory=dict)


PLAIN: dict[str, Any] = {
    "text": "t",
    "real": 1.5,
    "flag": True,
    "items": [{"size": 1}, {"size": 2}],
    "named": {"a": 1},
}
RECORD = Record("t", 1.5, True, (Item(1), Item(2)), {"a": 1})


def test_a_record_and_its_dict() -> None:
    assert to_plain(RECORD) == PLAIN
    assert from_plain(Record, PLAIN) == RECORD


@given(structs(struct_of(Record)).filter(lambda r: all(i.size != 13 for i in r.items)))
def test_what_is_written_is_read(record: Record) -> None:
    assert from_plain(Record, to_plain(record)) == record


def test_null_is_absent() -> None:
    assert from_plain(Record, {**PLAIN, "maybe": None}) == RECORD
    assert "maybe" not in to_plain(RECORD)
    assert to_plain(Record("t", 1.5, True, (), {}, maybe=0))["maybe"] == 0


def test_unknown_fields_survive_at_every_level() -> None:
    plain = {**PLAIN, "later": [1, {"x": None}], "items": [{"size": 1, "colour": "red"}]}
    record = from_plain(Record, plain)
    assert record.extra == {"later": [1, {"x": None}]}
    assert record.items[0].extra == {"colour": "red"}
    assert to_plain(record) == plain


def test_an_integer_is_a_double_too() -> None:
    record = from_plain(Record, {**PLAIN, "real": 3})
    assert isinstance(record.real, float)
    assert isinstance(to_plain(Record("t", 3, True, (), {}))["real"], float)


@pytest.mark.parametrize(
    ("change", "where", "reason"),
    [
        ({"text": 7}, "text", "7 is not a string"),
        ({"text": "\ud800"}, "text", "half a surrogate"),
        ({"text": None}, "text", "null, but the field is never null"),
        ({"real": "1.5"}, "real", "'1.5' is not a double"),
        ({"real": True}, "real", "True is not a double"),
        ({"real": math.nan}, "real", "nan is not a finite number"),
        ({"real": 10**400}, "real", "is not a finite number"),
        ({"flag": 1}, "flag", "1 is not a boolean"),
        ({"items": {"size": 1}}, "items", "is not a array"),
        ({"items": [{"size": 1}, 5]}, "items[1]", "5 is not an object"),
        ({"items": [{}]}, "items[0].size", "missing, but the field is never null"),
        ({"items": [{"size": 13}]}, "items[0]", "13 is refused"),
        ({"named": [1]}, "named", "is not a map"),
        ({"named": {"a": 1.0}}, "named.a", "1.0 is not a long"),
        ({"named": {"a": True}}, "named.a", "True is not a long"),
        ({"named": {"a": LONG_MAX + 1}}, "named.a", "does not fit 64 signed bits"),
        ({"named": {"a": LONG_MIN - 1}}, "named.a", "does not fit 64 signed bits"),
        ({"named": {"\x1b[2J": "x"}}, "named.'\\x1b[2J'", "is not a long"),
        ({"maybe": "no"}, "maybe", "'no' is not a long"),
        ({"maybe": "x" * 100}, "maybe", "..."),
    ],
)
def test_faults_are_named(change: dict[str, Any], where: str, reason: str) -> None:
    with pytest.raises(TelemetryError) as caught:
        from_plain(Record, {**PLAIN, **change})
    assert caught.value.where == where
    assert reason in caught.value.reason
    assert len(caught.value.reason) < 120


def test_what_is_shown_has_sixty_characters() -> None:
    for size, shown in ((58, "x" * 58), (59, "x" * 56 + "...")):
        with pytest.raises(TelemetryError) as caught:
            from_plain(Item, {"size": "x" * size})
        assert shown in caught.value.reason
        assert len(caught.value.reason.partition(" is not")[0]) == 60
    for size, quoted in ((60, False), (61, True)):
        with pytest.raises(TelemetryError) as caught:
            from_plain(Record, {**PLAIN, "named": {"k" * size: "x"}})
        assert ("'" in caught.value.where) is quoted


def test_the_place_of_a_whole_record() -> None:
    with pytest.raises(TelemetryError, match=r"^body: \[\] is not an object$"):
        from_plain(Record, [], "body")
    with pytest.raises(TelemetryError, match=r"^body\.text: missing"):
        from_plain(Record, {}, "body")


def test_the_edges_of_a_long() -> None:
    for edge in (LONG_MIN, LONG_MAX):
        assert to_plain(Item(edge)) == {"size": edge}
        assert from_plain(Item, {"size": edge}) == Item(edge)


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (Record("t", 1.5, True, (), {}, extra={"text": 1}), "text: an extra field hides a known"),
        (Record(None, 1.5, True, (), {}), "text: None, but the field is never null"),  # type: ignore[arg-type]
        (Record("t", math.inf, True, (), {}), "real: inf is not a finite number"),
        (Record("t", 1.5, True, (7,), {}), r"items\[0\]: 7 is not a Item"),  # type: ignore[arg-type]
        (Record("t", 1.5, True, [], {}), "items: .* is not a array"),  # type: ignore[arg-type]
        (Record("t", 1.5, True, (Item(2**63),), {}), r"items\[0\]\.size: .* 64 signed bits"),
        (Record("t", 1.5, True, (), {1: 1}), "named: key 1 is not a string"),  # type: ignore[dict-item]
        (Record("t", 1.5, True, (), []), "named: .* is not a map"),  # type: ignore[arg-type]
        (Record("\udfff", 1.5, True, (), {}), "text: holds half a surrogate"),
        (Record("t", 1.5, True, (), {}, maybe=2**63), "maybe: .* 64 signed bits"),
    ],
)
def test_values_that_do_not_fit_are_our_fault(record: Record, reason: str) -> None:
    with pytest.raises(EncodeError, match=reason):
        to_plain(record)


def test_values_that_python_does_not_print() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(TelemetryError, match="a huge value is not a long"):
        from_plain(Item, {"size": deep})
    while deep:  # unwind by hand: dropping it at once would recurse
        deep = deep[0]
    with pytest.raises(TelemetryError, match="a huge value does not fit"):
        from_plain(Item, {"size": 10**5000})


def test_a_field_that_another_reads() -> None:
    """The envelope reads its body itself, by the event's type."""
    spec = struct_of(Record)
    rest = {name: value for name, value in PLAIN.items() if name != "items"}
    assert fields_to_plain(RECORD, spec, "", skip="items") == rest
    values = fields_from_plain({**PLAIN, "items": 7}, spec, "", skip="items")
    assert values == {**rest, "extra": {}}
