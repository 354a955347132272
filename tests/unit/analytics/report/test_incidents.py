"""An incident is told in units, and with the names that other chapters use."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from laps_analytics.gold.builders.anomaly import METRICS
from laps_analytics.report.chapter import Context, Section
from laps_analytics.report.gold import Gold
from laps_analytics.report.incidents import anomalies
from testkit.gold_frames import sample


def chapter(**changes: Any) -> Section:
    rows = sample()
    (row,) = rows["anomaly"]
    frames = {"anomaly": [{**row, **changes}], "topology_snapshot": rows["topology_snapshot"]}
    return anomalies(Context.of(Gold({name: pd.DataFrame(rows) for name, rows in frames.items()})))


@pytest.mark.parametrize(
    ("metric", "observed", "expected", "want"),
    [
        ("rtt", 230_000.0, 50_000.0, "230 ms where 50 ms is usual"),
        ("latency", 1234.4, 150.0, "1,234 ms where 150 ms is usual"),
        ("stalls", 0.051, 0.0, "5.1 % of the time where 0.0 % of the time is usual"),
        ("gaps", 12.25, 0.5, "12.2 objects a minute where 0.5 objects a minute is usual"),
        ("loss", 0.04, 0.001, "4.0 % of packets where 0.1 % of packets is usual"),
        ("drops", 0.5, 0.0, "50.0 % of objects where 0.0 % of objects is usual"),
        ("traffic", 2.5e9, 1e6, "2.5 Gbit/s where 1.0 Mbit/s is usual"),
        ("news", 2.0, None, "2 where nothing is usual"),
    ],
)
def test_every_number_has_its_unit(
    metric: str, observed: float, expected: float | None, want: str
) -> None:
    section = chapter(metric=metric, observed=observed, expected=expected)
    assert want in section.paragraphs[0]
    assert "unit" in section.tables["incidents"]


def test_every_metric_of_the_table_has_a_unit() -> None:
    for metric in METRICS:
        (unit,) = chapter(metric=metric.name).tables["incidents"]["unit"]
        assert unit


def test_relays_have_the_names_of_places() -> None:
    pytest.importorskip("topohub", reason="names of places need topohub")
    common = [
        {"dimension": "relay", "value": "0.1:0.1", "share": 1.0},
        {"dimension": "peer", "value": "0.1:0.2", "share": 0.9},
        {"dimension": "region", "value": "", "share": 0.6},
    ]
    section = chapter(explained=common)
    places = Context.of(Gold({"topology_snapshot": pd.DataFrame(sample()["topology_snapshot"])}))
    here, there = (places.places.full(node) for node in ("0.1:0.1", "0.1:0.2"))
    assert here != "0.1:0.1"
    assert f"(relay {here} 100 %, to {there} 90 %, region (none) 60 %)" in section.paragraphs[0]
    to_clients = [{"dimension": "out_peer", "value": "", "share": 1.0}]
    assert "(to clients 100 %)" in chapter(explained=to_clients).paragraphs[0]
    assert f"(link {here} > {there} 100 %)" in chapter().paragraphs[0]
    assert "(nothing in common)" in chapter(explained=None).paragraphs[0]
