"""Every gold table once more, as DuckDB SQL straight from the lines that relays wrote.

Written from the words of the contracts, not from the builders. It stands on the silver that DuckDB
makes of the lines (``unit.analytics.ingest.oracle``), in the same database.
"""

from __future__ import annotations

from typing import Any

__all__ = ["QUERIES", "VALUES", "Oracle"]

_SETUP = r"""
CREATE VIEW ev AS SELECT * FROM silver;
CREATE MACRO bin(t, w) AS time_bucket(w, t, TIMESTAMP '2000-01-01');

CREATE VIEW hop AS SELECT e.dt, e.ts, e.us, e.relay, e.region, body ->> 'track' AS track,
    coalesce(e.tenant, d.tenant, '') AS tenant, e.tenant AS said_tenant,
    body ->> 'in_peer' AS in_peer, body ->> 'out_peer' AS out_peer,
    i(body, 'objects') AS objects, i(body, 'in_bytes') AS in_bytes,
    i(body, 'out_bytes') AS out_bytes, i(body, 'window_ms') AS window_ms,
    (body -> 'drops')::MAP(VARCHAR, BIGINT) AS drops,
    (body -> '$.queue_ms.bounds_ms')::DOUBLE[] AS bounds,
    (body -> '$.queue_ms.counts')::BIGINT[] AS counts
    FROM ev e LEFT JOIN dim d ON d.track = e.body ->> 'track' WHERE type = 'hop.stat';
CREATE VIEW quic AS SELECT *, body ->> 'session_id' AS session, body ->> 'peer' AS peer,
    i(body, 'srtt_us') AS srtt, i(body, 'rttvar_us') AS var,
    i(body, 'sent_packets') AS sent, i(body, 'lost_packets') AS lost
    FROM ev WHERE type = 'quic.sample';
CREATE VIEW report AS SELECT e.dt, e.ts, e.us, e.relay, e.boot, coalesce(e.region, '') AS region,
    coalesce(e.tenant, d.tenant, '') AS tenant, coalesce(d.class, '') AS class,
    body ->> 'track' AS track, body ->> 'session_id' AS session, i(body, 'window_ms') AS window_ms,
    i(body, 'gaps') AS gaps, i(body, 'stall_ms') AS stall_ms, i(body, 'startup_ms') AS startup_ms,
    i(body, 'latency_ms') AS latency_ms, coalesce(body ->> 'measured_by', 'relay') AS who
    FROM ev e LEFT JOIN dim d ON d.track = e.body ->> 'track' WHERE type = 'client.report';
CREATE VIEW viewer AS SELECT * REPLACE (CASE WHEN who = 'relay' AND EXISTS (
            SELECT 1 FROM report p WHERE p.who = 'player' AND p.startup_ms IS NOT NULL
                AND (p.dt, p.relay, p.boot, p.session) = (r.dt, r.relay, r.boot, r.session))
        THEN NULL ELSE startup_ms END AS startup_ms)
    FROM report r WHERE who = 'player' OR NOT EXISTS (
        SELECT 1 FROM report p WHERE p.who = 'player'
            AND (p.dt, p.relay, p.boot, p.session) = (r.dt, r.relay, r.boot, r.session)
            AND date_trunc('minute', p.ts) = date_trunc('minute', r.ts));
CREATE VIEW sample AS SELECT *, body ->> 'track' AS track, i(body, 'group_id') AS g,
    i(body, 'object_id') AS o, body ->> 'in_peer' AS in_peer, body ->> 'out_peer' AS out_peer,
    i(body, 'in_us') - skew AS came, i(body, 'out_us') - skew AS sent,
    i(body, 'publisher_us') AS pub FROM ev WHERE type = 'delivery.sample';
CREATE VIEW home AS SELECT dt, relay, coalesce(
        arg_max(region, (us, event_id)) FILTER (WHERE region IS NOT NULL), relay) AS region
    FROM ev WHERE type IN ('hop.stat', 'quic.sample', 'node.adv') GROUP BY dt, relay;
CREATE VIEW got AS SELECT dt, w, relay, track, tenant, in_peer, max(b) AS b FROM (
        SELECT dt, bin(ts, INTERVAL 5 MINUTE) AS w, relay, track, tenant, in_peer, out_peer,
            sum(in_bytes)::BIGINT AS b FROM hop GROUP BY ALL) GROUP BY ALL;
"""


def _traffic(unit: str) -> str:
    return f"""
    WITH h AS (SELECT *, date_trunc('{unit}', ts)::TIMESTAMP AS w, coalesce(out_peer, '') AS peer,
            row_number() OVER () AS id FROM hop),
    sums AS (SELECT dt, w, relay, peer, tenant, sum(objects)::BIGINT AS objects,
            sum(in_bytes)::BIGINT AS in_bytes, sum(out_bytes)::BIGINT AS out_bytes
        FROM h GROUP BY ALL),
    reasons AS (SELECT dt, w, relay, peer, tenant, map_from_entries(list((k, v) ORDER BY k)) AS by,
            sum(v)::BIGINT AS n
        FROM (SELECT dt, w, relay, peer, tenant, e.key AS k, sum(e.value)::BIGINT AS v FROM (
                SELECT *, unnest(map_entries(drops)) AS e FROM h) GROUP BY ALL) GROUP BY ALL),
    waits AS (SELECT dt, w, relay, peer, tenant, map_from_entries(list((k, v) ORDER BY k)) AS by
        FROM (SELECT dt, w, relay, peer, tenant, k, sum(v)::BIGINT AS v FROM (
                SELECT dt, w, relay, peer, tenant,
                    unnest(list_append(bounds, 'infinity'::DOUBLE)) AS k, unnest(counts) AS v
                FROM h WHERE bounds IS NOT NULL) GROUP BY ALL) GROUP BY ALL)
    SELECT s.dt, s.w AS window_start, s.relay, s.peer AS out_peer, s.tenant, objects, in_bytes,
        out_bytes, coalesce(r.n, 0)::BIGINT AS drops, coalesce(r.by, MAP {{}}) AS drops_by,
        q.by AS queue_counts
    FROM sums s LEFT JOIN reasons r USING (dt, w, relay, peer, tenant)
    LEFT JOIN waits q USING (dt, w, relay, peer, tenant)
    """


