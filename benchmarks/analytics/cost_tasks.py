"""The same questions to four engines, on two threads and the same files.

``lines``: JSON Lines to deduplicated Parquet. ``percentiles``: deduplicate, then count, median and
95th percentile of round trips by link and five minutes. ``fanout``: relays, peers and bytes of each
track. ``gold``: what ``laps-analytics build`` does for ``traffic_1m``, ``link_quality_5m`` and
``track_fanout_5m``, written as Parquet with zstd.

In DuckDB ``gold`` is SQL with the same rows and columns. What differs: a sketch that can be merged
and is stored (HLL of tracks, KLL of round trips) is nothing that DuckDB has; in its place is the
number that its own sketch gives (``approx_count_distinct``, ``approx_quantile``). And the SQL takes
for granted what the builders check in each record: that histograms have the usual bounds.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from laps_wire.telemetry.histogram import QUEUE_BOUNDS_MS

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
    import pyarrow.parquet as pq  # noqa: PLC0415
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    from laps_analytics.gold.builders.network import link_quality  # noqa: PLC0415
    from laps_analytics.gold.builders.traffic import (  # noqa: PLC0415
        paths_5m,
        track_fanout,
        traffic_1m,
    )
    from laps_analytics.gold.dimensions import Dimensions  # noqa: PLC0415
    from laps_analytics.gold.silver import Silver, stored_type  # noqa: PLC0415
    from laps_analytics.schema import body_type  # noqa: PLC0415
    from laps_analytics.spark.session import SessionSettings, spark_session  # noqa: PLC0415

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
        frame.write.mode("overwrite").option("compression", "zstd").parquet(str(out / name))
        files = (out / name).glob("*.parquet")
        return sum(int(pq.ParquetFile(file).metadata.num_rows) for file in files)

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
        paths = paths_5m(silver, days, Dimensions()).persist()
        made = (
            written(traffic_1m(silver, days, Dimensions()), "traffic")
            + written(link_quality(silver, days, paths), "links")
            + written(track_fanout(silver, days, Dimensions(), paths), "fanout")
        )
        paths.unpersist()
        return made

    return {"lines": lines, "percentiles": percentiles, "fanout": fanout, "gold": gold}[task]


_BOUNDS = ", ".join([*(f"{bound}::DOUBLE" for bound in QUEUE_BOUNDS_MS), "'infinity'::DOUBLE"])
_SUMS = ", ".join(
    f"sum(queue_ms.counts[{index}])::BIGINT" for index in range(1, len(QUEUE_BOUNDS_MS) + 2)
)

_GOLD = {
    "traffic": f"""
        WITH h AS (SELECT *, date_trunc('minute', ts) AS w, coalesce(out_peer, '') AS peer,
                coalesce(tenant, '') AS whose FROM hop),
        sums AS (SELECT dt, w, relay, peer, whose, sum(objects)::BIGINT AS objects,
                sum(in_bytes)::BIGINT AS in_bytes, sum(out_bytes)::BIGINT AS out_bytes,
                MAP([{_BOUNDS}], [{_SUMS}]) AS queue_counts,
                approx_count_distinct(track) AS tracks FROM h GROUP BY ALL),
        reasons AS (SELECT dt, w, relay, peer, whose, sum(v)::BIGINT AS drops,
                map_from_entries(list((k, v) ORDER BY k)) AS drops_by FROM (
                SELECT dt, w, relay, peer, whose, e.key AS k, sum(e.value)::BIGINT AS v FROM (
                    SELECT dt, w, relay, peer, whose, unnest(map_entries(drops)) AS e FROM h
                    WHERE cardinality(drops) > 0) GROUP BY ALL) GROUP BY ALL)
        SELECT s.*, coalesce(r.drops, 0) AS drops, coalesce(r.drops_by, MAP {{}}) AS drops_by
        FROM sums s LEFT JOIN reasons r USING (dt, w, relay, peer, whose)""",  # noqa: S608
    "links": """
        WITH d AS (SELECT *, epoch_us(ts) - epoch_us(lag(ts) OVER s) AS apart,
                sent_packets - lag(sent_packets) OVER s AS more,
                lost_packets - lag(lost_packets) OVER s AS less FROM quic WHERE peer IS NOT NULL
            WINDOW s AS (PARTITION BY relay, boot, session_id ORDER BY ts, event_seq)),
        q AS (SELECT dt, time_bucket(INTERVAL 5 MINUTE, ts) AS w, relay, peer, count(*) AS n,
                quantile_disc(srtt_us, [0.5, 0.95]) AS rtt,
                approx_quantile(srtt_us, [0.5, 0.95]) AS about, avg(rttvar_us) AS jitter,
                sum(more) FILTER (WHERE apart <= 3600000000 AND more >= 0)::BIGINT AS sent,
                sum(less) FILTER (WHERE apart <= 3600000000 AND less >= 0)::BIGINT AS lost
            FROM d GROUP BY ALL),
        b AS (SELECT dt, time_bucket(INTERVAL 5 MINUTE, ts) AS w, relay, out_peer AS peer,
                sum(out_bytes)::BIGINT AS bytes FROM hop WHERE out_peer IS NOT NULL GROUP BY ALL)
        SELECT dt, w, relay, peer, coalesce(n, 0) AS samples, rtt[1] AS p50, rtt[2] AS p95, about,
            jitter, coalesce(sent, 0) AS sent, coalesce(lost, 0) AS lost,
            CASE WHEN sent > 0 THEN coalesce(lost, 0) / sent END AS loss,
            coalesce(bytes, 0) AS bytes, coalesce(bytes, 0) * 8 / 300.0::DOUBLE AS rate,
            coalesce(count(rtt[1]) OVER h >= 6 AND (rtt[1] > 1.1::DOUBLE * max(rtt[1]) OVER h
                OR rtt[1] < 0.9::DOUBLE * min(rtt[1]) OVER h), false) AS change_point
        FROM q FULL JOIN b USING (dt, w, relay, peer)
        WINDOW h AS (PARTITION BY relay, peer ORDER BY w
            RANGE BETWEEN INTERVAL 60 MINUTE PRECEDING AND INTERVAL 5 MINUTE PRECEDING)""",
    "fanout": """
        WITH RECURSIVE home AS (SELECT dt, relay, arg_max(region, ts) AS region FROM (
                SELECT dt, relay, region, ts FROM hop UNION ALL
                SELECT dt, relay, region, ts FROM quic) GROUP BY ALL),
        h AS MATERIALIZED (SELECT dt, time_bucket(INTERVAL 5 MINUTE, ts) AS w, track,
                coalesce(tenant, '') AS whose, relay, in_peer, out_peer,
                sum(in_bytes)::BIGINT AS i, sum(out_bytes)::BIGINT AS o FROM hop GROUP BY ALL),
        ways AS MATERIALIZED (SELECT x.*, coalesce(a.region, relay) AS ra,
                coalesce(b.region, out_peer) AS rb FROM (
                SELECT dt, w, track, whose, relay, out_peer, sum(o)::BIGINT AS o
                FROM h GROUP BY ALL) x LEFT JOIN home a USING (dt, relay)
            LEFT JOIN home b ON b.dt = x.dt AND b.relay = x.out_peer),
        origin AS (SELECT g.dt, w, track, whose, max(i) AS bytes,
                arg_min(g.relay, (-i, g.relay)) AS origin,
                arg_min(a.region, (-i, g.relay)) AS region FROM (
                SELECT dt, w, track, whose, relay, max(i) AS i FROM h
                WHERE in_peer IS NULL GROUP BY ALL) g LEFT JOIN home a USING (dt, relay)
            GROUP BY ALL),
        pairs AS (SELECT dt, w, track, whose, max(o) AS o, arg_min(pair, (-o, pair)) AS pair FROM (
                SELECT dt, w, track, whose, ra || '>' || rb AS pair, sum(o)::BIGINT AS o FROM ways
                WHERE out_peer IS NOT NULL AND ra <> rb GROUP BY ALL) GROUP BY ALL),
        walk AS (SELECT dt, w, track, whose, origin AS here, 0 AS depth FROM origin
            UNION SELECT k.dt, k.w, k.track, k.whose, x.out_peer, k.depth + 1 FROM walk k
            JOIN ways x ON x.dt = k.dt AND x.w = k.w AND x.track = k.track AND x.whose = k.whose
                AND x.relay = k.here AND x.out_peer IS NOT NULL WHERE k.depth < 8),
        depths AS (SELECT dt, w, track, whose, max(depth) AS hops FROM walk GROUP BY ALL),
        tracks AS (SELECT dt, w, track, whose, count(DISTINCT relay) AS relays,
                count(*) FILTER (WHERE out_peer IS NULL AND o > 0) AS s_relays,
                list(DISTINCT ra) FILTER (WHERE out_peer IS NULL AND o > 0) AS served,
                coalesce(sum(o) FILTER (WHERE out_peer IS NOT NULL), 0)::BIGINT AS link,
                coalesce(sum(o) FILTER (WHERE ra <> rb), 0)::BIGINT AS wan
            FROM ways GROUP BY ALL)
        SELECT t.dt, t.w, t.track, t.whose, origin, s_relays, relays, hops,
            coalesce(o.bytes, 0) AS bytes, link, wan,
            coalesce(o.bytes * len(list_filter(served, lambda r: r <> o.region)), 0) AS ideal,
            CASE WHEN ideal > 0 THEN wan / ideal END AS dup_factor,
            CASE WHEN o.bytes > 0 THEN p.o / o.bytes END AS stress, p.pair
        FROM tracks t LEFT JOIN origin o USING (dt, w, track, whose)
        LEFT JOIN pairs p USING (dt, w, track, whose)
        LEFT JOIN depths d USING (dt, w, track, whose)""",
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
