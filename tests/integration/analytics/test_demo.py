"""The demo, small: what was put into the world is what the tables and the report say."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from laps_analytics.cli.demo import summary
from laps_analytics.errors import OutputError
from laps_analytics.lake import Lake
from laps_analytics.report.gold import read_gold
from laps_analytics.synth.dataset import QUICK
from laps_analytics.synth.demo import STEPS, Demo, run_demo
from laps_wire.plan import loads

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def made(usual_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Demo:
    told: list[int] = []
    folder = tmp_path_factory.mktemp("demo")
    demo = run_demo(
        folder,
        lambda: usual_spark,
        seed=7,
        size=QUICK,
        progress=lambda number, _: told.append(number),
    )
    assert told == list(range(1, STEPS + 1))
    return demo


def test_tables_hold_the_truth(made: Demo) -> None:
    """Bytes to the last one, and every incident that tables are there to find."""
    truth = json.loads((made.folder / "before" / "truth.json").read_text())
    after = json.loads((made.folder / "after" / "truth.json").read_text())
    gold = read_gold(Lake.open(made.folder / "lake"))
    usage = gold["usage_tenant_day"].sort_values("version")
    newest = usage.drop_duplicates(["dt", "tenant"], keep="last")
    billed = newest.groupby("tenant")["out_bytes"].sum().to_dict()
    clients = truth["totals"]["client_bytes"], after["totals"]["client_bytes"]
    assert billed == {tenant: sum(part.get(tenant, 0) for part in clients) for tenant in billed}
    link_bytes = truth["totals"]["link_bytes"] + after["totals"]["link_bytes"]
    assert newest["link_bytes"].sum() == link_bytes
    fanout = gold["track_fanout_5m"]
    wan = truth["totals"]["wan_bytes"] + after["totals"]["wan_bytes"]
    assert fanout["wan_bytes"].sum() == wan
    put_in = {item["kind"]: item for item in truth["incidents"]}
    quality = gold["quality_1h"]
    clock = quality[
        (quality["check"] == "clock") & (quality["subject"] == put_in["clock"]["relay"])
    ]
    assert clock["seen"].max() == pytest.approx(2.5, abs=0.05)
    red = quality[~quality["ok"].astype(bool)]
    assert set(red["check"]) == {"late"}
    assert set(red["subject"]) == {put_in["late"]["relay"]}
    churn = gold["churn_1h"].sort_values("flaps").iloc[-1]
    assert (churn["source_node"], churn["track"]) == (
        put_in["flap"]["relay"],
        put_in["flap"]["track"],
    )
    assert list(gold["convergence"]["node"]) == [put_in["outage"]["relay"]]
    links = gold["link_quality_5m"]
    slow = put_in["slow_link"]
    inside = pd.Timestamp(slow["first_us"], unit="us", tz="UTC")
    row = links[(links["relay"] == slow["relay"]) & (links["peer"] == slow["peer"])]
    usual = row[row["window_start"] < inside]["rtt_p50_us"].median()
    assert row[row["window_start"] == inside]["rtt_p50_us"].max() > usual + 400_000
    lossy = links[links["loss"] > 0.03]
    assert len(lossy)
    regions = {relay: facts["region"] for relay, facts in truth["relays"].items()}
    for item in lossy.itertuples():
        ends = {regions[item.relay], regions[item.peer]}
        assert put_in["lossy_region"]["region"] in ends
    assert len(gold["loops_or_dups"]) == 0


def test_the_demo_leaves_what_it_names(made: Demo) -> None:
    text = summary(made)
    for name in ("report.html", "report-after.html", "gain.csv", "plan.json", "lake", "numbers"):
        assert (made.folder / name).exists()
        assert name in text
    plan = loads((made.folder / "plan.json").read_bytes()).plan
    assert plan == made.plan
    for _, _, answer in made.report.answers:
        assert answer != "No data yet."
        assert answer in text
    assert "has no rows: either" not in (made.folder / "report.html").read_text()


def test_the_report_after_the_plan_tells_what_became_of_it(made: Demo) -> None:
    page = (made.folder / "report-after.html").read_text()
    chapter = page[page.index('id="plans"') :]
    chapter = chapter[: chapter.index("</section>")]
    assert f"Plan {made.plan.id}, version 1, is in force at" in chapter
    assert "0 refused it, and 0 let it expire" in chapter
    assert "<img" in chapter or "<svg" in chapter
    assert 'id="plans"' not in (made.folder / "report.html").read_text()


def test_the_plan_does_not_lose(made: Demo) -> None:
    gains = {gain.what: gain for gain in made.gains}
    factor = gains["WAN bytes by what a copy for each region needs"]
    assert factor.after <= factor.before + 0.01
    assert gains["reports over the limit of their class"].verdict != "worse"


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("")
    with pytest.raises(OutputError, match="not empty"):
        run_demo(tmp_path, lambda: pytest.fail("Spark was started"))