_LINKS = """
    WITH d AS (SELECT *, us - lag(us) OVER s AS apart, sent - lag(sent) OVER s AS more,
            lost - lag(lost) OVER s AS less
        FROM quic WHERE peer IS NOT NULL
        WINDOW s AS (PARTITION BY relay, boot, session ORDER BY us, n)),
    q AS (SELECT dt, bin(ts, INTERVAL 5 MINUTE) AS w, relay, peer, count(*) AS samples,
            quantile_disc(srtt, 0.5) AS p50, quantile_disc(srtt, 0.95) AS p95, avg(var) AS jitter,
            coalesce(sum(more) FILTER (WHERE apart <= 3600000000 AND more >= 0), 0)::BIGINT AS sent,
            coalesce(sum(less) FILTER (WHERE apart <= 3600000000 AND less >= 0), 0)::BIGINT AS lost
        FROM d GROUP BY ALL),
    b AS (SELECT dt, bin(ts, INTERVAL 5 MINUTE) AS w, relay, out_peer AS peer,
            sum(out_bytes)::BIGINT AS bytes FROM hop WHERE out_peer IS NOT NULL GROUP BY ALL),
    j AS (SELECT dt, w, relay, peer, coalesce(samples, 0) AS samples, p50, p95, jitter,
            coalesce(sent, 0) AS sent, coalesce(lost, 0) AS lost, coalesce(bytes, 0) AS bytes
        FROM q FULL JOIN b USING (dt, w, relay, peer))
    SELECT j.dt, j.w AS window_start, j.relay, j.peer, j.samples, j.p50 AS rtt_p50_us,
        j.p95 AS rtt_p95_us, j.jitter AS jitter_us, j.sent AS sent_packets, j.lost AS lost_packets,
        CASE WHEN j.sent > 0 THEN j.lost / j.sent END AS loss, j.bytes AS out_bytes,
        j.bytes * 8 / 300.0::DOUBLE AS rate_bps,
        coalesce((SELECT count(x.p50) >= 6
                AND (j.p50 > 1.1::DOUBLE * max(x.p50) OR j.p50 < 0.9::DOUBLE * min(x.p50))
            FROM j x WHERE x.relay = j.relay AND x.peer = j.peer AND x.w < j.w
                AND x.w >= j.w - INTERVAL 60 MINUTE), false) AS change_point
    FROM j
    """


def _links_of(unit: str, seconds: int) -> str:
    """From the samples once more, and not from five minutes, but for what is said of these."""
    return f"""
    WITH five AS ({_LINKS}),
    d AS (SELECT *, us - lag(us) OVER s AS apart, sent - lag(sent) OVER s AS more,
            lost - lag(lost) OVER s AS less
        FROM quic WHERE peer IS NOT NULL
        WINDOW s AS (PARTITION BY relay, boot, session ORDER BY us, n)),
    q AS (SELECT dt, date_trunc('{unit}', ts)::TIMESTAMP AS w, relay, peer, count(*) AS samples,
            list(srtt ORDER BY srtt) AS rtts, avg(var) AS jitter,
            coalesce(sum(more) FILTER (WHERE apart <= 3600000000 AND more >= 0), 0)::BIGINT AS sent,
            coalesce(sum(less) FILTER (WHERE apart <= 3600000000 AND less >= 0), 0)::BIGINT AS lost
        FROM d GROUP BY ALL),
    b AS (SELECT dt, date_trunc('{unit}', ts)::TIMESTAMP AS w, relay, out_peer AS peer,
            sum(out_bytes)::BIGINT AS bytes FROM hop WHERE out_peer IS NOT NULL GROUP BY ALL),
    f AS (SELECT dt, date_trunc('{unit}', window_start)::TIMESTAMP AS w, relay, peer,
            max(rate_bps) AS peak, count(*) FILTER (WHERE change_point) AS changes
        FROM five GROUP BY ALL)
    SELECT dt, w AS window_start, relay, peer, coalesce(samples, 0) AS samples, rtts,
        jitter AS jitter_us, coalesce(sent, 0) AS sent_packets, coalesce(lost, 0) AS lost_packets,
        CASE WHEN sent > 0 THEN lost / sent END AS loss, coalesce(bytes, 0) AS out_bytes,
        coalesce(bytes, 0) * 8 / {seconds}.0::DOUBLE AS rate_bps, peak AS peak_bps,
        changes AS change_points
    FROM q FULL JOIN b USING (dt, w, relay, peer) LEFT JOIN f USING (dt, w, relay, peer)
    """


_FANOUT = """
    WITH RECURSIVE h AS (SELECT h.*, bin(ts, INTERVAL 5 MINUTE) AS w,
            coalesce(a.region, h.relay) AS ra, coalesce(b.region, h.out_peer) AS rb
        FROM hop h LEFT JOIN home a ON a.dt = h.dt AND a.relay = h.relay
        LEFT JOIN home b ON b.dt = h.dt AND b.relay = h.out_peer),
    origin AS (SELECT g.dt, g.w, track, tenant, arg_min(g.relay, (-b, g.relay)) AS origin,
            max(b) AS bytes FROM got g WHERE in_peer IS NULL GROUP BY ALL),
    served AS (SELECT dt, w, track, tenant, relay, ra, sum(out_bytes) AS b FROM h
        WHERE out_peer IS NULL GROUP BY ALL HAVING b > 0),
    walk AS (SELECT DISTINCT dt, w, track, tenant, origin AS here, 0 AS depth FROM origin
        UNION SELECT k.dt, k.w, k.track, k.tenant, h.out_peer, k.depth + 1 FROM walk k
        JOIN h ON h.dt = k.dt AND h.w = k.w AND h.track = k.track AND h.tenant = k.tenant
            AND h.relay = k.here AND h.out_peer IS NOT NULL WHERE k.depth < 8),
    depth AS (SELECT dt, w, track, tenant, max(depth) AS hops FROM walk GROUP BY ALL),
    pairs AS (SELECT dt, w, track, tenant, ra || '>' || rb AS pair, sum(out_bytes)::BIGINT AS b
        FROM h WHERE out_peer IS NOT NULL AND ra <> rb GROUP BY ALL),
    worst AS (SELECT dt, w, track, tenant, arg_min(pair, (-b, pair)) AS pair, max(b) AS b
        FROM pairs GROUP BY ALL),
    ideal AS (SELECT s.dt, s.w, s.track, s.tenant, count(DISTINCT s.ra) AS others FROM served s
        JOIN origin o USING (dt, w, track, tenant)
        JOIN home m ON m.dt = o.dt AND m.relay = o.origin WHERE s.ra <> m.region GROUP BY ALL),
    sums AS (SELECT dt, w, track, tenant, count(DISTINCT relay) AS relays,
            coalesce(sum(out_bytes) FILTER (WHERE out_peer IS NOT NULL), 0)::BIGINT AS link,
            coalesce(sum(out_bytes) FILTER (WHERE out_peer IS NOT NULL AND ra <> rb), 0)::BIGINT
                AS wan FROM h GROUP BY ALL)
    SELECT s.dt, s.w AS window_start, s.track, s.tenant, o.origin,
        (SELECT count(*) FROM served v WHERE v.dt = s.dt AND v.w = s.w AND v.track = s.track
            AND v.tenant = s.tenant) AS s_relays,
        s.relays, d.hops AS hops_max, coalesce(o.bytes, 0) AS track_bytes, s.link AS link_bytes,
        s.wan AS wan_bytes, coalesce(o.bytes * i.others, 0) AS ideal_wan_bytes,
        CASE WHEN o.bytes * i.others > 0 THEN s.wan / (o.bytes * i.others) END AS dup_factor,
        CASE WHEN o.bytes > 0 THEN x.b / o.bytes END AS stress_max, x.pair AS worst_pair
    FROM sums s LEFT JOIN origin o USING (dt, w, track, tenant)
    LEFT JOIN depth d USING (dt, w, track, tenant) LEFT JOIN worst x USING (dt, w, track, tenant)
    LEFT JOIN ideal i USING (dt, w, track, tenant)
    """

