from __future__ import annotations

import re

from laps_relay.telemetry.metrics import CONTENT_TYPE, Metrics


def test_every_metric_has_a_good_name_and_words() -> None:
    metrics = Metrics()
    for family in metrics.registry.collect():
        assert re.fullmatch(r"laps(_[a-z0-9]+){2,}", family.name), family.name
        assert family.documentation.endswith("."), family.name


def test_a_scrape() -> None:
    metrics = Metrics()
    metrics.sessions.labels("moqt-16", "quic").set(3)
    metrics.sent_bytes.inc(5)
    text = metrics.render().decode()
    assert 'laps_sessions_open{draft="moqt-16",transport="quic"} 3.0' in text
    assert "laps_sent_bytes_total 5.0" in text
    assert CONTENT_TYPE.startswith("text/plain")


def test_registries_are_apart() -> None:
    one, two = Metrics(), Metrics()
    one.tracks.set(1)
    assert "laps_tracks_known 0.0" in two.render().decode()
