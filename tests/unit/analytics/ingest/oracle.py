"""Silver once more, as DuckDB SQL straight from the lines that relays wrote.

Written from the words of the telemetry's reference and of the pages on bronze and silver, not from
the pipeline; of our code it uses the table of fields alone (``laps_wire.telemetry``). The one step
that is not SQL is the least-squares solution for the clocks: that is numpy's.

::

    raw      every line that is not blank, with its file and batch
    judged   is it an event? else it is refused; does its body fit? else it is unfit
    stamps   objects that both ends of a link saw --> clock: the error of each relay in each hour
    silver   each event once, at the time at which it happened
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
import numpy as np

from laps_wire.telemetry import BODIES, Event, MsHistogram
from laps_wire.telemetry.schema import DataType, StructSpec, struct_of

__all__ = ["SilverOracle"]

Batch = tuple[int, Sequence[Path]]
"""When an ingest ran, and the files that were new to it."""

_READ = r"""
INSERT INTO raw SELECT {batch}, {seen}, parse_filename(filename), line FROM read_csv({files},
    columns = {{line: 'VARCHAR'}}, header = false, auto_detect = false, delim = '\x01', quote = '',
    escape = '', max_line_size = 4000000, ignore_errors = true, store_rejects = true,
    rejects_table = 'bad_{batch}', rejects_scan = 'scan_{batch}', filename = true);
INSERT INTO raw SELECT {batch}, {seen}, parse_filename(file_path), 'not UTF-8'
    FROM bad_{batch} JOIN scan_{batch} USING (scan_id, file_id);
"""
"""A line that is not UTF-8 is a reject of the reader: here it is one that is not JSON, either."""

_DEEP = 32
_FOLDED = "brackets"
for _ in range(_DEEP):
    _FOLDED = rf"regexp_replace({_FOLDED}, '\[\]|\{{\}}', '', 'g')"
"""What is left of brackets when the innermost pairs were taken away as often as they may nest."""

_JUDGE = r"""
CREATE TABLE plain AS SELECT row_number() OVER () AS id, batch, seen, source, trim(line) AS line,
    length(line) <= 1048576 AND json_valid(line) AS ok,
    -- Without what is between quotes: the marks and numbers of JSON itself are left.
    regexp_replace(line, '"(\\.|[^"\\])*"', '""', 'g') AS bare,
    regexp_replace(bare, '[^\[\]{}]', '', 'g') AS brackets
    FROM raw WHERE trim(line) <> '';
CREATE TABLE twice AS SELECT DISTINCT x FROM (SELECT p.id AS x, t.path, t.key FROM plain p,
    json_tree(CASE WHEN ok THEN line ELSE 'null' END) t WHERE t.key IS NOT NULL
    GROUP BY ALL HAVING count(*) > 1);
CREATE TABLE strict AS SELECT *, CASE WHEN ok THEN line::JSON END AS j,
    ok AND id NOT IN (SELECT x FROM twice)
    AND NOT regexp_matches(bare, 'NaN|Infinity|,\s*[\]}]|\d{41}')
    AND len(list_filter(regexp_extract_all(bare, '-?\d[\d.]*[eE][-+]?\d+'),
        lambda x: NOT coalesce(isfinite(try_cast(x AS DOUBLE)), false))) = 0
    AND CASE WHEN length(brackets) > 64 THEN FOLDED = '' ELSE true END AS is_json
    FROM plain;
CREATE TABLE judged AS SELECT id, batch, seen, source, line, j, coalesce(is_json
    AND CASE WHEN ok THEN ENVELOPE_FITS ELSE false END
    AND regexp_matches(j ->> 'v', '^1\.(0|[1-9][0-9]{0,8})$')
    AND try_cast(j ->> 'ts_us' AS HUGEINT) BETWEEN 0 AND 7258118400000000
    AND starts_with(j ->> 'event_id', (j ->> 'relay') || ':' || (j ->> 'boot') || ':')
    AND regexp_matches(substr(j ->> 'event_id', length(j ->> 'relay') + length(j ->> 'boot') + 3),
        '^(0|[1-9][0-9]{0,18})$')
    AND try_cast(regexp_extract(j ->> 'event_id', '\d+$') AS BIGINT) IS NOT NULL, false) AS sound
    FROM strict;