_STRETCH = """
    WITH used AS (SELECT dt, date_trunc('hour', ts)::TIMESTAMP AS w, relay,
            body ->> 'node_id' AS node,
            arg_max(i(body, 'sum_srtt_us'), (us, n)) AS actual
        FROM ev WHERE type = 'node.adv' AND (body ->> 'best')::BOOLEAN
            AND body ->> 'node_id' <> relay AND i(body, 'sum_srtt_us') > 0 GROUP BY ALL),
    ends AS (SELECT dt, date_trunc('hour', ts)::TIMESTAMP AS w, relay AS a, peer AS b, srtt
        FROM quic WHERE peer <> relay UNION ALL
        SELECT dt, date_trunc('hour', ts)::TIMESTAMP, peer, relay, srtt FROM quic
        WHERE peer <> relay),
    link AS (SELECT dt, w, a, b, quantile_disc(srtt, 0.5) AS rtt FROM ends GROUP BY ALL),
    ways AS (SELECT dt, w, a, b, rtt, '' AS over FROM link UNION ALL
        SELECT x.dt, x.w, x.a, y.b, x.rtt + y.rtt, x.b FROM link x JOIN link y
            ON y.dt = x.dt AND y.w = x.w AND y.a = x.b AND y.b <> x.a),
    best AS (SELECT dt, w, a, b, min(rtt) AS rtt, arg_min(over, (rtt, over)) AS over
        FROM ways GROUP BY ALL)
    SELECT u.dt, u.w AS window_start, u.relay, u.node, u.actual AS actual_us, b.rtt AS best_us,
        b.over AS best_over, u.actual / b.rtt AS stretch
    FROM used u JOIN best b ON b.dt = u.dt AND b.w = u.w AND b.a = u.relay AND b.b = u.node
    """


def _qoe(unit: str) -> str:
    """Whatever the window, from the reports; lists are what sketches stand for."""
    return f"""
    WITH r AS (SELECT r.*, coalesce(r.latency_ms > l.latency_ms, false)
            OR coalesce(r.startup_ms > l.startup_ms, false)
            OR coalesce(coalesce(stall_ms, 0) > l.stall_ratio * window_ms, false) AS over, allowed
        FROM viewer r LEFT JOIN limits l USING (class))
    SELECT dt, date_trunc('{unit}', ts)::TIMESTAMP AS window_start, region, tenant, class,
        count(*) AS reports, count(DISTINCT (relay, boot, session)) AS sessions,
        quantile_disc(startup_ms, 0.95) AS startup_p95_ms,
        quantile_disc(latency_ms, 0.5) AS latency_p50_ms,
        quantile_disc(latency_ms, 0.95) AS latency_p95_ms,
        quantile_disc(latency_ms, 0.99) AS latency_p99_ms,
        list(startup_ms ORDER BY startup_ms) FILTER (WHERE startup_ms IS NOT NULL) AS startups,
        list(latency_ms ORDER BY latency_ms) FILTER (WHERE latency_ms IS NOT NULL) AS latencies,
        sum(window_ms)::BIGINT AS watched_ms, coalesce(sum(stall_ms), 0)::BIGINT AS stalled_ms,
        coalesce(sum(stall_ms), 0) / sum(window_ms) AS stall_ratio,
        sum(gaps)::BIGINT AS gaps, sum(gaps) / (sum(window_ms) / 60000) AS gap_rate,
        count(*) FILTER (WHERE over) AS over_limit,
        count(*) FILTER (WHERE over) / count(*) / any_value(allowed) AS burn
    FROM r GROUP BY ALL
    """


