from __future__ import annotations

from laps_analytics.cli.ingest import show
from laps_analytics.ingest.run import Summary


def test_a_summary_says_what_was_done() -> None:
    summary = Summary(
        files=2,
        unchanged=1,
        bytes=5_000,
        events=1_200,
        quarantined=3,
        reasons={"not JSON": 2, "relay: missing": 1},
        traces=7,
        hours=["2026-11-17 11", "2026-11-17 12"],
        rows={"hop.stat": 1_000, "cache.stat": 100},
        copies=90,
        late=4,
        unfit=10,
        broken_clocks=["5:5", "6:6"],
        resumed=True,
    )
    assert show(summary).splitlines() == [
        "resumed       a batch that was begun before is done",
        "files         2 with something new, 1 without",
        "events        1,200 (5,000 bytes)",
        "quarantined   3 lines",
        "              2  not JSON",
        "              1  relay: missing",
        "traces        7 events of qlog",
        "hours made    2, 2026-11-17 11 to 2026-11-17 12",
        "rows there    1,100 of 2 types",
        "copies        90 left out",
        "late          4",
        "unfit         10 (table silver/quarantine)",
        "broken clock  5:5, 6:6",
    ]


def test_a_summary_of_nothing_is_short() -> None:
    assert len(show(Summary()).splitlines()) == 2