CREATE TABLE event AS SELECT *, coalesce(CASE type BODY_FITS ELSE true END, false) AS fits,
    ts_us - ts_us % 3600000000 AS h FROM (
    SELECT id, batch, seen, source, j ->> 'event_id' AS event_id, j ->> 'relay' AS relay,
        (j ->> 'boot')::BIGINT AS boot, regexp_extract(event_id, '\d+$')::BIGINT AS n,
        (j ->> 'ts_us')::BIGINT AS ts_us, j ->> 'type' AS type, j ->> 'tenant' AS tenant,
        j ->> 'region' AS region, j -> 'body' AS body FROM judged WHERE sound);
-- Who wrote a line that is no event, and when, as far as it says so.
CREATE TABLE refused AS SELECT source, line, seen,
    length(line) <= 1048576 AND regexp_matches(line, '\}$') AS whole,
    CASE WHEN whole THEN nullif(regexp_extract(line, '"relay":"([^"]*)"', 1), '') END AS relay,
    CASE WHEN whole THEN try_cast(regexp_extract(line, '"ts_us":(\d+)[,}]', 1) AS BIGINT) END
        AS ts_us
    FROM judged WHERE NOT sound;
"""

_LINKS = """
CREATE TABLE stamp AS SELECT h, relay, body ->> 'track' AS track, body ->> 'in_peer' AS in_peer,
    body ->> 'out_peer' AS out_peer, i(body, 'group_id') AS g, i(body, 'object_id') AS o,
    i(body, 'in_us') AS came, i(body, 'out_us') AS sent FROM event WHERE type = 'delivery.sample';
CREATE TABLE link AS
WITH s AS (SELECT h, relay AS a, out_peer AS b, track, g, o, min(sent) AS sent FROM stamp
        WHERE out_peer IS NOT NULL GROUP BY ALL),
    c AS (SELECT h, in_peer AS a, relay AS b, track, g, o, min(came) AS came FROM stamp
        WHERE in_peer IS NOT NULL GROUP BY ALL),
    t AS (SELECT h, a, b, sent, came, CASE WHEN abs(came - sent) <= 86400000000 THEN came - sent
        END AS took FROM s FULL JOIN c USING (h, a, b, track, g, o)),
    r AS (SELECT h, least(relay, body ->> 'peer') AS low, greatest(relay, body ->> 'peer') AS high,
        min(i(body, 'min_rtt_us')) AS rtt FROM event
        WHERE type = 'quic.sample' AND body ->> 'peer' IS NOT NULL GROUP BY ALL)
SELECT t.h, a, b, count(sent) AS sent, count(came) AS came, count(took) AS pairs,
    quantile_disc(took, 0.05) AS least, any_value(rtt) AS rtt
    FROM t LEFT JOIN r ON r.h = t.h AND low = least(a, b) AND high = greatest(a, b) GROUP BY ALL;
CREATE TABLE offsets (h BIGINT, relay VARCHAR, us BIGINT, pairs BIGINT);
"""

_SILVER = """
CREATE TABLE clock AS
WITH ends AS (SELECT h, a AS relay, least(sent, came) AS c, pairs FROM link UNION ALL
        SELECT h, b, least(sent, came), pairs FROM link),
    able AS (SELECT h, relay, sum(pairs) = 0 AS alone FROM ends GROUP BY ALL HAVING sum(c) >= 20),
    odd AS (SELECT h FROM able GROUP BY h HAVING 2 * count(*) FILTER (WHERE alone) < count(*))
SELECT e.h, e.relay, coalesce(any_value(us), 0) AS us, coalesce(any_value(o.pairs), 0) AS pairs,
    count(*) AS events,
    CASE WHEN min(ts_us) < 1577836800000000 THEN 'it says'
        WHEN max(ts_us - seen) > 1000000000 THEN 'ahead'
        WHEN abs(coalesce(any_value(us), 0)) > 1000000000 THEN 'off its peers'
        WHEN EXISTS (SELECT 1 FROM able JOIN odd USING (h)
            WHERE able.h = e.h AND able.relay = e.relay AND alone) THEN 'no object' END AS broken
    FROM event e LEFT JOIN offsets o ON o.h = e.h AND o.relay = e.relay GROUP BY e.h, e.relay;
