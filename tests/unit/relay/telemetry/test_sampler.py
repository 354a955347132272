from __future__ import annotations

from pathlib import Path

from laps_relay.telemetry.metrics import Metrics
from laps_relay.telemetry.sampler import AuthCounters, Sampler
from laps_relay.telemetry.telemetry import TelemetrySettings, TelemetryWriter
from laps_wire.moqt.versions import Draft
from laps_wire.telemetry import QuicSample, load_line
from testkit.relay_views import (
    NO_COUNTERS,
    FakeView,
    connection_stats,
    session_info,
    session_row,
    track_row,
)

BUSY = NO_COUNTERS._replace(
    bytes_in=10, bytes_out=20, objects_in=1, objects_out=2, dropped_objects=3, cached_bytes=7
)


def test_tables_become_gauges() -> None:
    view, metrics = FakeView(), Metrics()
    web = session_info(draft=Draft.D18, webtransport=True)
    view.session_rows = [session_row(1), session_row(2), session_row(3, info=web)]
    view.track_rows = [track_row(1, BUSY)]
    view.stats = {1: connection_stats()}
    Sampler(view.sample, metrics).sample()
    text = metrics.render().decode()
    assert 'laps_sessions_open{draft="moqt-16",transport="quic"} 2.0' in text
    assert 'laps_sessions_open{draft="moqt-18",transport="webtransport"} 1.0' in text
    assert "laps_cache_bytes 7.0" in text
    expected = sum(row.subscribers + row.waiting for row in view.track_rows)
    assert f"laps_subscriptions_open {float(expected)}" in text
    assert (
        f"laps_namespaces_published {float(sum(r.namespaces for r in view.session_rows))}" in text
    )
    assert "laps_egress_queued_bytes 77.0" in text
    view.session_rows = []
    sampler = Sampler(view.sample, metrics)
    sampler.sample()
    assert "laps_sessions_open{" not in metrics.render().decode()


def test_totals_never_fall() -> None:
    view, metrics = FakeView(), Metrics()
    sampler = Sampler(view.sample, metrics)

    def sent() -> float | None:
        return metrics.registry.get_sample_value("laps_sent_bytes_total")

    view.track_rows = [track_row(1, BUSY)]
    sampler.sample()
    sampler.sample()
    assert sent() == 20.0
    view.track_rows = [track_row(1, BUSY._replace(bytes_out=25)), track_row(2, BUSY)]
    sampler.sample()
    assert sent() == 45.0
    view.track_rows = []
    sampler.sample()
    assert sent() == 45.0


def test_authorization_is_counted() -> None:
    view, metrics = FakeView(), Metrics()
    sampler = Sampler(view.sample, metrics)
    for counters in (AuthCounters(1, 2, 3, 4), AuthCounters(5, 2, 4, 4)):
        view.auth = counters
        sampler.sample()
    text = metrics.render().decode()
    assert 'laps_auth_decisions_total{outcome="allowed"} 5.0' in text
    assert 'laps_auth_decisions_total{outcome="denied"} 2.0' in text
    assert "laps_auth_signatures_total 4.0" in text


def test_connections_become_records(tmp_path: Path) -> None:
    view, metrics = FakeView(), Metrics()
    writer = TelemetryWriter(TelemetrySettings(directory=tmp_path, relay="0.1:0.2", boot=1))
    writer.start()
    sampler = Sampler(view.sample, metrics, writer)
    sampler.sample()
    view.now += 2.0
    view.session_rows = [session_row(1), session_row(2)]
    view.stats = {1: connection_stats(), 2: connection_stats(None)}
    sampler.sample(telemetry=False)
    sampler.sample()
    writer.stop()
    sampler.sample(telemetry=False)
    (path,) = tmp_path.glob("*.jsonl")
    bodies = [load_line(line).body for line in path.read_text(encoding="utf-8").splitlines()]
    (quic,) = (body for body in bodies if isinstance(body, QuicSample))
    assert (quic.session_id, quic.srtt_us, quic.cwnd_bytes) == ("1", 25_000, 14_000)
    assert 'laps_telemetry_records_total{outcome="written"} 1.0' in metrics.render().decode()