_BLAME = """
    WITH RECURSIVE s AS (SELECT * FROM sample WHERE g IS NOT NULL AND o IS NOT NULL),
    walk AS (SELECT event_id AS id, dt, ts, relay AS spot, track, g, o, sent AS done, 0 AS step,
            relay, in_peer, came, pub,
            [{'part': 'relay', 'relay': relay, 'peer': '', 'took': sent - came}] AS parts
        FROM s WHERE out_peer IS NULL
        UNION ALL
        SELECT id, dt, ts, spot, track, g, o, done, step, relay, in_peer, came, pub, parts FROM (
            SELECT k.id, k.dt, k.ts, k.spot, k.track, k.g, k.o, k.done, k.step + 1 AS step, q.relay,
                q.in_peer, q.came, q.pub, list_concat(k.parts, [
                    {'part': 'link', 'relay': q.relay, 'peer': k.relay, 'took': k.came - q.sent},
                    {'part': 'relay', 'relay': q.relay, 'peer': '', 'took': q.sent - q.came}
                ]) AS parts,
                row_number() OVER (PARTITION BY k.id ORDER BY q.sent, q.came, q.relay,
                    q.in_peer, q.event_id) AS first
            FROM walk k JOIN s q ON q.track = k.track AND q.g = k.g AND q.o = k.o
                AND q.relay = k.in_peer AND q.out_peer = k.relay WHERE k.step < 8)
        WHERE first = 1),
    way AS (SELECT id, dt, date_trunc('minute', ts)::TIMESTAMP AS m,
            date_trunc('hour', ts)::TIMESTAMP AS h, spot,
            track, done - coalesce(pub, came) AS total, CASE WHEN pub IS NULL THEN parts ELSE
            list_append(parts, {'part': 'publisher', 'relay': '', 'peer': '', 'took': came - pub})
            END AS parts FROM walk WHERE in_peer IS NULL),
    part AS (SELECT id, dt, m, h, track, p.part AS part, p.relay AS relay, p.peer AS peer,
            p.took AS took FROM (SELECT *, unnest(parts) AS p FROM way)),
    usual AS (SELECT dt, h, track, part, relay, peer, quantile_disc(took, 0.5) AS took
        FROM part GROUP BY ALL),
    p95 AS (SELECT dt, h, track, quantile_disc(total, 0.95) AS p FROM way GROUP BY ALL),
    slow AS (SELECT w.id FROM way w JOIN p95 USING (dt, h, track) LEFT JOIN dim d USING (track)
        LEFT JOIN limits l ON l.class = d.class WHERE w.total > coalesce(l.latency_ms * 1000, p)),
    over AS (SELECT p.id, p.dt, p.m, p.track, p.part, p.relay, p.peer, p.took - u.took AS excess
        FROM part p JOIN usual u USING (dt, h, track, part, relay, peer)
        WHERE p.id IN (SELECT id FROM slow)),
    named AS (SELECT dt, m, track, part, relay, peer, excess FROM (SELECT *, row_number() OVER (
            PARTITION BY id ORDER BY excess DESC, part, relay, peer) AS first FROM over)
        WHERE first = 1),
    net AS (SELECT dt, m, track, spot AS relay, quantile_disc(total, 0.5) AS net
        FROM way GROUP BY ALL),
    r AS (SELECT r.dt, date_trunc('minute', ts)::TIMESTAMP AS m, date_trunc('hour', ts)::TIMESTAMP
            AS h, r.track, r.relay, r.class, latency_ms * 1000 AS lat FROM viewer r
        WHERE r.track IS NOT NULL AND latency_ms IS NOT NULL),
    rn AS (SELECT r.*, net, lat - net AS beyond FROM r JOIN net USING (dt, m, track, relay)),
    rp AS (SELECT dt, h, track, quantile_disc(lat, 0.95) AS p FROM rn GROUP BY ALL),
    ru AS (SELECT dt, h, track, relay, quantile_disc(beyond, 0.5) AS ub,
            quantile_disc(net, 0.5) AS un FROM rn GROUP BY ALL),
    client AS (SELECT dt, m, track, 'client' AS part, relay, '' AS peer, beyond - ub AS excess
        FROM rn JOIN rp USING (dt, h, track) JOIN ru USING (dt, h, track, relay)
        LEFT JOIN limits l ON l.class = rn.class
        WHERE lat > coalesce(l.latency_ms * 1000, p) AND beyond - ub > 0
            AND beyond - ub > net - un),
    every AS (SELECT * FROM named UNION ALL SELECT * FROM client)
    SELECT dt, m AS window_start, track, part, relay, peer, count(*) AS objects,
        avg(excess) / 1000 AS excess_ms, count(*) / any_value(slow) AS share
    FROM every JOIN (SELECT dt, m, track, count(*) AS slow FROM every GROUP BY ALL)
        USING (dt, m, track)
    GROUP BY dt, m, track, part, relay, peer
    """

_CHURN = """
    WITH e AS (SELECT dt, ts, us, n, boot, relay, body ->> 'track' AS track,
            body ->> 'source_node' AS source, type, (body ->> 'delayed')::BOOLEAN AS delayed
        FROM ev WHERE type IN ('sub.adv', 'sub.wd')),
    f AS (SELECT *, lag(type) OVER s AS before, us - lag(us) OVER s AS apart FROM e
        WINDOW s AS (PARTITION BY relay, track, source ORDER BY us, boot, n))
    SELECT dt, date_trunc('hour', ts)::TIMESTAMP AS window_start, relay, track,
        source AS source_node, count(*) FILTER (WHERE type = 'sub.adv') AS subscribes,
        count(*) FILTER (WHERE type = 'sub.wd') AS unsubscribes,
        count(*) FILTER (WHERE type = 'sub.wd' AND delayed) AS held_back,
        count(*) FILTER (WHERE type = 'sub.adv' AND before = 'sub.wd' AND apart <= 60000000)
            AS flaps,
        count(*) FILTER (WHERE type = 'sub.adv' AND before = 'sub.wd' AND apart <= 60000000) >= 5
            AS damp
    FROM f GROUP BY ALL
    """

_CACHE = """
    WITH c AS (SELECT *, date_trunc('hour', ts)::TIMESTAMP AS w FROM ev WHERE type = 'cache.stat'),
    sums AS (SELECT dt, w, relay, sum(i(body, 'hit_bytes'))::BIGINT AS hit,
            sum(i(body, 'miss_bytes'))::BIGINT AS miss,
            sum(i(body, 'expired_bytes'))::BIGINT AS expired,
            sum(i(body, 'evicted_bytes'))::BIGINT AS evicted,
            sum(i(body, 'fetch_joins'))::BIGINT AS joins, max(i(body, 'stored_bytes')) AS stored
        FROM c GROUP BY ALL),
    ages AS (SELECT dt, w, relay, unnest((body -> ('$.' || k || '.bounds_ms'))::DOUBLE[]) AS t,
            unnest(((body -> ('$.' || k || '.counts'))::BIGINT[])[:-2]) AS b
        FROM c, (VALUES ('hit_age_ms'), ('late_age_ms')) x(k)),
    curve AS (SELECT dt, w, relay, t, sum(b) OVER (PARTITION BY dt, w, relay ORDER BY t) AS b
        FROM (SELECT dt, w, relay, t, sum(b) AS b FROM ages WHERE t IS NOT NULL GROUP BY ALL))
    SELECT dt, w AS window_start, relay, hit AS hit_bytes, miss AS miss_bytes,
        hit / (hit + miss) AS hit_rate, expired AS expired_bytes, evicted AS evicted_bytes,
        joins AS fetch_joins, stored AS stored_bytes,
        (SELECT map_from_entries(list((t::BIGINT, b / (hit + miss)) ORDER BY t)) FROM curve k
            WHERE k.dt = s.dt AND k.w = s.w AND k.relay = s.relay) AS would_hit
    FROM sums s
    """

