"""Prometheus metrics, in a registry of their own. Names are ``laps_<noun>_<unit>``.

Events count as they happen; tables and counters of the planes are read by the sampler.
"""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

__all__ = ["CONTENT_TYPE", "Metrics"]

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST


class Metrics:
    """Everything that /metrics shows."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(name, text, labels, registry=registry)

        self.info = gauge("laps_relay_info", "Always 1; the labels say what runs.", "version")
        self.ready = gauge("laps_relay_ready", "Whether clients are taken.")
        self.start_seconds = gauge("laps_start_time_seconds", "When the relay started, Unix time.")
        self.certificate_seconds = gauge(
            "laps_certificate_expiry_seconds", "When the certificate ends, Unix time."
        )
        # Tables
        self.sessions = gauge("laps_sessions_open", "MoQT sessions.", "draft", "transport")
        self.tracks = gauge("laps_tracks_known", "Tracks.")
        self.subscriptions = gauge("laps_subscriptions_open", "Receivers of tracks.")
        self.namespaces = gauge("laps_namespaces_published", "Published namespaces.")
        self.cache_bytes = gauge("laps_cache_bytes", "Payload bytes in the cache.")
        self.cache_objects = gauge("laps_cache_objects", "Objects in the cache.")
        self.queued_bytes = gauge("laps_egress_queued_bytes", "Bytes that wait for slow clients.")
        # Events
        self.sessions_opened = counter("laps_sessions_opened", "Sessions that sent SETUP.", "draft")
        self.sessions_closed = counter("laps_sessions_closed", "Sessions that ended.", "by")
        self.sessions_faulted = counter(
            "laps_sessions_faulted", "Sessions closed for breaking the protocol.", "code"
        )
        self.requests_denied = counter(
            "laps_requests_denied", "Requests that were rejected.", "kind", "code"
        )
        self.fetches = counter("laps_fetches_answered", "Fetches, by how they ended.", "outcome")
        self.subscribers = counter("laps_subscribers_added", "Receivers that began.")
        self.publishers = counter("laps_publishers_added", "Publishers that began.")
        # Totals, from the sampler
        self.received_bytes = counter("laps_received_bytes", "Object bytes received.")
        self.sent_bytes = counter("laps_sent_bytes", "Object bytes sent.")
        self.received_objects = counter("laps_received_objects", "Objects received.")
        self.sent_objects = counter("laps_sent_objects", "Objects sent.")
        self.dropped_objects = counter("laps_dropped_objects", "Objects dropped for slowness.")
        self.dropped_bytes = counter("laps_dropped_bytes", "Bytes dropped for slowness.")
        self.duplicate_objects = counter("laps_duplicate_objects", "Objects that came twice.")
        # Authorization and telemetry
        self.auth_decisions = counter("laps_auth_decisions", "Requests judged.", "outcome")
        self.auth_signatures = counter("laps_auth_signatures", "Token signatures checked.")
        self.telemetry_records = counter(
            "laps_telemetry_records", "Telemetry records, by what became of them.", "outcome"
        )

    def render(self) -> bytes:
        """The text that a scrape gets."""
        return generate_latest(self.registry)
