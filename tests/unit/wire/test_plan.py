"""

Plans as data: what is said if nothing is said, and whom an entry is for.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire import plan
from laps_wire.errors import EncodeError, TextFormError
from laps_wire.nodeid import NodeId
from laps_wire.plan import (
    FORMAT,
    MAX_BYTES,
    MAX_TEXT,
    ClassRule,
    HardConstraints,
    Plan,
    PlanEntry,
    PlanFormatError,
    SignedPlan,
    canonical,
    dumps,
    key_id,
    loads,
    signed_bytes,
)

LONG = st.integers(0, 2**62)
NODES = st.integers(0, 2**64 - 1).map(NodeId)
PRINTABLE = st.just(" ") | st.characters(exclude_categories=("C", "Z"))
TEXT = st.text(PRINTABLE, max_size=40)
WORD = st.text(PRINTABLE, min_size=1, max_size=40)
COUNTRIES = st.lists(st.from_regex(r"[A-Z]{2}", fullmatch=True), max_size=3).map(tuple)
RULES = st.builds(
    ClassRule,
    slack_permille=st.integers(1, 10_000),
    extra_us=LONG,
    limit_us=st.none() | st.integers(1, 2**40),
    limit_loss_ppm=st.none() | st.integers(0, 1_000_000),
    deny_countries=COUNTRIES,
    allow_countries=st.none() | COUNTRIES,
    via_regions=st.none() | st.lists(WORD, max_size=3).map(tuple),
    disjoint=st.booleans(),
)


@st.composite
def entries(draw: st.DrawFn) -> tuple[PlanEntry, ...]:
    found: list[PlanEntry] = []
    said: set[object] = set()
    for _ in range(draw(st.integers(0, 5))):
        origin, via, back = draw(
            st.lists(NODES, min_size=3, max_size=3, unique=True)  # each another node
        )
        keys = draw(st.none() | st.sets(st.integers(0, 2**64 - 1), min_size=1, max_size=4))
        region, scope = draw(WORD), draw(TEXT)
        wanted = {(origin, region, key) for key in ([scope] if keys is None else keys)}
        if wanted & said:
            continue
        said |= wanted
        found.append(
            PlanEntry(
                origin=origin,
                region=region,
                scope=scope,
                tracks=None if keys is None else tuple(sorted(keys)),
                via=via,
                fallback=draw(st.none() | st.just(back)),
                wan_saved_permille=draw(st.integers(-5000, 1000)),
                delay_us=draw(st.integers(-(10**9), 10**9)),
                reason=draw(TEXT),
            )
        )
    return tuple(found)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    made = draw(LONG)
    return Plan(
        id=draw(WORD),
        version=draw(st.integers(1, 2**62)),
        made_us=made,
        expires_us=made + draw(st.integers(1, 2**40)),
        based_on=draw(st.binary(min_size=32, max_size=32)).hex(),
        constraints=HardConstraints(
            max_fanout=draw(st.integers(1, 100)),
            change_budget=draw(st.none() | LONG),
            headroom_permille=draw(st.integers(1, 1000)),
            classes=draw(st.dictionaries(TEXT, RULES, max_size=3)),
        ),
        entries=draw(entries()),
    )


@given(plans(), st.binary(min_size=64, max_size=64), st.binary(min_size=32, max_size=32))
def test_what_is_written_is_read_and_has_one_text(plan: Plan, signature: bytes, key: bytes) -> None:
    signed = SignedPlan(plan=plan, key_id=key_id(key), signature=signature)
    text = dumps(signed)
    assert text.isascii()
    again = loads(text)
    assert again == signed
    assert canonical(again.plan) == canonical(plan)
    assert signed_bytes(plan) == b"laps-plan-1\n" + canonical(plan)
    # However a text is laid out: what is signed comes from what was read.
    assert loads(json.dumps(json.loads(text), indent=3)) == signed
    assert loads(text.encode()) == signed


@given(st.text() | st.binary())
def test_other_texts_are_refused_in_one_way(text: str | bytes) -> None:
    with pytest.raises(PlanFormatError):
        loads(text)


def good() -> dict[str, Any]:
    entry = PlanEntry(
        origin=NodeId(1),
        region="eu",
        scope="gold",
        tracks=(5, 7),
        via=NodeId(2),
        fallback=NodeId(3),
    )
    plan = Plan(
        id="world",
        version=1,
        made_us=10,
        expires_us=20,
        based_on="ab" * 32,
        constraints=HardConstraints(classes={"gold": ClassRule()}),
        entries=(entry,),
    )
    plain: dict[str, Any] = json.loads(
        dumps(SignedPlan(plan=plan, key_id="0" * 16, signature=bytes(64)))
    )
    return plain


@given(st.data())
def test_a_changed_document_is_read_or_refused_and_never_anything_else(data: st.DataObject) -> None:
    plain = good()
    spot: Any = plain
    while True:
        keys = list(spot) if isinstance(spot, dict) else list(range(len(spot)))
        key = data.draw(st.sampled_from(keys))
        inside = spot[key]
        if not isinstance(inside, dict | list) or not inside or data.draw(st.booleans()):
            break
        spot = inside
    junk: Any = data.draw(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just([]) | st.just({})
    )
    spot[key] = junk
    with contextlib.suppress(PlanFormatError):
        signed = loads(json.dumps(plain))
        assert loads(dumps(signed)) == signed


def _set(path: str, value: object) -> dict[str, Any]:
    plain = good()
    spot: Any = plain
    *way, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    for part in way:
        spot = spot[part]
    spot[last] = value
    return plain


ENTRY = good()["plan"]["entries"][0]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("format", 2, r"^format: 2 is not a format"),
        ("format", True, r"^format: True is not an integer"),
        ("more", 1, r"^'more' is not a field"),
        ("plan.id", "", r"^plan\.id: not of 1 to"),
        ("plan.id", 7, r"^plan\.id: 7 is not a text"),
        ("plan.id", "a" * (MAX_TEXT + 1), r"^plan\.id: not of"),
        ("plan.id", "a\x1b[2J", r"cannot be printed"),
        ("plan.version", 0, r"^plan\.version: 0 is outside 1 to"),
        ("plan.expires_us", 10, r"^plan\.expires_us: not after made_us"),
        ("plan.based_on", "AB" * 32, r"^plan\.based_on: .* is not 64 hexadecimal digits"),
        ("plan.constraints.classes", [], r"^plan\.constraints\.classes: \[\] is not an object"),
        ("plan.constraints.classes.gold.limit_loss_ppm", 1_000_001, "is outside 0 to 1000000"),
        ("plan.constraints.classes.gold.disjoint", 1, r"classes\.'gold'\.disjoint: 1 is not true"),
        (
            "plan.constraints.classes.gold.deny_countries",
            ["de"],
            r"deny_countries\[0\]: 'de' is not a",
        ),
        (
            "plan.constraints.classes.gold.deny_countries",
            None,
            r"deny_countries: null is not a list",
        ),
        ("plan.entries", {}, r"^plan\.entries: \{\} is not a list"),
        (
            "plan.entries",
            [ENTRY, ENTRY],
            r"^plan\.entries\[1\]: the track 0000000000000005 of 0.0:0.1",
        ),
        (
            "plan.entries",
            [
                {**ENTRY, "tracks": None},
                {**ENTRY, "tracks": None, "via": "0.0:0.3", "fallback": None},
            ],
            r"^plan\.entries\[1\]: the class 'gold' of 0.0:0.1",
        ),
        ("plan.entries.0.via", "0:2", r"^plan\.entries\[0\]\.via: '0:2' is written 0.0:0.2"),
        ("plan.entries.0.via", "x", r"^plan\.entries\[0\]\.via: node ID 'x'"),
        ("plan.entries.0.via", None, r"via: None is not a node ID"),
        ("plan.entries.0.via", "0.0:0.1", r"via: the origin itself"),
        ("plan.entries.0.fallback", "0.0:0.2", r"fallback: the Via or the origin itself"),
        ("plan.entries.0.tracks", [], r"tracks: empty"),
        ("plan.entries.0.tracks", ["0" * 16, "0" * 16], r"tracks: not in ascending order"),
        ("plan.entries.0.tracks", ["5"], r"tracks\[0\]: '5' is not 16 hexadecimal digits"),
        ("plan.entries.0.wan_saved_permille", 1001, r"wan_saved_permille: 1001 is outside"),
        ("signature.key", "", r"^signature\.key"),
        ("signature.ed25519", "00", r"^signature\.ed25519"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(path: str, value: object, message: str) -> None:
    text = json.dumps(_set(path, value))
    with pytest.raises(PlanFormatError, match=message):
        loads(text)


def test_texts_that_no_parser_agrees_on_are_refused() -> None:
    with pytest.raises(PlanFormatError, match="'a' stands twice"):
        loads('{"a":1,"b":2,"a":1}')
    with pytest.raises(PlanFormatError, match="integers only"):
        loads('{"a":1.5}')
    with pytest.raises(PlanFormatError, match="integers only"):
        loads('{"a":NaN}')
    with pytest.raises(PlanFormatError, match="longer than"):
        loads(b" " * (MAX_BYTES + 1))
    with pytest.raises(PlanFormatError, match="not JSON"):
        loads("[" * 100_000)
    plain = good()
    del plain["plan"]["version"]
    with pytest.raises(PlanFormatError, match=r"^plan\.version: missing"):
        loads(json.dumps(plain))


def test_a_number_that_python_does_not_print_is_named_all_the_same() -> None:
    with pytest.raises(PlanFormatError, match="a huge value is outside"):
        plan._int(10**5000, "here", 0, 1)


def test_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = good()
    text = json.dumps(plain)
    monkeypatch.setattr(plan, "MAX_TRACKS", 1)
    with pytest.raises(PlanFormatError, match="and 1 is the most"):
        loads(text)
    plain["plan"]["entries"] = [
        {**ENTRY, "tracks": None},
        {**ENTRY, "tracks": None, "region": "us"},
    ]
    with pytest.raises(PlanFormatError, match=r"entries: more than 1 tracks"):
        loads(json.dumps(plain))


def test_what_makes_no_sense_is_not_written() -> None:
    plan = loads(json.dumps(good())).plan
    with pytest.raises(EncodeError, match="63 bytes"):
        dumps(SignedPlan(plan=plan, key_id="0" * 16, signature=bytes(63)))
    with pytest.raises(EncodeError, match=r"signature\.key"):
        dumps(SignedPlan(plan=plan, key_id="xyz", signature=bytes(64)))
    with pytest.raises(EncodeError, match=r"plan\.expires_us"):
        canonical(Plan(id="x", version=1, made_us=2, expires_us=1, based_on="00" * 32))


def test_entries_are_found_by_their_relay() -> None:
    plan = loads(json.dumps(good())).plan
    assert plan.of(NodeId(1)) == plan.entries
    assert plan.of(NodeId(2)) == ()
    assert FORMAT == 1


def test_it_says_what_and_where() -> None:
    error = PlanFormatError("'x' is not a node ID", where="plan.entries[3].via")
    assert str(error) == "plan.entries[3].via: 'x' is not a node ID"
    assert (error.reason, error.where) == ("'x' is not a node ID", "plan.entries[3].via")
    assert isinstance(error, TextFormError)


def test_the_whole_text_has_no_place() -> None:
    error = PlanFormatError("not JSON")
    assert (str(error), error.where) == ("not JSON", "")


# The model

HERE, THERE, VIA = NodeId(1), NodeId(2), NodeId(3)


def entry(origin: NodeId, region: str) -> PlanEntry:
    return PlanEntry(origin=origin, region=region, scope="", tracks=None, via=VIA)


def a_plan(*entries: PlanEntry) -> Plan:
    return Plan(
        id="p", version=1, made_us=0, expires_us=1, based_on="0" * 64, entries=tuple(entries)
    )


def test_a_relay_takes_the_entries_for_itself_in_their_order() -> None:
    made = a_plan(entry(HERE, "eu"), entry(THERE, "eu"), entry(HERE, "us"))
    assert [item.region for item in made.of(HERE)] == ["eu", "us"]
    assert made.of(VIA) == ()


def test_who_says_nothing_gets_the_bounds_of_the_specification() -> None:
    assert HardConstraints().max_fanout == 2
    assert HardConstraints().change_budget is None
    assert ClassRule().allow_countries is None
    assert not ClassRule().disjoint
    gold = ClassRule(disjoint=True)
    assert HardConstraints(classes={"gold": gold}).rule("gold") is gold
    assert HardConstraints(classes={"gold": gold}).rule("") == ClassRule()


def test_what_is_signed_does_not_change() -> None:
    made = a_plan(entry(HERE, "eu"))
    with pytest.raises(FrozenInstanceError):
        made.version = 2  # type: ignore[misc]
