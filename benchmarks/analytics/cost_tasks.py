"""The same questions to four engines, on two threads and the same files.

``lines``: JSON Lines to deduplicated Parquet. ``percentiles``: deduplicate, then count, median and
95th percentile of round trips by link and five minutes. ``fanout``: relays, peers and bytes of each
track. ``gold``: what ``laps-analytics build`` does for ``traffic_1m``, ``link_quality_5m`` and
``track_fanout_5m``; in DuckDB as SQL that gives the same columns but for the sketches.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["ENGINES", "TASKS", "task_of"]

TASKS = ("lines", "percentiles", "fanout", "gold")
ENGINES = ("spark", "duckdb", "polars", "pandas")

Task = Callable[[], int]
"""Does the work and returns the number of rows that came out."""


def task_of(engine: str, task: str, folder: Path, out: Path) -> Task:
    """The work, and what an engine must start first, in one function."""
    makers = {"spark": _spark, "duckdb": _duckdb, "polars": _polars, "pandas": _pandas}
    return makers[engine](task, folder, out)


def _spark(task: str, folder: Path, out: Path) -> Task:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    from laps_analytics.gold.dimensions import Dimensions  # noqa: PLC0415
    from laps_analytics.gold.fanout import track_fanout  # noqa: PLC0415
    from laps_analytics.gold.links import link_quality  # noqa: PLC0415
    from laps_analytics.gold.silver import Silver, stored_type  # noqa: PLC0415
    from laps_analytics.gold.traffic import traffic_1m  # noqa: PLC0415
    from laps_analytics.schema import body_type  # noqa: PLC0415
    from laps_analytics.session import SessionSettings, spark_session  # noqa: PLC0415

    spark = spark_session(
        SessionSettings(
            master="local[2]",
            driver_memory="6g",
            options={"spark.ui.showConsoleProgress": "false", "spark.local.dir": str(out)},
        )
    )

    def stored(kind: str) -> Any:
        return spark.read.schema(stored_type(kind)).parquet(str(folder / kind))

    def written(frame: Any, name: str) -> int:
        frame.write.mode("overwrite").parquet(str(out / name))
        return int(spark.read.parquet(str(out / name)).count())

    def lines() -> int:
        body = body_type("quic.sample").simpleString()
        text = spark.read.text(str(folder / "lines.jsonl"))
        schema = (
            "struct<v:string,event_id:string,ts_us:bigint,relay:string,boot:bigint,type:string,"
            f"tenant:string,region:string,body:{body}>"
        )
        rows = text.select(F.from_json("value", schema).alias("e")).select("e.*")
        return written(rows.dropDuplicates(["event_id"]), "lines")

    def percentiles() -> int:
        rows = stored("quic.sample").dropDuplicates(["event_id"])
        at = F.window("ts", "5 minutes").start.alias("at")
        p50 = F.expr("percentile_disc(0.5) WITHIN GROUP (ORDER BY srtt_us)")
        p95 = F.expr("percentile_disc(0.95) WITHIN GROUP (ORDER BY srtt_us)")
        found = rows.groupBy(at, "relay", "peer").agg(F.count("*"), p50, p95)
        return len(found.collect())

    def fanout() -> int:
        found = (
            stored("hop.stat")
            .groupBy("track")
            .agg(F.count_distinct("relay"), F.count_distinct("out_peer"), F.sum("out_bytes"))
        )
        return len(found.collect())

    def gold() -> int:
        frames = {kind: stored(kind) for kind in ("hop.stat", "quic.sample")}
        silver, days = Silver.of_frames(spark, frames), ["2026-11-17"]
        return (
            written(traffic_1m(silver, days, Dimensions()), "traffic")
            + written(link_quality(silver, days), "links")
            + written(track_fanout(silver, days, Dimensions()), "fanout")
        )

    return {"lines": lines, "percentiles": percentiles, "fanout": fanout, "gold": gold}[task]


_SUMS = ", ".join(f"sum(queue_ms.counts[{index}])" for index in range(1, 17))

_GOLD = {
    "traffic": f"""
        SELECT dt, date_trunc('minute', ts) AS w, relay, coalesce(out_peer, '') AS peer, tenant,
            sum(objects), sum(in_bytes), sum(out_bytes), sum(list_sum(map_values(drops))),
            list(drops) FILTER (WHERE cardinality(drops) > 0), {_SUMS},
            approx_count_distinct(track) FROM hop GROUP BY ALL""",  # noqa: S608
    "links": """
        WITH d AS (SELECT *, epoch_us(ts) - epoch_us(lag(ts) OVER s) AS apart,
                sent_packets - lag(sent_packets) OVER s AS more,
                lost_packets - lag(lost_packets) OVER s AS less FROM quic
            WINDOW s AS (PARTITION BY relay, boot, session_id ORDER BY ts, event_seq)),
        q AS (SELECT dt, time_bucket(INTERVAL 5 MINUTE, ts) AS w, relay, peer, count(*) AS n,
                quantile_disc(srtt_us, 0.5) AS p50, quantile_disc(srtt_us, 0.95) AS p95,
                avg(rttvar_us) AS jitter,
                sum(more) FILTER (WHERE apart <= 3600000000 AND more >= 0) AS sent,
                sum(less) FILTER (WHERE apart <= 3600000000 AND less >= 0) AS lost
            FROM d GROUP BY ALL),
        b AS (SELECT dt, time_bucket(INTERVAL 5 MINUTE, ts) AS w, relay, out_peer AS peer,
                sum(out_bytes) AS bytes FROM hop WHERE out_peer IS NOT NULL GROUP BY ALL)
        SELECT *, min(p50) OVER h, max(p50) OVER h FROM q FULL JOIN b USING (dt, w, relay, peer)
        WINDOW h AS (PARTITION BY relay, peer ORDER BY w
            RANGE BETWEEN INTERVAL 60 MINUTE PRECEDING AND INTERVAL 5 MINUTE PRECEDING)""",
    "fanout": """
        WITH home AS (SELECT dt, relay, arg_max(region, ts) AS region FROM (
                SELECT dt, relay, region, ts FROM hop UNION ALL
                SELECT dt, relay, region, ts FROM quic) GROUP BY ALL),
        h AS (SELECT dt, time_bucket(INTERVAL 5 MINUTE, ts) AS w, track, tenant, relay, in_peer,
                out_peer, sum(in_bytes) AS i, sum(out_bytes) AS o FROM hop GROUP BY ALL),
        ways AS (SELECT h.*, a.region AS ra, b.region AS rb FROM h
            LEFT JOIN home a USING (dt, relay) LEFT JOIN home b ON b.relay = h.out_peer),
        origin AS (SELECT dt, w, track, tenant, max(i) AS bytes, arg_max(relay, i) AS origin
            FROM (SELECT dt, w, track, tenant, relay, max(i) AS i FROM ways
                WHERE in_peer IS NULL GROUP BY ALL) GROUP BY ALL),
        pairs AS (SELECT dt, w, track, tenant, max(o) AS o, arg_max(pair, o) AS pair FROM (
                SELECT dt, w, track, tenant, ra || '>' || rb AS pair, sum(o) AS o FROM ways
                WHERE out_peer IS NOT NULL AND ra <> rb GROUP BY ALL) GROUP BY ALL),
        tracks AS (SELECT dt, w, track, tenant, count(DISTINCT relay) AS relays,
                count(DISTINCT relay) FILTER (WHERE out_peer IS NULL) AS s_relays,
                list(DISTINCT ra) FILTER (WHERE out_peer IS NULL) AS served,
                sum(o) FILTER (WHERE out_peer IS NOT NULL) AS link,
                sum(o) FILTER (WHERE ra <> rb) AS wan,
                list(DISTINCT (relay, out_peer)) FILTER (WHERE out_peer IS NOT NULL) AS edges
            FROM ways GROUP BY ALL)
        SELECT t.*, o.bytes, o.origin, p.o AS worst, p.pair FROM tracks t
        LEFT JOIN origin o USING (dt, w, track, tenant)
        LEFT JOIN pairs p USING (dt, w, track, tenant)""",
}


def _duckdb(task: str, folder: Path, out: Path) -> Task:
    import duckdb  # noqa: PLC0415

    db = duckdb.connect()
    db.execute("SET threads = 2")
    db.execute("SET memory_limit = '8GB'")
    db.execute(f"SET temp_directory = '{out}/spill'")
    for view, kind in (("hop", "hop.stat"), ("quic", "quic.sample")):
        source = f"read_parquet('{folder}/{kind}/*/*/*.parquet', hive_partitioning = true)"
        db.execute(f"CREATE VIEW {view} AS SELECT * FROM {source}")  # noqa: S608

    def count(query: str) -> int:
        return len(db.execute(query).fetchall())

    def write(query: str, name: str) -> int:
        found = db.execute(
            f"COPY ({query}) TO '{out}/{name}.parquet' (FORMAT parquet, COMPRESSION zstd)"
        ).fetchone()
        return int(found[0]) if found else 0

    work: dict[str, Task] = {
        "lines": lambda: write(
            f"SELECT DISTINCT ON (event_id) * FROM read_json('{folder}/lines.jsonl',"  # noqa: S608
            " format = 'newline_delimited')",
            "lines",
        ),
        "percentiles": lambda: count(
            "SELECT time_bucket(INTERVAL 5 MINUTE, ts) AS w, relay, peer, count(*),"
            " quantile_disc(srtt_us, 0.5), quantile_disc(srtt_us, 0.95)"
            " FROM (SELECT DISTINCT ON (event_id) * FROM quic) GROUP BY ALL"
        ),
        "fanout": lambda: count(
            "SELECT track, count(DISTINCT relay), count(DISTINCT out_peer), sum(out_bytes)"
            " FROM hop GROUP BY ALL"
        ),
        "gold": lambda: sum(write(query, name) for name, query in _GOLD.items()),
    }
    return work[task]


def _polars(task: str, folder: Path, out: Path) -> Task:
    import polars as pl  # noqa: PLC0415

    def lines() -> int:
        rows = pl.scan_ndjson(folder / "lines.jsonl").unique("event_id").collect()
        rows.write_parquet(out / "lines.parquet")
        return rows.height

    def percentiles() -> int:
        rows = pl.scan_parquet(folder / "quic.sample" / "**" / "*.parquet").unique("event_id")
        found = rows.group_by(pl.col("ts").dt.truncate("5m"), "relay", "peer").agg(
            pl.len(),
            pl.col("srtt_us").quantile(0.5, "lower").alias("p50"),
            pl.col("srtt_us").quantile(0.95, "lower").alias("p95"),
        )
        return int(found.collect().height)

    def fanout() -> int:
        rows = pl.scan_parquet(folder / "hop.stat" / "**" / "*.parquet")
        found = rows.group_by("track").agg(
            pl.col("relay").n_unique().alias("relays"),
            pl.col("out_peer").n_unique().alias("peers"),
            pl.col("out_bytes").sum(),
        )
        return int(found.collect().height)

    return {"lines": lines, "percentiles": percentiles, "fanout": fanout}[task]


def _pandas(task: str, folder: Path, out: Path) -> Task:
    import pandas as pd  # noqa: PLC0415

    def lines() -> int:
        parts = [
            part.drop(columns=["body"]).join(pd.json_normalize(part["body"].tolist()))
            for part in pd.read_json(folder / "lines.jsonl", lines=True, chunksize=200_000)
        ]
        rows = pd.concat(parts).drop_duplicates("event_id")
        rows.to_parquet(out / "lines.parquet")
        return len(rows)

    def percentiles() -> int:
        names = ["event_id", "ts", "relay", "peer", "srtt_us"]
        rows = pd.read_parquet(folder / "quic.sample", columns=names).drop_duplicates("event_id")
        groups = rows.groupby([rows["ts"].dt.floor("5min"), "relay", "peer"])["srtt_us"]
        return len(groups.quantile([0.5, 0.95], interpolation="lower").unstack())

    def fanout() -> int:
        rows = pd.read_parquet(
            folder / "hop.stat", columns=["track", "relay", "out_peer", "out_bytes"]
        )
        found = rows.groupby("track").agg(
            {"relay": "nunique", "out_peer": "nunique", "out_bytes": "sum"}
        )
        return len(found)

    return {"lines": lines, "percentiles": percentiles, "fanout": fanout}[task]


def tidy(out: Path) -> None:
    """Remove what a task wrote."""
    shutil.rmtree(out, ignore_errors=True)