_CAPACITY = """
    WITH five AS (SELECT dt, relay, out_peer, bin(ts, INTERVAL 5 MINUTE) AS w,
            sum(out_bytes) AS b FROM hop GROUP BY ALL),
    peak AS (SELECT dt::DATE AS day, 'link' AS kind, relay, out_peer AS peer,
            max(b) * 8 / 300 AS bps FROM five WHERE out_peer IS NOT NULL GROUP BY ALL
        UNION ALL SELECT dt::DATE, 'relay', relay, '', max(b) * 8 / 300 FROM (
            SELECT dt, relay, w, sum(b) AS b FROM five GROUP BY ALL) GROUP BY ALL),
    known AS (SELECT l.dt, p.kind, p.relay, p.peer, count(*) AS n, avg(bps) AS mean,
            regr_slope(bps, day - l.dt::DATE) AS slope,
            regr_intercept(bps, day - l.dt::DATE) AS level,
            regr_sxx(bps, day - l.dt::DATE) AS sxx, avg(day - l.dt::DATE) AS middle,
            regr_syy(bps, day - l.dt::DATE) - coalesce(
                regr_sxy(bps, day - l.dt::DATE) ** 2
                    / nullif(regr_sxx(bps, day - l.dt::DATE), 0), 0)
                AS sse
        FROM (SELECT DISTINCT dt FROM hop) l JOIN peak p ON p.day <= l.dt::DATE GROUP BY ALL),
    ahead AS (SELECT *, CASE WHEN n < 3 THEN mean ELSE level + slope * h END AS peak,
            CASE WHEN n >= 3 THEN 3.078 * sqrt(greatest(sse, 0) / (n - 2))
                * sqrt(1 + 1 / n + (h - middle) ** 2 / sxx) END AS reach
        FROM known, range(1, 15) r(h)),
    cap AS (SELECT a.*, capacity FROM ahead a LEFT JOIN caps c
        ON c.relay = a.relay AND c.peer = a.peer)
    SELECT dt, kind, relay, peer, (dt::DATE + h::INTEGER)::DATE AS day,
        greatest(peak, 0) AS peak_bps,
        CASE WHEN reach IS NOT NULL THEN greatest(peak - reach, 0) END AS low_bps,
        CASE WHEN reach IS NOT NULL THEN greatest(peak + reach, 0) END AS high_bps,
        capacity AS capacity_bps,
        min(h) FILTER (WHERE greatest(peak, 0) >= 0.8::DOUBLE * capacity)
            OVER (PARTITION BY dt, kind, relay, peer) AS days_to_80
    FROM cap
    """

_USAGE = """
    WITH five AS (SELECT dt, tenant, bin(ts, INTERVAL 5 MINUTE) AS w,
            coalesce(sum(out_bytes) FILTER (WHERE out_peer IS NULL), 0) AS b
        FROM hop GROUP BY ALL),
    rate AS (SELECT dt, tenant, quantile_disc(b, 0.95) * 8 / 300 AS p95 FROM five WHERE b > 0
        GROUP BY ALL),
    sent AS (SELECT dt, tenant,
            coalesce(sum(out_bytes) FILTER (WHERE out_peer IS NULL), 0)::BIGINT AS out_bytes,
            coalesce(sum(out_bytes) FILTER (WHERE out_peer IS NOT NULL), 0)::BIGINT AS link_bytes,
            count(*) AS n FROM hop GROUP BY ALL),
    came AS (SELECT dt, tenant, sum(b)::BIGINT AS in_bytes FROM got WHERE in_peer IS NULL
        GROUP BY ALL),
    seen AS (SELECT dt, tenant, sum(ms)::BIGINT AS ms, max(s) AS peak, sum(n)::BIGINT AS n FROM (
            SELECT dt, tenant, date_trunc('minute', ts) AS m, sum(window_ms) AS ms,
                count(DISTINCT (relay, boot, session)) AS s, count(*) AS n
            FROM report WHERE who = 'relay' GROUP BY ALL) GROUP BY ALL)
    SELECT dt, tenant, 1 AS version, coalesce(in_bytes, 0) AS in_bytes,
        coalesce(out_bytes, 0) AS out_bytes, coalesce(link_bytes, 0) AS link_bytes,
        coalesce(ms, 0) AS watched_ms, coalesce(peak, 0) AS peak_sessions,
        coalesce(p95, 0)::DOUBLE AS p95_bps, coalesce(sent.n, 0) + coalesce(seen.n, 0) AS events,
        77 AS closed_us
    FROM sent FULL JOIN seen USING (dt, tenant) LEFT JOIN came USING (dt, tenant)
    LEFT JOIN rate USING (dt, tenant)
    """

_CONVERGENCE = """
    WITH e AS (SELECT dt, us, relay, body ->> 'node_id' AS node FROM ev WHERE type = 'node.wd'
        UNION ALL SELECT dt, us, relay, body ->> 'peer' FROM ev
        WHERE type = 'session.close' AND body ->> 'kind' = 'peer'),
    f AS (SELECT *, sum(new) OVER (PARTITION BY dt, node ORDER BY us) AS id FROM (SELECT *,
            CASE WHEN us - lag(us) OVER (PARTITION BY dt, node ORDER BY us) <= 60000000 THEN 0
            ELSE 1 END AS new FROM e)),
    c AS (SELECT dt, node, id, min(us) AS a, max(us) AS z, count(DISTINCT relay) AS relays
        FROM f GROUP BY ALL)
    SELECT c.dt, make_timestamp(a) AS "at", node, relays, (z - a) / 1000 AS detect_ms,
        (SELECT max(us) - a FROM ev x WHERE x.dt = c.dt AND us BETWEEN a AND a + 59999999
            AND type = 'route.change') / 1000 AS rib_ms,
        (SELECT max(us) - a FROM ev x WHERE x.dt = c.dt AND us BETWEEN a AND a + 59999999
            AND type = 'sns.adv') / 1000 AS fib_ms,
        (SELECT max(us) - a FROM report x WHERE x.dt = c.dt AND us BETWEEN a AND a + 59999999
            AND gaps > 0) / 1000 AS last_gap_ms
    FROM c
    """

_LOOPS = """
    SELECT s.dt, s.track, s.g AS group_id, s.o AS object_id, s.relay, s.out_peer, count(*) AS times,
        bool_or(EXISTS (SELECT 1 FROM sample x WHERE x.dt = s.dt AND x.track = s.track
            AND x.g = s.g AND x.o = s.o AND x.relay = s.relay AND x.in_peer = s.out_peer)) AS loop
    FROM sample s WHERE s.out_peer IS NOT NULL GROUP BY ALL HAVING times > 1 OR loop
    """

