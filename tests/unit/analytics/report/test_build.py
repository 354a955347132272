"""A report is a page that stands alone, shows what the tables hold, and believes nobody's words."""

from __future__ import annotations

import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from laps_analytics.cli import app
from laps_analytics.errors import InputError, LakeError, OutputError, UsageError
from laps_analytics.lake import Lake
from laps_analytics.report.build import Report, export_csv, export_json, make_report, write_page
from laps_analytics.report.chapter import Context
from laps_analytics.report.experience import blame, experience
from laps_analytics.report.gold import Gold, read_gold
from laps_analytics.report.incidents import anomalies, churn, convergence
from laps_analytics.report.network import fanout, links, stretch, topology
from laps_analytics.report.operations import cache, capacity, quality, usage
from laps_wire.nodeid import NodeId
from laps_wire.plan import Plan, PlanEntry
from testkit.gold_frames import lake_of, sample

HOSTILE = "<script>alert('x')</script>\x1b[31m\n$\\frac{"
VOID = {"meta", "br", "img", "link", "hr", "input"}


class Page(HTMLParser):
    """Elements of a page, checked for being closed, and everything that could load something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.paragraphs: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.paragraphs.append(data)


def report_of(tmp_path: Path, rows: dict[str, Any]) -> Report:
    return make_report(read_gold(lake_of(tmp_path / "lake", rows)))


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return report_of(tmp_path_factory.mktemp("report"), sample())


def test_the_page_is_whole(report: Report) -> None:
    page = Page(report.html)
    assert page.open == []
    assert page.tags["svg"] == 12
    assert page.tags["section"] == 14


def test_the_page_asks_for_nothing(report: Report) -> None:
    page = Page(report.html)
    assert not {"script", "link", "iframe", "img", "object", "base"} & set(page.tags)
    for tag, name, value in page.attributes:
        if name in {"href", "src", "xlink:href", "action", "data", "srcset"}:
            assert value.startswith("#"), (tag, name, value)
        assert "url(" not in value or "url(#" in value
        assert not name.startswith("on")
    assert "@import" not in report.html
    assert "url(http" not in report.html


def test_names_of_parts_are_unique(report: Report) -> None:
    ids = [value for _, name, value in Page(report.html).attributes if name == "id"]
    twice = [name for name, count in Counter(ids).items() if count > 1]
    assert twice == []
    wanted = {v[1:] for _, n, v in Page(report.html).attributes if n in {"href", "xlink:href"}}
    assert wanted <= set(ids)


def test_every_picture_says_what_it_shows(report: Report) -> None:
    page = Page(report.html)
    labelled = [value for tag, name, value in page.attributes if name == "aria-labelledby"]
    assert len([name for name in labelled if name.endswith("-alt")]) == page.tags["svg"]


def test_the_five_answers_are_at_its_head(report: Report) -> None:
    said = {key: answer for key, _, answer in report.answers}
    assert "every byte travelled 2.50 times" in said["fanout"]
    assert "us-west, class gold" in said["experience"]
    assert "(0.1:0.1) > " in said["experience"]
    assert "in 10 days" in said["capacity"]
    assert "14.0 GB to clients" in said["usage"]
    assert "(0.2:0.1) would help most" in said["stretch"]


def test_other_data_gives_another_page(tmp_path: Path, report: Report) -> None:
    rows = sample()
    for row in rows["track_fanout_5m"]:
        row["wan_bytes"] *= 3
    for row in rows["usage_tenant_day"]:
        row["out_bytes"] *= 3
    for row in rows["capacity_fc"]:
        row["days_to_80"] = None
    for row in rows["quality_1h"]:
        row["ok"] = True
    rows["loops_or_dups"] = [
        {"dt": "2026-06-18", "track": "t", "group_id": 1, "object_id": 0, "relay": "a",
         "out_peer": "b", "times": 2, "loop": True}
    ]  # fmt: skip
    other = report_of(tmp_path, rows)
    for old, new in (
        ("travelled 2.50 times", "travelled 7.50 times"),
        ("14.0 GB to clients", "42.0 GB to clients"),
        ("passes in 10 days", "Nothing passes 80 %"),
        ("The gate is red: 1 of 3", "The gate is green: all 3"),
        ("No sampled object travelled a link twice", "1 times a sampled object travelled"),
    ):
        assert old in report.html
        assert old not in other.html
        assert new in other.html


def test_each_table_matters() -> None:
    """A chapter without its table is made, and says which table it misses."""
    full = {name: pd.DataFrame(rows) for name, rows in sample().items() if rows}
    for chapter, name in (
        *((topology, "topology_snapshot"), (links, "link_quality_5m")),
        *((fanout, "track_fanout_5m"), (stretch, "path_stretch"), (blame, "blame")),
        *((experience, "qoe_region_1m"), (churn, "churn_1h"), (cache, "cache_eff_1h")),
        *((capacity, "capacity_fc"), (usage, "usage_tenant_day"), (anomalies, "anomaly")),
        *((convergence, "convergence"), (quality, "quality_1h")),
    ):
        less = Gold({key: frame for key, frame in full.items() if key != name})
        assert chapter(Context.of(less)).paragraphs[0].startswith(f"The table {name} has no rows")


def test_an_empty_lake_gives_a_page_that_says_so(tmp_path: Path) -> None:
    made = make_report(read_gold(Lake.open(tmp_path / "lake", create=True)))
    page = Page(made.html)
    assert "no gold table with rows yet" in made.html
    assert page.tags["svg"] == 0
    assert made.html.count("has no rows") == 13
    assert {answer for _, _, answer in made.answers} == {"No data yet."}


def test_words_of_others_are_only_words(tmp_path: Path) -> None:
    rows = sample(tenant=HOSTILE + "x" * 100_000, track=HOSTILE)
    for items in rows.values():
        for row in items:
            for key, value in row.items():
                if value == "us-west":
                    row[key] = HOSTILE
                if key == "check":
                    row[key] = HOSTILE
    made = report_of(tmp_path, rows)
    page = Page(made.html)
    assert len(made.html) < 2_000_000
    assert "script" not in page.tags
    assert "\x1b" not in made.html
    assert not any(name.startswith("on") for _, name, _ in page.attributes)
    assert any("<script>alert('x')</script>" in words for words in page.paragraphs)


def test_the_same_numbers_as_files(tmp_path: Path, report: Report) -> None:
    csv = {path.stem: path for path in export_csv(report, tmp_path / "csv")}
    tables = {path.stem: json.loads(path.read_text()) for path in export_json(report, tmp_path)}
    assert csv.keys() | {"answers"} == tables.keys()
    assert len(tables["answers"]) == 5
    for name, path in csv.items():
        assert len(pd.read_csv(path)) == len(tables[name]) == len(report.tables[name])
    assert tables["usage"][0]["out_bytes"] == 14 * 10**9
    assert re.search(r"14,000,000,000", report.html)


def test_a_page_that_cannot_be_written_is_named(tmp_path: Path, report: Report) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        write_page(report, tmp_path / "file" / "report.html")


def test_the_command_writes_and_answers(tmp_path: Path) -> None:
    lake_of(tmp_path / "lake", sample())
    out = tmp_path / "out" / "report.html"
    ended = CliRunner().invoke(
        app,
        [
            *("report", "--lake", str(tmp_path / "lake"), "--out", str(out)),
            *("--csv", str(tmp_path / "csv"), "--json", str(tmp_path / "json")),
        ],
    )
    assert ended.exit_code == 0, ended.output
    assert out.exists()
    assert ended.stdout.count("\n") == 5
    assert "Who pays what?" in ended.stdout
    assert (tmp_path / "csv" / "usage.csv").exists()
    assert (tmp_path / "json" / "usage.json").exists()


def test_a_lake_without_gold_is_said_and_leaves_no_page(tmp_path: Path) -> None:
    Lake.open(tmp_path / "lake", create=True)
    out = tmp_path / "report.html"
    ended = CliRunner().invoke(app, ["report", "--lake", str(tmp_path / "lake"), "--out", str(out)])
    assert isinstance(ended.exception, UsageError)
    assert "`laps-analytics build` first" in str(ended.exception)
    assert not out.exists()


def test_the_time_can_be_named(tmp_path: Path) -> None:
    # Two tables: all would be a dozen pictures, and their chapters have tests of their own.
    rows = sample()
    few = {name: rows[name] for name in ("topology_snapshot", "link_quality_5m")}
    lake_of(tmp_path / "lake", few)
    words = ["report", "--lake", str(tmp_path / "lake"), "--out", str(tmp_path / "r.html")]
    for more, fault in (
        (["--since", "18.6."], "is not a day"),
        (["--since", "2026-06-19", "--until", "2026-06-18"], "is later than"),
        (["--until", "2026-06-17"], "no gold tables up to 2026-06-17"),
        (["--since", "2026-06-19"], "its last day is 2026-06-18"),
    ):
        ended = CliRunner().invoke(app, [*words, *more])
        assert isinstance(ended.exception, UsageError)
        assert fault in str(ended.exception)
    ended = CliRunner().invoke(app, [*words, "--since", "2026-06-01", "--until", "2026-06-30"])
    assert ended.exit_code == 0, ended.output
    page = (tmp_path / "r.html").read_text()
    assert "since 2026-06-01 until 2026-06-18 18:35 UTC" in page


def test_what_is_no_lake_is_said(tmp_path: Path) -> None:
    ended = CliRunner().invoke(app, ["report", "--lake", str(tmp_path)])
    assert isinstance(ended.exception, LakeError)


def test_a_link_that_was_not_sampled_at_the_very_end_is_on_the_map() -> None:
    rows = sample()["topology_snapshot"]
    later = [
        {**row, "at": row["at"] + pd.Timedelta(minutes=5), "change": "removed"}
        for row in rows
        if row["kind"] == "link"
    ]
    chapter = topology(Context.of(Gold({"topology_snapshot": pd.DataFrame(rows + later)})))
    assert "4 peerings" in chapter.paragraphs[0]


def test_ticks_of_the_cache_are_numbers(report: Report) -> None:
    assert "mathdefault" not in report.html


def test_a_plan_is_shown_and_answers_which_via() -> None:
    entry = PlanEntry(
        origin=NodeId.parse("0.1:0.1"),
        region="us-west",
        scope="gold",
        tracks=(1, 2),
        via=NodeId.parse("0.2:0.1"),
        wan_saved_permille=500,
        reason="<b>3 copies become 1</b>",
    )
    facts: dict[str, Any] = {"id": "p", "made_us": 1, "expires_us": 2, "based_on": "0" * 64}
    plan = Plan(version=4, entries=(entry,), **facts)
    bare = Gold({"topology_snapshot": pd.DataFrame(sample()["topology_snapshot"])})
    made = make_report(bare, plan=plan)
    assert made.answers[-1][0] == "vias"
    assert "Plan p, version 4: 1 Vias for 1 groups" in made.html
    assert "(0.2:0.1) for 1." in made.answers[-1][2]
    assert "&lt;b&gt;3 copies become 1" in made.html
    assert made.tables["plan"]["wan_saved_share"].tolist() == [0.5]
    empty = make_report(bare, plan=Plan(version=5, **facts))
    assert "needs no Via" in empty.answers[-1][2]


def test_what_is_no_plan_is_said(tmp_path: Path) -> None:
    lake_of(tmp_path / "lake", sample())
    (tmp_path / "plan.json").write_text("{}")
    ended = CliRunner().invoke(
        app, ["report", "--lake", str(tmp_path / "lake"), "--plan", str(tmp_path / "plan.json")]
    )
    assert isinstance(ended.exception, InputError)


def test_text_in_csv_is_no_formula(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"name": ["=1+1", "@x", "+a", "-b", "-5", "plain"], "number": [-1.5, 2, 3, 4, 5, 6]}
    )
    (path,) = export_csv(Report("", (), {"t": frame}), tmp_path)
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines == [
        "name,number",
        "'=1+1,-1.5",
        "'@x,2.0",
        "'+a,3.0",
        "'-b,4.0",
        "-5,5.0",
        "plain,6.0",
    ]
