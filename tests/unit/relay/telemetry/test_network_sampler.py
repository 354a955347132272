from __future__ import annotations

from pathlib import Path

from laps_relay.network.views import TableSizes
from laps_relay.peer_forwarding.forwarding import PeerPlaneCounters
from laps_relay.telemetry.metrics import Metrics
from laps_relay.telemetry.network_sampler import NetworkSample, NetworkSampler
from laps_relay.telemetry.telemetry import TelemetrySettings, TelemetryWriter
from laps_sdk.quic.base import ConnectionStats
from laps_wire.telemetry import QuicSample, load_line
from testkit.network_views import FakeNetwork

ZERO = PeerPlaneCounters(*[0] * len(PeerPlaneCounters._fields))
STATS = ConnectionStats(*[7] * len(ConnectionStats._fields))


def sample(counters: PeerPlaneCounters, collisions: int = 0) -> NetworkSample:
    network = FakeNetwork()
    return NetworkSample(
        peers=network.peers(),
        unreached=1,
        sizes=TableSizes(nodes=3, announces=1, subscribes=2, sets_in=0, sets_out=1, fib=4),
        counters=counters,
        collisions=collisions,
        connections={3: STATS, 4: STATS._replace(rtt=None)},
    )


def test_tables_are_gauges_and_totals_grow(tmp_path: Path) -> None:
    metrics = Metrics()
    writer = TelemetryWriter(TelemetrySettings(directory=tmp_path, relay="0:1", boot=1))
    writer.start()
    sampler = NetworkSampler(metrics, writer)
    sampler.take(sample(ZERO._replace(bytes_in=100, held_bytes=5)))
    sampler.take(
        sample(ZERO._replace(bytes_in=150, unknown_streams=2, unsent_streams=3)), telemetry=False
    )
    writer.stop()
    text = metrics.render().decode()
    for line in (
        'laps_peers_open{type="via"} 1.0',  # the one whose handshake is under way does not count
        "laps_nodes_known 3.0",
        "laps_contacts_unreached 1.0",
        'laps_sets_open{direction="out"} 1.0',
        "laps_fib_entries 4.0",
        "laps_held_bytes 0.0",
        'laps_network_bytes_total{direction="in"} 150.0',
        'laps_network_dropped_streams_total{reason="unknown_set"} 2.0',
        'laps_network_dropped_streams_total{reason="session_ended"} 3.0',
    ):
        assert line in text
    (file,) = tmp_path.glob("*.jsonl")
    bodies = [load_line(line).body for line in file.read_bytes().splitlines()]
    (quic,) = (body for body in bodies if isinstance(body, QuicSample))
    (row,) = (row for row in FakeNetwork().peers() if row.session == 3)
    assert (quic.session_id, quic.peer) == ("p3", str(row.node))  # both ends of a link are joined


def test_without_telemetry() -> None:
    metrics = Metrics()
    NetworkSampler(metrics).take(sample(ZERO))
    assert "laps_network_subscribes_known 2.0" in metrics.render().decode()


def test_what_is_lost_and_what_collides_is_counted() -> None:
    metrics = Metrics()
    sampler = NetworkSampler(metrics)
    lost = ZERO._replace(unknown_datagrams=2, dropped_datagrams=3, unknown_kinds=4)
    for _ in range(2):
        sampler.take(sample(lost, collisions=5))
    text = metrics.render().decode()
    for line in (
        'laps_network_dropped_datagrams_total{reason="unknown_set"} 2.0',
        'laps_network_dropped_datagrams_total{reason="too_large"} 3.0',
        "laps_network_unknown_kinds_total 4.0",
        "laps_hash_collisions_total 5.0",
    ):
        assert line in text