_TOPOLOGY = """
    WITH w AS (SELECT body ->> 'node_id' AS node, us, event_id, relay, region, true AS there,
            body ->> 'node_type' AS node_type, (body ->> 'longitude')::DOUBLE AS longitude,
            (body ->> 'latitude')::DOUBLE AS latitude, (body ->> 'load')::DOUBLE AS load
        FROM ev WHERE type = 'node.adv' UNION ALL
        SELECT body ->> 'node_id', us, event_id, relay, region, false, NULL, NULL, NULL, NULL
        FROM ev WHERE type = 'node.wd' UNION ALL
        SELECT relay, us, event_id, relay, region, NULL, NULL, NULL, NULL, NULL FROM quic),
    s AS (SELECT type, ts, us, n, relay, boot, body ->> 'session_id' AS session,
            body ->> 'peer' AS peer, i(body, 'srtt_us') AS srtt FROM ev
        WHERE type IN ('quic.sample', 'session.open', 'session.close')
            AND body ->> 'peer' IS NOT NULL),
    moment AS (SELECT DISTINCT (us // 300000000 + 1) * 300000000 AS mom
        FROM (SELECT us FROM s UNION ALL SELECT us FROM w)),
    day AS (SELECT mom FROM moment
        WHERE strftime(make_timestamp(mom), '%Y-%m-%d') IN (SELECT DISTINCT dt FROM ev)),
    asked AS (SELECT mom FROM day UNION SELECT mom - 300000000 FROM day),
    state AS (SELECT mom, node,
            arg_max(there, (us, event_id)) FILTER (WHERE there IS NOT NULL) AS there,
            bool_or(there IS NULL AND us >= mom - 300000000) AS own,
            coalesce(
                arg_max({'t': node_type, 'x': longitude, 'y': latitude, 'l': load}, (us, event_id))
                FILTER (WHERE there AND relay = node),
                arg_max({'t': node_type, 'x': longitude, 'y': latitude, 'l': load}, (us, event_id))
                FILTER (WHERE there)) AS f,
            arg_max(region, (us, event_id)) FILTER (WHERE region IS NOT NULL AND relay = node) AS r
        FROM asked JOIN w ON w.us < asked.mom GROUP BY ALL),
    nodes AS (SELECT mom, node, f, r FROM state WHERE coalesce(there, false) OR own),
    sess AS (SELECT mom, relay, boot, session, peer, arg_max(type, (us, n)) AS last,
            max(us) AS us, max((us, n, srtt)) FILTER (WHERE srtt IS NOT NULL
                AND us // 300000000 = (SELECT max(x.us) // 300000000 FROM s x WHERE x.us < asked.mom
                    AND x.relay = s.relay AND x.boot = s.boot AND x.session = s.session
                    AND x.peer = s.peer)) AS m
        FROM asked JOIN s ON s.us < asked.mom AND s.us >= asked.mom - 900000000 GROUP BY ALL),
    links AS (SELECT mom, relay AS node, peer, max(m) AS m FROM sess
        WHERE last <> 'session.close' AND NOT EXISTS (SELECT 1 FROM s
            WHERE s.relay = sess.relay AND s.boot > sess.boot AND s.us < sess.mom) GROUP BY ALL),
    n2 AS (SELECT coalesce(a.mom, b.mom + 300000000) AS mom, coalesce(a.node, b.node) AS node,
            CASE WHEN a.mom IS NULL THEN b.f ELSE a.f END AS f,
            CASE WHEN a.mom IS NULL THEN b.r ELSE a.r END AS r,
            CASE WHEN b.mom IS NULL THEN 'added' WHEN a.mom IS NULL THEN 'removed'
                WHEN a.r IS DISTINCT FROM b.r OR a.f.t IS DISTINCT FROM b.f.t
                    OR a.f.x IS DISTINCT FROM b.f.x OR a.f.y IS DISTINCT FROM b.f.y THEN 'moved'
                ELSE 'same' END AS change
        FROM nodes a FULL JOIN nodes b ON b.mom = a.mom - 300000000 AND b.node = a.node),
    l2 AS (SELECT coalesce(a.mom, b.mom + 300000000) AS mom, coalesce(a.node, b.node) AS node,
            coalesce(a.peer, b.peer) AS peer, CASE WHEN a.mom IS NULL THEN b.m ELSE a.m END AS m,
            CASE WHEN b.mom IS NULL THEN 'added' WHEN a.mom IS NULL THEN 'removed' ELSE 'same' END
                AS change
        FROM links a FULL JOIN links b
            ON b.mom = a.mom - 300000000 AND b.node = a.node AND b.peer = a.peer)
    SELECT strftime(make_timestamp(mom), '%Y-%m-%d') AS dt, make_timestamp(mom) AS "at",
        'node' AS kind, node, '' AS peer, f.t AS node_type, r AS region, f.x AS longitude,
        f.y AS latitude, f.l AS load, NULL::BIGINT AS srtt_us, change
    FROM n2 WHERE mom IN (SELECT mom FROM day)
    UNION ALL SELECT strftime(make_timestamp(mom), '%Y-%m-%d'), make_timestamp(mom), 'link', node,
        peer, NULL, NULL, NULL, NULL, NULL, m[3], change FROM l2 WHERE mom IN (SELECT mom FROM day)
    """