CREATE TABLE first AS SELECT h, min(batch) AS batch FROM event GROUP BY h;
CREATE TABLE found AS SELECT e.*, c.us AS skew, broken, e.ts_us - c.us AS us,
    e.seen >= e.h + 5400000000 AND e.batch > f.batch AS late
    FROM event e JOIN clock c USING (h, relay) JOIN first f USING (h);
CREATE TABLE silver AS SELECT DISTINCT ON (h, type, event_id) *, make_timestamp(us) AS ts,
    strftime(ts, '%Y-%m-%d') AS dt, strftime(ts, '%H') AS hour FROM found
    WHERE fits AND broken IS NULL AND type IN (SELECT name FROM kinds)
    ORDER BY batch, source, ts_us;
CREATE TABLE unfit AS SELECT DISTINCT ON (h, type, event_id) * FROM found
    WHERE NOT (fits AND broken IS NULL) AND type IN (SELECT name FROM kinds)
    ORDER BY batch, source, ts_us;
"""


class _Sql:
    """Conditions on JSON by the table of fields."""

    def __init__(self) -> None:
        self._names = (f"x{number}" for number in count())

    def fits(self, value: str, spec: StructSpec) -> str:
        """Whether a JSON value is a struct with what it must have, of the right types."""
        parts = [f"json_type({value}) = 'OBJECT'"]
        for field in spec.fields:
            inner = f"({value} -> '$.\"{field.name}\"')"
            there = f"coalesce(json_type({inner}), 'NULL') <> 'NULL'"
            good = self._value(inner, field.type)
            parts.append(f"(NOT {there} OR {good})" if field.nullable else f"({there} AND {good})")
        if spec.cls is MsHistogram:
            bounds = f"({value} -> '$.bounds_ms')::DOUBLE[]"
            counts = f"({value} -> '$.counts')::BIGINT[]"
            both = " AND ".join(parts)
            # Only of what has the right types: a cast of anything else would fail.
            return (
                f"CASE WHEN {both} THEN len({counts}) = len({bounds}) + 1 AND len({counts}) <= 256"
                f" AND coalesce(list_min({counts}) >= 0, true)"
                f" AND list_sort(list_distinct({bounds})) = {bounds} ELSE false END"
            )
        return f"({' AND '.join(parts)})"

    def _value(self, value: str, kind: DataType) -> str:
        if kind.struct is not None:
            return self.fits(value, kind.struct)
        if kind.item is not None:
            outer, path = ("ARRAY", "$[*]") if kind.name == "array" else ("OBJECT", "$.*")
            name = next(self._names)
            inside = self._value(name, kind.item)
            return (
                f"(json_type({value}) = '{outer}' AND len(list_filter(json_extract({value},"
                f" '{path}'), lambda {name}: NOT coalesce({inside}, false))) = 0)"
            )
        whole = "('BIGINT', 'UBIGINT')"
        return {
            "struct": f"json_type({value}) = 'OBJECT'",
            "string": f"json_type({value}) = 'VARCHAR'",
            "boolean": f"json_type({value}) = 'BOOLEAN'",
            "long": f"(json_type({value}) IN {whole}"
            f" AND try_cast({value} ->> '$' AS BIGINT) IS NOT NULL)",
            "double": f"(json_type({value}) IN ('BIGINT', 'UBIGINT', 'DOUBLE')"
            f" AND isfinite(try_cast({value} ->> '$' AS DOUBLE)))",
        }[kind.name]


def _structure(kind: DataType) -> Any:
    """A type as ``json_transform`` writes it."""
    if kind.struct is not None:
        return {field.name: _structure(field.type) for field in kind.struct.fields}
    if kind.item is not None and kind.name == "array":
        return [_structure(kind.item)]
    if kind.item is not None:
        return f"MAP(VARCHAR, {_structure(kind.item)})"
    return {"string": "VARCHAR", "long": "BIGINT", "double": "DOUBLE", "boolean": "BOOLEAN"}[
        kind.name
    ]


def _offsets(links: list[tuple[str, str, int, int, int | None]]) -> dict[str, tuple[int, int]]:
    """The error of each clock of an hour and its pairs, from (a, b, least, pairs, rtt)."""
    ways = {(a, b): (least, pairs, rtt) for a, b, least, pairs, rtt in links}
    rows: list[tuple[str, str, float, float]] = []
    pairs_of: defaultdict[str, int] = defaultdict(int)
    for (a, b), (least, pairs, rtt) in sorted(ways.items()):
        if (b, a) in ways:
            if a < b:
                rows.append((a, b, (least - ways[b, a][0]) / 2, 1.0))
        elif rtt is not None:
            # One direction only is a guess, and counts a quarter.
            rows.append((a, b, least - rtt / 2, 0.25))
        else:
            continue
        pairs_of[a] += pairs
        pairs_of[b] += pairs
    found: dict[str, tuple[int, int]] = {}
    for part in _parts(rows):
        names = sorted(part)
        mine = [row for row in rows if row[0] in part]
        matrix, right = np.zeros((len(mine), len(names))), np.zeros(len(mine))
        for number, (a, b, apart, weight) in enumerate(mine):
            matrix[number, names.index(b)], matrix[number, names.index(a)] = 1.0, -1.0
            matrix[number] *= np.sqrt(weight)
            right[number] = apart * np.sqrt(weight)
        errors = np.linalg.lstsq(matrix, right, rcond=None)[0]
        middle = median(map(float, errors))
        for name, error in zip(names, errors, strict=True):
            found[name] = (round(float(error) - middle), pairs_of[name])
    return found


def _parts(rows: list[tuple[str, str, float, float]]) -> list[set[str]]:
    """Relays that hang together."""
    parts: list[set[str]] = []
    for a, b, _, _ in rows:
        touched = [part for part in parts if part & {a, b}]
        parts = [part for part in parts if part not in touched] + [{a, b}.union(*touched)]
    return parts


class SilverOracle:
    """DuckDB over the files of some ingests, in their order."""

    def __init__(self, batches: Sequence[Batch]) -> None:
        self.db = duckdb.connect()
        sql = _Sql()
        self.db.execute("CREATE MACRO i(b, k) AS try_cast(b ->> k AS BIGINT)")
        self.db.execute("CREATE TABLE raw (batch INT, seen BIGINT, source VARCHAR, line VARCHAR)")
        self.db.execute("CREATE TABLE kinds AS SELECT unnest($1) AS name", [list(BODIES)])
        for number, (seen, files) in enumerate(batches, 1):
            names = [str(file) for file in files]
            self.db.execute(_READ.format(batch=number, seen=seen, files=names))
        bodies = " ".join(
            f"WHEN '{kind}' THEN {sql.fits('body', struct_of(body))}"
            for kind, body in BODIES.items()
        )
        envelope = sql.fits("j", struct_of(Event))
        judge = _JUDGE.replace("ENVELOPE_FITS", envelope).replace("BODY_FITS", bodies)
        self.db.execute(judge.replace("FOLDED", _FOLDED))
        self.db.execute(_LINKS)
        hours: defaultdict[int, list[Any]] = defaultdict(list)
        asked = "SELECT h, a, b, least, pairs, rtt FROM link WHERE pairs > 0"
        for hour, *link in self.db.execute(asked).fetchall():
            hours[hour].append(link)
        for hour, links in hours.items():
            for relay, offset in _offsets(links).items():
                self.db.execute("INSERT INTO offsets VALUES (?, ?, ?, ?)", [hour, relay, *offset])
        self.db.execute(_SILVER)

    def ask(self, query: str, *values: Any) -> list[dict[str, Any]]:
        """The rows of a query."""
        found = self.db.execute(query, list(values))
        names = [column[0] for column in found.description]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]

    def silver(self, kind: str) -> list[dict[str, Any]]:
        """The rows of a silver table."""
        shape = json.dumps(
            {field.name: _structure(field.type) for field in struct_of(BODIES[kind]).fields}
        )
        rows = self.ask(
            """SELECT event_id, relay, boot, n AS event_seq, ts_us, ts, skew AS skew_us, late,
                tenant, region, dt, hour, json_transform(body, $2) AS body
            FROM silver WHERE type = $1""",
            kind,
            shape,
        )
        return [row | row.pop("body") for row in rows]
