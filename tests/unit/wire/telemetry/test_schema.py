"""The schema is read off the dataclasses, and a dataclass that is no schema is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Optional

import pytest

from laps_wire.telemetry.schema import Column, DataType, struct_of, version_key

Extra = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Inner:
    """A pair.

    More words that are not the first sentence.
    """

    a: Annotated[int, Column("First.")]
    b: Annotated[bool, Column("Second.")]
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outer:
    """All the types."""

    text: Annotated[str, Column("A word.", values=("x", "y"))]
    number: Annotated[float, Column("A number.")]
    many: Annotated[tuple[Inner, ...], Column("Pairs.")]
    named: Annotated[Mapping[str, int], Column("By name.")]
    one: Annotated[Inner | None, Column("A pair or not.", since="1.3")] = None
    old: Annotated[Optional[int], Column("Written the old way.")] = None  # noqa: UP045
    extra: Extra = field(default_factory=dict)


def test_types_come_from_annotations() -> None:
    spec = struct_of(Outer)
    assert [(f.name, str(f.type), f.nullable, f.since) for f in spec.fields] == [
        ("text", "string", False, "1.0"),
        ("number", "double", False, "1.0"),
        ("many", "array<struct<a: long, b: boolean>>", False, "1.0"),
        ("named", "map<string, long>", False, "1.0"),
        ("one", "struct<a: long, b: boolean>", True, "1.3"),
        ("old", "long", True, "1.0"),
    ]
    assert spec.doc == "All the types."
    assert struct_of(Inner).doc == "A pair."
    assert struct_of(Outer) is spec


def test_a_column_as_plain_data() -> None:
    text, _, many, named, one, _ = (f.as_dict() for f in struct_of(Outer).fields)
    assert text == {
        "name": "text",
        "type": "string",
        "nullable": False,
        "doc": "A word.",
        "since": "1.0",
        "known_values": ["x", "y"],
    }
    assert named["values"] == {"type": "long"}
    assert many["items"]["type"] == "struct"
    assert [f["name"] for f in many["items"]["fields"]] == ["a", "b"]
    assert one["fields"] == many["items"]["fields"]
    assert "known_values" not in one


def test_an_open_struct_has_no_fields() -> None:
    @dataclass
    class Open:
        body: Annotated[object, Column("Anything.", any_struct=True)]
        extra: Extra = field(default_factory=dict)

    assert struct_of(Open).fields[0].type == DataType("struct")
    assert struct_of(Open).doc.startswith("Open(")  # what dataclass writes where nobody did
    assert str(DataType("struct")) == "struct"


def bad_classes() -> list[tuple[type, str]]:
    @dataclass
    class NoColumn:
        x: int
        extra: Extra = field(default_factory=dict)

    @dataclass
    class OtherNote:
        x: Annotated[int, "a note"]
        extra: Extra = field(default_factory=dict)

    @dataclass
    class NullWithoutDefault:
        x: Annotated[int | None, Column("X.")]
        extra: Extra = field(default_factory=dict)

    @dataclass
    class NeverNullWithDefault:
        x: Annotated[int, Column("X.")] = 3
        extra: Extra = field(default_factory=dict)

    @dataclass
    class NewAndNeverNull:
        x: Annotated[int, Column("X.", since="1.1")]
        extra: Extra = field(default_factory=dict)

    @dataclass
    class NoExtra:
        x: Annotated[int, Column("X.")]

    @dataclass
    class Bytes:
        x: Annotated[bytes, Column("X.")]
        extra: Extra = field(default_factory=dict)

    @dataclass
    class Pair:
        x: Annotated[tuple[int, int], Column("X.")]
        extra: Extra = field(default_factory=dict)

    @dataclass
    class IntKeys:
        x: Annotated[Mapping[int, int], Column("X.")]
        extra: Extra = field(default_factory=dict)

    @dataclass
    class NewInANewType:
        SINCE: ClassVar[str] = "1.1"
        x: Annotated[int, Column("X.", "1.1")]
        y: Annotated[int, Column("Y.", "1.2")]
        extra: Extra = field(default_factory=dict)

    @dataclass
    class TwoTypes:
        x: Annotated[int | str, Column("X.")]
        extra: Extra = field(default_factory=dict)

    return [
        (NoColumn, "NoColumn.x: has no Column"),
        (OtherNote, "OtherNote.x: has no Column"),
        (NullWithoutDefault, "a nullable field defaults to None"),
        (NeverNullWithDefault, "a field that is never null has no default"),
        (NewAndNeverNull, "must be nullable"),
        (NewInANewType, "NewInANewType.y: a field added after 1.1 must be nullable"),
        (NoExtra, "no place for fields of later versions"),
        (Bytes, "has no column type"),
        (Pair, "has no column type"),
        (IntKeys, "has no column type"),
        (TwoTypes, "has no column type"),
    ]


@pytest.mark.parametrize(("cls", "reason"), bad_classes())
def test_a_declaration_that_is_no_schema(cls: type, reason: str) -> None:
    # Local classes: their annotations are found where they were made.
    with pytest.raises(TypeError, match=reason):
        struct_of(cls)


def test_versions_compare_as_numbers() -> None:
    assert version_key("1.0") < version_key("1.9") < version_key("1.10") < version_key("2.0")


@pytest.mark.parametrize(
    "bad", ["", "1", "1.", ".1", "1.0.0", "01.0", "1.00", "1.x", "-1.0", "1.²"]
)
def test_a_version_has_one_text(bad: str) -> None:
    with pytest.raises(ValueError, match=r"is not a version such as '1\.4'"):
        version_key(bad)