_QUALITY = """
    WITH e AS (SELECT *, date_trunc('hour', ts)::TIMESTAMP AS w FROM ev),
    wrote AS (SELECT DISTINCT dt, w, relay FROM e),
    boots AS (SELECT dt, w, relay, boot, min(n) AS lo, max(n) AS hi, count(*) AS c FROM e
        GROUP BY ALL),
    gap AS (SELECT dt, w, relay, sum(greatest(hi - coalesce(prev, lo - 1), 0))::BIGINT AS want,
            sum(c)::BIGINT AS c FROM (SELECT *, max(hi) OVER (PARTITION BY relay, boot ORDER BY w
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS prev FROM boots)
        GROUP BY ALL),
    h AS (SELECT *, date_trunc('hour', ts)::TIMESTAMP AS w FROM hop),
    a AS (SELECT dt, w, relay AS a, out_peer AS b, sum(out_bytes)::BIGINT AS o,
            coalesce(sum(out_bytes) FILTER (WHERE us - epoch_us(w) < window_ms * 1000
                OR us - epoch_us(w) + window_ms * 1000 > 3600000000), 0)::BIGINT AS edge
        FROM h WHERE out_peer IS NOT NULL GROUP BY ALL),
    b AS (SELECT dt, date_trunc('hour', w)::TIMESTAMP AS w, in_peer AS a, relay AS b,
            sum(b)::BIGINT AS i FROM got WHERE in_peer IS NOT NULL GROUP BY ALL),
    ends2 AS (SELECT dt, w, a, b, coalesce(o, 0) AS o, coalesce(i, 0) AS i,
            coalesce(edge, 0) AS edge, greatest(coalesce(o, 0), coalesce(i, 0)) AS top
        FROM a FULL JOIN b USING (dt, w, a, b)),
    ab AS (SELECT * FROM ends2
        WHERE (dt, w, a) IN (SELECT (dt, w, relay) FROM wrote)
            AND (dt, w, b) IN (SELECT (dt, w, relay) FROM wrote)),
    peers AS (SELECT DISTINCT dt, relay, boot, body ->> 'session_id' AS s, body ->> 'peer' AS peer
        FROM ev WHERE type IN ('session.open', 'session.close', 'quic.sample')
            AND body ->> 'peer' IS NOT NULL),
    said AS (SELECT e.dt, w, us, n, e.relay, peer, i(body, 'sns_id') AS id,
            body ->> 'direction' AS d, coalesce(i(body, 'members'), 0) AS m
        FROM e JOIN peers p ON p.dt = e.dt AND p.relay = e.relay AND p.boot = e.boot
            AND p.s = body ->> 'session_id' WHERE type IN ('sns.adv', 'sns.wd')
            AND (SELECT max(x.boot) FROM boots x WHERE x.relay = e.relay AND x.w = e.w) = e.boot),
    over AS (SELECT w, least(relay, body ->> 'peer') AS one, greatest(relay, body ->> 'peer')
            AS other, max(us) AS us FROM e
        WHERE type = 'session.close' AND body ->> 'peer' IS NOT NULL GROUP BY ALL),
    ends AS (SELECT dt, w, CASE WHEN d = 'out' THEN relay ELSE peer END AS a,
            CASE WHEN d = 'out' THEN peer ELSE relay END AS b, id,
            coalesce(arg_max(m, (us, n)) FILTER (WHERE d = 'out'), 0) AS o,
            coalesce(arg_max(m, (us, n)) FILTER (WHERE d = 'in'), 0) AS i
            , max(us) AS us
        FROM said GROUP BY ALL HAVING max(us) % 3600000000 < 3540000000),
    sets AS (SELECT dt, w, a, b, sum(o)::BIGINT AS o, sum(i)::BIGINT AS i,
            sum(abs(o - i))::BIGINT AS x FROM ends WHERE NOT EXISTS (SELECT 1 FROM over
                WHERE over.w = ends.w AND one = least(a, b) AND other = greatest(a, b)
                    AND over.us >= ends.us) GROUP BY ALL),
    bad AS (SELECT strftime(t, '%Y-%m-%d') AS dt, date_trunc('hour', t)::TIMESTAMP AS w, s,
            count(*) AS bad FROM (
            SELECT make_timestamp(coalesce(ts_us, seen)) AS t, coalesce(relay, 'unknown') AS s,
                make_timestamp(seen)::DATE - t::DATE AS days FROM refused)
        -- Lines of a day come on the same day or the next.
        WHERE days IN (0, 1) GROUP BY ALL),
    no AS (SELECT strftime(t, '%Y-%m-%d') AS dt, date_trunc('hour', t)::TIMESTAMP AS w, relay AS s,
            count(*) AS bad FROM (SELECT *, make_timestamp(ts_us) AS t FROM unfit) GROUP BY ALL),
    m AS (SELECT dt, date_trunc('hour', ts)::TIMESTAMP AS w, peer AS s,
            count(DISTINCT relay) AS peers FROM quic
        WHERE peer IN (SELECT relay FROM clock) GROUP BY ALL
        HAVING max(us) - min(us) >= 60000000),
    rows AS (
        SELECT dt, w, 'telemetry_gap' AS c, relay AS s, want::DOUBLE AS expected, c::DOUBLE AS seen,
            CASE WHEN want > 0 THEN greatest(want - c, 0) / want ELSE 0 END AS error, 0.01 AS lim
        FROM gap UNION ALL
        SELECT dt, w, 'link_bytes', a || '>' || b, o, i,
            CASE WHEN top > 0 THEN abs(o - i) / top ELSE 0 END,
            0.001 + CASE WHEN top > 0 THEN edge / top ELSE 0 END FROM ab UNION ALL
        SELECT dt, w, 'sets', a || '>' || b, o, i, x / greatest(o, i, 1), 0 FROM sets UNION ALL
        SELECT dt, w, 'clock', relay, 0, max(abs(skew)) / 1e6, max(abs(skew)) / 1e6, 60
        FROM e GROUP BY ALL UNION ALL
        SELECT dt, w, 'late', relay, 0, count(*) FILTER (WHERE late),
            count(*) FILTER (WHERE late) / count(*), 0.05 FROM e GROUP BY ALL UNION ALL
        SELECT dt, w, 'quarantine', s, 0, bad, bad / (bad + coalesce(good, 0)), 0.01 FROM (
            SELECT bad.*, CASE WHEN s = 'unknown' THEN (SELECT count(*) FROM e WHERE e.w = bad.w)
                ELSE (SELECT count(*) FROM e WHERE e.w = bad.w AND relay = s) END AS good
            FROM bad) UNION ALL
        SELECT dt, w, 'unfit', s, 0, bad, bad / (bad + (SELECT count(*) FROM e
            WHERE e.w = no.w AND relay = s)), 0.01 FROM no UNION ALL
        SELECT q.dt, q.w, 'silent', q.s, peers, n, CASE WHEN n > 0 THEN 0 ELSE 1 END, 0 FROM (
            SELECT m.*, (SELECT count(*) FROM e WHERE e.w = m.w AND e.relay = m.s) AS n FROM m) q)
    SELECT dt, w AS window_start, c AS "check", s AS subject, expected, seen, error,
        lim::DOUBLE AS "limit", error <= lim AS ok FROM rows
    WHERE dt IN (SELECT dt FROM ev)
    """


