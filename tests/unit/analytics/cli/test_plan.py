"""The commands of planning, on a lake of a small world; no Spark."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from laps_analytics.cli import app
from laps_analytics.errors import (
    AnalyticsError,
    GateError,
    InputError,
    OutputError,
    PlanError,
    UsageError,
)
from laps_analytics.gold.dimensions import Dimensions, store_dimensions
from laps_analytics.lake import Lake
from laps_analytics.plan.core.explain import diff
from laps_analytics.plan.signing import check_signature, read_key, read_plan, sign, write_plan
from laps_analytics.synth.backbone import make_backbone
from laps_analytics.synth.dataset import make_demand
from laps_wire.plan import Plan
from testkit.plan_lake import (
    add_answers,
    add_experience,
    add_node,
    add_traffic,
    make_lake,
    observe_backbone,
)

OLD = ("--max-age", "100000000")
"""The lakes of these tests are of a day long ago, or to come."""


@dataclass(frozen=True)
class Place:
    root: Path

    def run(self, *words: str) -> str:
        result = CliRunner().invoke(app, [str(word) for word in words])
        if isinstance(result.exception, AnalyticsError):
            raise result.exception
        assert result.exit_code == 0, result.output + repr(result.exception)
        return result.stdout

    def json(self, *words: str) -> Any:
        return json.loads(self.run(*words, "--json"))

    @property
    def common(self) -> tuple[str, ...]:
        return (
            *("--lake", str(self.root / "lake"), "--constraints", str(self.root / "c.toml")),
            *("--dimensions", str(self.root / "d.toml")),
        )

    def plan(self, out: str, *more: str) -> Any:
        key = ("--key", str(self.root / "key.pem"), "--out", str(self.root / out))
        return self.json("plan", *self.common, *key, *OLD, "--no-simulate", *more)

    def path(self, name: str) -> str:
        return str(self.root / name)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    root = tmp_path_factory.mktemp("plans")
    backbone = make_backbone(4, edges=25, vias=10)
    demand = make_demand(backbone, tracks=8)
    seen = observe_backbone(backbone, demand)
    make_lake(root / "lake", seen)
    make_lake(root / "red", seen, red=2)
    make_lake(root / "pink", seen, red=1)
    (root / "c.toml").write_text(
        "change_budget = 0\n[class.silver]\nslack = 1.4\nextra_ms = 40\nlimit_ms = 250\n"
        "[class.bronze]\nslack = 1.6\nextra_ms = 60\n",
        encoding="ascii",
    )
    (root / "d.toml").write_text(
        "".join(f'[track.{item.track}]\nclass = "{item.scope}"\n' for item in demand),
        encoding="ascii",
    )
    found = Place(root)
    found.run("plan", "keygen", str(root / "key.pem"))
    found.plan("first.json")
    return found


def test_a_plan_is_made_signed_and_verified(place: Place) -> None:
    facts = place.plan("again.json", "--name", "test")
    assert facts["version"] == 1
    assert facts["entries"] > 3
    assert facts["suspects"] == []
    assert 1.0 <= facts["by_optimum"] < 1.05
    assert sum(facts["left_out"].values()) >= facts["without_choice"]
    assert all(": " in reason for reason in facts["left_out"])
    signed = read_plan(Path(place.path("again.json")))
    check_signature(signed, Path(place.path("key.pub.pem")))
    assert signed.plan.id == "test"
    assert len(signed.plan.entries) == facts["entries"]
    words = place.run(
        *("plan", *place.common, "--key", place.path("key.pem"), "--out", place.path("x.json")),
        *("--no-simulate", *OLD),
    )
    assert "data_until       2026-06-18T21:00:00Z" in words
    assert "entries" in words
    assert "not simulated: --no-simulate" in words


def test_the_next_plan_counts_on_and_changes_nothing_without_need(place: Place) -> None:
    facts = place.plan("second.json", "--previous", place.path("first.json"))
    assert facts["version"] == 2
    assert facts["changed"] == 0
    assert place.json("diff", place.path("first.json"), place.path("second.json")) == []
    assert "no difference" in place.run("diff", place.path("first.json"), place.path("second.json"))


def test_one_red_relay_is_set_aside(place: Place) -> None:
    pink = ("--lake", place.path("pink"), "--constraints", place.path("c.toml"))
    facts = ("--dimensions", place.path("d.toml"))
    key = ("--key", place.path("key.pem"), "--out", place.path("pink.json"))
    found = place.json("plan", *pink, *facts, *key, *OLD, "--no-simulate")
    assert found["aside"] == ["0.1:0.1"]
    assert "0.1:0.1" in found["suspects"]
    assert place.plan("whole.json")["aside"] == []


def test_a_red_gate_stops_planning(place: Place) -> None:
    red = ("--lake", place.path("red"), "--constraints", place.path("c.toml"))
    with pytest.raises(
        GateError, match=r"quality checks: telemetry_gap of 0\.1:0\.1 at 2026-06-18"
    ):
        place.run("plan", *red, "--key", place.path("key.pem"), "--out", place.path("never.json"),
                  *OLD)  # fmt: skip
    assert not Path(place.path("never.json")).exists()
    assert GateError.exit_code == 3


def test_no_plan_is_signed_from_old_data(place: Place) -> None:
    facts = place.plan("dated.json")
    assert facts["data_until"] == "2026-06-18T21:00:00Z"
    key = ("--key", place.path("key.pem"), "--out", place.path("never.json"))
    with pytest.raises(GateError, match=r"the newest data is of 2026-06-18 21:00 UTC, ") as caught:
        place.run("plan", *place.common, *key, "--no-simulate")
    assert caught.value.exit_code == 3
    assert not Path(place.path("never.json")).exists()


def test_dimensions_that_were_given_once_are_not_forgotten(place: Place, tmp_path: Path) -> None:
    shutil.copytree(place.root / "lake", tmp_path / "lake")
    bare = ("--lake", str(tmp_path / "lake"), "--constraints", place.path("c.toml"))
    out = ("--key", place.path("key.pem"), "--out", str(tmp_path / "p.json"), "--no-simulate", *OLD)
    demand = ("what-if", *bare, "--demand", "2")
    for words in (("plan", *bare, *out), ("explain", place.path("first.json"), *bare), demand):
        with pytest.raises(UsageError, match="classes bronze, silver, and no track has a"):
            place.run(*words)
    assert UsageError.exit_code == 2
    # Who names no class never needed any.
    (tmp_path / "none.toml").write_text("max_fanout = 2\n", encoding="ascii")
    place.run("plan", *bare[:3], str(tmp_path / "none.toml"), *out)
    store_dimensions(Lake.open(tmp_path / "lake"), Dimensions.read(Path(place.path("d.toml"))))
    place.run("plan", *bare, *out)
    found = read_plan(tmp_path / "p.json").plan
    assert found.entries == read_plan(Path(place.path("first.json"))).plan.entries
    assert place.json("explain", place.path("first.json"), *bare) == place.json(
        "explain", place.path("first.json"), *place.common
    )
    assert place.json(*demand) == place.json("what-if", *place.common, "--demand", "2")
    # A file that is named counts, and stays where it is.
    (tmp_path / "d.toml").write_text('[relay."a:1"]\ncapacity_bps = 1e10\n', encoding="ascii")
    with pytest.raises(UsageError, match="no track has a class"):
        place.run("plan", *bare, *out, "--dimensions", str(tmp_path / "d.toml"))
    place.run("plan", *bare, *out)


def test_constraints_about_relays_that_do_not_exist_are_an_error(
    place: Place, tmp_path: Path
) -> None:
    text = (place.root / "c.toml").read_text(encoding="ascii")
    facts = place.plan("legs.json")
    assert facts["legs"] > 0 == facts["legs_declared"]
    entry = read_plan(Path(place.path("legs.json"))).plan.entries[0]
    link = f'[link."{entry.via}>{entry.origin}"]\ncountries = ["DE"]\n'
    file = tmp_path / "c.toml"
    rest = ("--constraints", str(file), "--dimensions", place.path("d.toml"))
    lake = ("--lake", place.path("lake"), *rest)
    out = ("--key", place.path("key.pem"), "--out", place.path("some.json"), "--no-simulate", *OLD)
    file.write_text(text + link, encoding="ascii")
    assert place.json("plan", *lake, *out)["legs_declared"] == 1
    for wrong in (f'[node."{entry.via}9"]', f'[link."{entry.origin}>{entry.via}9"]'):
        file.write_text(text + link + wrong, encoding="ascii")
        for words in (
            ("plan", *lake, *out),
            ("explain", place.path("first.json"), *lake),
            ("what-if", *lake, "--demand", "2"),
        ):
            with pytest.raises(InputError, match=rf"{entry.via}9 \(near: .*{entry.via}"):
                place.run(*words)
            place.run(*words, "--allow-unknown")
    many = "".join(f'[node."9.{number}:9.9"]\n' for number in range(7))
    file.write_text(text + many, encoding="ascii")
    with pytest.raises(InputError, match=r"9\.0:9\.9 .* and 2 more; .* --allow-unknown"):
        place.run("plan", *lake, *out)
    # A relay that was there some days ago is known.
    shutil.copytree(place.root / "lake", tmp_path / "lake")
    add_node(Lake.open(tmp_path / "lake"), "9.0:9.9", days_ago=3)
    add_node(Lake.open(tmp_path / "lake"), "9.1:9.9", days_ago=9)
    away = ("--lake", str(tmp_path / "lake"), *rest)
    file.write_text(text + '[node."9.0:9.9"]\n', encoding="ascii")
    place.run("plan", *away, *out)
    file.write_text(text + '[node."9.1:9.9"]\n', encoding="ascii")
    with pytest.raises(InputError, match=r"9\.1:9\.9 \(near: 9\.0:9\.9"):
        place.run("plan", *away, *out)


def test_reasons_are_in_the_plan_and_choices_in_the_lake(place: Place) -> None:
    rows = place.json("explain", place.path("first.json"), "--key", place.path("key.pub.pem"))
    assert all(row["reason"] for row in rows)
    region = rows[0]["region"]
    only = place.json("explain", place.path("first.json"), "--group", region)
    assert {row["region"] for row in only} == {region}
    assert "WAN" in place.run("explain", place.path("first.json"))
    found = place.json("explain", place.path("first.json"), *place.common)
    assert any(item["alternatives"] for item in found)
    track = f"{read_plan(Path(place.path('first.json'))).plan.entries[0].tracks[0]:016x}"  # type: ignore[index]
    assert place.json("explain", place.path("first.json"), "--group", track)
    shown = place.run("explain", place.path("first.json"), *place.common, "--group", track)
    assert "hub and spoke" in shown
    assert "the plan says" not in shown
    with pytest.raises(UsageError, match="--constraints"):
        place.run("explain", place.path("first.json"), "--lake", place.path("lake"))


def test_an_explanation_is_of_the_plan_that_it_is_given(place: Place, moved: Plan) -> None:
    """Version 2 says other Vias than the data does: nobody may be told that it was decided so."""
    for row in place.json("explain", place.path("first.json"), *place.common):
        assert row["same_data"] is True
        assert list(row["plan"]) == [row["via"]]
    first = place.run("explain", place.path("first.json"), *place.common)
    assert first.startswith("plan laps version 1 was made from this data\n")
    changed = next(entry for entry in moved.entries if entry.reason == "moved")
    shown = place.run("explain", place.path("moved.json"), *place.common)
    assert f"  the plan says {changed.via}; with the data of now " in shown
    # A plan for another hour.
    entry = moved.entries[0]
    gone = replace(entry, region="nowhere")
    other = replace(moved, based_on="0" * 64, entries=(*moved.entries[1:], gone))
    write_plan(sign(other, read_key(Path(place.path("key.pem")))), Path(place.path("other.json")))
    shown = place.run("explain", place.path("other.json"), *place.common)
    assert "version 2 was made from other data (or upon another plan: --previous); below" in shown
    assert "  the plan says direct; with the data of now " in shown
    words = f"{entry.origin} > nowhere ({entry.scope or 'no class'}): the plan says {entry.via};"
    assert f"{words} with the data of now nobody watches there" in shown
    rows = place.json("explain", place.path("other.json"), *place.common)
    assert {row["same_data"] for row in rows} == {False}
    # One that was made upon another is decided in the same way if that is named.
    place.plan("upon.json", "--previous", place.path("moved.json"))
    rows = place.json(
        *("explain", place.path("upon.json"), *place.common),
        *("--previous", place.path("moved.json")),
    )
    assert {row["same_data"] for row in rows} == {True}
    assert all(list(row["plan"]) == [row["via"]] for row in rows)


def test_a_track_that_gets_a_class_is_not_added_and_removed_alike(place: Place) -> None:
    first = read_plan(Path(place.path("first.json"))).plan
    plain = replace(first, entries=tuple(replace(entry, scope="") for entry in first.entries))
    write_plan(sign(plain, read_key(Path(place.path("key.pem")))), Path(place.path("plain.json")))
    shown = place.run("diff", place.path("first.json"), place.path("plain.json")).splitlines()
    entry = first.entries[0]
    track = f"{entry.tracks[0]:016x}"  # type: ignore[index]
    about = [line.split(maxsplit=3) for line in shown if track in line and entry.region in line]
    assert {(words[0], words[3].partition(f" {track}")[0].strip()) for words in about} >= {
        ("removed", entry.scope),
        ("added", "(no class)"),
    }


def test_two_plans_are_compared(place: Place) -> None:
    signed = read_plan(Path(place.path("first.json")))
    region = signed.plan.entries[0].region
    text = (place.root / "c.toml").read_text(encoding="ascii")
    dear = text.replace("[class.silver]", f'[price]\nfrom = {{ "{region}" = 50 }}\n[class.silver]')
    (place.root / "dear.toml").write_text(dear.replace("change_budget = 0\n", ""), encoding="ascii")
    place.run(
        *("plan", "--lake", place.path("lake"), "--constraints", place.path("dear.toml")),
        *("--dimensions", place.path("d.toml")),
        *("--key", place.path("key.pem"), "--out", place.path("dear.json"), "--no-simulate"),
        *OLD,
    )
    changes = place.json("diff", place.path("first.json"), place.path("dear.json"))
    assert {item["kind"] for item in changes} <= {"added", "removed", "moved"}
    assert changes
    assert " > " in place.run("diff", place.path("first.json"), place.path("dear.json"))


def test_what_if(place: Place) -> None:
    via = str(read_plan(Path(place.path("first.json"))).plan.entries[0].via)
    gone = place.json("what-if", *place.common, "--drain", via)
    assert gone["moved"] > 0
    double = place.json("what-if", *place.common, "--demand", "2")
    assert double["after"]["cost"] > 1.5 * double["before"]["cost"]
    words = place.run("what-if", *place.common, "--price", "eu-west=2")
    assert "delay p95, ms" in words
    with pytest.raises(UsageError, match="the scenario changes nothing"):
        place.run("what-if", *place.common)
    with pytest.raises(UsageError, match="region=factor"):
        place.run("what-if", *place.common, "--price", "eu-west")
    with pytest.raises(PlanError, match=r"9\.9:9\.9"):
        place.run("what-if", *place.common, "--drain", "9.9:9.9")


def test_files_that_do_not_fit(place: Place, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"needs --lake, --constraints, --key and --out$"):
        place.run("plan")
    given = (*place.common, "--out", str(tmp_path / "x.json"))
    with pytest.raises(UsageError, match=r"needs --key$"):
        place.run("plan", *given)
    with pytest.raises(UsageError, match=r"needs --key and --out$"):
        place.run("plan", *place.common)
    with pytest.raises(OutputError, match="never overwritten"):
        place.run("plan", "keygen", place.path("key.pem"))
    with pytest.raises(OutputError, match="cannot be written"):
        place.run("plan", "keygen", str(tmp_path / "no" / "key.pem"))
    with pytest.raises(PlanError, match="plan keygen"):
        read_key(tmp_path / "none.pem")
    (tmp_path / "bad.pem").write_text("x", encoding="ascii")
    with pytest.raises(PlanError, match="no private key"):
        read_key(tmp_path / "bad.pem")
    with pytest.raises(PlanError, match="is not a plan: not JSON"):
        read_plan(tmp_path / "bad.pem")
    for words in (("explain", "none.json"), ("diff", place.path("first.json"), "none.json")):
        with pytest.raises(PlanError, match=r"No such file.*; name a plan that .* --out. wrote"):
            place.run(*words)
    signed = read_plan(Path(place.path("first.json")))
    with pytest.raises(PlanError, match="no public key"):
        check_signature(signed, tmp_path / "bad.pem")
    with pytest.raises(PlanError, match="No such file"):
        check_signature(signed, tmp_path / "none.pem")
    place.run("plan", "keygen", str(tmp_path / "other.pem"))
    with pytest.raises(PlanError, match="not by the key in"):
        check_signature(signed, tmp_path / "other.pub.pem")
    make_empty = ("--lake", str(tmp_path / "empty"), "--constraints", place.path("c.toml"))
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "lake.json").write_text('{"laps_lake": 1}', encoding="ascii")
    with pytest.raises(PlanError, match="has no topology_snapshot"):
        place.run("what-if", *make_empty, "--demand", "2")


def test_a_plan_is_measured_and_going_back_is_only_proposed(place: Place, tmp_path: Path) -> None:
    for name, after_ms, word in (("worse", 40, "worse"), ("better", -40, "better")):
        lake = Lake.open(tmp_path / name, create=True)
        with pytest.raises(PlanError, match="no relay has reported"):
            place.run("plan", "measure", place.path("first.json"), "--lake", str(lake.root))
        add_experience(lake, plan="laps", after_ms=after_ms)
        found = place.json("plan", "measure", place.path("first.json"), "--lake", str(lake.root))
        assert found["revert"] is (word == "worse")
        assert found["metrics"]["latency"]["all"]["word"] == word
        assert found["metrics"]["latency"]["all"]["change"] == pytest.approx(after_ms, abs=4)
        assert found["metrics"]["stalls"]["eu-west"]["word"] == "unclear"
        shown = place.run("plan", "measure", place.path("first.json"), "--lake", str(lake.root))
        proposal = "proposal: latency got worse: go back on all"
        assert (proposal in shown) is (word == "worse")
        assert "startup" in shown


def test_a_series_of_versions_is_measured_where_it_was_followed(
    place: Place, tmp_path: Path, moved: Plan
) -> None:
    assert moved.version == 2
    lake = Lake.open(tmp_path / "series", create=True)
    add_experience(lake, plan="laps", after_ms=40)
    add_traffic(lake, wan_after=2.0)
    # A third version after a day: what comes then is not the plan that is judged.
    answers = [("0.1:0.1", 2, "accepted", 40.0), ("0.1:0.1", 3, "accepted", 24.0)]
    add_answers(lake, "laps", [*answers, ("0.1:0.2", 2, "refused", 40.0)])
    words = ("plan", "measure", place.path("moved.json"), "--lake", str(lake.root))
    # Hours begin when a version is accepted, and the first minutes do not count.
    alone = place.json(*words)
    assert (alone["versions"], alone["hours"], alone["hours_left_out"]) == ([2, 2], 15, 24)
    found = place.json(*words, "--since", "1")
    assert (found["versions"], found["hours"], found["hours_left_out"]) == ([1, 2], 23, 24)
    assert (found["accepted"], found["refused"]) == (1, 1)
    assert found["metrics"]["latency"]["all"]["pairs"] == 23
    assert found["metrics"]["wan"]["all"]["word"] == "worse"
    assert found["metrics"]["copies"]["all"]["word"] == "worse"
    assert set(found["worse"]["all"]) >= {"wan", "copies", "latency"}
    # What costs more is not taken back if viewers are better off.
    dear = Lake.open(tmp_path / "dear", create=True)
    add_experience(dear, plan="laps", version=2, after_ms=-40)
    add_traffic(dear, wan_after=2.0)
    good = place.json("plan", "measure", place.path("moved.json"), "--lake", str(dear.root))
    assert (good["metrics"]["wan"]["all"]["word"], good["worse"]) == ("worse", {})
    shown = place.run(*words, "--since", "1")
    assert shown.startswith("followed by 1 relays, refused by 1; 23 of 47 hours count\n")
    with pytest.raises(UsageError, match="--since 3 is later than version 2"):
        place.run(*words, "--since", "3")
    add_answers(lake, "laps", [("0.1:0.1", 1, "expired", 47.9), ("0.1:0.1", 2, "expired", 39.9)])
    assert "0 of 39 hours count: judge a series of versions with --since" in place.run(*words)


def test_a_region_that_got_worse_is_named_though_the_whole_is_not_worse(
    place: Place, tmp_path: Path
) -> None:
    lake = Lake.open(tmp_path / "mixed", create=True)
    add_experience(lake, plan="laps", after_ms=-40, regions={"us-east": +40})
    found = place.json("plan", "measure", place.path("first.json"), "--lake", str(lake.root))
    assert found["metrics"]["latency"]["all"]["word"] == "unclear"
    assert found["metrics"]["latency"]["eu-west"]["word"] == "better"
    assert found["worse"] == {"us-east": ["latency"]}
    assert found["revert"] is True
    shown = place.run("plan", "measure", place.path("first.json"), "--lake", str(lake.root))
    entries = read_plan(Path(place.path("first.json"))).plan.entries
    count = sum(1 for entry in entries if entry.region == "us-east")
    assert (
        f"proposal: latency got worse in us-east: go back on the {count} entries of version 1"
        in shown
    )


def goes_back(place: Place, lake: Lake, out: str, *more: str) -> Any:
    """Judge the second plan, which is the first one with other Vias, and go back."""
    return place.json(
        *("plan", "measure", place.path("moved.json"), "--lake", str(lake.root)),
        *("--constraints", place.path("c.toml"), "--dimensions", place.path("d.toml")),
        *("--key", place.path("key.pem"), "--out", place.path(out), "--no-simulate"),
        *(*OLD, *more),
    )


@pytest.fixture(scope="module")
def moved(place: Place) -> Plan:
    """Version 2: every entry that has a second way takes it."""
    first = read_plan(Path(place.path("first.json"))).plan
    entries = tuple(
        entry
        if entry.fallback is None
        else replace(entry, via=entry.fallback, fallback=None, reason="moved")
        for entry in first.entries
    )
    plan = replace(first, version=2, entries=entries)
    write_plan(sign(plan, read_key(Path(place.path("key.pem")))), Path(place.path("moved.json")))
    return plan


def experienced(place: Place, name: str, **what: Any) -> Lake:
    """The lake of the plan, with viewers for whom version 2 changed something."""
    root = place.root / name
    shutil.copytree(place.root / "lake", root)
    lake = Lake.open(root)
    add_experience(lake, plan="laps", version=2, **what)
    return lake


def test_a_region_that_got_worse_goes_back_and_the_rest_stays(place: Place, moved: Plan) -> None:
    region = next(entry.region for entry in moved.entries if entry.reason == "moved")
    lake = experienced(place, "one region", after_ms=-40, regions={region: 40, "else": -40})
    first = ("--revert-to", place.path("first.json"))
    found = goes_back(place, lake, "back.json", *first)
    assert found["worse"] == {region: ["latency"]}
    written = found["written"]
    assert (written["version"], written["parts"], written["restored"]) == (3, [region], 1)
    assert written["changes"]["moved"] > 0
    signed = read_plan(Path(place.path("back.json")))
    check_signature(signed, Path(place.path("key.pub.pem")))
    earlier = read_plan(Path(place.path("first.json"))).plan
    assert {item.region for item in diff(moved, signed.plan)} == {region}
    assert all(item.region != region for item in diff(earlier, signed.plan))
    # Without an earlier plan relays choose there.
    found = goes_back(place, lake, "gone.json")
    gone = read_plan(Path(place.path("gone.json"))).plan
    assert found["written"]["restored"] is None
    assert {(item.region, item.kind) for item in diff(moved, gone)} == {(region, "removed")}
    # The next plan would decide as the first time, if nobody held it.
    held = place.plan("next.json", "--previous", place.path("gone.json"), "--hold", region)
    assert held["version"] == 4
    after = read_plan(Path(place.path("next.json"))).plan
    assert region not in {entry.region for entry in after.entries}
    assert any("held as it was" in reason for reason in held["left_out"])


def test_a_class_of_a_region_that_got_worse_goes_back_alone(place: Place, moved: Plan) -> None:
    scopes: dict[str, set[str]] = {}
    for entry in moved.entries:
        if entry.reason == "moved":
            scopes.setdefault(entry.region, set()).add(entry.scope)
    region = max(scopes, key=lambda name: (len(scopes[name]), name))
    scope = min(scopes[region])
    lake = experienced(
        place, "one class", after_ms=-40, regions={region: -40}, classes={(region, scope): 40}
    )
    found = goes_back(place, lake, "class.json", "--revert-to", place.path("first.json"))
    assert found["written"]["parts"] == [f"{region}/{scope}"]
    plan = read_plan(Path(place.path("class.json"))).plan
    assert {(item.region, item.scope) for item in diff(moved, plan)} == {(region, scope)}


def test_a_whole_plan_goes_back(place: Place, moved: Plan) -> None:
    lake = experienced(place, "all", after_ms=40)
    found = goes_back(place, lake, "all.json", "--revert-to", place.path("first.json"))
    assert found["written"]["parts"] == ["all"]
    plan = read_plan(Path(place.path("all.json"))).plan
    assert plan.version == 3
    assert diff(read_plan(Path(place.path("first.json"))).plan, plan) == []
    found = goes_back(place, lake, "empty.json", "--previous", place.path("all.json"))
    empty = read_plan(Path(place.path("empty.json"))).plan
    assert (empty.version, empty.entries) == (4, ())
    assert found["written"]["entries"] == 0
    words = ("plan", "measure", place.path("moved.json"), "--lake", str(lake.root))
    shown = place.run(
        *(*words, "--constraints", place.path("c.toml"), "--dimensions", place.path("d.toml")),
        *("--key", place.path("key.pem"), "--out", place.path("said.json"), "--no-simulate"),
        *OLD,
    )
    assert "said.json: version 3, 0 entries, 0 added, 0 moved, " in shown


def test_what_helped_is_not_taken_back_and_files_must_fit(place: Place, moved: Plan) -> None:
    assert moved.version == 2
    lake = experienced(place, "better", after_ms=-40)
    assert goes_back(place, lake, "never.json")["written"] is None
    assert not Path(place.path("never.json")).exists()
    words = ("plan", "measure", place.path("moved.json"), "--lake", str(lake.root))
    out = (*words, "--out", place.path("never.json"))
    with pytest.raises(UsageError, match="needs --out, --key and --constraints"):
        place.run(*out)
    whole = (*out, "--key", place.path("key.pem"), "--constraints", place.path("c.toml"))
    assert "nothing got worse: no plan was written" in place.run(*whole)
    with pytest.raises(UsageError, match="is laps version 2: name a plan of laps before version 2"):
        place.run(*whole, "--revert-to", place.path("moved.json"))
    with pytest.raises(UsageError, match=r"is laps version 1: .* follow, version 2 or later"):
        place.run(*whole, "--previous", place.path("first.json"))


def pretend(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str, code: int = 0) -> Path:
    """A program in the place of ``laps-relay``."""
    program = folder / "laps-relay"
    program.write_text(f"#!/bin/sh\necho '{text}'\nexit {code}\n", encoding="ascii")
    program.chmod(0o755)
    monkeypatch.setattr("laps_analytics.cli.plan.simulator", lambda: program)
    return program


def test_a_plan_that_the_simulator_objects_to_is_not_written(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = {"check": "way", "where": "0.1:0.1 > eu", "text": "over another Via"}
    pretend(monkeypatch, tmp_path, json.dumps({"ok": False, "faults": [fault] * 2}), 1)
    with pytest.raises(
        PlanError, match=r"2 faults, so nothing was written; .*: way at 0\.1:0\.1 > eu"
    ):
        place.plan("never.json", "--simulate")
    assert not Path(place.path("never.json")).exists()


def test_a_simulator_that_is_not_there_or_says_nothing_is_named(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = ("--key", place.path("key.pem"), "--out", place.path("unsimulated.json"), *OLD)
    pretend(monkeypatch, tmp_path, "no such command", 2)
    found = place.json("plan", *place.common, *key)
    assert found["simulated"] == "not simulated: the simulator ended with code 2: no message"
    assert found["simulation"] is None
    with pytest.raises(PlanError, match=r"ended with code 2.*; nothing was written"):
        place.plan("never.json", "--simulate")
    pretend(monkeypatch, tmp_path, "words")
    assert "gave no verdict" in place.json("plan", *place.common, *key)["simulated"]
    monkeypatch.setattr("laps_analytics.cli.plan.simulator", lambda: tmp_path / "none")
    assert "does not start" in place.json("plan", *place.common, *key)["simulated"]
    monkeypatch.setattr("laps_analytics.cli.plan.simulator", lambda: None)
    shown = place.run("plan", *place.common, *key)
    assert "not simulated: laps-relay is not installed" in shown
    with pytest.raises(UsageError, match="-e packages/laps-relay, or give --no-simulate"):
        place.plan("never.json", "--simulate")
