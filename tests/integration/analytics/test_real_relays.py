"""From real relays to gold: what an Edge, a Via and an Edge write fills the tables, to the byte."""

from __future__ import annotations

import pandas as pd
import pytest

from integration.analytics.relay_lake import SHOW, RelayLake
from testkit.recorded_network import LEFT, RIGHT, VIA, Recorded

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

RELAYS = {LEFT, VIA, RIGHT}


@pytest.fixture(scope="module")
def recorded(relay_lake: RelayLake) -> Recorded:
    return relay_lake.recorded


@pytest.fixture(scope="module")
def gold(relay_lake: RelayLake) -> dict[str, pd.DataFrame]:
    """The rows of this network: of its relays, or of its tenant."""
    found = {}
    for name, rows in relay_lake.gold.items():
        if "relay" in rows:
            found[name] = rows[rows["relay"].isin(RELAYS)]
        elif "tenant" in rows:
            found[name] = rows[rows["tenant"] == SHOW]
        else:
            found[name] = rows[rows["subject"].map(lambda text: set(text.split(">")) <= RELAYS)]
    return found


def test_each_event_is_there_once(relay_lake: RelayLake) -> None:
    first, second = relay_lake.summaries
    assert (first.unfit, first.copies, first.late) == (0, 0, 0)
    assert first.events == relay_lake.events()
    assert second.events == 0


def test_every_table_has_something_to_say(gold: dict[str, pd.DataFrame]) -> None:
    assert [name for name, rows in gold.items() if rows.empty] == []
    assert gold["quality_1h"]["ok"].all()


def test_bytes_are_those_that_the_relays_counted(
    recorded: Recorded, gold: dict[str, pd.DataFrame]
) -> None:
    traffic = gold["traffic_1m"]
    sent = traffic.groupby(["relay", "out_peer"])["out_bytes"].sum().to_dict()
    assert sent[LEFT, VIA] == recorded.network[LEFT].bytes_out
    assert sent[VIA, RIGHT] == recorded.network[VIA].bytes_out
    checks = gold["quality_1h"]
    links = checks[checks["check"] == "link_bytes"].groupby("subject")[["expected", "seen"]].sum()
    assert set(links.index) == {f"{LEFT}>{VIA}", f"{VIA}>{RIGHT}"}
    assert (links["expected"] == links["seen"]).all()
    usage = gold["usage_tenant_day"]
    assert usage["in_bytes"].sum() == recorded.published
    assert usage["link_bytes"].sum() == sent[LEFT, VIA] + sent[VIA, RIGHT]
    assert usage["out_bytes"].sum() == sent[RIGHT, ""] > 0


def test_links_and_the_way_of_the_track(gold: dict[str, pd.DataFrame]) -> None:
    links = gold["link_quality_5m"]
    known = set(zip(links["relay"], links["peer"], strict=True))
    assert known == {(LEFT, VIA), (VIA, LEFT), (VIA, RIGHT), (RIGHT, VIA)}
    assert (links["samples"] > 0).all()
    fanout = gold["track_fanout_5m"]
    assert set(fanout["origin"]) == {LEFT}
    assert fanout["hops_max"].max() == 2
    assert fanout["s_relays"].max() == 1


def test_who_was_slow_and_what_viewers_got(gold: dict[str, pd.DataFrame]) -> None:
    assert set(gold["blame"]["part"]) <= {"relay", "link"}  # publishers and players say nothing
    quality = gold["qoe_region_1m"]
    assert quality["sessions"].max() == 2
    assert quality["gap_rate"].max() == 0
    assert quality["startup_p95_ms"].max() >= 0
    cache = gold["cache_eff_1h"]
    assert set(cache["relay"]) == {LEFT, RIGHT}
    assert (cache["stored_bytes"] > 0).all()