def _anomaly() -> str:
    """The same for each metric: points, what is usual, who is far from it, and when they touch."""
    viewers = "['region', 'tenant', 'class']"
    link = "['relay', 'peer']"
    points = {
        "latency": ("qoe", "[region, tenant, class]", viewers, "latency_p95_ms", 60, 20.0),
        "stalls": ("qoe", "[region, tenant, class]", viewers, "stall_ratio", 60, 0.005),
        "gaps": ("qoe", "[region, tenant, class]", viewers, "gap_rate", 60, 0.5),
        "loss": ("lq", "[relay, peer]", link, "loss", 300, 0.002),
        "rtt": ("lq", "[relay, peer]", link, "rtt_p50_us", 300, 1000.0),
        "drops": ("dr", "[relay, out_peer]", "['relay', 'out_peer']", "v", 300, 0.002),
        "traffic": ("tr", "[relay, tenant]", "['relay', 'tenant']", "v", 300, 1000.0),
    }
    union = " UNION ALL ".join(
        f"SELECT '{name}' AS metric, dt, window_start AS t0, {dims} AS series, {names} AS names,"
        f" {value}::DOUBLE AS v, {seconds} AS len, {floor}::DOUBLE AS floor FROM {table}"
        f" WHERE {value} IS NOT NULL"
        for name, (table, dims, names, value, seconds, floor) in points.items()
    )
    return f"""
    WITH qoe AS ({_qoe("minute")}), lq AS ({_LINKS}),
    m AS (SELECT *, coalesce(out_peer, '') AS peer, bin(ts, INTERVAL 5 MINUTE) AS w,
            list_sum(map_values(drops)) AS d FROM hop),
    dr AS (SELECT dt, w AS window_start, relay, peer AS out_peer,
            coalesce(sum(d), 0) / nullif(sum(objects) + coalesce(sum(d), 0), 0) AS v
        FROM m GROUP BY ALL),
    tr AS (SELECT dt, w AS window_start, relay, tenant, sum(out_bytes) * 8 / 300 AS v
        FROM m GROUP BY ALL),
    p AS ({union}),
    u AS (SELECT metric, dt, series, count(*) AS n, median(v) AS usual FROM p GROUP BY ALL),
    mad AS (SELECT p.metric, p.dt, p.series, usual, median(abs(v - usual)) AS mad
        FROM p JOIN u USING (metric, dt, series) WHERE n >= 12 GROUP BY ALL),
    z AS (SELECT p.*, usual, (v - usual) / greatest(1.4826 * mad, floor, 0.1 * abs(usual)) AS z
        FROM p JOIN mad USING (metric, dt, series)),
    x AS (SELECT * FROM z WHERE z > 6 OR (metric = 'traffic' AND z < -6)),
    y AS (SELECT *, sum(new) OVER (PARTITION BY metric, dt ORDER BY t0) AS id FROM (SELECT *,
        CASE WHEN epoch(t0) - epoch(max(t0) OVER (PARTITION BY metric, dt ORDER BY t0
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) <= len THEN 0 ELSE 1 END AS new
        FROM x)),
    many AS (SELECT metric, dt, k, names[k] AS name FROM (
            SELECT metric, dt, names, series, unnest(range(1, len(names) + 1)) AS k FROM p)
        GROUP BY metric, dt, k, name HAVING count(DISTINCT series[k]) > 1),
    shares AS (SELECT y.metric, y.dt, y.id, name, series[k] AS value, count(*) AS c
        FROM y JOIN many USING (metric, dt) GROUP BY ALL),
    size AS (SELECT metric, dt, id, count(*) AS c FROM y GROUP BY ALL),
    common AS (SELECT metric, dt, id, list({{'dimension': name, 'value': value,
            'share': s.c / z.c}} ORDER BY s.c DESC, name)[:3] AS explained
        FROM shares s JOIN size z USING (metric, dt, id) WHERE 2 * s.c > z.c GROUP BY ALL),
    rows AS (SELECT dt, metric, id, min(t0) AS first, max(t0) + to_seconds(any_value(len)) AS last,
            count(*) AS windows, count(DISTINCT series) AS series,
            arg_max({{'z': z, 'v': v, 'u': usual}}, abs(z)) AS peak FROM y GROUP BY ALL)
    SELECT dt, metric || strftime(first, '@%Y-%m-%dT%H:%MZ') AS incident, metric, first, last,
        windows, series, peak.z AS peak_z, peak.v AS observed, peak.u AS expected,
        coalesce(explained, []) AS explained
    FROM rows LEFT JOIN common USING (metric, dt, id)
    """


QUERIES = {
    "traffic_1m": _traffic("minute"),
    "traffic_1h": _traffic("hour"),
    "traffic_1d": _traffic("day"),
    "topology_snapshot": _TOPOLOGY,
    "link_quality_5m": _LINKS,
    "link_quality_1h": _links_of("hour", 3600),
    "link_quality_1d": _links_of("day", 86400),
    "track_fanout_5m": _FANOUT,
    "path_stretch": _STRETCH,
    "qoe_region_1m": _qoe("minute"),
    "qoe_region_1h": _qoe("hour"),
    "qoe_region_1d": _qoe("day"),
    "blame": _BLAME,
    "churn_1h": _CHURN,
    "cache_eff_1h": _CACHE,
    "capacity_fc": _CAPACITY,
    "usage_tenant_day": _USAGE,
    "anomaly": _anomaly(),
    "convergence": _CONVERGENCE,
    "loops_or_dups": _LOOPS,
    "quality_1h": _QUALITY,
}
"""Table to the query that gives it again; sketches are not in it."""

VALUES = {
    **{
        f"qoe_region_{length}": {
            "startup_p95_ms": ("startups", 0.95),
            "latency_p50_ms": ("latencies", 0.5),
            "latency_p95_ms": ("latencies", 0.95),
            "latency_p99_ms": ("latencies", 0.99),
        }
        for length in ("1h", "1d")
    },
    **{
        f"link_quality_{length}": {"rtt_p50_us": ("rtts", 0.5), "rtt_p95_us": ("rtts", 0.95)}
        for length in ("1h", "1d")
    },
}
"""Percentiles that a table has from sketches: the list of all values, sorted, and the share."""


class Oracle:
    """DuckDB over its own silver, with the dimensions of a test."""

    def __init__(
        self,
        db: Any,
        *,
        tracks: list[tuple[str, str, str | None]],
        limits: list[tuple[str, int, float, int, float]],
        capacities: list[tuple[str, str, float]],
    ) -> None:
        self._db = db
        for statement, rows in (
            ("dim (track VARCHAR, class VARCHAR, tenant VARCHAR)", tracks),
            (
                """limits (class VARCHAR, latency_ms BIGINT, stall_ratio DOUBLE,
                startup_ms BIGINT, allowed DOUBLE)""",
                limits,
            ),
            ("caps (relay VARCHAR, peer VARCHAR, capacity DOUBLE)", capacities),
        ):
            self._db.execute(f"CREATE TABLE {statement}")
            name, marks = statement.split(" ", 1)[0], ", ".join("?" * (statement.count(",") + 1))
            for row in rows:
                self._db.execute(f"INSERT INTO {name} VALUES ({marks})", row)
        self._db.execute(_SETUP)

    def rows(self, table: str) -> list[dict[str, Any]]:
        """What the table should hold."""
        found = self._db.execute(QUERIES[table])
        names = [column[0] for column in found.description]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]
